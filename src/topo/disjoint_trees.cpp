// SPDX-License-Identifier: Apache-2.0
// topo/disjoint_trees.cpp: see disjoint_trees.hpp.
#include "topo/disjoint_trees.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>

namespace hocket::topo {
namespace {

using Matrix = std::vector<std::vector<int>>;
using Edges = std::vector<std::pair<int, int>>;

std::size_t slot(int index) {
  return static_cast<std::size_t>(index);
}

/// Which vertices some edges join.
class Joined {
 public:
  explicit Joined(std::size_t n) : above_(n) { std::iota(above_.begin(), above_.end(), 0); }
  int find(int v) {
    while (above_[slot(v)] != v) v = above_[slot(v)] = above_[slot(above_[slot(v)])];
    return v;
  }
  bool join(int a, int b) {
    a = find(a);
    b = find(b);
    if (a == b) return false;
    above_[slot(std::max(a, b))] = std::min(a, b);
    return true;
  }

 private:
  std::vector<int> above_;
};

/// k forests over the edges of a multigraph, each edge in one at most.
class Forests {
 public:
  Forests(const Matrix& links, std::int64_t* steps) : n_(links.size()), steps_(steps) {
    for (std::size_t u = 0; u < n_; ++u)
      for (std::size_t v = u + 1; v < n_; ++v)
        for (int i = 0; i < std::min(links[u][v], links[v][u]); ++i)
          edges_.emplace_back(static_cast<int>(u), static_cast<int>(v));
    home_.assign(edges_.size(), -1);
  }

  /// One more tree; false if it cannot be had, or if the budget is used up.
  bool add_tree() {
    beside_.emplace_back(n_);
    std::size_t missing = n_ - 1;
    while (missing > 0) {
      bool grew = false;
      // Edges that failed once in this pass cannot succeed before another has: what they reach only grows.
      tried_.assign(edges_.size(), 0);
      for (std::size_t e = 0; e < edges_.size() && missing > 0; ++e) {
        if (home_[e] >= 0 || tried_[e]) continue;
        if (bring_in(static_cast<int>(e))) {
          grew = true;
          --missing;
          tried_.assign(edges_.size(), 0);
        }
        if (*steps_ <= 0) break;
      }
      if (!grew) break;
    }
    if (missing == 0) return true;
    stuck_ = *steps_ > 0;
    return false;
  }

  /// add_tree() failed for good: what the edges of the last searches join are the parts that prove it. Where every edge
  /// has a place, what the last forest joins is worth a look, too.
  bool stuck() const { return stuck_; }
  std::vector<std::vector<int>> parts() const {
    return {parts_by([this](std::size_t e) { return tried_[e] != 0; }),
            parts_by([this](std::size_t e) { return home_[e] + 1 == static_cast<int>(beside_.size()); })};
  }

  /// The forests that are whole trees, before the one that failed.
  std::vector<Edges> trees() const {
    std::vector<Edges> trees;
    for (std::size_t f = 0; f < beside_.size(); ++f) {
      Edges edges;
      for (std::size_t e = 0; e < edges_.size(); ++e)
        if (home_[e] == static_cast<int>(f)) edges.push_back(edges_[e]);
      if (edges.size() + 1 == n_) trees.push_back(std::move(edges));
    }
    return trees;
  }

 private:
  template <class Which>
  std::vector<int> parts_by(const Which& which) const {
    Joined joined(n_);
    for (std::size_t e = 0; e < edges_.size(); ++e)
      if (which(e)) joined.join(edges_[e].first, edges_[e].second);
    std::vector<int> part(n_);
    for (std::size_t v = 0; v < n_; ++v) part[v] = joined.find(static_cast<int>(v));
    return part;
  }

  struct Neighbours {
    explicit Neighbours(std::size_t n) : of(n) {}
    std::vector<std::vector<std::pair<int, int>>> of;  // [n]: vertex, edge
  };

  /// The edges of forest f between u and v, in order; empty if it does not join them.
  std::vector<int> way(std::size_t f, int u, int v) {
    came_.assign(n_, -2);
    came_[slot(u)] = -1;
    std::deque<int> next{u};
    while (!next.empty() && came_[slot(v)] == -2) {
      const int at = next.front();
      next.pop_front();
      for (const auto& [to, edge] : beside_[f].of[slot(at)]) {
        --*steps_;
        if (came_[slot(to)] != -2) continue;
        came_[slot(to)] = edge;
        next.push_back(to);
      }
    }
    std::vector<int> found;
    if (came_[slot(v)] == -2) return found;
    for (int at = v; at != u;) {
      const int edge = came_[slot(at)];
      found.push_back(edge);
      at = edges_[slot(edge)].first == at ? edges_[slot(edge)].second : edges_[slot(edge)].first;
    }
    return found;
  }

