// SPDX-License-Identifier: Apache-2.0
// sim/extrapolate.hpp: replays as much of a long call as tells what the whole takes.
//
// A call of many rounds of tiles is run for a few, then for twice as many, until a round more takes the same time
// again, and the rest is added: a pipeline in its steady state. Where even one round is more work than a minute allows
// (a ring over thousands of ranks has as many steps), the same is done with the passes of its long repeats: a pass is a
// step of a ring, and each is like the one before. What never gets steady (around a slow rank) is run as far as a
// minute allows; `doubt` says how uneven it still was. The path is not kept. Pure. Errors: those of replay();
// kUnsupported, before anything is run, for what would take more than some minutes and is neither. Next stop:
// sim/replay.hpp.
#pragma once

#include "sim/replay.hpp"

namespace hocket::sim {

/// Moves: some 3 us each.
inline constexpr double kMostWork = 2e6;

struct Effort {
  bool full = false;  ///< nothing is extrapolated
  double most_work = kMostWork;
};

struct Extrapolated {
  Replayed run;
  bool extrapolated = false;
  double doubt = 0;  ///< by how much the last two estimates of the steady state differ, where it never came quite
};

Result<Extrapolated> replay_part(const FoldedWorld& world, const Costs& costs, const Shape& shape,
                                 const Effort& effort);

/// Moves of all actors, at most.
double work_of(const FoldedWorld& world, const Shape& shape);

/// to += factor * (more - less), and nothing below zero.
void add_scaled(Spent& to, const Spent& more, const Spent& less, double factor);

}  // namespace hocket::sim
