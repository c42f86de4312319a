// SPDX-License-Identifier: Apache-2.0
// bootstrap.hpp: ranks that share only a UniqueId meet, and get an all-gather.
//
// Ranks of a process meet in memory, processes of a host over a Unix socket whose name only those with the secret know;
// the process that has it is the host's leader. Leaders report to the root and then work among themselves: an
// all-gather takes ceil(log2 hosts) rounds, and a leader holds two connections a round, whatever the number of ranks.
// All waits end by Settings::start_timeout or an abort, and a failure of one rank reaches all with its text.
// Source: Bruck et al., Efficient algorithms for all-to-all communications in multiport message-passing systems, IEEE
// TPDS 1997 (the concatenation algorithm). Next stop: core/bootstrap/node.hpp.
#pragma once

#include <memory>
#include <span>

#include "base/os/abort.hpp"
#include "core/bootstrap/counters.hpp"
#include "hocket/communicator.hpp"
#include "hocket/unique_id.hpp"

namespace hocket {

class Node;

/// One rank's place in the meeting. One thread at a time.
class Bootstrap {
 public:
  /// Blocks until all `size` ranks have come. `roots` are the same for all, in the same order, 1 to 64. `abort` is
  /// borrowed for the life of the result; may be null. Errors: kTimeout (who is missing, and who came),
  /// kInvalidArgument (a rank that came twice), kMismatch (unequal sizes or versions), kPeerLost, kAborted,
  /// kOutOfMemory.
  static Result<std::shared_ptr<Bootstrap>> join(std::span<const UniqueId> roots, Rank rank, int size,
                                                 const Settings& settings, const os::AbortFlag* abort = nullptr);
  ~Bootstrap();
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  /// As Exchange says; each waits up to start_timeout.
  Status exchange(std::span<const std::byte> mine, std::span<std::byte> all);
  BootstrapCounters counters() const;
  Rank rank() const noexcept { return rank_; }

 private:
  Bootstrap(std::shared_ptr<Node> node, Rank rank, int size, std::chrono::nanoseconds timeout,
            const os::AbortFlag* abort);
  std::shared_ptr<Node> node_;
  Rank rank_;
  int size_;
  std::chrono::nanoseconds timeout_;
  const os::AbortFlag* abort_;
};

/// An Exchange that keeps `bootstrap`.
Exchange exchange_of(std::shared_ptr<Bootstrap> bootstrap);

}  // namespace hocket
