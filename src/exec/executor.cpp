// SPDX-License-Identifier: Apache-2.0
// Next stop: exec/step_machine.hpp, the interpreter; exec/host_lane.cpp, its policy.
#include "exec/executor.hpp"

namespace hocket {

void Executor::start_lanes() {
  const BoundCall& call = *call_;
  if (lanes_.size() != call.plan.lane_count) {
    lanes_.resize(call.plan.lane_count);
    done_.resize(call.plan.lane_count);
  }
  for (LaneState& lane : lanes_) lane.restart();
  for (std::uint8_t& done : done_) done = 0;
  unfinished_ = call.plan.lane_count;
  turns_ = 0;
}

bool Executor::waits_for(int peer) const {
  for (std::size_t l = 0; l < lanes_.size(); ++l)
    if (!done_[l] && lanes_[l].waiting.peer == peer) return true;
  return unfinished_ == 0 && drained_ < drains_.size() && drains_[drained_].peer == peer;
}

/// To look at a peer costs a system call or more. So between looks at all of them only those are driven to which
/// something is under way, and those that a lane waits for; and after Moves only those with something new to send.
Progress Executor::drive_proxies(Drive which) {
  for (const Channels::Proxied& proxied : channels_.proxies()) {
    if (which == Drive::kPosted && proxied.queue->empty()) continue;
    if (which == Drive::kWanted && proxied.queue->idle() && !waits_for(proxied.peer)) continue;
    if (Status status = channels_.drive(proxied); !status.ok()) {
      policy_.set_fault({LaneFault::Kind::kPeerLost, 0, proxied.peer, 0, std::move(status)});
      return Progress::kFailed;
    }
  }
  return Progress::kDone;
}

Progress Executor::turn_of_lanes() {
  const std::uint64_t before = policy_.events();
  const std::size_t unfinished_before = unfinished_, drained_before = drained_;
  moved_ = false;
  const std::span<const Channels::Proxied> proxies = channels_.proxies();
  std::uint32_t budget = kMovesPerTurn;
  if (!proxies.empty()) [[unlikely]] {
    // What the call has to send first goes before it looks for what came.
    constexpr std::uint32_t kAllEvery = 8;
    const std::uint32_t turn = turns_++;
    if (turn != 0 && drive_proxies(turn % kAllEvery == 1 ? Drive::kAll : Drive::kWanted) == Progress::kFailed)
      return Progress::kFailed;
    // One Move posts at most one put a peer, and few signals follow it: with this room no post can fail.
    constexpr std::uint64_t kRoom = 64;
    budget = 4;
    for (const Channels::Proxied& proxied : proxies)
      if (!proxied.queue->has_room(kRoom)) return Progress::kWaiting;
  }
  if (unfinished_ != 0) {
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      if (done_[l]) continue;
      const Progress progress = advance(call_->plan, call_->plan.lanes[l], call_->shape, lanes_[l], policy_, budget);
      if (progress == Progress::kFailed) return progress;
      if (progress == Progress::kDone) {
        done_[l] = 1;
        --unfinished_;
      }
    }
  }
  if (unfinished_ == 0) {
    if (drain()) {
      if (proxies.empty()) [[likely]]
        return Progress::kDone;
      if (drive_proxies(Drive::kPosted) == Progress::kFailed) return Progress::kFailed;
      bool idle = true;
      for (const Channels::Proxied& proxied : proxies) idle &= proxied.queue->idle();
      if (idle) return Progress::kDone;
    } else if (policy_.failed()) {
      return Progress::kFailed;
    }
  }
  if (!proxies.empty() && unfinished_ != 0 && drive_proxies(Drive::kPosted) == Progress::kFailed)
    return Progress::kFailed;
  moved_ = policy_.events() != before || unfinished_ != unfinished_before || drained_ != drained_before;
  return Progress::kWaiting;
}

bool Executor::driving() const {
  for (const Channels::Proxied& proxied : channels_.proxies())
    if (proxied.queue->needs_driving()) return true;
  return false;
}

void Executor::before_sleep() {
  policy_.flush_credits();
  turns_ = 1;  // the last look is at all
  if (!watched_.empty()) return;
  for (const Channels::Proxied& proxied : channels_.proxies()) {
    proxied.queue->endpoint().watch();
    watched_.push_back(&proxied.queue->endpoint());
  }
}

void Executor::after_sleep() {
  for (Endpoint* endpoint : watched_) endpoint->unwatch();
  watched_.clear();
}

/// Peers' buffers are plain memory of the same process, which their owner may free as soon as its call has failed. So
/// it waits until nobody is in such a turn, and no turn begins after an error was published. Flag, then look; there
/// errors, then the flag: one of the two sees the other. The fence in between is here, or the owner's membarrier.
Progress Executor::guarded_turn() {
  BlockHeader& own = channels_.block();
  if (fenced_) {
    own.turning.exchange(1, std::memory_order_seq_cst);
  } else {
    own.turning.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  Progress progress = Progress::kFailed;
  if (own.errors.load(std::memory_order_seq_cst) == 0) {
    progress = tape_ != nullptr ? turn_of_tape() : turn_of_lanes();
  } else {
    policy_.set_fault({LaneFault::Kind::kAborted, 0, -1, 0, {}});
  }
  own.turning.store(0, std::memory_order_release);
  return progress;
}

void Executor::abandon() {
  for (const Channels::Proxied& proxied : channels_.proxies()) proxied.queue->cancel();
}

WaitingOn Executor::waiting() const {
  const auto based = [this](WaitingOn w) {
    w.channel = static_cast<std::uint16_t>(w.channel + call_->channel_base);
    return w;
  };
  if (tape_ != nullptr && played_ != tape_->steps.size()) {
    const TapeStep& step = tape_->steps[played_];
    return step.peer < 0 ? WaitingOn{} : based({step.op, step.channel, step.bound, step.peer});
  }
  if (tape_ == nullptr)
    for (std::size_t l = 0; l < lanes_.size(); ++l)
      if (!done_[l] && lanes_[l].waiting.peer >= 0) return based(lanes_[l].waiting);
  if ((tape_ != nullptr || unfinished_ == 0) && drained_ < drains_.size())
    return based({StepOp::kWaitCredit, drains_[drained_].channel, 0, drains_[drained_].peer});
  return {};
}

}  // namespace hocket
