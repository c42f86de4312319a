// SPDX-License-Identifier: Apache-2.0
// step_machine.hpp: the one interpreter of plans, a template over a lane policy.
//
// Whoever runs a lane calls advance() until it is done: a blocking call's own thread, a progress thread that takes
// turns over many lanes, a GPU block, and the checker, whose policy is symbolic. Nothing in here blocks: a Wait that is
// not satisfied returns, and is tried again at the next call.
//
// A policy offers:
//   bool data_ready(channel, peer, bound)     Wait data: data >= received + bound
//   bool credit_ready(channel, peer, bound)   Wait credit: sent - credit <= bound
//   void signal_data(channel, peer, step)     sent += 1, publish
//   void signal_credit(channel, peer, step)   received += 1, publish
//   bool completed(step, peer)                puts this lane posted have read their sources, as step.completion says
//   bool drained()                            all puts this lane posted have read their sources
//   void begin_move(length, step)             a Move begins;
//   void source(span), destination(span)      its spans, in order;
//   bool end_move()                           do it; false: not possible now, try again
//   bool failed()                             the communicator is aborted: stop
// Next stop: exec/host_lane.hpp, the policy for host memory.
#pragma once

#include <cstdint>

#include "algorithms/bind.hpp"
#include "algorithms/plan.hpp"
#include "base/host_device.hpp"

namespace hocket {

enum class Progress : std::uint8_t { kDone, kWaiting, kFailed };

/// A span of a Move in this tile: where it starts. The length is the Move's.
struct SpanAt {
  SpanKind kind;
  std::uint16_t channel;
  std::int32_t peer;
  std::int32_t index;    ///< chunk, piece or work entry
  std::uint64_t offset;  ///< elements from the start of the buffer, or of the slot, or of the scratch
};

/// What a lane waits for, for whoever has to say so.
struct WaitingOn {
  StepOp op = StepOp::kEnd;
  std::uint16_t channel = 0;
  std::int8_t bound = 0;
  std::int32_t peer = -1;
};

#if defined(__GNUC__) && !defined(__CUDACC__)
#define HOCKET_INLINE [[gnu::always_inline]] inline
#else
#define HOCKET_INLINE inline
#endif

/// Where a lane is: everything an interrupted lane needs to go on. Trivially copyable.
struct LaneState {
  std::uint32_t pc = 0;  ///< step, counted from the lane's first
  std::int32_t i = 0;
  std::int32_t j = 0;
  std::int32_t depth = 0;
  std::int32_t k = 0;            ///< tile of the round
  std::int32_t round_tiles = 1;  ///< K of the innermost Rounds
  std::uint64_t round = 0;
  std::uint64_t rounds[kMaxLoopDepth] = {};  ///< of a Rounds loop at that depth: how many
  std::uint32_t loop[kMaxLoopDepth] = {};    ///< step of the loop at that depth
  WaitingOn waiting;

