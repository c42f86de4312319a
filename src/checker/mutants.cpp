// SPDX-License-Identifier: Apache-2.0
#include "checker/mutants.hpp"

#include "base/format.hpp"

#include <algorithm>

#include "algorithms/dump.hpp"

namespace hocket {
namespace {

constexpr std::string_view kKindNames[kMutantKindCount] = {
    "dropped Move",   "dropped Signal",   "dropped Wait data",   "dropped Wait credit", "swapped neighbours",
    "doubled Signal", "dropped source",   "dropped destination", "wrong chunk",         "wrong piece",
    "wrong peer",     "credit bound + 1", "repeat + 1",          "repeat - 1",          "dropped completion wait",
    "dropped grant",  "flipped finish"};
constexpr std::string_view kSurvivorNames[kSurvivorCount] = {"independent steps swapped", "self exchange",
                                                             "implied drain", "unused peer", "implied completion"};

bool is_signal(StepOp op) {
  return op == StepOp::kSignalData || op == StepOp::kSignalCredit;
}
bool is_wait(StepOp op) {
  return op == StepOp::kWaitData || op == StepOp::kWaitCredit;
}
bool is_action(StepOp op) {
  return op == StepOp::kMove || is_signal(op) || is_wait(op);
}

/// Shift everything that refers to steps of this lane from `at` on, or to later lanes, by `by`.
void renumber(Plan& plan, std::uint32_t lane, std::uint32_t at, int by) {
  const LaneProgram& program = plan.lanes[lane];
  const std::uint32_t first = program.first;
  for (std::uint32_t s = 0; s < program.count; ++s) {
    Step& step = plan.steps[first + s];
    const bool jumps = step.op == StepOp::kRepeat || step.op == StepOp::kRounds || step.op == StepOp::kTiles ||
                       step.op == StepOp::kEnd;
    if (jumps && step.jump > at) step.jump = static_cast<std::uint32_t>(static_cast<int>(step.jump) + by);
  }
  plan.lanes[lane].count = static_cast<std::uint32_t>(static_cast<int>(program.count) + by);
  for (LaneProgram& other : plan.lanes)
    if (other.first > first) other.first = static_cast<std::uint32_t>(static_cast<int>(other.first) + by);
}

void drop_step(Plan& plan, std::uint32_t lane, std::uint32_t at) {
  const std::uint32_t absolute = plan.lanes[lane].first + at;
  renumber(plan, lane, at, -1);
  plan.steps.erase(plan.steps.begin() + absolute);
}

void double_step(Plan& plan, std::uint32_t lane, std::uint32_t at) {
  const std::uint32_t absolute = plan.lanes[lane].first + at;
  renumber(plan, lane, at, 1);
  plan.steps.insert(plan.steps.begin() + absolute, plan.steps[absolute]);
}

/// The Move's own copy of its spans, so that they can change.
SpanRef* own_spans(Plan& plan, Step& step) {
  const std::size_t count = std::size_t{step.source_count} + step.destination_count;
  const std::vector<SpanRef> spans(plan.spans.begin() + step.first,
                                   plan.spans.begin() + step.first + static_cast<std::ptrdiff_t>(count));
  step.first = static_cast<std::uint32_t>(plan.spans.size());
  plan.spans.insert(plan.spans.end(), spans.begin(), spans.end());
  return plan.spans.data() + step.first;
}

void drop_span(Plan& plan, Step& step, int span) {
  own_spans(plan, step);
  plan.spans.erase(plan.spans.begin() + step.first + span);
  if (span < step.source_count) {
    --step.source_count;
  } else {
    --step.destination_count;
  }
}

/// The next one of `count`.
Index next_of(Index index, std::int32_t count) {
  if (index.mod != 0) {
    ++index.base;
  } else if (index.scale == 1 && index.s0 == 0 && index.s1 == 0) {
    index.base = (index.base + index.offset + 1) % count;
    index.offset = 0;
  } else {
    ++index.offset;
  }
  return index;
}

/// One more turn of the repeat at `at` would talk to nobody but this rank, and write no piece of a board that others
/// read.
bool only_self(const Plan& plan, const Step* steps, std::uint32_t at) {
  const PlanView view = plan.view();
  const Step& loop = steps[at];
  const std::int32_t i = loop.variable == 0 ? loop.count : 0;
  const std::int32_t j = loop.variable == 0 ? 0 : loop.count;
  for (std::uint32_t s = at + 1; s + 1 < loop.jump; ++s) {
    const Step& step = steps[s];
    if (is_signal(step.op) || is_wait(step.op)) {
      if (view.peer(step.peer, i, j) != plan.header.rank) return false;
    } else if (step.op == StepOp::kMove) {
      for (std::uint32_t n = 0; n < std::uint32_t{step.source_count} + step.destination_count; ++n) {
        const SpanRef& span = plan.spans[step.first + n];
        const bool local =
            span.kind == SpanKind::kInput || span.kind == SpanKind::kOutput || span.kind == SpanKind::kWork;
        if (span.kind == SpanKind::kBoardOut ? span.index.at(i, j) != plan.header.rank
                                             : !local && view.peer(span.peer, i, j) != plan.header.rank)
          return false;
      }
    }
  }
  return true;
}

class Mutator {
 public:
  Mutator(const Plan& plan, int slots) : original_(plan), slots_(slots) {}

