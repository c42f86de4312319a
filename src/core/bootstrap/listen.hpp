// SPDX-License-Identifier: Apache-2.0
// listen.hpp: where a start listens: leaders for each other and roots for leaders on this host's addresses, the leader
// of a host for its members by a name.
#pragma once

#include <span>
#include <string_view>

#include "base/os/net_socket.hpp"
#include "base/os/socket.hpp"
#include "base/secret.hpp"
#include "hocket/settings.hpp"

namespace hocket {

/// On all usable addresses of the interfaces of `settings` (loopback only where there is nothing else: then all ranks
/// are here), and on `more` where they are this host's; at a port of `ports`, or if these say nothing, of `settings`.
/// Errors: as NetListener::listen.
Result<os::NetListener> listen_on_this_host(const Settings& settings, os::PortRange ports = {},
                                            std::span<const os::NetAddress> more = {});

/// Where processes of one host meet: a name that only those with the secret know.
os::UnixAddress meeting_place(const Secret& secret, std::string_view host_id);

}  // namespace hocket
