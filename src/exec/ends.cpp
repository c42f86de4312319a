// SPDX-License-Identifier: Apache-2.0
#include "exec/ends.hpp"

#include "base/status.hpp"
#include "exec/step_machine.hpp"

namespace hocket {
namespace {

/// Runs one lane with every wait satisfied and notes what each step touches.
class EndsLane {
 public:
  struct Pending {
    bool touched = false;  ///< a Move used the slot since the last signal
    bool waited = false;
  };

  EndsLane(const Plan& plan, std::vector<ChannelEnd>& ends)
      : world_(static_cast<std::size_t>(plan.header.world)),
        ends_(ends),
        index_(2 * world_ * static_cast<std::size_t>(plan.header.channels), -1) {}

  void lane(std::uint32_t lane) { lane_ = lane; }
  const Status& status() const { return status_; }
  const std::vector<Pending>& pending() const { return pending_; }
  bool odd_waits() const { return odd_waits_; }

  bool data_ready(std::uint16_t channel, std::int32_t peer, std::int32_t bound) {
    pending_[end(channel, peer, false)].waited = true;
    odd_waits_ |= bound != 1;
    return true;
  }
  bool credit_ready(std::uint16_t channel, std::int32_t peer, std::int32_t bound) {
    end(channel, peer, true);
    odd_waits_ |= bound < 0;
    return true;
  }
  void signal_data(std::uint16_t channel, std::int32_t peer, const Step&) { signal(end(channel, peer, true)); }
  void signal_credit(std::uint16_t channel, std::int32_t peer, const Step&) {
    const std::size_t at = end(channel, peer, false);
    if (!pending_[at].waited) odd_waits_ = true;
    pending_[at].waited = false;
    signal(at);
  }
  bool completed(const Step&, std::int32_t) { return true; }
  bool drained() { return true; }
  void begin_move(std::uint64_t, const Step&) {}
  void source(const SpanAt& span) { touch(span); }
  void destination(const SpanAt& span) { touch(span); }
  bool end_move() { return true; }
  bool failed() { return false; }

 private:
  std::size_t end(std::uint16_t channel, std::int32_t peer, bool outgoing) {
    std::int32_t& at = index_[(channel * world_ + static_cast<std::size_t>(peer)) * 2 + (outgoing ? 1 : 0)];
    if (at < 0) {
      at = static_cast<std::int32_t>(ends_.size());
      ends_.push_back({channel, peer, outgoing, lane_, 0, false, false, false});
      pending_.emplace_back();
    }
    const ChannelEnd& e = ends_[static_cast<std::size_t>(at)];
    if (e.lane != lane_ && status_.ok())
      status_ = error(Code::kInvalidArgument, "the {} end of channel {} {} rank {} is used by lanes {} and {}",
                      outgoing ? "sending" : "receiving", channel, outgoing ? "to" : "from", peer, e.lane, lane_);
    return static_cast<std::size_t>(at);
  }

  void signal(std::size_t at) {
    ChannelEnd& e = ends_[at];
    ++e.signals;
    (pending_[at].touched ? e.slotted : e.bare) = true;
    pending_[at].touched = false;
  }

  void touch(const SpanAt& span) {
    switch (span.kind) {
      case SpanKind::kSlotIn: pending_[end(span.channel, span.peer, false)].touched = true; break;
      case SpanKind::kSlotOut: pending_[end(span.channel, span.peer, true)].touched = true; break;
      case SpanKind::kBoardIn: ends_[end(span.channel, span.peer, false)].board = true; break;
      case SpanKind::kBoardOut: ends_[end(span.channel, span.peer, true)].board = true; break;
      default: break;
    }
  }

  std::size_t world_;
  std::vector<ChannelEnd>& ends_;
  std::vector<std::int32_t> index_;  // [channel][peer][outgoing] -> ends_, or -1
  std::vector<Pending> pending_;     // beside ends_
  std::uint32_t lane_ = 0;
  bool odd_waits_ = false;
  Status status_;
};

/// One tile of nothing: every step outside of a repeat of count 0 runs once for each turn of its repeats.
EndsLane run(const Plan& plan, std::vector<ChannelEnd>& ends) {
  EndsLane lane(plan, ends);
  const Shape shape{.count = 0, .tile = 1};
  for (std::uint32_t l = 0; l < plan.lanes.size(); ++l) {
    lane.lane(l);
    LaneState state;
    advance(plan.view(), plan.lanes[l], shape, state, lane);
  }
  return lane;
}

}  // namespace

Result<std::vector<ChannelEnd>> ends_of(const Plan& plan) {
  std::vector<ChannelEnd> ends;
  HOCKET_TRY(run(plan, ends).status());
  // All channels that lead away from a board are in step, whichever of them its Move names.
  for (const ChannelEnd& board : std::vector<ChannelEnd>(ends))
    if (board.board && board.outgoing)
      for (ChannelEnd& e : ends) e.board |= e.outgoing && e.channel == board.channel;
  return ends;
}

Reach reach_of(const Plan& plan) {
  Reach reach;
  for (const SpanRef& span : plan.spans) {
    switch (span.kind) {
      case SpanKind::kPeerInput: reach.loads = reach.registered = true; break;
      case SpanKind::kPeerOutput: reach.registered = true; break;
      case SpanKind::kBoardIn:
      case SpanKind::kBoardOut: reach.loads = true; break;
      default: break;
    }
  }
  // A peer's output can be a source as well; then it is loaded.
  for (const Step& step : plan.steps)
    for (std::uint32_t s = 0; step.op == StepOp::kMove && s < step.source_count; ++s)
      if (plan.spans[step.first + s].kind == SpanKind::kPeerOutput) reach.loads = true;
  return reach;
}

Status qualifies_for_packets(const Plan& plan) {
  const auto no = [](std::string_view why) { return error(Code::kUnsupported, "no packets: {}", why); };
  const Reach reach = reach_of(plan);
  if (reach.registered) return no("the plan names buffers of peers");
  if (reach.loads) return no("the plan has boards");
  if (plan.header.pieces > 1) return no("a slot holds several tiles, and its lines have one set of flags");
  std::vector<ChannelEnd> ends;
  const EndsLane lane = run(plan, ends);
  if (lane.odd_waits())
    return no("a transfer is credited without a wait for its data, or waited for with another bound");
  for (std::size_t e = 0; e < ends.size(); ++e)
    if ((ends[e].slotted && ends[e].bare) || lane.pending()[e].touched)
      return error(Code::kUnsupported,
                   "no packets: channel {} with rank {} is neither purely slotted nor purely order only",
                   ends[e].channel, ends[e].peer);
  return {};
}

}  // namespace hocket
