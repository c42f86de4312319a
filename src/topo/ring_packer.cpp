// SPDX-License-Identifier: Apache-2.0
// topo/ring_packer.cpp: see ring_packer.hpp.
#include "topo/ring_packer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>

namespace hocket::topo {

namespace {

constexpr std::int64_t kStepsPerRing = 20'000;
constexpr int kMostRings = 64;
constexpr double kRounding = 1 + 1e-9;

class Packer {
 public:
  explicit Packer(const Paths& paths) : paths_(paths), n_(paths.gpus().size()) {
    way_.resize(n_ * n_);
    near_.resize(n_);
    for (std::size_t a = 0; a < n_; ++a) {
      for (std::size_t b = 0; b < n_; ++b) {
        if (a != b) way_[a * n_ + b] = paths.between(paths.gpus()[a], paths.gpus()[b]);
      }
      for (std::size_t b = 0; b < n_; ++b) {
        if (a != b && way_[a * n_ + b].type < PathType::kNet) near_[a].push_back(b);
      }
      std::stable_sort(near_[a].begin(), near_[a].end(), [this, a](std::size_t x, std::size_t y) {
        const Path& to_x = way_[a * n_ + x];
        const Path& to_y = way_[a * n_ + y];
        if (to_x.type != to_y.type) return to_x.type < to_y.type;
        return to_x.bytes_per_second > to_y.bytes_per_second;
      });
    }
  }

  const Path& way(std::size_t a, std::size_t b) const { return way_[a * n_ + b]; }

  // From each GPU to the nearest one that is left, whether links carry it or not.
  std::vector<std::size_t> nearest_order() const {
    std::vector<std::size_t> order{0};
    std::vector<char> seen(n_, 0);
    seen[0] = 1;
    while (order.size() < n_) {
      std::size_t next = 0;
      for (const std::size_t near : near_[order.back()]) {
        if (!seen[near]) {
          next = near;
          break;
        }
      }
      for (std::size_t i = 0; next == 0 && i < n_; ++i) {
        if (!seen[i]) next = i;
      }
      seen[next] = 1;
      order.push_back(next);
    }
    return order;
  }

  std::vector<double> rates() const {
    std::vector<double> rates;
    for (const Path& path : way_) {
      for (const int link : path.links) {
        const double rate = paths_.links()[static_cast<std::size_t>(link)].bytes_per_second;
        if (!std::isfinite(rate) || rate <= 0) continue;
        for (int parts = 1; parts <= 4; ++parts) rates.push_back(rate / parts);
      }
    }
    std::sort(rates.begin(), rates.end(), std::greater<>());
    rates.erase(std::unique(rates.begin(), rates.end(), [](double a, double b) { return std::abs(a - b) < 1; }),
                rates.end());
    return rates;
  }

  std::vector<std::vector<std::size_t>> pack(double rate, double bound) {
    rate_ = rate;
    left_.clear();
    for (const Link& link : paths_.links()) left_.push_back(link.bytes_per_second * kRounding);
    std::vector<std::vector<std::size_t>> rings;
    while (rings.size() < kMostRings && static_cast<double>(rings.size() + 1) * rate <= bound * kRounding) {
      if (!rings.empty()) {
        std::vector<std::size_t> again = rings.back();
        if (take_ring(again)) {
          rings.push_back(std::move(again));
          continue;
        }
        std::reverse(again.begin() + 1, again.end());
        if (take_ring(again)) {
          rings.push_back(std::move(again));
          continue;
        }
      }
      steps_ = kStepsPerRing;
      order_ = {0};
      seen_.assign(n_, 0);
      seen_[0] = 1;
      if (!extend()) break;
      rings.push_back(order_);
    }
    return rings;
  }

