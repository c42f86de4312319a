// SPDX-License-Identifier: Apache-2.0
// net_socket.hpp: TCP between hosts: listening on all of a host's addresses, and connecting by whichever leads there.
//
// An address says little about whether it can be reached, so whoever connects tries all candidates side by side, each a
// little after the one before (as RFC 8305 does), and takes the first that answers and proves to be the right one. All
// waits end by a deadline or an abort. All descriptors are close-on-exec and non-blocking; bytes go through send_all()
// and receive_all() of socket.hpp.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/os/abort.hpp"
#include "base/os/net_address.hpp"
#include "base/os/unique_fd.hpp"
#include "hocket/status.hpp"

namespace hocket::os {

/// A connected stream, without delay for small messages (TCP_NODELAY).
struct NetConnection {
  UniqueFd fd;
  NetAddress local;
  NetAddress peer;
};

/// Listening sockets, one for each address, all at one port. One thread at a time.
class NetListener {
 public:
  /// Takes the first port of `ports` that is free on all addresses (any port if `ports` says nothing). Addresses that
  /// this host does not have (any more) are left out, as long as one is left; their own ports are ignored.
  /// Errors: kInvalidArgument (no address, or none of this host), kSystem (all ports taken), kOutOfMemory.
  static Result<NetListener> listen(std::span<const NetAddress> addresses, PortRange ports, int backlog = 1024);

  std::uint16_t port() const noexcept { return addresses_.front().port; }
  /// Those that are listened on, with the port, in the order given.
  const std::vector<NetAddress>& addresses() const noexcept { return addresses_; }
  /// For poll(): readable when a connection waits. One for each address.
  std::vector<int> fds() const;

  /// A connection that waits; nothing if none does. A connection that broke while it waited is no error.
  /// Errors: kOutOfMemory (descriptors ran out; it still waits), kSystem.
  Result<std::optional<NetConnection>> accept_now();
  /// Errors: those, kTimeout, kAborted.
  Result<NetConnection> accept(const WaitLimits& limits);

 private:
  NetListener() = default;
  std::vector<UniqueFd> fds_;
  std::vector<NetAddress> addresses_;
};

/// One way to try.
struct NetTarget {
  NetAddress address;     ///< with a port
  std::string interface;  ///< of this host, where the address means nothing without; else empty
  std::string skipped;    ///< why it is not tried; empty if it is
};

/// The ways to a peer that listens on `addresses`. `same_network`: it has this host's network_identity(). Left out,
/// with reasons: another host's loopback, and addresses that this host has as well (bridges of containers are alike
/// everywhere). A link-local address is tried on each of `own` that has one.
std::vector<NetTarget> targets_to(std::span<const NetAddress> addresses, bool same_network,
                                  std::span<const NetCandidate> own);

struct NetConnectOptions {
  std::string self = "this process";  ///< how errors name this side: "rank 3"
  std::string peer = "the peer";      ///< and the other: "rank 5 of host b"
  /// How long after one candidate the next one starts, unless all before it have failed.
  std::chrono::milliseconds stagger{50};
  /// Go on until the limits when all have failed: the other side may listen later.
  bool retry = true;
  /// Asked of each connection before it is taken: whether the right one answered. An error makes it one more failed
  /// attempt; kMismatch and kAborted end all. Must end by its own limits; may be null.
  std::function<Status(NetConnection&)> verify;
};

/// Connects by the first target that works. Errors: kPeerLost (all failed, without retry), kTimeout, kAborted (with one
/// line for each target: both addresses, interface, attempts, last error), kInvalidArgument (nothing to try),
/// kOutOfMemory, and what verify ended with.
Result<NetConnection> connect_by_any(std::span<const NetTarget> targets, const NetConnectOptions& options,
                                     const WaitLimits& limits);

}  // namespace hocket::os
