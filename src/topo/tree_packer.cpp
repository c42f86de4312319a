// SPDX-License-Identifier: Apache-2.0
// topo/tree_packer.cpp: see tree_packer.hpp.
#include "topo/tree_packer.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

namespace hocket::topo {

namespace {

using Edges = std::vector<std::pair<int, int>>;

std::size_t slot(int index) {
  return static_cast<std::size_t>(index);
}

constexpr double kRounding = 1 + 1e-9;
constexpr std::size_t kMostTrees = 16;
/// Growing trees takes n^3 steps; larger machines that have neither a mesh nor a switch are not known.
constexpr std::size_t kMostToGrow = 96;

class Grower {
 public:
  explicit Grower(const Paths& paths) : paths_(paths), n_(paths.gpus().size()), way_(n_ * n_) {
    for (std::size_t a = 0; a < n_; ++a)
      for (std::size_t b = 0; b < n_; ++b)
        if (a != b) way_[a * n_ + b] = paths.between(paths.gpus()[a], paths.gpus()[b]);
  }

  std::vector<Edges> pack(double rate, double bound) {
    left_.clear();
    for (const Link& link : paths_.links()) left_.push_back(link.bytes_per_second * kRounding);
    std::vector<Edges> trees;
    while (trees.size() < kMostTrees && static_cast<double>(trees.size() + 1) * rate <= bound * kRounding) {
      Edges tree;
      if (!grow(rate, &tree)) break;
      trees.push_back(std::move(tree));
    }
    return trees;
  }

  bool may_go_on() const { return steps_ > 0; }

  std::vector<double> rates(double bound) const {
    std::vector<double> rates;
    for (const Path& path : way_)
      for (const int link : path.links) {
        const double rate = paths_.links()[slot(link)].bytes_per_second;
        for (int parts = 1; parts <= 4; ++parts)
          if (std::isfinite(rate) && rate > 0) rates.push_back(rate / parts);
        if (std::isfinite(rate) && rate > 0 && n_ > 2) {
          rates.push_back(rate / static_cast<double>(n_ - 1));
          rates.push_back(rate / static_cast<double>(2 * (n_ - 1)));
        }
      }
    for (int parts = 1; parts <= 8; ++parts) rates.push_back(bound / parts);
    std::erase_if(rates, [bound](double rate) { return rate > bound * kRounding || rate * kMostTrees < bound / 2; });
    std::sort(rates.begin(), rates.end(), std::greater<>());
    rates.erase(std::unique(rates.begin(), rates.end(), [](double a, double b) { return std::abs(a - b) < 1; }),
                rates.end());
    constexpr std::size_t kMostRates = 48;
    if (rates.size() > kMostRates) {
      std::vector<double> some;
      for (std::size_t i = 0; i < kMostRates; ++i) some.push_back(rates[i * rates.size() / kMostRates]);
      rates = std::move(some);
    }
    return rates;
  }

 private:
  const Path& way(std::size_t a, std::size_t b) const { return way_[a * n_ + b]; }

  /// What is left of the fullest link both ways; negative: not enough.
  double room(std::size_t a, std::size_t b, double rate) {
    --steps_;
    if (way(a, b).type >= PathType::kNet || way(b, a).type >= PathType::kNet) return -1;
    double room = std::numeric_limits<double>::max();
    for (const Path* path : {&way(a, b), &way(b, a)})
      for (const int link : path->links) room = std::min(room, left_[slot(link)]);
    return room >= rate ? room : -1;
  }

  bool take(std::size_t a, std::size_t b, double rate) {
    for (const Path* path : {&way(a, b), &way(b, a)})
      for (const int link : path->links) left_[slot(link)] -= rate;
    // The two ways may share a link.
    for (const Path* path : {&way(a, b), &way(b, a)})
      for (const int link : path->links)
        if (left_[slot(link)] < 0) return give(a, b, rate), false;
    return true;
  }
  void give(std::size_t a, std::size_t b, double rate) {
    for (const Path* path : {&way(a, b), &way(b, a)})
      for (const int link : path->links) left_[slot(link)] += rate;
  }

