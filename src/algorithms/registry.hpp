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

struct Layout;  // layout.hpp

/// What a plan is made from besides the algorithm. Equal on all ranks, but for `rank`.
struct PlanArgs {
  int world = 1;
  Rank rank = 0;
  Rank root = 0;  ///< broadcast, reduce; the other rank for send and receive
  int lanes = 1;  ///< parts of every chunk that progress side by side
  /// In which orders rings, chains and trees go through the ranks; null: by rank. Lives until the plan is built.
  const Layout* layout = nullptr;
};

struct Algorithm {
  Collective collective;
  std::string_view name;  ///< as HOCKET_ALGO spells it
  /// Builds this rank's plan. Pure; any thread.
  Plan (*build)(const PlanArgs&);
  bool rooted = false;
  bool many_lanes = false;  ///< honours PlanArgs::lanes; else it has the lanes it has
  bool zero_copy = false;   ///< names peers' buffers: only for collectively registered memory
  bool boards = false;      ///< peers read this rank's slots: load/store reach is needed
  /// Each element is reduced by one Move in rank order, 0 first, and so rounded once: its bits depend on nothing but
  /// the inputs. Proven by the property test.
  bool ordered = false;
  int max_world = 0;  ///< 0: any
  /// Tiles that a slot holds, as in the plan's header. null: one.
  int (*pieces)(int world) = nullptr;
  /// How often an element is rounded when each Move rounds once (16-bit types).
  int (*roundings)(int world) = nullptr;
  std::string_view source;  ///< what it does, and the paper: differs from those of the collective's others
};

/// Pieces of a slot of an algorithm's plans.
inline int pieces_of(const Algorithm& algorithm, int world) {
  return algorithm.pieces == nullptr || world < 2 ? 1 : algorithm.pieces(world);
}
/// Whether the collective reduces, so that its algorithms may be `ordered`.
constexpr bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce || collective == Collective::kReduceScatterV;
}

std::span<const Algorithm> algorithms();
/// Null if there is no such algorithm for the collective.
const Algorithm* find_algorithm(Collective collective, std::string_view name);

}  // namespace hocket
