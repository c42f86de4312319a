// SPDX-License-Identifier: Apache-2.0
// topo/disjoint_rings.cpp: see disjoint_rings.hpp.
#include "topo/disjoint_rings.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace hocket::topo {

namespace {

using Matrix = std::vector<std::vector<int>>;
using Next = std::vector<int>;  // [n]: where each vertex's link leads; a permutation

// The whole numbers below `limit`, alike on every machine (the standard's distributions are not).
class Random {
 public:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(engine_() % limit); }

 private:
  std::mt19937 engine_{12345};
};

// k links out of and into every vertex, at most links[u][v] from u to v: bipartite flow, one augmenting path at a time.
class Regular {
 public:
  Regular(const Matrix& links, int k)
      : n_(static_cast<int>(links.size())), left_(links), used_(links.size(), Next(links.size(), 0)) {
    out_.assign(links.size(), k);
    in_.assign(links.size(), k);
    for (std::size_t u = 0; u < links.size(); ++u) {
      left_[u][u] = 0;
      for (int& links_left : left_[u]) links_left = std::min(links_left, k);
    }
  }

  bool solve(Random* random) {
    std::vector<int> order(static_cast<std::size_t>(n_));
    std::iota(order.begin(), order.end(), 0);
    for (const int u : order) {
      while (out_[static_cast<std::size_t>(u)] > 0) {
        seen_.assign(static_cast<std::size_t>(n_), 0);
        if (!augment(u, random)) return false;
        --out_[static_cast<std::size_t>(u)];
      }
    }
    return true;
  }
  const Matrix& used() const { return used_; }

 private:
  bool augment(int u, Random* random) {
    const auto from = static_cast<std::size_t>(u);
    const std::size_t begin = random->below(static_cast<std::size_t>(n_));
    for (int i = 0; i < n_; ++i) {
      const auto v = (begin + static_cast<std::size_t>(i)) % static_cast<std::size_t>(n_);
      if (left_[from][v] == 0 || seen_[v]) continue;
      seen_[v] = 1;
      if (in_[v] > 0) {
        --in_[v];
        take(from, v);
        return true;
      }
      for (std::size_t w = 0; w < static_cast<std::size_t>(n_); ++w) {
        if (used_[w][v] == 0 || w == from) continue;
        give(w, v);
        if (augment(static_cast<int>(w), random)) {
          take(from, v);
          return true;
        }
        take(w, v);
      }
    }
    return false;
  }
  void take(std::size_t u, std::size_t v) {
    --left_[u][v];
    ++used_[u][v];
  }
  void give(std::size_t u, std::size_t v) {
    ++left_[u][v];
    --used_[u][v];
  }

  int n_;
  Matrix left_;
  Matrix used_;
  Next out_;
  Next in_;
  std::vector<char> seen_;
};

int upper_bound(const Matrix& links) {
  const std::size_t n = links.size();
  int bound = 1 << 20;
  for (std::size_t u = 0; u < n; ++u) {
    int out = 0;
    int in = 0;
    for (std::size_t v = 0; v < n; ++v) {
      if (u == v) continue;
      out += links[u][v];
      in += links[v][u];
    }
    bound = std::min({bound, out, in});
  }
  const auto fits = [&links, n](int k) {
    for (std::size_t u = 0; n > 2 && u < n; ++u) {
      int both = 0;
      for (std::size_t v = 0; v < n; ++v) {
        if (u != v) both += std::min(k, std::min(links[u][v], k) + std::min(links[v][u], k));
      }
      if (both < 2 * k) return false;
    }
    Random random;
    return Regular(links, k).solve(&random);
  };
  while (bound > 0 && !fits(bound)) --bound;
  return bound;
}

int cycles(const Next& next) {
  std::vector<char> seen(next.size(), 0);
  int count = 0;
  for (std::size_t u = 0; u < next.size(); ++u) {
    if (seen[u]) continue;
    ++count;
    for (std::size_t v = u; !seen[v]; v = static_cast<std::size_t>(next[v])) seen[v] = 1;
  }
  return count;
}

std::vector<int> order_of(const Next& next) {
  std::vector<int> order;
  int v = 0;
  do {
    order.push_back(v);
    v = next[static_cast<std::size_t>(v)];
  } while (v != 0);
  return order;
}

