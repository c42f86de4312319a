// SPDX-License-Identifier: Apache-2.0
#include "exec/tape.hpp"

#include "exec/host_lane.hpp"

namespace hocket {
namespace {

/// The step machine's policy that does nothing and says yes to everything.
class RecordingLane {
 public:
  RecordingLane(const BoundCall& call, Channels& channels, Tape& tape)
      : call_(call), channels_(channels), tape_(tape) {}

  bool data_ready(std::uint16_t channel, int peer, int bound) {
    return add({.op = StepOp::kWaitData, .bound = static_cast<std::int8_t>(bound)}, channel, peer);
  }
  bool credit_ready(std::uint16_t channel, int peer, int bound) {
    return add({.op = StepOp::kWaitCredit, .bound = static_cast<std::int8_t>(bound)}, channel, peer);
  }
  void signal_data(std::uint16_t channel, int peer, const Step& step) {
    add({.op = StepOp::kSignalData, .step = &step}, channel, peer);
  }
  void signal_credit(std::uint16_t channel, int peer, const Step& step) {
    add({.op = StepOp::kSignalCredit, .step = &step}, channel, peer);
  }
  /// Puts complete out of order with what the tape says: plans with such steps are not written down.
  bool completed(const Step&, int) { return !(too_much_ = true); }
  bool drained() { return !(too_much_ = true); }

  void begin_move(std::uint64_t length, const Step& step) {
    move_ = {.op = StepOp::kMove,
             .step = &step,
             .bytes = length * call_.element_bytes,
             .elements = length,
             .first = static_cast<std::uint32_t>(tape_.spans.size())};
    move_.plain = call_.protocol != Protocol::kPacket && move_.bytes <= Tape::kPlainBytes && call_.scale == nullptr &&
                  call_.reduce != nullptr;
  }
  void source(const SpanAt& span) {
    add(span);
    ++move_.sources;
  }
  void destination(const SpanAt& span) {
    add(span);
    ++move_.destinations;
  }
  bool end_move() {
    move_.plain &= move_.sources + move_.destinations <= Tape::kPlainSpans;
    const std::uint64_t most = call_.protocol == Protocol::kBulk ? Tape::kFewBytes : kInlineBytes;
    if (move_.plain && move_.bytes != 0 && move_.bytes <= most && move_.destinations == 1 && move_.sources == 2)
      move_.reduce = reduce_few(call_.type, call_.op, move_.elements);
    move_.few =
        move_.plain && move_.bytes != 0 && move_.bytes <= most && (move_.sources == 1 || move_.reduce != nullptr);
    tape_.steps.push_back(move_);
    too_much_ |= tape_.steps.size() > Tape::kMostSteps;
    return !too_much_;
  }
  bool failed() const { return too_much_; }

 private:
  bool add(TapeStep step, std::uint16_t channel, int peer) {
    step.channel = channel;
    step.peer = peer;
    step.end = &channels_.end(call_.channel_base + channel, peer);
    step.view = &channels_.peer(peer);
    too_much_ |= step.view->block == nullptr || tape_.steps.size() >= Tape::kMostSteps;
    tape_.steps.push_back(step);
    return !too_much_;
  }
  void add(const SpanAt& span) {
    TapeSpan s{.at = span, .bytes = span.offset * call_.element_bytes};
    switch (span.kind) {
      case SpanKind::kInput:
      case SpanKind::kOutput:
      case SpanKind::kWork: break;
      case SpanKind::kSlotIn:
      case SpanKind::kSlotOut:
        // Of several pieces the first has its start in the line.
        s.lined = call_.protocol != Protocol::kBulk && span.index == 0;
        s.end = &channels_.end(call_.channel_base + span.channel, span.peer);
        break;
      default: move_.plain = false;
    }
    tape_.spans.push_back(s);
    // The counts of a step are bytes; a Move of more spans than that has better ways to spend its time.
    too_much_ |= move_.sources == 0xff || move_.destinations == 0xff;
  }

  const BoundCall& call_;
  Channels& channels_;
  Tape& tape_;
  TapeStep move_;
  bool too_much_ = false;
};

}  // namespace

bool record(const BoundCall& call, Channels& channels, Tape* tape) {
  *tape = {};
  if (call.plan.lane_count != 1 || !channels.proxies().empty()) return false;
  RecordingLane lane(call, channels, *tape);
  LaneState state;
  state.restart();
  const bool whole = advance(call.plan, call.plan.lanes[0], call.shape, state, lane) == Progress::kDone;
  if (!whole || lane.failed()) *tape = {};
  return whole && !lane.failed();
}

}  // namespace hocket
