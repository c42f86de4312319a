// SPDX-License-Identifier: Apache-2.0
// gather.cpp: every rank's chunk to the root, straight or up a binomial tree.
//
// n ranks, chunks of B bytes. Direct: one hop, and the root takes n - 1 transfers. Binomial: log2(n) hops and as many
// transfers at the root; a rank at the distance v from the root gives its whole subtree (as many chunks as the lowest
// bit of v) to the rank v - lowbit(v) under one signal, each chunk as a piece of a slot, straight from the slots of its
// children. In place at the root: input == output + root * B.
// Source of the tree: Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH,
// IJHPCA 2005. Next stop: exec/executor.hpp runs the plan.
#include <algorithm>

#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"

namespace hocket {

int binomial_pieces(int world) {
  int most = 1;
  for (int v = 1; v < world; v *= 2) most = std::max(most, std::min(v, world - v));
  return most;
}

Plan direct_gather(const PlanArgs& args) {
  const int n = args.world, r = args.rank, root = args.root;
  if (n == 1) return local_copy(Collective::kGather, "direct", args);
  PlanBuilder b(Collective::kGather, "direct", n, r, root);
  const CutId ranks = b.cut(CutKind::kRanks, n), own = b.cut(CutKind::kOwn, 1);
  const Extent mine = b.chunk(ranks, constant(r));
  const SpanRef in = b.input(own, constant(0));
  for (int lane = 0; lane < args.lanes; ++lane)
    b.lane(lane, args.lanes, [&] {
      b.rounds({mine}, [&] {
        if (r != root) {
          b.send(link(lane, root), mine, in);
          return;
        }
        const Index from = around(r + 1, 1, n);
        b.move(mine, {in}, {b.output(ranks, constant(r))});
        b.repeat(n - 1, [&] { b.recv(link(lane, from), b.chunk(ranks, from), {b.output(ranks, from)}); });
      });
    });
  return b.finish();
}

Plan binomial_gather(const PlanArgs& args) {
  const int n = args.world, r = args.rank, root = args.root;
  if (n == 1) return local_copy(Collective::kGather, "binomial", args);
  PlanBuilder b(Collective::kGather, "binomial", n, r, root);
  const CutId ranks = b.cut(CutKind::kRanks, n), own = b.cut(CutKind::kOwn, 1);
  const int v = (r - root + n) % n;
  const auto rank_at = [&](int distance) { return (root + distance) % n; };
  b.pieces(binomial_pieces(n));
  b.lane(0, 1, [&] {
    b.rounds({b.chunk(ranks, constant(r))}, [&] {
      const Extent mine = b.chunk(ranks, constant(r));
      const SpanRef in = b.input(own, constant(0));
      const Link parent = link(0, rank_at(v & (v - 1)));
      if (v != 0) b.wait_credit(parent, mine);
      b.move(mine, {in}, {v == 0 ? b.output(ranks, constant(r)) : b.slot_at(parent)});
      for (int child = 1; (v & child) == 0 && v + child < n; child *= 2) {
        const Link from = link(0, rank_at(v + child));
        const Index chunk = around(root + v + child, 1, n);
        b.wait_data(from, mine);
        b.repeat(std::min(child, n - v - child), [&] {
          b.move(b.chunk(ranks, chunk), {b.slot_of(from, {.s0 = 1})},
                 {v == 0 ? b.output(ranks, chunk) : b.slot_at(parent, {.base = child, .s0 = 1})});
        });
        b.signal_credit(from, mine);
      }
      if (v != 0) b.signal_data(parent, mine);
    });
  });
  return b.finish();
}

}  // namespace hocket
