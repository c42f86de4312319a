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

/// A channel that a call sends on to a peer from which it hears nothing: such a peer may be making another call, and
/// would not be noticed (docs/design.md, "Mismatch"). So the call waits until its transfers were taken, or remembers
/// that they were not.
struct Drain {
  std::uint16_t channel = 0;
  std::int32_t peer = 0;
  std::uint64_t untaken = 0;  ///< 1 + the first call that did not wait for it and was not compared since; 0: none
};

/// One thread at a time. Kept by its communicator from call to call, so that starting one allocates nothing.
class Executor {
 public:
  Executor(Channels& channels, bool fenced) : channels_(channels), fenced_(fenced), policy_(channels, fenced) {}
  ~Executor() { after_sleep(); }
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// `call`, `drains` and `tape` must live until the call ended. `tape`: of this call; null: the machine runs it.
  HOCKET_INLINE void start(const BoundCall& call, std::span<const Drain> drains, const Tape* tape = nullptr) {
    call_ = &call;
    drains_ = drains;
    drained_ = 0;
    moved_ = false;
    tape_ = tape;
    played_ = 0;
    policy_.begin(call);
    if (tape == nullptr) start_lanes();
  }

  /// Advance all lanes as far as they go. `moved()` says whether any step was done.
  HOCKET_INLINE Progress turn() {
    if (call_->touches_peers) [[unlikely]]
      return guarded_turn();
    return tape_ != nullptr ? turn_of_tape() : turn_of_lanes();
  }
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
  Progress guarded_turn();
  void start_lanes();
  Progress turn_of_lanes();
  /// Whether all peers have taken what the call must see taken.
  bool drain() {
    while (drained_ < drains_.size() && policy_.credit_ready(drains_[drained_].channel, drains_[drained_].peer, 0))
      ++drained_;
    return drained_ == drains_.size();
  }
  Progress turn_of_tape() {
    const std::uint64_t before = policy_.events();
    Progress progress = Progress::kDone;
    if (played_ != tape_->steps.size()) progress = policy_.play(*tape_, &played_);
    if (progress == Progress::kDone && !drain()) progress = policy_.failed() ? Progress::kFailed : Progress::kWaiting;
    moved_ = policy_.events() != before;
    return progress;
  }
  bool waits_for(int peer) const;

  Channels& channels_;
  const bool fenced_;
  std::vector<Endpoint*> watched_;
  HostLane policy_;
  const BoundCall* call_ = nullptr;
  const Tape* tape_ = nullptr;
  std::uint32_t played_ = 0;  ///< steps of the tape
  std::span<const Drain> drains_;
  std::vector<LaneState> lanes_;
  std::vector<std::uint8_t> done_;
  std::size_t unfinished_ = 0;
  std::size_t drained_ = 0;
  std::uint32_t turns_ = 0;  // of the call; before_sleep() starts anew
  bool moved_ = false;
};

}  // namespace hocket