 private:
  // A path may use a link twice (never, on sane machines); then both uses count.
  bool take(const Path& path) {
    for (std::size_t i = 0; i < path.links.size(); ++i) {
      double& left = left_[static_cast<std::size_t>(path.links[i])];
      if (left < rate_) {
        while (i-- > 0) left_[static_cast<std::size_t>(path.links[i])] += rate_;
        return false;
      }
      left -= rate_;
    }
    return true;
  }
  void give(const Path& path) {
    for (const int link : path.links) left_[static_cast<std::size_t>(link)] += rate_;
  }
  bool take_ring(const std::vector<std::size_t>& order) {
    for (std::size_t i = 0; i < n_; ++i) {
      if (take(way(order[i], order[(i + 1) % n_]))) continue;
      while (i-- > 0) give(way(order[i], order[(i + 1) % n_]));
      return false;
    }
    return true;
  }

  bool extend() {
    if (--steps_ <= 0) return false;
    const std::size_t at = order_.back();
    if (order_.size() == n_) return way(at, 0).type < PathType::kNet && take(way(at, 0));
    for (const std::size_t next : near_[at]) {
      if (seen_[next] || !take(way(at, next))) continue;
      seen_[next] = 1;
      order_.push_back(next);
      if (extend()) return true;
      order_.pop_back();
      seen_[next] = 0;
      give(way(at, next));
    }
    return false;
  }

  const Paths& paths_;
  std::size_t n_;
  std::vector<Path> way_;                       // [n * n]
  std::vector<std::vector<std::size_t>> near_;  // [n]: the others, nearest first
  double rate_ = 0;
  std::vector<double> left_;
  std::vector<std::size_t> order_;
  std::vector<char> seen_;
  std::int64_t steps_ = 0;
};

// Rings of one rate whose orders are changed until no link carries too much: what the greedy packer can't see is that a
// ring should leave a group of GPUs by another door than the ring before.
class Mender {
 public:
  Mender(const Paths& paths, const Packer& packer, double rate, std::vector<std::vector<std::size_t>> rings)
      : packer_(packer), n_(paths.gpus().size()), rings_(std::move(rings)) {
    for (const Link& link : paths.links()) {
      // Whole rings that fit.
      const double fit = link.bytes_per_second * kRounding / rate;
      room_.push_back(fit > 1e6 ? 1'000'000 : static_cast<int>(fit));
    }
    used_.assign(room_.size(), 0);
    for (const auto& ring : rings_) {
      for (std::size_t i = 0; i < n_; ++i) add(ring[i], ring[(i + 1) % n_], 1);
    }
  }

  bool run(std::int64_t steps) {
    for (; steps > 0 && over_ > 0; --steps) {
      std::vector<std::size_t>& ring = rings_[below(rings_.size())];
      // A piece of the ring is turned round or moved elsewhere: positions 1 .. n-1, so that it still begins with 0.
      std::size_t a = 1 + below(n_ - 1);
      std::size_t b = 1 + below(n_ - 1);
      if (a == b) continue;
      if (a > b) std::swap(a, b);
      const std::vector<std::size_t> before = ring;
      const int over = over_;
      for (std::size_t i = 0; i < n_; ++i) add(ring[i], ring[(i + 1) % n_], -1);
      switch (below(3)) {
        case 0: std::reverse(ring.begin() + at(a), ring.begin() + at(b) + 1); break;
        case 1: std::rotate(ring.begin() + at(a), ring.begin() + at(a) + 1, ring.begin() + at(b) + 1); break;
        default: std::swap(ring[a], ring[b]);
      }
      for (std::size_t i = 0; i < n_; ++i) add(ring[i], ring[(i + 1) % n_], 1);
      if (over_ <= over || below(over_ == over + 1 ? 20 : 200) == 0) continue;
      for (std::size_t i = 0; i < n_; ++i) add(ring[i], ring[(i + 1) % n_], -1);
      ring = before;
      for (std::size_t i = 0; i < n_; ++i) add(ring[i], ring[(i + 1) % n_], 1);
    }
    return over_ == 0;
  }

  const std::vector<std::vector<std::size_t>>& rings() const { return rings_; }

 private:
  static std::ptrdiff_t at(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(engine_() % limit); }

