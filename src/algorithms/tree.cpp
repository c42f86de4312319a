// SPDX-License-Identifier: Apache-2.0
// tree.cpp: double binary tree all-reduce, broadcast and reduce.
//
// Each of two binary trees carries half of the data. A rank that is an inner node of one is a leaf of the other (but
// for one rank in odd worlds), so everybody sends and receives about as much: all-reduce needs about 2 log2(n) hops and
// sends 2 * B bytes a rank. Labels are those of binary_tree.hpp. With a layout there are as many trees as it has, each
// with an equal part; broadcast and reduce hang them up at their root. Source: Sanders, Speck and Traff, Two-tree
// algorithms for full bandwidth broadcast, reduction and scan, Parallel Computing 2009. Next stop: exec/executor.hpp
// runs the plan.
#include <bit>

#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"
#include "algorithms/layout.hpp"
#include "base/binary_tree.hpp"

namespace hocket {
namespace {

struct Node {
  int parent = -1;
  std::vector<int> children;
};

/// The place of label `mine` in the tree of n labels, in ranks. A label has at most two children, at distances that are
/// powers of two, so this does not look at the others: plans of large worlds are made quickly.
template <class RankOf>
Node place(int mine, int n, const RankOf& rank_of) {
  Node node;
  const int parent = binary_tree_parent(mine, n);
  if (parent >= 0) node.parent = rank_of(parent);
  const auto add = [&](int label) {
    if (label > 0 && label < n && binary_tree_parent(label, n) == mine) node.children.push_back(rank_of(label));
  };
  const int reach = mine == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))) : mine & -mine;
  for (int step = mine & -mine; step >= 1; step /= 2) add(mine - step);
  for (int step = reach; step >= 1; step /= 2) add(mine + step);
  return node;
}

/// My place in a tree of a layout.
Node place(Rank rank, std::span<const Rank> parents) {
  Node node;
  node.parent = parents[static_cast<std::size_t>(rank)];
  for (std::size_t r = 0; r < parents.size(); ++r)
    if (parents[r] == rank) node.children.push_back(static_cast<Rank>(r));
  return node;
}

bool has_trees(const PlanArgs& args) {
  return args.layout != nullptr && !args.layout->trees.empty();
}

int trees_of(const PlanArgs& args) {
  return has_trees(args) ? static_cast<int>(args.layout->trees.size()) : 2;
}

Node all_reduce_place(int tree, const PlanArgs& args) {
  if (has_trees(args)) return place(args.rank, args.layout->trees[static_cast<std::size_t>(tree)]);
  const int n = args.world;
  return place(binary_tree_label(tree, args.rank, n), n, [tree, n](int label) {
    return tree % 2 == 0 ? label : n % 2 == 0 ? n - 1 - label : (label + n - 1) % n;
  });
}

/// Both trees have the root on top; the labels of the others are mirrored.
Node rooted_place(int tree, const PlanArgs& args) {
  const int root = args.root, n = args.world;
  if (has_trees(args)) return place(args.rank, rooted_at(args.layout->trees[static_cast<std::size_t>(tree)], root));
  const auto mirrored = [=](int label) { return tree == 0 || label == 0 ? label : n - label; };
  return place(mirrored((args.rank - root + n) % n), n, [=](int label) { return (mirrored(label) + root) % n; });
}

}  // namespace

Plan tree_all_reduce(const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(Collective::kAllReduce, "tree", args);
  PlanBuilder b(Collective::kAllReduce, "tree", n, r);
  const CutId own = b.cut(CutKind::kOwn, 1);
  const Extent all = b.chunk(own, constant(0));
  const SpanRef in = b.input(own, constant(0)), out = b.output(own, constant(0));
  const int trees = trees_of(args);
  for (int tree = 0; tree < trees; ++tree) {
    const Node node = all_reduce_place(tree, args);
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
      b.lane(tree, trees, [&] {
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
    b.lane(tree, trees, [&] {
      b.rounds({all}, [&] {
        wait_children();
        b.wait_credit(link(up, node.parent), all);
        const SpanRef slot = b.slot_at(link(up, node.parent));
        b.move(all, sources, std::span<const SpanRef>(&slot, 1));
        b.signal_data(link(up, node.parent), all);
        credit_children();
      });
    });
    b.lane(tree, trees, [&] {
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
  const int trees = trees_of(args);
  for (int tree = 0; tree < trees; ++tree) {
    const Node node = rooted_place(tree, args);
    std::vector<SpanRef> destinations{b.output(own, constant(0))};
    for (const int child : node.children) destinations.push_back(b.slot_at(link(tree, child)));
    const SpanRef source = r == root ? b.input(own, constant(0)) : b.slot_of(link(tree, node.parent));
    b.lane(tree, trees, [&] {
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
  const int trees = trees_of(args);
  for (int tree = 0; tree < trees; ++tree) {
    const Node node = rooted_place(tree, args);
    std::vector<SpanRef> sources{b.input(own, constant(0))};
    for (const int child : node.children) sources.push_back(b.slot_of(link(tree, child)));
    const SpanRef destination = r == root ? b.output(own, constant(0)) : b.slot_at(link(tree, node.parent));
    b.lane(tree, trees, [&] {
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
