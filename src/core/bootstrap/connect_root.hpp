// SPDX-License-Identifier: Apache-2.0
// connect_root.hpp: a proven connection to a root, or to another host's leader.
#pragma once

#include "base/os/net_socket.hpp"
#include "core/bootstrap/frames.hpp"
#include "core/bootstrap/messages.hpp"
#include "hocket/unique_id.hpp"

namespace hocket {

/// `self` is for errors ("rank 3"); of `interfaces` (HOCKET_INTERFACE) link-local addresses are tried. Errors: those of
/// os::connect_by_any, with all addresses that were tried.
Result<FrameStream> connect_to_root(const UniqueId& root, os::Hello mine, const std::string& self,
                                    const std::string& interfaces, const os::WaitLimits& limits);

/// The one with the card's token: another that happens to have one of its addresses is passed over.
Result<FrameStream> connect_to_leader(const LeaderCard& card, os::Hello mine, const Secret& secret,
                                      const std::string& self, const std::string& interfaces,
                                      const os::WaitLimits& limits);

}  // namespace hocket