  void put(int edge, int forest) {
    const auto [u, v] = edges_[slot(edge)];
    if (home_[slot(edge)] >= 0) {
      for (const int end : {u, v}) {
        auto& list = beside_[slot(home_[slot(edge)])].of[slot(end)];
        std::erase_if(list, [edge](const auto& one) { return one.second == edge; });
      }
    }
    home_[slot(edge)] = forest;
    beside_[slot(forest)].of[slot(u)].emplace_back(v, edge);
    beside_[slot(forest)].of[slot(v)].emplace_back(u, edge);
  }

  /// Breadth first over edges: from one to those that it would push out of a forest, until one fits as it is. The
  /// shortest chain of exchanges keeps all of them forests.
  bool bring_in(int first) {
    *steps_ -= static_cast<std::int64_t>(edges_.size() / 4);  // for the lists below
    std::vector<int> pushed_by(edges_.size(), -1);
    std::vector<char> seen(edges_.size(), 0);
    std::deque<int> next{first};
    seen[slot(first)] = 1;
    while (!next.empty() && *steps_ > 0) {
      const int edge = next.front();
      next.pop_front();
      const auto [u, v] = edges_[slot(edge)];
      for (std::size_t f = 0; f < beside_.size(); ++f) {
        if (home_[slot(edge)] == static_cast<int>(f)) continue;
        const std::vector<int> between = way(f, u, v);
        if (between.empty()) {
          // It fits: each edge of the chain goes where the one that it pushed out was.
          int at = edge, to = static_cast<int>(f);
          while (at >= 0) {
            const int from = home_[slot(at)];
            put(at, to);
            to = from;
            at = pushed_by[slot(at)];
          }
          return true;
        }
        for (const int other : between) {
          if (seen[slot(other)]) continue;
          seen[slot(other)] = 1;
          pushed_by[slot(other)] = edge;
          next.push_back(other);
        }
      }
    }
    for (std::size_t e = 0; e < edges_.size(); ++e)
      if (seen[e]) tried_[e] = 1;
    return false;
  }

  std::size_t n_;
  Edges edges_;
  std::vector<int> home_;  // [edges]: forest, or -1
  std::vector<Neighbours> beside_;
  std::vector<char> tried_;
  std::vector<int> came_;
  std::int64_t* steps_;
  bool stuck_ = false;
};

/// Links between parts over parts less one; infinite for one part.
double ratio_of(const Matrix& links, const std::vector<int>& part) {
  std::vector<int> parts = part;
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  if (parts.size() < 2) return std::numeric_limits<double>::infinity();
  double between = 0;
  for (std::size_t u = 0; u < links.size(); ++u)
    for (std::size_t v = u + 1; v < links.size(); ++v)
      if (part[u] != part[v]) between += std::min(links[u][v], links[v][u]);
  return between / static_cast<double>(parts.size() - 1);
}

}  // namespace

DisjointTrees disjoint_trees(const Matrix& links, std::int64_t steps) {
  DisjointTrees result;
  const std::size_t n = links.size();
  if (n < 2) return result;
  // Every vertex by itself, and one against all others.
  result.part.resize(n);
  std::iota(result.part.begin(), result.part.end(), 0);
  result.bound = ratio_of(links, result.part);
  for (std::size_t v = 0; v < n; ++v) {
    std::vector<int> alone(n, 0);
    alone[v] = 1;
    if (const double ratio = ratio_of(links, alone); ratio < result.bound) {
      result.bound = ratio;
      result.part = std::move(alone);
    }
  }
  // A file may claim anything.
  constexpr std::int64_t kMostLinks = 1 << 16;
  std::int64_t count = 0;
  for (std::size_t u = 0; u < n; ++u)
    for (std::size_t v = u + 1; v < n; ++v) count += std::min(links[u][v], links[v][u]);
  if (count > kMostLinks) return result;
  Forests forests(links, &steps);
  // The one that fails tells a partition, which may be a lower bound than those above.
  while (forests.add_tree()) {
  }
  if (forests.stuck()) {
    for (std::vector<int>& part : forests.parts()) {
      if (const double ratio = ratio_of(links, part); ratio < result.bound) {
        result.bound = ratio;
        result.part = std::move(part);
      }
    }
  }
  result.trees = forests.trees();
  result.best = static_cast<double>(result.trees.size()) == std::floor(result.bound + 1e-9);
  return result;
}

}  // namespace hocket::topo