  std::vector<Mutant> run() {
    for (lane_ = 0; lane_ < original_.lanes.size(); ++lane_) {
      const LaneProgram& lane = original_.lanes[lane_];
      std::uint32_t dead_until = 0;
      for (at_ = 0; at_ < lane.count; ++at_) {
        const Step& step = original_.steps[lane.first + at_];
        if (step.op == StepOp::kRepeat) repeats(step);
        if (at_ < dead_until) continue;
        if (step.op == StepOp::kRepeat && step.count == 0) dead_until = step.jump;
        if (is_action(step.op)) action(step);
      }
      at_ = lane.count;
      if (lane.completion != kNoCompletion)
        add(MutantKind::kDropCompletion, -1, "end without its completion wait",
            [&](Plan& plan, Step&) { plan.lanes[lane_].completion = kNoCompletion; });
    }
    return std::move(mutants_);
  }

 private:
  template <class Change>
  void add(MutantKind kind, int span, std::string_view what, const Change& change) {
    Mutant mutant;
    mutant.kind = kind;
    mutant.lane = lane_;
    mutant.step = at_;
    mutant.span = span;
    const LaneProgram& lane = original_.lanes[lane_];
    mutant.text = format("rank {}, lane {}, step {}: {}", original_.header.rank, lane_, at_, what);
    if (at_ < lane.count) mutant.text += format(" ({})", step_text(original_.view(), lane, at_));
    mutant.plan = original_;
    static Step unused;
    change(mutant.plan, at_ < lane.count ? mutant.plan.steps[lane.first + at_] : unused);
    if (validate(mutant.plan).ok()) mutants_.push_back(std::move(mutant));
  }

  void repeats(const Step& step) {
    add(MutantKind::kRepeatMore, -1, "one repeat more", [](Plan&, Step& s) { ++s.count; });
    if (step.count > 0) add(MutantKind::kRepeatLess, -1, "one repeat less", [](Plan&, Step& s) { --s.count; });
  }

