// SPDX-License-Identifier: Apache-2.0
// topo/tree_packer.hpp: spanning trees over GPUs whose hops share links (PCI, sockets).
//
// Trees are grown from the least loaded GPU to the nearest ones, for one rate after the other. Links are taken in both
// directions: a reduction goes up a tree while a broadcast comes down. Where links are not shared: disjoint_trees.hpp.
// Deterministic, bounded work. Private to search.cpp. Any thread.
#pragma once

#include <utility>
#include <vector>

#include "topo/paths.hpp"

namespace hocket::topo {

/// Parents of a tree hung up where it is least deep; `edges` join 0 .. n-1.
std::vector<int> parents_of(const std::vector<std::pair<int, int>>& edges, int n);

struct PackedTrees {
  std::vector<std::vector<std::pair<int, int>>> trees;  ///< edges, as indices of Paths::gpus()
  double rate = 0;                                      ///< of each
};
/// Trees over all GPUs whose hops share links; `bound` ends the search early.
PackedTrees pack_trees(const Paths& paths, double bound);

}  // namespace hocket::topo