  void add(std::size_t from, std::size_t to, int times) {
    const Path& path = packer_.way(from, to);
    if (path.type >= PathType::kNet) over_ += times * 1000;
    for (const int link : path.links) {
      const auto i = static_cast<std::size_t>(link);
      over_ -= std::max(used_[i] - room_[i], 0);
      used_[i] += times;
      over_ += std::max(used_[i] - room_[i], 0);
    }
  }

  const Packer& packer_;
  std::size_t n_;
  std::vector<std::vector<std::size_t>> rings_;
  std::vector<int> room_;  // [links]
  std::vector<int> used_;  // [links]
  int over_ = 0;
  std::mt19937 engine_{12345};
};

struct Packing {
  std::vector<std::vector<std::size_t>> rings;
  double rate = 0;
  double total() const { return rate * static_cast<double>(rings.size()); }
};

// Numbers of rings and rates that would carry clearly more than `best` (more rings in other orders go more often to far
// GPUs, which a few percent are not worth), those that carry most first.
Packing mend(const Paths& paths, Packer* packer, double bound, Packing best) {
  constexpr std::size_t kMostAttempts = 12;
  constexpr std::size_t kMostRingsMended = 12;
  struct Attempt {
    double rate;
    std::size_t rings;
  };
  std::vector<Attempt> attempts;
  for (const double rate : packer->rates()) {
    for (std::size_t rings = 1; rings <= kMostRingsMended; ++rings) {
      const double total = rate * static_cast<double>(rings);
      if (total <= bound * kRounding && total > best.total() * 1.05) attempts.push_back({rate, rings});
    }
  }
  std::stable_sort(attempts.begin(), attempts.end(), [](const Attempt& a, const Attempt& b) {
    const double first = a.rate * static_cast<double>(a.rings);
    const double second = b.rate * static_cast<double>(b.rings);
    return std::abs(first - second) > 1 ? first > second : a.rings < b.rings;
  });
  // Evenly over all of them: the very best may be out of reach.
  const std::size_t stride = std::max<std::size_t>(attempts.size() / kMostAttempts, 1);
  for (std::size_t i = 0; i < attempts.size(); i += stride) {
    const Attempt& attempt = attempts[i];
    std::vector<std::vector<std::size_t>> start = packer->pack(attempt.rate, bound);
    std::vector<std::size_t> any = best.rings.empty() ? packer->nearest_order() : best.rings[0];
    if (start.size() > attempt.rings) start.resize(attempt.rings);
    while (start.size() < attempt.rings) {
      start.push_back(any);
      std::reverse(any.begin() + 1, any.end());
    }
    // Few GPUs have few orders, which are soon all tried.
    const auto gpus = static_cast<std::int64_t>(any.size());
    const std::int64_t steps = std::min({std::int64_t{20'000}, 2'000'000 / gpus, 400 * gpus * gpus});
    Mender mender(paths, *packer, attempt.rate, std::move(start));
    if (mender.run(steps)) return {mender.rings(), attempt.rate};
  }
  return best;
}

}  // namespace

std::vector<Ring> pack_rings(const Paths& paths, double bound) {
  Packer packer(paths);
  Packing best;
  for (const double rate : packer.rates()) {
    if (rate > bound * kRounding) continue;
    const Packing packing{packer.pack(rate, bound), rate};
    if (packing.total() > best.total() * kRounding) best = packing;
    if (packing.total() * kRounding >= bound) break;
  }
  constexpr std::size_t kMostToMend = 128;
  if (best.total() * kRounding < bound && paths.gpus().size() > 2 && paths.gpus().size() <= kMostToMend)
    best = mend(paths, &packer, bound, std::move(best));
  std::vector<Ring> out;
  for (const std::vector<std::size_t>& order : best.rings) {
    Ring ring;
    ring.bytes_per_second = best.rate;
    for (const std::size_t i : order) ring.gpus.push_back(paths.gpus()[i]);
    out.push_back(std::move(ring));
  }
  return out;
}

}  // namespace hocket::topo