  void action(const Step& step) {
    const LaneProgram& lane = original_.lanes[lane_];
    const MutantKind drop = step.op == StepOp::kMove       ? MutantKind::kDropMove
                            : is_signal(step.op)           ? MutantKind::kDropSignal
                            : step.op == StepOp::kWaitData ? MutantKind::kDropWaitData
                                                           : MutantKind::kDropWaitCredit;
    add(drop, -1, "dropped", [&](Plan& plan, Step&) { drop_step(plan, lane_, at_); });
    if (at_ + 1 < lane.count && is_action(original_.steps[lane.first + at_ + 1].op))
      add(MutantKind::kSwap, -1,
          format("swapped with step {} ({})", at_ + 1, step_text(original_.view(), lane, at_ + 1)),
          [&](Plan& plan, Step& s) { std::swap(s, plan.steps[lane.first + at_ + 1]); });
    if (step.completion != kNoCompletion)
      add(MutantKind::kDropCompletion, -1, "without its completion wait",
          [](Plan&, Step& s) { s.completion = kNoCompletion; });
    if (step.op == StepOp::kMove) {
      move(step);
      return;
    }
    add(MutantKind::kWrongPeer, -1, "the next peer",
        [&](Plan& plan, Step& s) { s.peer.index = next_of(s.peer.index, plan.header.world); });
    if (is_signal(step.op))
      add(MutantKind::kDoubleSignal, -1, "doubled", [&](Plan& plan, Step&) { double_step(plan, lane_, at_); });
    for (const std::uint8_t kind : {kGrantInput, kGrantOutput})
      if ((step.grant & kind) != 0)
        add(MutantKind::kDropGrant, -1, "without a grant",
            [kind](Plan&, Step& s) { s.grant = static_cast<std::uint8_t>(s.grant & ~kind); });
    if (step.op == StepOp::kWaitCredit)
      add(MutantKind::kCreditBound, -1, "credit bound + 1",
          [&](Plan&, Step& s) { s.bound = static_cast<std::int8_t>(s.bound == kBoundFree ? slots_ : s.bound + 1); });
  }

  void move(const Step& step) {
    add(MutantKind::kFlipFinish, -1, "finish flipped", [](Plan&, Step& s) { s.finish ^= 1; });
    const int spans = step.source_count + step.destination_count;
    for (int n = 0; n < spans; ++n) {
      const bool source = n < step.source_count;
      if ((source ? step.source_count : step.destination_count) > 1)
        add(source ? MutantKind::kDropSource : MutantKind::kDropDestination, n, format("without span {}", n),
            [n](Plan& plan, Step& s) { drop_span(plan, s, n); });
      const SpanRef& span = original_.spans[step.first + static_cast<std::uint32_t>(n)];
      const bool chunk = span.kind == SpanKind::kInput || span.kind == SpanKind::kOutput ||
                         span.kind == SpanKind::kPeerInput || span.kind == SpanKind::kPeerOutput;
      const bool peer = span.kind != SpanKind::kInput && span.kind != SpanKind::kOutput && span.kind != SpanKind::kWork;
      // Where there is only one, there is no wrong one.
      const std::int32_t choices = chunk                          ? original_.cuts[span.cut].chunks
                                   : span.kind == SpanKind::kWork ? original_.header.work_entries
                                                                  : original_.header.pieces;
      if (chunk && choices > 1)
        add(MutantKind::kWrongChunk, n, format("the next chunk in span {}", n), [n](Plan& plan, Step& s) {
          SpanRef& wrong = own_spans(plan, s)[n];
          wrong.index = next_of(wrong.index, plan.cuts[wrong.cut].chunks);
        });
      if (!chunk && choices > 1)
        add(MutantKind::kWrongPiece, n, format("the next piece in span {}", n), [n](Plan& plan, Step& s) {
          SpanRef& wrong = own_spans(plan, s)[n];
          wrong.index =
              next_of(wrong.index, wrong.kind == SpanKind::kWork ? plan.header.work_entries : plan.header.pieces);
        });
      if (peer)
        add(MutantKind::kWrongPeer, n, format("the next peer in span {}", n), [n](Plan& plan, Step& s) {
          SpanRef& wrong = own_spans(plan, s)[n];
          wrong.peer.index = next_of(wrong.peer.index, plan.header.world);
        });
    }
  }

