// SPDX-License-Identifier: Apache-2.0
// exec/play.cpp: HostLane's way to run a call from its tape (exec/tape.hpp): the same waits, signals and Moves as
// host_lane.cpp does for the machine, without the arithmetic that leads to them. A small message is stored here: Move
// and Signal follow each other so closely that both stores reach the receiver's line while this core has it.
// Next stop: exec/reduce.cpp and exec/copy.cpp.
#include <algorithm>
#include <cstring>

#include "exec/host_lane.hpp"

namespace hocket {
namespace {

template <std::size_t n>
HOCKET_INLINE void copy_ends(std::byte* to, const std::byte* from, std::size_t bytes) {
  struct Part {
    std::byte bytes[n];
  };
  Part head, tail;
  std::memcpy(&head, from, n);
  std::memcpy(&tail, from + bytes - n, n);
  std::memcpy(to, &head, n);
  std::memcpy(to + bytes - n, &tail, n);
}

/// 1 to Tape::kFewBytes of them. `to` may be `from`.
HOCKET_INLINE void copy_few(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes >= 32) return copy_ends<32>(to, from, bytes);
  if (bytes >= 16) return copy_ends<16>(to, from, bytes);
  if (bytes >= 8) return copy_ends<8>(to, from, bytes);
  if (bytes >= 4) return copy_ends<4>(to, from, bytes);
  if (bytes >= 2) return copy_ends<2>(to, from, bytes);
  *to = *from;
}

}  // namespace

inline HostLane::Address HostLane::address(const TapeSpan& span) const {
  const BlockLayout& layout = channels_.layout();
  switch (span.at.kind) {
    case SpanKind::kInput: return {const_cast<std::byte*>(call_->input) + span.bytes, nullptr, false};
    case SpanKind::kOutput: return {call_->output + span.bytes, nullptr, false};
    case SpanKind::kSlotIn: {
      const std::uint64_t slot = span.end->received & mask_;
      return {span.end->slots_in + slot * layout.slot_bytes + span.bytes,
              span.lined ? span.end->data_in[slot].payload : nullptr, true};
    }
    case SpanKind::kSlotOut: {
      const std::uint64_t slot = span.end->sent & mask_;
      return {span.end->slots_out + slot * layout.slot_bytes + span.bytes,
              span.lined ? span.end->data_out[slot].payload : nullptr, true};
    }
    default: return {call_->work + span.bytes, nullptr, false};
  }
}

/// Of a Move of a few bytes: where all of them are.
inline std::byte* HostLane::locate(const TapeSpan& span) const {
  switch (span.at.kind) {
    case SpanKind::kInput: return const_cast<std::byte*>(call_->input) + span.bytes;
    case SpanKind::kOutput: return call_->output + span.bytes;
    case SpanKind::kSlotIn: {
      const std::uint64_t slot = span.end->received & mask_;
      if (span.lined) return span.end->data_in[slot].payload;
      return span.end->slots_in + slot * channels_.layout().slot_bytes + span.bytes;
    }
    case SpanKind::kSlotOut: {
      const std::uint64_t slot = span.end->sent & mask_;
      if (span.lined) return span.end->data_out[slot].payload;
      return span.end->slots_out + slot * channels_.layout().slot_bytes + span.bytes;
    }
    default: return call_->work + span.bytes;
  }
}

HOCKET_INLINE void HostLane::play_segment(const TapeStep& step, const Address* spans, std::uint64_t begin,
                                          std::uint64_t bytes) {
  const auto at = [begin](const Address& a) {
    return a.line != nullptr && begin < kInlineBytes ? a.line + begin : a.body + begin;
  };
  const Address* const destinations = spans + step.sources;
  const bool stream = call_->stream_output && !destinations[0].slot && bytes >= kSlotCopyBytes;
  void* to[Tape::kPlainSpans];
  for (int d = 0; d < step.destinations; ++d) to[d] = at(destinations[d]);
  if (step.sources == 1) {
    CopyHint hints[Tape::kPlainSpans];
    for (int d = 0; d < step.destinations; ++d)
      hints[d] = destinations[d].slot ? CopyHint::kSlot : stream ? CopyHint::kStream : CopyHint::kCached;
    copy(to, hints, step.destinations, at(spans[0]), bytes);
    return;
  }
  const void* from[Tape::kPlainSpans];
  for (int s = 0; s < step.sources; ++s) from[s] = at(spans[s]);
  ReduceArgs args{};
  args.sources = from;
  args.source_count = step.sources;
  args.destinations = to;
  args.destination_count = step.destinations;
  args.count = bytes / call_->element_bytes;
  args.finish = step.step->finish != 0;
  args.world_size = call_->world;
  args.stream = stream;
  for (int d = 0; d < step.destinations; ++d) args.slot_destinations |= std::uint32_t{destinations[d].slot} << d;
  call_->reduce(args);
}

inline void HostLane::play_move(const Tape& tape, const TapeStep& step) {
  ++events_;
  if (step.few) [[likely]] {
    const TapeSpan* const spans = &tape.spans[step.first];
    const std::byte* const from = locate(spans[0]);
    if (step.reduce != nullptr) {
      step.reduce(locate(spans[2]), from, locate(spans[1]), step.elements);
    } else {
      for (int d = 1; d <= step.destinations; ++d) copy_few(locate(spans[d]), from, step.bytes);
    }
    return;
  }
  if (step.bytes != 0) play_plain_move(tape, step);
}

void HostLane::play_plain_move(const Tape& tape, const TapeStep& step) {
  Address spans[Tape::kPlainSpans];
  const TapeSpan* const written = &tape.spans[step.first];
  for (int n = 0; n < step.sources + step.destinations; ++n) spans[n] = address(written[n]);
  const std::uint64_t first =
      call_->protocol == Protocol::kBulk ? step.bytes : std::min<std::uint64_t>(step.bytes, kInlineBytes);
  play_segment(step, spans, 0, first);
  if (first < step.bytes) play_segment(step, spans, first, step.bytes - first);
}

/// Those that are not plain.
bool HostLane::play_any_move(const Tape& tape, const TapeStep& step) {
  begin_move(step.elements, *step.step);
  const TapeSpan* span = &tape.spans[step.first];
  for (int n = 0; n < step.sources; ++n) source((span++)->at);
  for (int n = 0; n < step.destinations; ++n) destination((span++)->at);
  return end_move();
}

Progress HostLane::play(const Tape& tape, std::uint32_t* at) {
  const TapeStep* const first = tape.steps.data();
  const TapeStep* const last = first + tape.steps.size();
  for (const TapeStep* step = first + *at; step != last; ++step) {
    bool done = true;
    switch (step->op) {
      case StepOp::kWaitData: done = data_ready(*step->end, step->channel, step->peer, step->bound); break;
      case StepOp::kWaitCredit: done = credit_ready(*step->end, step->channel, step->peer, step->bound); break;
      case StepOp::kSignalData: signal_data(*step->end, *step->view, step->channel, step->peer, *step->step); break;
      case StepOp::kSignalCredit: signal_credit(*step->end, *step->view, step->channel, step->peer, *step->step); break;
      default:
        if (step->plain) [[likely]] {
          play_move(tape, *step);
        } else {
          done = play_any_move(tape, *step);
        }
    }
    if (done) [[likely]]
      continue;
    *at = static_cast<std::uint32_t>(step - first);
    return failed() ? Progress::kFailed : Progress::kWaiting;
  }
  *at = static_cast<std::uint32_t>(tape.steps.size());
  return Progress::kDone;
}

}  // namespace hocket
