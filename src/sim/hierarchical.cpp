// SPDX-License-Identifier: Apache-2.0
#include "sim/hierarchical.hpp"

#include <bit>
#include <vector>

#include "algorithms/builder.hpp"

namespace hocket::sim {
namespace {

/// Label 0 is the top; labels 1 .. n-1 form a binary tree in in-order (algorithms/tree.cpp).
int parent_of(int label, int n) {
  if (label == 0) return -1;
  const int bit = label & -label;
  const int up = label + bit, down = label - bit;
  if ((up & -up) == 2 * bit && up < n) return up;
  return down;
}

std::vector<int> children_of(int label, int n) {
  std::vector<int> children;
  const auto add = [&](int child) {
    if (child > 0 && child < n && parent_of(child, n) == label) children.push_back(child);
  };
  const int reach = label == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))) : (label & -label) / 2;
  for (int s = reach; s >= 1; s /= 2) {
    if (label != 0) add(label - s);
    add(label + s);
  }
  return children;
}

struct Place {
  int parent = -1;
  std::vector<int> children;
};

/// A host's place in one of two trees: who is an inner node of one is a leaf of the other.
Place place_of(int tree, int host, int hosts) {
  const auto label_of = [&](int h) { return tree == 0 ? h : hosts % 2 == 0 ? hosts - 1 - h : (h + 1) % hosts; };
  const auto host_of = [&](int label) {
    return tree == 0 ? label : hosts % 2 == 0 ? hosts - 1 - label : (label + hosts - 1) % hosts;
  };
  Place place;
  const int parent = parent_of(label_of(host), hosts);
  if (parent >= 0) place.parent = host_of(parent);
  for (const int child : children_of(label_of(host), hosts)) place.children.push_back(host_of(child));
  return place;
}

/// Channel ids of one half.
enum Id { kScatter, kToTree, kUp, kDown, kToGather, kGather, kIds };

class Half {
 public:
  Half(PlanBuilder& b, int half, int per_host, int hosts, int rank, CutId even)
      : b_(b),
        half_(half),
        n_(per_host),
        rank_(rank),
        mine_(rank % per_host),
        first_(rank - mine_),
        place_(place_of(half, rank / per_host, hosts)),
        even_(even),
        chunk_(b.chunk(even, constant(mine_))),
        longest_(b.longest(even)) {}

  void add() {
    b_.lane(half_, 2, [&] { b_.rounds({longest_}, [&] { scatter(); }); });
    if (place_.parent < 0) {
      b_.lane(half_, 2, [&] { b_.rounds({longest_}, [&] { top(); }); });
    } else {
      b_.lane(half_, 2, [&] { b_.rounds({longest_}, [&] { up(); }); });
      b_.lane(half_, 2, [&] { b_.rounds({longest_}, [&] { down(); }); });
    }
    b_.lane(half_, 2, [&] { b_.rounds({longest_}, [&] { gather(); }); });
  }

 private:
  Link near(Id id, int place) const { return link(half_ * kIds + id, first_ + place); }
  Link self(Id id) const { return link(half_ * kIds + id, rank_); }
  Link far(Id id, int host) const { return link(half_ * kIds + id, host * n_ + mine_); }

  void scatter() {
    for (int d = 1; d < n_; ++d) {
      const int to = (mine_ + d) % n_;
      b_.send(near(kScatter, to), b_.chunk(even_, constant(to)), b_.input(even_, constant(to)));
    }
    std::vector<SpanRef> sources;
    for (int p = 0; p < n_; ++p) {
      sources.push_back(p == mine_ ? b_.input(even_, constant(mine_)) : b_.slot_of(near(kScatter, p)));
      if (p != mine_) b_.wait_data(near(kScatter, p), chunk_);
    }
    b_.wait_credit(self(kToTree), chunk_);
    const SpanRef sum = b_.slot_at(self(kToTree));
    b_.move(chunk_, sources, std::span<const SpanRef>(&sum, 1));
    b_.signal_data(self(kToTree), chunk_);
    for (int p = 0; p < n_; ++p)
      if (p != mine_) b_.signal_credit(near(kScatter, p), chunk_);
  }

  std::vector<SpanRef> wait_sums() {
    std::vector<SpanRef> sources{b_.slot_of(self(kToTree))};
    b_.wait_data(self(kToTree), chunk_);
    for (const int child : place_.children) {
      b_.wait_data(far(kUp, child), chunk_);
      sources.push_back(b_.slot_of(far(kUp, child)));
    }
    return sources;
  }
  void credit_sums() {
    b_.signal_credit(self(kToTree), chunk_);
    for (const int child : place_.children) b_.signal_credit(far(kUp, child), chunk_);
  }
  std::vector<SpanRef> wait_children() {
    std::vector<SpanRef> destinations{b_.output(even_, constant(mine_))};
    for (const int child : place_.children) {
      b_.wait_credit(far(kDown, child), chunk_);
      destinations.push_back(b_.slot_at(far(kDown, child)));
    }
    return destinations;
  }
  void hand_on() {
    for (const int child : place_.children) b_.signal_data(far(kDown, child), chunk_);
    b_.wait_credit(self(kToGather), chunk_);
    b_.signal_data(self(kToGather), chunk_);
  }

  void top() {
    const std::vector<SpanRef> sources = wait_sums(), destinations = wait_children();
    b_.move(chunk_, sources, destinations, Finish::kYes);
    credit_sums();
    hand_on();
  }
  void up() {
    const Link parent = far(kUp, place_.parent);
    const std::vector<SpanRef> sources = wait_sums();
    b_.wait_credit(parent, chunk_);
    const SpanRef slot = b_.slot_at(parent);
    b_.move(chunk_, sources, std::span<const SpanRef>(&slot, 1));
    b_.signal_data(parent, chunk_);
    credit_sums();
  }
  void down() {
    const Link parent = far(kDown, place_.parent);
    b_.wait_data(parent, chunk_);
    const std::vector<SpanRef> destinations = wait_children();
    const SpanRef slot = b_.slot_of(parent);
    b_.move(chunk_, std::span<const SpanRef>(&slot, 1), destinations);
    b_.signal_credit(parent, chunk_);
    hand_on();
  }

  void gather() {
    b_.wait_data(self(kToGather), chunk_);
    for (int d = 1; d < n_; ++d) b_.send(near(kGather, (mine_ + d) % n_), chunk_, b_.output(even_, constant(mine_)));
    b_.signal_credit(self(kToGather), chunk_);
    for (int d = 1; d < n_; ++d) {
      const int from = (mine_ + n_ - d) % n_;
      b_.recv(near(kGather, from), b_.chunk(even_, constant(from)), {b_.output(even_, constant(from))});
    }
  }

  PlanBuilder& b_;
  int half_, n_, rank_, mine_, first_;
  Place place_;
  CutId even_;
  Extent chunk_, longest_;
};

}  // namespace

Plan hierarchical_all_reduce_plan(int ranks_per_host, int hosts, int rank) {
  PlanBuilder b(Collective::kAllReduce, "hierarchical", ranks_per_host * hosts, rank);
  const CutId even = b.cut(CutKind::kEven, ranks_per_host);
  for (int half = 0; half < 2; ++half) Half(b, half, ranks_per_host, hosts, rank, even).add();
  return b.finish();
}

PlanFamily hierarchical_all_reduce(int ranks_per_host, int hosts) {
  return {ranks_per_host * hosts, [=](int rank) { return hierarchical_all_reduce_plan(ranks_per_host, hosts, rank); }};
}

}  // namespace hocket::sim
