// SPDX-License-Identifier: Apache-2.0
// pairwise.cpp: all-to-all, one partner after the other: in phase i, send to r+1+i and receive from r-1-i, tile by
// tile.
//
// n ranks, chunks of B bytes: n-1 phases, (n-1) * B bytes out of each rank, one stream a rank at a time. Counts may
// differ from pair to pair: a rank needs its own row and column only. Source: Thakur, Rabenseifner and Gropp,
// Optimization of collective communication operations in MPICH, IJHPCA 2005. Next stop: exec/executor.hpp runs the
// plan.
#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"

namespace hocket {
namespace {

Plan all_to_all(Collective collective, const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(collective, "pairwise", args);
  PlanBuilder b(collective, "pairwise", n, r);
  const CutId row = b.cut(CutKind::kSendRow, n), column = b.cut(CutKind::kReceiveColumn, n);
  const Index to = around(r + 1, 1, n), from = around(r - 1, -1, n), mine = constant(r);
  for (int lane = 0; lane < args.lanes; ++lane) {
    b.lane(lane, args.lanes, [&] {
      b.rounds({b.chunk(row, mine)},
               [&] { b.move(b.chunk(row, mine), {b.input(row, mine)}, {b.output(column, mine)}); });
      b.repeat(n - 1, [&] {
        b.rounds({b.chunk(row, to), b.chunk(column, from)}, [&] {
          b.send(link(lane, to), b.chunk(row, to), b.input(row, to));
          b.recv(link(lane, from), b.chunk(column, from), {b.output(column, from)});
        });
      });
    });
  }
  return b.finish();
}

}  // namespace

Plan pairwise_all_to_all(const PlanArgs& args) {
  return all_to_all(Collective::kAllToAll, args);
}
Plan pairwise_all_to_all_v(const PlanArgs& args) {
  return all_to_all(Collective::kAllToAllV, args);
}

}  // namespace hocket
