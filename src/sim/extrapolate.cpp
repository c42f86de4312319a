// SPDX-License-Identifier: Apache-2.0
#include "sim/extrapolate.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/status.hpp"

namespace hocket::sim {
namespace {

// Two estimates of a round's time that differ by less are one.
constexpr double kSteady = 0.002;
// Passes of a long repeat that are run first. Far more steps than slots hold.
constexpr int kFirstPasses = 32;
// Moves beyond which a replay takes more than a minute, or a quarter of an hour.
constexpr double kTooMuch = 2e7, kTooMuchInFull = 3e8;
// Moves of the longest run of a call that never gets quite steady.
constexpr std::uint64_t kMostMoves = 2'500'000;

/// Bytes of the count that one round of tiles takes, 0 if its lanes differ; and how many rounds there are.
struct Rounds {
  std::uint64_t bytes = 0;
  std::uint64_t count = 1;
};

Rounds rounds_of(const Plan& plan, const Shape& shape) {
  Rounds rounds;
  if (shape.tile == kWholeChunk) return rounds;
  const PlanView view = plan.view();
  for (const LaneProgram& lane : plan.lanes)
    for (std::uint32_t s = lane.first; s < lane.first + lane.count; ++s) {
      const Step& step = plan.steps[s];
      if (step.op != StepOp::kRounds) continue;
      const auto k = static_cast<std::uint64_t>(step.by_k ? shape.tiles_per_round : 1);
      for (std::uint32_t e = 0; e < step.extent_count; ++e) {
        const Extent& extent = plan.extents[step.first + e];
        if (extent.kind == ExtentKind::kAlways) continue;
        const Cut& cut = plan.cuts[extent.cut];
        const std::uint64_t chunks = cut.kind == CutKind::kEven ? static_cast<std::uint64_t>(cut.chunks) : 1;
        const std::uint64_t bytes = shape.tile * k * chunks * static_cast<std::uint64_t>(lane.parts);
        if (rounds.bytes != 0 && rounds.bytes != bytes) return {};
        rounds.bytes = bytes;
        const std::uint64_t tiles = tiles_of(length_of(view, lane, shape, extent, 0, 0), shape.tile);
        rounds.count = std::max(rounds.count, (tiles + k - 1) / k);
      }
    }
  return rounds;
}

bool depends(const Plan& plan, const Step& step, int variable) {
  const auto on = [variable](const PeerIndex& peer) { return (variable == 0 ? peer.index.s0 : peer.index.s1) != 0; };
  if (step.op != StepOp::kMove) return step.op <= StepOp::kWaitCredit && on(step.peer);
  for (std::uint32_t s = 0; s < std::uint32_t{step.source_count} + step.destination_count; ++s)
    if (on(plan.spans[step.first + s].peer)) return true;
  return false;
}

/// Repeats of at least `least` passes, all with the same peers.
template <class Visit>
void each_long_repeat(Plan& plan, int least, Visit&& visit) {
  for (const LaneProgram& lane : plan.lanes)
    for (std::uint32_t s = 0; s < lane.count; ++s) {
      Step& step = plan.steps[lane.first + s];
      if (step.op != StepOp::kRepeat || step.count < least) continue;
      bool alike = true;
      for (std::uint32_t body = s + 1; body < step.jump; ++body)
        alike &= !depends(plan, plan.steps[lane.first + body], step.variable);
      if (alike) visit(step);
    }
}

/// Passes of the long repeats, if all have the same number and each actor has some; else 0.
int passes_of(FoldedWorld& world) {
  int passes = 0;
  bool same = true;
  for (Actor& actor : world.actors) {
    bool any = false;
    each_long_repeat(actor.plan, 4 * kFirstPasses, [&](const Step& step) {
      any = true;
      same &= passes == 0 || passes == step.count;
      passes = step.count;
    });
    same &= any;
  }
  return same ? passes : 0;
}

/// What `now` comes to if what it has more than `before` is added so many times.
Replayed go_on(const Replayed& before, const Replayed& now, double times) {
  Replayed whole = now;
  whole.seconds += times * (now.seconds - before.seconds);
  add_scaled(whole.spent, now.spent, before.spent, times);
  for (std::size_t l = 0; l < whole.link_bytes.size(); ++l)
    whole.link_bytes[l] += times * (now.link_bytes[l] - before.link_bytes[l]);
  for (std::size_t s = 0; s < whole.stream_bytes.size(); ++s)
    whole.stream_bytes[s] += times * (now.stream_bytes[s] - before.stream_bytes[s]);
  whole.most_signals += static_cast<int>(std::min(1e9, times * (now.most_signals - before.most_signals)));
  whole.path.clear();
  return whole;
}

Result<Extrapolated> replay_whole(const FoldedWorld& world, const Costs& costs, const Shape& shape, double most) {
  const double work = work_of(world, shape);
  if (work > most)
    return error(Code::kUnsupported,
                 "{} {} with {} classes of ranks and {:.1e} transfers takes longer to simulate than a minute; larger "
                 "tiles (--tile, --slot-bytes), --copies 1, fewer hosts or a size at a time make it less",
                 to_string(world.actors.front().plan.header.collective), world.actors.front().plan.algorithm(),
                 world.actors.size(), work);
  HOCKET_ASSIGN(Replayed run, replay(world, costs, shape));
  return Extrapolated{std::move(run), false, 0};
}

/// Runs twice as much each time, from `part` of `all`, until more of it takes in proportion more; then adds the rest.
/// None where that would be no less than all of it.
template <class Run>
Result<std::optional<Extrapolated>> grow(std::uint64_t part, std::uint64_t all, const Run& run) {
  const auto is_most = [all](std::uint64_t one) { return one * 4 >= all * 3; };
  if (is_most(2 * part)) return std::optional<Extrapolated>();
  HOCKET_ASSIGN(Extrapolated before, run(part));
  std::uint64_t moves = before.run.moves, events = before.run.events;
  double last_slope = 0;
  for (std::uint64_t next = 2 * part; !is_most(next); part = next, next *= 2) {
    HOCKET_ASSIGN(Extrapolated now, run(next));
    moves += now.run.moves;
    events += now.run.events;
    const auto more = static_cast<double>(next - part);
    const double slope = (now.run.seconds - before.run.seconds) / more;
    const double change = std::abs(slope - last_slope) / slope;
    // Around a slow rank a call may stay uneven for long.
    if (last_slope > 0 && (change <= kSteady || 2 * now.run.moves > kMostMoves)) {
      Extrapolated whole{go_on(before.run, now.run, static_cast<double>(all - next) / more), true,
                         std::max({before.doubt, now.doubt, change <= kSteady ? 0 : change})};
      whole.run.moves = moves;
      whole.run.events = events;
      return std::optional<Extrapolated>(std::move(whole));
    }
    last_slope = slope;
    before = std::move(now);
  }
  return std::optional<Extrapolated>();
}

Result<Extrapolated> replay_steps(const FoldedWorld& world, const Costs& costs, const Shape& shape,
                                  const Effort& effort) {
  if (work_of(world, shape) <= effort.most_work) return replay_whole(world, costs, shape, kTooMuch);
  FoldedWorld part = world;
  const auto passes = static_cast<std::uint64_t>(passes_of(part));
  const auto run = [&](std::uint64_t count) {
    for (std::size_t a = 0; a < world.actors.size(); ++a) {
      part.actors[a].plan.steps = world.actors[a].plan.steps;
      each_long_repeat(part.actors[a].plan, 4 * kFirstPasses,
                       [count](Step& step) { step.count = static_cast<std::int32_t>(count); });
    }
    return replay_whole(part, costs, shape, kTooMuch);
  };
  HOCKET_ASSIGN(std::optional<Extrapolated> whole, grow(kFirstPasses, passes, run));
  return whole ? Result<Extrapolated>(std::move(*whole)) : replay_whole(world, costs, shape, kTooMuch);
}

}  // namespace

void add_scaled(Spent& to, const Spent& more, const Spent& less, double factor) {
  const auto each = [factor](auto& t, const auto& m, const auto& l) {
    for (std::size_t w = 0; w < t.size(); ++w) t[w] = std::max(0.0, t[w] + factor * (m[w] - l[w]));
  };
  each(to.latency, more.latency, less.latency);
  each(to.transfer, more.transfer, less.transfer);
  each(to.contention, more.contention, less.contention);
  to.overhead = std::max(0.0, to.overhead + factor * (more.overhead - less.overhead));
  to.hops = static_cast<std::uint32_t>(std::max(0.0, to.hops + factor * (double{1} * more.hops - less.hops)));
}

double work_of(const FoldedWorld& world, const Shape& shape) {
  double moves = 0;
  for (const Actor& actor : world.actors) {
    const Plan& plan = actor.plan;
    for (const LaneProgram& lane : plan.lanes) {
      std::vector<double> times = {1};
      double tiles = 1;
      for (std::uint32_t s = 0; s < lane.count; ++s) {
        const Step& step = plan.steps[lane.first + s];
        const Step* body = &step + 1;
        switch (step.op) {
          case StepOp::kRepeat:
            // Pieces of one transfer are one Move.
            times.push_back(times.back() * (body->op == StepOp::kMove && body[1].op == StepOp::kEnd ? 1 : step.count));
            break;
          case StepOp::kRounds: {
            tiles = 1;
            for (std::uint32_t e = 0; e < step.extent_count && shape.tile != kWholeChunk; ++e) {
              const Extent& extent = plan.extents[step.first + e];
              if (extent.kind == ExtentKind::kAlways) continue;
              tiles = std::max(
                  tiles, static_cast<double>(tiles_of(length_of(plan.view(), lane, shape, extent, 0, 0), shape.tile)));
            }
            times.push_back(times.back() * (step.by_k ? std::max(1.0, tiles / shape.tiles_per_round) : tiles));
            break;
          }
          case StepOp::kTiles:
            times.push_back(times.back() * std::min(tiles, double{1} * shape.tiles_per_round));
            break;
          case StepOp::kEnd:
            if (times.size() > 1) times.pop_back();
            break;
          case StepOp::kMove: moves += times.back(); break;
          default: break;
        }
      }
    }
  }
  return moves;
}

Result<Extrapolated> replay_part(const FoldedWorld& world, const Costs& costs, const Shape& shape,
                                 const Effort& effort) {
  if (effort.full) return replay_whole(world, costs, shape, kTooMuchInFull);
  const Rounds rounds = rounds_of(world.actors.front().plan, shape);
  const auto run = [&](std::uint64_t count) {
    Shape part = shape;
    part.count -= (rounds.count - count) * rounds.bytes;
    return replay_steps(world, costs, part, effort);
  };
  if (rounds.bytes == 0 || rounds.count <= 8) return replay_steps(world, costs, shape, effort);
  HOCKET_ASSIGN(const Extrapolated first, run(2));
  // As many rounds as a pipeline has stages, or slots, before anything is believed. A single lane is none: it ends a
  // round before the next.
  bool pipeline = false;
  for (const Actor& actor : world.actors) pipeline |= actor.plan.lanes.size() > 1;
  const double signals = std::max(1.0, first.run.most_signals / 2.0);
  double part = 2;
  if (pipeline) part = std::max({2.0, std::ceil(2 * shape.slots / signals), std::ceil(first.run.spent.hops / signals)});
  HOCKET_ASSIGN(std::optional<Extrapolated> whole, grow(static_cast<std::uint64_t>(part), rounds.count, run));
  return whole ? Result<Extrapolated>(std::move(*whole)) : replay_steps(world, costs, shape, effort);
}

}  // namespace hocket::sim