  /// From the GPU with most room, always over the nearest kind of way, of these the emptiest.
  bool grow(double rate, Edges* tree) {
    std::vector<char> in(n_, 0);
    std::size_t start = 0;
    double most = -1;
    for (std::size_t a = 0; a < n_; ++a) {
      double of_a = 0;
      for (std::size_t b = 0; b < n_; ++b)
        if (a != b) of_a = std::max(of_a, room(a, b, 0));
      if (of_a > most) {
        most = of_a;
        start = a;
      }
    }
    in[start] = 1;
    for (std::size_t joined = 1; joined < n_; ++joined) {
      std::size_t from = 0, to = 0;
      PathType nearest = PathType::kDis;
      double best = -1;
      for (std::size_t a = 0; a < n_; ++a) {
        if (!in[a]) continue;
        for (std::size_t b = 0; b < n_; ++b) {
          if (in[b] || way(a, b).type > nearest) continue;
          const double here = room(a, b, rate);
          if (here < 0 || (way(a, b).type == nearest && here <= best)) continue;
          nearest = way(a, b).type;
          best = here;
          from = a;
          to = b;
        }
      }
      if (best < 0 || !take(from, to, rate)) {
        for (const auto& [a, b] : *tree) give(slot(a), slot(b), rate);
        return false;
      }
      in[to] = 1;
      tree->emplace_back(static_cast<int>(from), static_cast<int>(to));
    }
    return true;
  }

  const Paths& paths_;
  std::size_t n_;
  std::vector<Path> way_;
  std::vector<double> left_;
  std::int64_t steps_ = 20'000'000;  // looks at a way; about half a second
};

}  // namespace

std::vector<int> parents_of(const Edges& edges, int n) {
  std::vector<std::vector<int>> beside(slot(n));
  for (const auto& [u, v] : edges) {
    beside[slot(u)].push_back(v);
    beside[slot(v)].push_back(u);
  }
  const auto hang = [&](int root, std::vector<int>* depth) {
    std::vector<int> parent(slot(n), -1);
    depth->assign(slot(n), -1);
    (*depth)[slot(root)] = 0;
    std::deque<int> next{root};
    int last = root;
    while (!next.empty()) {
      last = next.front();
      next.pop_front();
      for (const int to : beside[slot(last)]) {
        if ((*depth)[slot(to)] >= 0) continue;
        (*depth)[slot(to)] = (*depth)[slot(last)] + 1;
        parent[slot(to)] = last;
        next.push_back(to);
      }
    }
    return std::make_pair(parent, last);
  };
  // The middle of a longest way: from anywhere to the farthest, and from there to the farthest.
  std::vector<int> depth;
  const int one_end = hang(0, &depth).second;
  const auto [parent, other_end] = hang(one_end, &depth);
  int middle = other_end;
  for (int up = depth[slot(other_end)] / 2; up > 0; --up) middle = parent[slot(middle)];
  return hang(middle, &depth).first;
}

PackedTrees pack_trees(const Paths& paths, double bound) {
  PackedTrees best;
  if (paths.gpus().size() < 2 || paths.gpus().size() > kMostToGrow || !(bound > 0)) return best;
  Grower grower(paths);
  const auto total = [](const PackedTrees& one) { return one.rate * static_cast<double>(one.trees.size()); };
  for (const double rate : grower.rates(bound)) {
    if (!grower.may_go_on()) break;
    PackedTrees packed{grower.pack(rate, bound), rate};
    // More trees take more lanes, which a few percent are not worth.
    const double worth = packed.trees.size() > best.trees.size() ? 1.03 : kRounding;
    if (total(packed) > total(best) * (best.trees.empty() ? 0 : worth)) best = std::move(packed);
    if (total(best) * kRounding >= bound) break;
  }
  return best;
}

}  // namespace hocket::topo