  const Plan& original_;
  int slots_;
  std::uint32_t lane_ = 0;
  std::uint32_t at_ = 0;
  std::vector<Mutant> mutants_;
};

/// Whether a Move has nothing to do with a wait for data or a signal of a plan that hands over nothing but slots: it
/// names none of that channel's. Peers that depend on a loop may be any.
bool is_elsewhere(const Plan& plan, const Step& move, const Step& other) {
  if (move.op != StepOp::kMove || !(other.op == StepOp::kWaitData || is_signal(other.op))) return false;
  for (const SpanRef& span : plan.spans)
    if (span.kind == SpanKind::kPeerInput || span.kind == SpanKind::kPeerOutput || span.kind == SpanKind::kBoardIn ||
        span.kind == SpanKind::kBoardOut)
      return false;
  const auto fixed = [](const PeerIndex& peer) {
    return peer.group == 0 && peer.index.s0 == 0 && peer.index.s1 == 0 && peer.index.mod == 0;
  };
  for (std::uint32_t n = 0; n < std::uint32_t{move.source_count} + move.destination_count; ++n) {
    const SpanRef& span = plan.spans[move.first + n];
    const bool slot = span.kind == SpanKind::kSlotIn || span.kind == SpanKind::kSlotOut;
    if (slot && span.channel == other.channel &&
        (!fixed(span.peer) || !fixed(other.peer) || span.peer.index.at(0, 0) == other.peer.index.at(0, 0)))
      return false;
  }
  return true;
}

}  // namespace

std::string_view to_string(MutantKind kind) noexcept {
  return kKindNames[static_cast<std::size_t>(kind)];
}
std::string_view to_string(Survivor survivor) noexcept {
  return kSurvivorNames[static_cast<std::size_t>(survivor)];
}

std::vector<Mutant> mutants_of(const Plan& plan, int slots) {
  return Mutator(plan, slots).run();
}

std::optional<Survivor> classify(const Plan& original, const Mutant& mutant) {
  const LaneProgram& lane = original.lanes[mutant.lane];
  const Step* steps = original.steps.data() + lane.first;
  const Step* step = mutant.step < lane.count ? steps + mutant.step : nullptr;
  switch (mutant.kind) {
    case MutantKind::kSwap: {
      const Step& next = step[1];
      const bool actions = step->op != StepOp::kMove && next.op != StepOp::kMove;
      const bool moves = step->op == StepOp::kMove && next.op == StepOp::kMove;
      const bool ahead = step->op == StepOp::kMove && next.op == StepOp::kWaitCredit;
      const bool elsewhere = is_elsewhere(original, *step, next) || is_elsewhere(original, next, *step);
      if (actions || moves || ahead || elsewhere) return Survivor::kIndependentSwap;
      return std::nullopt;
    }
    case MutantKind::kRepeatMore:
      if (only_self(original, steps, mutant.step)) return Survivor::kSelfExchange;
      return std::nullopt;
    case MutantKind::kDropWaitCredit:
    case MutantKind::kCreditBound:
      for (std::uint32_t other = 0; other < lane.count && step->bound == 0; ++other)
        if (other != mutant.step && steps[other].op == StepOp::kWaitCredit && steps[other].bound == 0 &&
            steps[other].peer == step->peer)
          return Survivor::kImpliedDrain;
      return std::nullopt;
    case MutantKind::kWrongPeer:
      if (mutant.span >= 0 &&
          original.spans[step->first + static_cast<std::uint32_t>(mutant.span)].kind == SpanKind::kBoardOut)
        return Survivor::kUnusedPeer;
      return std::nullopt;
    case MutantKind::kDropCompletion:
      // Never of a credit: who owns the slot may write it at once.
      if (step == nullptr || step->op == StepOp::kMove) return Survivor::kImpliedCompletion;
      return std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace hocket
