// SPDX-License-Identifier: Apache-2.0
// bruck.cpp: all-to-all in ceil(log2 n) steps: a chunk for the rank j after me travels by the bits of j.
//
// In the step of bit d a rank gives the rank d after it every chunk whose way still has that bit: its own, if d is the
// lowest bit of j, else one that it was given before and kept in scratch. With the highest bit of j the chunk has
// arrived. log2(n) transfers out of each rank instead of n - 1, but about n/2 * log2(n) * B bytes instead of
// (n-1) * B: for chunks of some bytes and many ranks. All counts are equal. n/2 pieces a slot, n entries of scratch.
// Source: Bruck, Ho, Kipnis, Upfal and Weathersby, Efficient algorithms for all-to-all communications in multiport
// message-passing systems, TPDS 1997. Next stop: exec/executor.hpp runs the plan.
#include <bit>

#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"

namespace hocket {

Plan bruck_all_to_all(const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(Collective::kAllToAll, "bruck", args);
  PlanBuilder b(Collective::kAllToAll, "bruck", n, r);
  const CutId row = b.cut(CutKind::kSendRow, n), column = b.cut(CutKind::kReceiveColumn, n);
  const Extent longest = b.longest(row);
  b.pieces(n / 2);
  b.work(n);
  b.lane(0, 1, [&] {
    b.rounds({longest}, [&] {
      b.move(b.chunk(row, constant(r)), {b.input(row, constant(r))}, {b.output(column, constant(r))});
      for (int d = 1; d < n; d *= 2) {
        const Link to = link(0, (r + d) % n), from = link(0, (r + n - d) % n);
        b.wait_credit(to, longest);
        int piece = 0;
        for (int j = d; j < n; ++j) {
          if ((j & d) == 0) continue;
          const Index target = constant((r + j) % n);
          const bool mine = (j & (d - 1)) == 0;
          b.move(b.chunk(row, target), {mine ? b.input(row, target) : b.work_entry(constant(j))},
                 {b.slot_at(to, constant(piece++))});
        }
        b.signal_data(to, longest);
        b.wait_data(from, longest);
        piece = 0;
        for (int j = d; j < n; ++j) {
          if ((j & d) == 0) continue;
          const Index origin = constant((r - j + n) % n);
          const bool arrived = j < 2 * d;
          b.move(b.chunk(column, origin), {b.slot_of(from, constant(piece++))},
                 {arrived ? b.output(column, origin) : b.work_entry(constant(j))});
        }
        b.signal_credit(from, longest);
      }
    });
  });
  return b.finish();
}

}  // namespace hocket
