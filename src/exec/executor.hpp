// SPDX-License-Identifier: Apache-2.0
// exec/executor.hpp: runs the lanes of one call on host memory. turn() does what can be done without waiting; whoever
// owns the call decides how to wait between turns: a blocking caller (exec/waiter.hpp) or the progress thread. Next
// stop: exec/step_machine.hpp, the interpreter; exec/host_lane.hpp, its policy.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/host_lane.hpp"
#include "exec/step_machine.hpp"

namespace hocket {

/// A channel that a call sends on to a peer from which it hears nothing: the call waits until its transfers were taken,
/// so that a peer which makes another call is noticed (docs/design.md, "Mismatch").
struct Drain {
  std::uint16_t channel = 0;
  std::int32_t peer = 0;
};

/// One thread at a time. Kept by its communicator from call to call, so that starting one allocates nothing.
class Executor {
 public:
  Executor(Channels& channels, bool fenced) : channels_(channels), policy_(channels, fenced) {}
  ~Executor() { after_sleep(); }
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// `call` and `drains` must live until the call ended.
  void start(const BoundCall& call, std::span<const Drain> drains);

  /// Advance all lanes as far as they go. `moved()` says whether any step was done.
  Progress turn();
  bool moved() const { return moved_; }
  /// Something is on its way that only moves when turn() is called.
  bool driving() const;

  /// Before the caller sleeps: peers may wait for what was put off, and who drives instead of it has to know.
  void before_sleep();
  void after_sleep();
  /// The call has failed: nothing of its caller's memory is read any more when this returns.
  void abandon();

  /// What the first unfinished lane waits for, in communicator channel ids; peer -1: nothing in particular.
  WaitingOn waiting() const;
  const LaneFault& fault() const { return policy_.fault(); }

 private:
  static constexpr std::uint32_t kMovesPerTurn = 16;
  /// Which queues to drive: see drive_proxies().
  enum class Drive { kAll, kWanted, kPosted };
  Progress drive_proxies(Drive which);
  bool waits_for(int peer) const;

  Channels& channels_;
  std::vector<Endpoint*> watched_;
  HostLane policy_;
  const BoundCall* call_ = nullptr;
  std::span<const Drain> drains_;
  std::vector<LaneState> lanes_;
  std::vector<std::uint8_t> done_;
  std::size_t unfinished_ = 0;
  std::size_t drained_ = 0;
  std::uint32_t turns_ = 0;  // of the call; before_sleep() starts anew
  bool moved_ = false;
};

}  // namespace hocket