// k permutations over disjoint links, improved by exchanges until each is one cycle.
class LocalSearch {
 public:
  LocalSearch(const Matrix& links, int k, std::int64_t* steps)
      : links_(links), n_(links.size()), k_(static_cast<std::size_t>(k)), steps_(steps) {}

  // The most one-cycle permutations that were seen at once.
  std::vector<Next> run() {
    constexpr int kRestarts = 40;
    for (int restart = 0; restart<kRestarts&& * steps_> 0; ++restart) {
      if (!begin()) return best_;
      if (improve()) return best_;
    }
    return best_;
  }

 private:
  bool begin() {
    Regular regular(links_, static_cast<int>(k_));
    if (!regular.solve(&random_)) return false;
    Matrix used = regular.used();
    factors_.clear();
    for (std::size_t i = 0; i < k_; ++i) {
      // A regular bipartite multigraph always has a perfect matching (König), and less it stays regular.
      Regular one(used, 1);
      if (!one.solve(&random_)) return false;
      Next next(n_, 0);
      for (std::size_t u = 0; u < n_; ++u) {
        for (std::size_t v = 0; v < n_; ++v) {
          if (one.used()[u][v] > 0) next[u] = static_cast<int>(v);
        }
        --used[u][static_cast<std::size_t>(next[u])];
      }
      factors_.push_back(std::move(next));
    }
    left_ = links_;
    for (std::size_t u = 0; u < n_; ++u) {
      left_[u][u] = 0;
      for (const Next& next : factors_) --left_[u][static_cast<std::size_t>(next[u])];
    }
    count_.clear();
    for (const Next& next : factors_) count_.push_back(cycles(next));
    remember();
    return true;
  }

  void remember() {
    const auto good = static_cast<std::size_t>(std::count(count_.begin(), count_.end(), 1));
    if (good <= best_.size()) return;
    best_.clear();
    for (std::size_t i = 0; i < k_; ++i) {
      if (count_[i] == 1) best_.push_back(factors_[i]);
    }
  }

  bool improve() {
    const std::int64_t give_up = std::max<std::int64_t>(*steps_ / 20, 20'000);
    const std::int64_t until = std::max<std::int64_t>(*steps_ - give_up, 0);
    while (*steps_ > until) {
      if (best_.size() == k_) return true;
      *steps_ -= static_cast<std::int64_t>(n_);
      const std::size_t a = random_.below(k_);
      if (k_ > 1 && random_.below(4) != 0) {
        std::size_t b = random_.below(k_ - 1);
        if (b >= a) ++b;
        exchange(a, b);
      } else {
        rewire(a);
      }
    }
    return best_.size() == k_;
  }

  // Worse is taken now and then, so that the search gets out of dead ends.
  bool accept(int before, int after) { return after <= before || random_.below(after == before + 1 ? 150 : 750) == 0; }

  // Two permutations trade the links of some vertices that keeps both permutations.
  void exchange(std::size_t a, std::size_t b) {
    Next& one = factors_[a];
    Next& two = factors_[b];
    Next who(n_, 0);  // whose link of `two` leads there
    for (std::size_t u = 0; u < n_; ++u) who[static_cast<std::size_t>(two[u])] = static_cast<int>(u);
    const std::size_t start = random_.below(n_);
    if (one[start] == two[start]) return;
    std::vector<std::size_t> orbit;
    for (std::size_t u = start;;) {
      orbit.push_back(u);
      u = static_cast<std::size_t>(who[static_cast<std::size_t>(one[u])]);
      if (u == start) break;
    }
    if (orbit.size() == n_) return;  // all of them: the two would only change places
    for (const std::size_t u : orbit) std::swap(one[u], two[u]);
    const int first = cycles(one);
    const int second = cycles(two);
    if (accept(count_[a] + count_[b], first + second)) {
      count_[a] = first;
      count_[b] = second;
      remember();
    } else {
      for (const std::size_t u : orbit) std::swap(one[u], two[u]);
    }
  }

  // Two vertices of one permutation trade where they lead, over links that nobody has.
  void rewire(std::size_t a) {
    Next& one = factors_[a];
    const std::size_t u = random_.below(n_);
    const std::size_t v = random_.below(n_);
    if (u == v) return;
    const auto to_u = static_cast<std::size_t>(one[u]);
    const auto to_v = static_cast<std::size_t>(one[v]);
    if (u == to_v || v == to_u || left_[u][to_v] == 0 || left_[v][to_u] == 0) return;
    std::swap(one[u], one[v]);
    const int after = cycles(one);
    if (!accept(count_[a], after)) {
      std::swap(one[u], one[v]);
      return;
    }
    ++left_[u][to_u];
    ++left_[v][to_v];
    --left_[u][to_v];
    --left_[v][to_u];
    count_[a] = after;
    remember();
  }

  const Matrix& links_;
  std::size_t n_;
  std::size_t k_;
  std::int64_t* steps_;
  Random random_;
  std::vector<Next> factors_;
  std::vector<int> count_;
  Matrix left_;
  std::vector<Next> best_;
};

// All sets of k rings, each no earlier in order than the one before, until one is found or the budget is used up.
class Exhaustive {
 public:
  Exhaustive(const Matrix& links, int k, std::int64_t steps) : n_(links.size()), left_(links), k_(k), steps_(steps) {
    for (std::size_t u = 0; u < n_; ++u) left_[u][u] = 0;
  }

