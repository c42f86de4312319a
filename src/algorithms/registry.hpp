// SPDX-License-Identifier: Apache-2.0
// registry.hpp: every algorithm hocket has, as one table. What is in here is proven by the property test; nothing else
// runs.
#pragma once

#include <span>
#include <string_view>

#include "algorithms/plan.hpp"
#include "hocket/status.hpp"
#include "hocket/types.hpp"

namespace hocket {

/// What a plan is made from besides the algorithm. Equal on all ranks, but for `rank`.
struct PlanArgs {
  int world = 1;
  Rank rank = 0;
  Rank root = 0;  ///< broadcast, reduce; the other rank for send and receive
  int lanes = 1;  ///< parts of every chunk that progress side by side
};

struct Algorithm {
  Collective collective;
  std::string_view name;  ///< as HOCKET_ALGO spells it
  /// Builds this rank's plan. Pure; any thread.
  Plan (*build)(const PlanArgs&);
  bool rooted;
  bool many_lanes;  ///< honours PlanArgs::lanes; else it has the lanes it has
  bool zero_copy;   ///< names peers' buffers: only for collectively registered memory
  bool boards;      ///< peers read this rank's slots: load/store reach is needed
  int max_world;    ///< 0: any
  /// How often an element is rounded when each Move rounds once (16-bit types).
  int (*roundings)(int world);
  std::string_view source;  ///< the paper
};

std::span<const Algorithm> algorithms();
/// Null if there is no such algorithm for the collective.
const Algorithm* find_algorithm(Collective collective, std::string_view name);

}  // namespace hocket
