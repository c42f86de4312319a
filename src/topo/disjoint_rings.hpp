// SPDX-License-Identifier: Apache-2.0
// topo/disjoint_rings.hpp: edge-disjoint directed rings through all vertices of a multigraph.
//
// The question behind NVLink and xGMI meshes: links[u][v] parallel links lead from u to v, a ring takes one of them at
// each step, how many rings fit? A bound comes first: k rings need k links out of and into each vertex, at most k in
// both directions together between two vertices (a ring through three or more never goes back the way it came), and a
// choice of k such links everywhere at once. Then a local search over k sets of links that each enter and leave every
// vertex once (Kempe exchanges, as for edge colourings), and where that finds none, trying all, within a budget.
// Tillson 1980: complete graphs have them all, but for 4 and 6 vertices.
//
// Deterministic: the same in every run and on every machine. Any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace hocket::topo {

struct DisjointRings {
  std::vector<std::vector<int>> rings;  ///< orders of vertices, each beginning with 0
  int bound = 0;                        ///< no solution has more
  /// More than rings.size() are impossible: the bound is met, or all ways were tried.
  bool best = false;
};

/// links: [n][n], not negative, diagonal ignored; n >= 2. `steps` bounds the work; 1 million take about 100 ms.
DisjointRings disjoint_rings(const std::vector<std::vector<int>>& links, std::int64_t steps = 2'000'000);

}  // namespace hocket::topo