  bool run() { return ring(0); }
  bool complete() const { return steps_ > 0; }
  const std::vector<std::vector<int>>& rings() const { return rings_; }

 private:
  bool ring(int done) {
    if (done == k_) return true;
    // What is left must still carry the rings that are missing.
    for (std::size_t u = 0; u < n_; ++u) {
      int out = 0;
      int in = 0;
      for (std::size_t v = 0; v < n_; ++v) {
        out += left_[u][v];
        in += left_[v][u];
      }
      if (out < k_ - done || in < k_ - done) return false;
    }
    rings_.push_back({0});
    std::vector<char> seen(n_, 0);
    seen[0] = 1;
    const bool found = extend(done, &seen, done > 0);
    if (!found) rings_.pop_back();
    return found;
  }

  // `tied`: so far this ring equals the one before it, so it may not take an earlier vertex.
  bool extend(int done, std::vector<char>* seen, bool tied) {
    if (--steps_ <= 0) return false;
    const std::size_t at = rings_.size() - 1;
    const auto u = static_cast<std::size_t>(rings_[at].back());
    const std::size_t length = rings_[at].size();
    if (length == n_) {
      if (left_[u][0] == 0) return false;
      --left_[u][0];
      const bool found = ring(done + 1);
      ++left_[u][0];
      return found;
    }
    const int least = tied ? rings_[at - 1][length] : 1;
    for (std::size_t v = static_cast<std::size_t>(least); v < n_; ++v) {
      if ((*seen)[v] || left_[u][v] == 0) continue;
      (*seen)[v] = 1;
      --left_[u][v];
      rings_[at].push_back(static_cast<int>(v));
      if (extend(done, seen, tied && static_cast<int>(v) == least)) return true;
      rings_[at].pop_back();
      ++left_[u][v];
      (*seen)[v] = 0;
    }
    return false;
  }

  std::size_t n_;
  Matrix left_;
  int k_;
  std::int64_t steps_;
  std::vector<std::vector<int>> rings_;
};

}  // namespace

DisjointRings disjoint_rings(const Matrix& links, std::int64_t steps) {
  DisjointRings result;
  if (links.size() < 2) return result;
  result.bound = upper_bound(links);
  for (int k = result.bound; k > static_cast<int>(result.rings.size()); --k) {
    std::int64_t share = std::max<std::int64_t>(steps / 2, 1);
    std::vector<Next> found = LocalSearch(links, k, &share).run();
    if (found.size() > result.rings.size()) {
      result.rings.clear();
      for (const Next& next : found) result.rings.push_back(order_of(next));
    }
    if (static_cast<int>(result.rings.size()) >= k) break;
    Exhaustive all(links, k, steps / 4);
    if (all.run()) {
      result.rings = all.rings();
    } else if (all.complete()) {
      if (k == result.bound) result.bound = k - 1;  // proven impossible
    }
    steps /= 2;
  }
  std::sort(result.rings.begin(), result.rings.end());
  result.best = static_cast<int>(result.rings.size()) == result.bound;
  return result;
}

}  // namespace hocket::topo
