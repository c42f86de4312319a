// SPDX-License-Identifier: Apache-2.0
// ring_order.hpp: one rank's place in the ring of one lane, by a layout or by rank. For ring.cpp and chain.cpp.
//
// Plans name chunks by arithmetic on loop variables. In rank order a walk around the ring is one such loop; in another
// order it is cut into runs whose ranks are equally far from each other, a loop each, so that a plan over hosts with
// ranks dealt in turn has a few loops and not a step for each rank.
#pragma once

#include <algorithm>
#include <span>

#include "algorithms/builder.hpp"
#include "algorithms/layout.hpp"
#include "algorithms/registry.hpp"

namespace hocket {

class RingOrder {
 public:
  RingOrder(const PlanArgs& args, int lane) : n_(args.world), position_(args.rank) {
    if (args.layout != nullptr) order_ = args.layout->ring(lane);
    if (!order_.empty()) position_ = position_of(args.rank);
  }

  int position() const { return position_; }
  Rank next() const { return at(position_ + 1); }
  Rank previous() const { return at(position_ - 1); }
  /// How many hops after `root` this rank comes.
  int distance_from(Rank root) const { return (position_ - position_of(root) + n_) % n_; }

  /// Loops over the ranks that are `from`, from + 1, ... places before this one, `count` of them; the body gets each as
  /// an index in the loop's variable.
  template <class Body>
  void walk_back(PlanBuilder& b, int from, int count, const Body& body) const {
    if (order_.empty()) {
      b.repeat(count, [&] { body(around(position_ - from, -1, n_)); });
      return;
    }
    for (int i = 0; i < count;) {
      const Rank first = at(position_ - from - i);
      int run = 1;
      int step = 0;
      for (; i + run < count; ++run) {
        const Rank before = at(position_ - from - i - run + 1), here = at(position_ - from - i - run);
        if (run == 1) step = here - before;
        if (here - before != step) break;
      }
      b.repeat(run, [&] { body(Index{.base = first, .s0 = step}); });
      i += run;
    }
  }

 private:
  Rank at(int position) const {
    const int place = (position % n_ + n_) % n_;
    return order_.empty() ? place : order_[static_cast<std::size_t>(place)];
  }
  int position_of(Rank rank) const {
    if (order_.empty()) return rank;
    return static_cast<int>(std::find(order_.begin(), order_.end(), rank) - order_.begin());
  }

  int n_;
  int position_;
  std::span<const Rank> order_;
};

}  // namespace hocket
