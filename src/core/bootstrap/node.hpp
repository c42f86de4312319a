// SPDX-License-Identifier: Apache-2.0
// node.hpp: what the ranks of one process on one host share of a meeting: one thread, which serves all connections and
// never waits for a single one.
//
// Ranks leave what they want in callers.hpp and sleep. The thread finds out whether this process leads its host
// (election.hpp), and from then on drives what it is: host_leader.hpp or host_member.hpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/os/abort.hpp"
#include "base/os/process.hpp"
#include "base/os/thread.hpp"
#include "base/os/wake.hpp"
#include "base/secret.hpp"
#include "core/bootstrap/callers.hpp"
#include "core/bootstrap/host_role.hpp"
#include "hocket/settings.hpp"
#include "hocket/unique_id.hpp"

namespace hocket {

class Node {
 public:
  /// The one of this process for these roots and this host; made on first use.
  static Result<std::shared_ptr<Node>> of(std::span<const UniqueId> roots, const Settings& settings);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Any thread. Each waits until `limits`, and then a little for the reason.
  Status join(Rank rank, int size, const os::WaitLimits& limits);
  Status exchange(Rank rank, std::span<const std::byte> mine, std::span<std::byte> all, const os::WaitLimits& limits);
  BootstrapCounters counters() const { return callers_.counters(); }

 private:
  Node(std::vector<UniqueId> roots, const Secret& secret, Settings settings, os::Hello hello, os::AbortFlag stop,
       os::Wake wake);

  // The serving thread.
  void run();
  Status take_role();
  void serve_once();
  Status turn_connections();
  void fail(Status status);
  bool flushed() const { return !role_ || role_->flushed(); }
  std::string own_name() const;

  const std::vector<UniqueId> roots_;
  const Secret secret_;
  const Settings settings_;
  os::Hello hello_;
  os::AbortFlag stop_;  // raised at the end: what blocks in the threads gives up
  os::Wake wake_;
  os::ForkMark fork_mark_;
  Callers callers_;

  // The serving thread's own.
  FrameCounters frames_;
  std::unique_ptr<HostRole> role_;  // none before the election, or if that failed

  os::Thread server_;
};

}  // namespace hocket
