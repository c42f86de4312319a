// SPDX-License-Identifier: Apache-2.0
// scatter.cpp: the root's chunks to their ranks, straight or down a binomial tree.
//
// n ranks, chunks of B bytes: gather.cpp the other way round, with the same hops and bytes. In the tree the largest
// subtree, which has the longest way, is served first. In place at the root: output == input + root * B.
// Source of the tree: Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH,
// IJHPCA 2005. Next stop: exec/executor.hpp runs the plan.
#include <algorithm>
#include <bit>

#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"

namespace hocket {

Plan direct_scatter(const PlanArgs& args) {
  const int n = args.world, r = args.rank, root = args.root;
  if (n == 1) return local_copy(Collective::kScatter, "direct", args);
  PlanBuilder b(Collective::kScatter, "direct", n, r, root);
  const CutId ranks = b.cut(CutKind::kRanks, n), own = b.cut(CutKind::kOwn, 1);
  const Extent mine = b.chunk(ranks, constant(r));
  const SpanRef out = b.output(own, constant(0));
  for (int lane = 0; lane < args.lanes; ++lane)
    b.lane(lane, args.lanes, [&] {
      b.rounds({mine}, [&] {
        if (r != root) {
          b.recv(link(lane, root), mine, {out});
          return;
        }
        const Index to = around(r + 1, 1, n);
        b.repeat(n - 1, [&] { b.send(link(lane, to), b.chunk(ranks, to), b.input(ranks, to)); });
        b.move(mine, {b.input(ranks, constant(r))}, {out});
      });
    });
  return b.finish();
}

Plan binomial_scatter(const PlanArgs& args) {
  const int n = args.world, r = args.rank, root = args.root;
  if (n == 1) return local_copy(Collective::kScatter, "binomial", args);
  PlanBuilder b(Collective::kScatter, "binomial", n, r, root);
  const CutId ranks = b.cut(CutKind::kRanks, n), own = b.cut(CutKind::kOwn, 1);
  const int v = (r - root + n) % n;
  const auto rank_at = [&](int distance) { return (root + distance) % n; };
  // Children are v + 1, v + 2, v + 4, ... below the lowest bit of v.
  const int reach = v == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))) : v & -v;
  b.pieces(binomial_pieces(n));
  b.lane(0, 1, [&] {
    b.rounds({b.chunk(ranks, constant(r))}, [&] {
      const Extent mine = b.chunk(ranks, constant(r));
      const Link parent = link(0, rank_at(v & (v - 1)));
      if (v != 0) b.wait_data(parent, mine);
      for (int child = reach / 2; child >= 1; child /= 2) {
        if (v + child >= n) continue;
        const Link to = link(0, rank_at(v + child));
        const Index chunk = around(root + v + child, 1, n);
        b.wait_credit(to, mine);
        b.repeat(std::min(child, n - v - child), [&] {
          b.move(b.chunk(ranks, chunk), {v == 0 ? b.input(ranks, chunk) : b.slot_of(parent, {.base = child, .s0 = 1})},
                 {b.slot_at(to, {.s0 = 1})});
        });
        b.signal_data(to, mine);
      }
      b.move(mine, {v == 0 ? b.input(ranks, constant(r)) : b.slot_of(parent)}, {b.output(own, constant(0))});
      if (v != 0) b.signal_credit(parent, mine);
    });
  });
  return b.finish();
}

}  // namespace hocket