  /// Back to the first step; what only loops read need not be cleared.
  HOCKET_HD void restart() {
    pc = 0;
    i = j = depth = k = 0;
    round_tiles = 1;
    round = 0;
    waiting = {};
  }
};

namespace machine_detail {

/// Enter the loop at `at`: false when its body never runs.
template <class Policy>
HOCKET_HD bool enter(const PlanView& plan, const LaneProgram& lane, const Shape& shape, LaneState& s,
                     const Step& step) {
  if (step.op == StepOp::kRepeat) {
    if (step.count <= 0) return false;
    (step.variable == 0 ? s.i : s.j) = 0;
  } else if (step.op == StepOp::kRounds) {
    std::uint64_t tiles = 1;
    for (std::uint32_t e = 0; e < step.extent_count; ++e) {
      const std::uint64_t length = length_of(plan, lane, shape, plan.extents[step.first + e], s.i, s.j);
      const std::uint64_t t = tiles_of(length, shape.tile);
      tiles = t > tiles ? t : tiles;
    }
    s.round_tiles = step.by_k ? shape.tiles_per_round : 1;
    s.round = 0;
    s.k = 0;
    s.rounds[s.depth] =
        (tiles + static_cast<std::uint64_t>(s.round_tiles) - 1) / static_cast<std::uint64_t>(s.round_tiles);
  } else {
    s.k = 0;
  }
  s.loop[s.depth++] = s.pc;
  return true;
}

/// At the End of the innermost loop: true to run its body again.
HOCKET_HD inline bool again(const Step& loop, LaneState& s) {
  if (loop.op == StepOp::kRepeat) {
    std::int32_t& v = loop.variable == 0 ? s.i : s.j;
    if (++v < loop.count) return true;
    v = 0;
  } else if (loop.op == StepOp::kRounds) {
    if (++s.round < s.rounds[s.depth - 1]) return true;
    s.round = 0;
    s.round_tiles = 1;
  } else {
    if (++s.k < s.round_tiles) return true;
    s.k = 0;
  }
  return false;
}

// Inlined, so that a span stays in registers on its way from here to the policy: small messages feel it.
template <class Policy>
HOCKET_HD HOCKET_INLINE SpanAt resolve(const PlanView& plan, const LaneProgram& lane, const Shape& shape,
                                       const LaneState& s, const SpanRef& span, std::uint64_t tile_offset) {
  SpanAt at{span.kind, span.channel, -1, span.index.at(s.i, s.j), 0};
  switch (span.kind) {
    case SpanKind::kInput:
    case SpanKind::kOutput:
      at.offset = chunk_of(plan.cuts[span.cut], shape, at.index, lane.part, lane.parts).offset + tile_offset;
      return at;
    case SpanKind::kPeerInput:
    case SpanKind::kPeerOutput:
      at.offset = chunk_of(plan.cuts[span.cut], shape, at.index, lane.part, lane.parts).offset + tile_offset;
      break;
    case SpanKind::kWork: at.offset = static_cast<std::uint64_t>(at.index) * shape.tile; return at;
    case SpanKind::kSlotIn:
    case SpanKind::kSlotOut:
    case SpanKind::kBoardOut:
    case SpanKind::kBoardIn: at.offset = at.index == 0 ? 0 : static_cast<std::uint64_t>(at.index) * shape.tile; break;
  }
  at.peer = plan.peer(span.peer, s.i, s.j);
  return at;
}

}  // namespace machine_detail

/// Run steps of a lane until it is done, must wait, or the policy failed. `budget` bounds the Moves of one call, so
/// that a thread with many lanes takes turns; a lane that used it up reports kWaiting with waiting.op == kMove.
template <class Policy>
HOCKET_HD Progress advance(const PlanView& plan, const LaneProgram& lane, const Shape& shape, LaneState& s,
                           Policy& policy, std::uint32_t budget = ~0u) {
  const Step* steps = plan.steps + lane.first;
  while (s.pc < lane.count) {
    const Step& step = steps[s.pc];
    switch (step.op) {
      case StepOp::kRepeat:
      case StepOp::kRounds:
      case StepOp::kTiles:
        s.pc = machine_detail::enter<Policy>(plan, lane, shape, s, step) ? s.pc + 1 : step.jump;
        continue;
      case StepOp::kEnd:
        if (machine_detail::again(steps[step.jump], s)) {
          s.pc = step.jump + 1;
        } else {
          --s.depth;
          ++s.pc;
        }
        continue;
      default: break;
    }
    // The skip rule.
    const std::uint64_t t = s.round * static_cast<std::uint64_t>(s.round_tiles) + static_cast<std::uint64_t>(s.k);
    std::uint64_t length = 0;
    if (step.extent.kind != ExtentKind::kAlways) {
      length = length_of(plan, lane, shape, step.extent, s.i, s.j);
      if (t != 0 && t >= tiles_of(length, shape.tile)) {
        ++s.pc;
        continue;
      }
    }
    switch (step.op) {
      case StepOp::kWaitData:
      case StepOp::kWaitCredit: {
        const std::int32_t peer = plan.peer(step.peer, s.i, s.j);
        const bool data = step.op == StepOp::kWaitData;
        const std::int32_t bound = step.bound == kBoundFree ? shape.slots - 1 : step.bound;
        if (!(data ? policy.data_ready(step.channel, peer, bound) : policy.credit_ready(step.channel, peer, bound))) {
          if (policy.failed()) return Progress::kFailed;
          s.waiting = {step.op, step.channel, static_cast<std::int8_t>(bound), peer};
          return Progress::kWaiting;
        }
        break;
      }
      case StepOp::kSignalData:
      case StepOp::kSignalCredit: {
        const std::int32_t peer = plan.peer(step.peer, s.i, s.j);
        if (step.completion != kNoCompletion && !policy.completed(step, peer)) {
          if (policy.failed()) return Progress::kFailed;
          s.waiting = {step.op, step.channel, 0, peer};
          return Progress::kWaiting;
        }
        if (step.op == StepOp::kSignalData) {
          policy.signal_data(step.channel, peer, step);
        } else {
          policy.signal_credit(step.channel, peer, step);
        }
        break;
      }
      case StepOp::kMove: {
        if (budget-- == 0) {
          s.waiting = {StepOp::kMove, 0, 0, -1};
          return Progress::kWaiting;
        }
        if (step.completion != kNoCompletion && !policy.completed(step, -1)) {
          if (policy.failed()) return Progress::kFailed;
          s.waiting = {StepOp::kMove, 0, 0, -1};
          return Progress::kWaiting;
        }
        const std::uint64_t tile_offset = t == 0 ? 0 : t * shape.tile;
        const std::uint64_t left = length - tile_offset;
        policy.begin_move(left < shape.tile ? left : shape.tile, step);
        const SpanRef* span = plan.spans + step.first;
        for (std::uint32_t n = 0; n < step.source_count; ++n, ++span)
          policy.source(machine_detail::resolve<Policy>(plan, lane, shape, s, *span, tile_offset));
        for (std::uint32_t n = 0; n < step.destination_count; ++n, ++span)
          policy.destination(machine_detail::resolve<Policy>(plan, lane, shape, s, *span, tile_offset));
        if (!policy.end_move()) {
          if (policy.failed()) return Progress::kFailed;
          s.waiting = {StepOp::kMove, 0, 0, -1};
          return Progress::kWaiting;
        }
        break;
      }
      default: break;
    }
    ++s.pc;
  }
  if (lane.completion != kNoCompletion && !policy.drained()) {
    if (policy.failed()) return Progress::kFailed;
    s.waiting = {StepOp::kEnd, 0, 0, -1};
    return Progress::kWaiting;
  }
  return Progress::kDone;
}

}  // namespace hocket
