// SPDX-License-Identifier: Apache-2.0
// root.hpp: where the leaders of all hosts come first, and learn who the others are.
//
// A root is a thread of the process that made the UniqueId. It listens, counts ranks, and when all have come tells each
// leader the addresses of the log2(hosts) others that it works with; then it ends. It knows nothing of what ranks say
// to each other later. Connections that have not proven the secret may be many, slow or random: they cost one
// descriptor and less than a kilobyte each, for ten seconds at most, and the oldest go first when there are too many.
#pragma once

#include <span>

#include "base/os/net_address.hpp"
#include "base/secret.hpp"
#include "hocket/settings.hpp"
#include "hocket/unique_id.hpp"

namespace hocket {

struct RootOptions {
  /// Instead of HOCKET_PORTS, if not 0-0.
  os::PortRange ports;
  /// Listened on besides this host's candidates, where they are this host's.
  std::vector<os::NetAddress> addresses;
};

/// Starts one. Errors: as for UniqueId::create.
Result<UniqueId> open_root(const Secret& secret, const Settings& settings, const RootOptions& options);

}  // namespace hocket
