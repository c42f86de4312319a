// SPDX-License-Identifier: Apache-2.0
// topo/disjoint_trees.hpp: edge-disjoint spanning trees of a mesh of whole links, as many as there can be.
//
// Links are taken in both directions: a reduction goes up a tree while a broadcast comes down. Edmonds 1973 grows k
// forests side by side: an edge that fits none pushes another out of its forest, and so on, until one fits somewhere.
// When no edge can be brought in, the places that the edges tried so far join tell a partition of the GPUs with fewer
// links between its parts than k trees need (Tutte 1961, Nash-Williams 1961): links between parts over parts less one
// is a bound for any set of trees, also of trees that have parts of links. Deterministic, bounded work. Private to
// search.cpp. Any thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace hocket::topo {

struct DisjointTrees {
  std::vector<std::vector<std::pair<int, int>>> trees;  ///< edges, each tree n - 1 of them
  double bound = 0;       ///< links between parts / (parts - 1), of the poorest partition found
  std::vector<int> part;  ///< [n]: that partition
  /// No set has more trees of one link each: there are as many as the bound, rounded down.
  bool best = false;
};

/// links: [n][n], undirected (of both directions the fewer count), diagonal ignored; n >= 2. No trees if the GPUs are
/// not joined. `steps` bounds the work; what is found until then is a result, but not the best.
DisjointTrees disjoint_trees(const std::vector<std::vector<int>>& links, std::int64_t steps = 20'000'000);

}  // namespace hocket::topo
