// SPDX-License-Identifier: Apache-2.0
// tree.cpp: double binary tree all-reduce, broadcast and reduce.
//
// Each of two binary trees carries half of the data. A rank that is an inner node of one is a leaf of the other (but
// for one rank in odd worlds), so everybody sends and receives about as much: all-reduce needs about 2 log2(n) hops and
// sends 2 * B bytes a rank. Labels are in in-order: odd labels are leaves; a label with lowest set bit b hangs below
// one with bit 2b. The second tree is the first one with labels mirrored (even worlds) or shifted by one (odd worlds).
// Source: Sanders, Speck and Traff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel
// Computing 2009. Next stop: exec/executor.hpp runs the plan.
#include <functional>

#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"

namespace hocket {
namespace {

/// Label 0 is the top with one child; labels 1 .. n-1 form a binary tree in in-order.
int parent_of(int label, int n) {
  if (label == 0) return -1;
  const int bit = label & -label;
  const int up = label + bit, down = label - bit;
  // Exactly one of the two has lowest set bit 2 * bit; the right one may not exist in this world.
  if (((up & -up) == 2 * bit) && up < n) return up;
  return (down & -down) == 2 * bit || down == 0 || up >= n ? down : up;
}

struct Node {
  int parent = -1;
  std::vector<int> children;
};

/// My place in the tree of n labels, in ranks.
Node place(int rank, int n, const std::function<int(int)>& label_of) {
  std::vector<int> rank_of(static_cast<std::size_t>(n));
  for (int r = 0; r < n; ++r) rank_of[static_cast<std::size_t>(label_of(r))] = r;
  const int mine = label_of(rank);
  Node node;
  const int parent = parent_of(mine, n);
  if (parent >= 0) node.parent = rank_of[static_cast<std::size_t>(parent)];
  for (int label = 1; label < n; ++label)
    if (parent_of(label, n) == mine) node.children.push_back(rank_of[static_cast<std::size_t>(label)]);
  return node;
}

Node all_reduce_place(int tree, int rank, int n) {
  return place(rank, n, [tree, n](int r) { return tree == 0 ? r : n % 2 == 0 ? n - 1 - r : (r + 1) % n; });
}

/// Both trees have the root on top; the labels of the others are mirrored.
Node rooted_place(int tree, int rank, int root, int n) {
  return place(rank, n, [=](int r) {
    const int label = (r - root + n) % n;
    return tree == 0 || label == 0 ? label : n - label;
  });
}

}  // namespace

Plan tree_all_reduce(const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(Collective::kAllReduce, "tree", args);
  PlanBuilder b(Collective::kAllReduce, "tree", n, r);
  const CutId own = b.cut(CutKind::kOwn, 1);
  const Extent all = b.chunk(own, constant(0));
  const SpanRef in = b.input(own, constant(0)), out = b.output(own, constant(0));
  for (int tree = 0; tree < 2; ++tree) {
    const Node node = all_reduce_place(tree, r, n);
    const int up = 2 * tree, down = 2 * tree + 1;
    std::vector<SpanRef> sources{in}, destinations{out};
    for (const int child : node.children) sources.push_back(b.slot_of(link(up, child)));
    for (const int child : node.children) destinations.push_back(b.slot_at(link(down, child)));
    const auto wait_children = [&] {
      for (const int child : node.children) b.wait_data(link(up, child), all);
    };
    const auto credit_children = [&] {
      for (const int child : node.children) b.signal_credit(link(up, child), all);
    };
    const auto await_children = [&] {
      for (const int child : node.children) b.wait_credit(link(down, child), all);
    };
    const auto signal_children = [&] {
      for (const int child : node.children) b.signal_data(link(down, child), all);
    };
    if (node.parent < 0) {
      b.lane(tree, 2, [&] {
        b.rounds({all}, [&] {
          wait_children();
          await_children();
          b.move(all, sources, destinations, Finish::kYes);
          signal_children();
          credit_children();
        });
      });
      continue;
    }
    b.lane(tree, 2, [&] {
      b.rounds({all}, [&] {
        wait_children();
        b.wait_credit(link(up, node.parent), all);
        const SpanRef slot = b.slot_at(link(up, node.parent));
        b.move(all, sources, std::span<const SpanRef>(&slot, 1));
        b.signal_data(link(up, node.parent), all);
        credit_children();
      });
    });
    b.lane(tree, 2, [&] {
      b.rounds({all}, [&] {
        b.wait_data(link(down, node.parent), all);
        await_children();
        const SpanRef slot = b.slot_of(link(down, node.parent));
        b.move(all, std::span<const SpanRef>(&slot, 1), destinations);
        signal_children();
        b.signal_credit(link(down, node.parent), all);
      });
    });
  }
  return b.finish();
}

Plan tree_broadcast(const PlanArgs& args) {
  const int n = args.world, r = args.rank, root = args.root;
  if (n == 1) return local_copy(Collective::kBroadcast, "tree", args);
  PlanBuilder b(Collective::kBroadcast, "tree", n, r, root);
  const CutId own = b.cut(CutKind::kOwn, 1);
  const Extent all = b.chunk(own, constant(0));
  for (int tree = 0; tree < 2; ++tree) {
    const Node node = rooted_place(tree, r, root, n);
    std::vector<SpanRef> destinations{b.output(own, constant(0))};
    for (const int child : node.children) destinations.push_back(b.slot_at(link(tree, child)));
    const SpanRef source = r == root ? b.input(own, constant(0)) : b.slot_of(link(tree, node.parent));
    b.lane(tree, 2, [&] {
      b.rounds({all}, [&] {
        if (r != root) b.wait_data(link(tree, node.parent), all);
        for (const int child : node.children) b.wait_credit(link(tree, child), all);
        b.move(all, std::span<const SpanRef>(&source, 1), destinations);
        for (const int child : node.children) b.signal_data(link(tree, child), all);
        if (r != root) b.signal_credit(link(tree, node.parent), all);
      });
    });
  }
  return b.finish();
}

Plan tree_reduce(const PlanArgs& args) {
  const int n = args.world, r = args.rank, root = args.root;
  if (n == 1) return local_copy(Collective::kReduce, "tree", args);
  PlanBuilder b(Collective::kReduce, "tree", n, r, root);
  const CutId own = b.cut(CutKind::kOwn, 1);
  const Extent all = b.chunk(own, constant(0));
  for (int tree = 0; tree < 2; ++tree) {
    const Node node = rooted_place(tree, r, root, n);
    std::vector<SpanRef> sources{b.input(own, constant(0))};
    for (const int child : node.children) sources.push_back(b.slot_of(link(tree, child)));
    const SpanRef destination = r == root ? b.output(own, constant(0)) : b.slot_at(link(tree, node.parent));
    b.lane(tree, 2, [&] {
      b.rounds({all}, [&] {
        for (const int child : node.children) b.wait_data(link(tree, child), all);
        if (r != root) b.wait_credit(link(tree, node.parent), all);
        b.move(all, sources, std::span<const SpanRef>(&destination, 1), r == root ? Finish::kYes : Finish::kNo);
        if (r != root) b.signal_data(link(tree, node.parent), all);
        for (const int child : node.children) b.signal_credit(link(tree, child), all);
      });
    });
  }
  return b.finish();
}

}  // namespace hocket
