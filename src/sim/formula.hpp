// SPDX-License-Identifier: Apache-2.0
// sim/formula.hpp: what textbooks say of a collective on a uniform graph: n ranks, each with a link of its own in and
// out, nothing shared. The simulator agrees with them where they are exact; elsewhere it knows more. Pure.
#pragma once

#include <algorithm>
#include <cmath>

namespace hocket::sim {

struct Uniform {
  double alpha_seconds = 0;
  double bytes_per_second = 1;
};

/// Exact for chunks of one tile: n-1 steps to reduce, n-1 to gather (Patarasuk and Yuan, JPDC 2009).
inline double ring_all_reduce_seconds(int ranks, double bytes, const Uniform& link) {
  return 2.0 * (ranks - 1) * (link.alpha_seconds + bytes / ranks / link.bytes_per_second);
}

/// Hops from the deepest leaf of a tree in in-order to its top, label 0: the tree has 1 + floor(log2(n - 1)) levels
/// below it.
inline int tree_depth(int ranks) {
  return ranks < 2 ? 0 : 1 + static_cast<int>(std::floor(std::log2(ranks - 1)));
}

/// Exact as the bytes go to zero: up and down again.
inline double tree_all_reduce_latency(int ranks, const Uniform& link) {
  return 2.0 * tree_depth(ranks) * link.alpha_seconds;
}

/// Exact as the bytes grow: half the buffer up and half up again, twice half down, out of each inner rank of one of two
/// trees (Sanders, Speck and Traff, Parallel Computing 2009), where one has two children: from 4 ranks on.
inline double tree_all_reduce_bandwidth_seconds(double bytes, const Uniform& link) {
  return 2 * bytes / link.bytes_per_second;
}

}  // namespace hocket::sim
