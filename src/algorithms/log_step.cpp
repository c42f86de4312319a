// SPDX-License-Identifier: Apache-2.0
// log_step.cpp: all-gather and reduce-scatter in ceil(log2 n) steps, for any n.
//
// All-gather: at distance d = ..., 4, 2, 1 a rank gives all that it has to the rank d after it. Far first: then the far
// steps carry one chunk, two, ..., and only the last, to the neighbour, half of all, so that with many ranks a host
// little crosses between hosts. Rank r has the chunks r - 2dj (j = 0, 1, ...) before the step at distance d, and gives
// those that the other has not (2dj + d < n): (n-1) * B bytes out of each rank, as few as in a ring.
// Reduce-scatter is its mirror: at distance d = 1, 2, 4, ... a rank gives the sums so far of chunks r - (2j+1)d to the
// rank d before it. Sums rest in scratch, one entry for each even distance.
// Chunks of a step travel under one signal as pieces of a slot, n/2 at most. Counts may differ from rank to rank.
// Source: Bruck, Ho, Kipnis, Upfal and Weathersby, Efficient algorithms for all-to-all communications, TPDS 1997, with
// the steps in reverse, so that no final rotation is needed. Next stop: exec/executor.hpp runs the plan.
#include <bit>

#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"

namespace hocket {
namespace {

constexpr Index kPiece{.s0 = 1};

int farthest(int n) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(n)) / 2);
}
/// Numbers j with 2dj + d < n: the chunks of a step.
int chunks_of_step(int d, int n) {
  return (n - d + 2 * d - 1) / (2 * d);
}

}  // namespace

Plan log_step_all_gather(const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(Collective::kAllGather, "log_step", args);
  PlanBuilder b(Collective::kAllGather, "log_step", n, r);
  const CutId ranks = b.cut(CutKind::kRanks, n), own = b.cut(CutKind::kOwn, 1);
  const Extent longest = b.longest(ranks);
  b.pieces(n / 2);
  b.lane(0, 1, [&] {
    b.rounds({longest}, [&] {
      for (int d = farthest(n); d >= 1; d /= 2) {
        const Link to = link(0, (r + d) % n), from = link(0, (r + n - d) % n);
        const Index mine = around(r, -2 * d, n), theirs = around(r - d, -2 * d, n);
        b.wait_credit(to, longest);
        if (d == farthest(n)) {
          b.move(b.chunk(ranks, constant(r)), {b.input(own, constant(0))},
                 {b.output(ranks, constant(r)), b.slot_at(to)});
        } else {
          b.repeat(chunks_of_step(d, n),
                   [&] { b.move(b.chunk(ranks, mine), {b.output(ranks, mine)}, {b.slot_at(to, kPiece)}); });
        }
        b.signal_data(to, longest);
        b.wait_data(from, longest);
        b.repeat(chunks_of_step(d, n),
                 [&] { b.move(b.chunk(ranks, theirs), {b.slot_of(from, kPiece)}, {b.output(ranks, theirs)}); });
        b.signal_credit(from, longest);
      }
    });
  });
  return b.finish();
}

Plan log_step_reduce_scatter(const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(Collective::kReduceScatter, "log_step", args);
  PlanBuilder b(Collective::kReduceScatter, "log_step", n, r);
  const CutId ranks = b.cut(CutKind::kRanks, n), own = b.cut(CutKind::kOwn, 1);
  const Extent longest = b.longest(ranks);
  const int last = farthest(n);
  b.pieces(n / 2);
  b.work(n / 2);
  b.lane(0, 1, [&] {
    b.rounds({longest}, [&] {
      for (int d = 1; d <= last; d *= 2) {
        const Link to = link(0, (r + n - d) % n), from = link(0, (r + d) % n);
        const int chunks = chunks_of_step(d, n);
        // The chunk at distance m rests in entry m / 2. The one at n - 1 gets nothing from anybody.
        const bool untouched = (n - 1) % (2 * d) == d;
        const Index out = around(r - d, -2 * d, n), in = around(r, -2 * d, n);
        const Index out_entry{.base = d / 2, .s0 = d}, in_entry{.s0 = d};
        b.wait_credit(to, longest);
        if (d == 1) {
          b.repeat(chunks, [&] { b.move(b.chunk(ranks, out), {b.input(ranks, out)}, {b.slot_at(to, kPiece)}); });
        } else {
          b.repeat(chunks - (untouched ? 1 : 0),
                   [&] { b.move(b.chunk(ranks, out), {b.work_entry(out_entry)}, {b.slot_at(to, kPiece)}); });
          const Index end = around(r + 1, 0, n);
          if (untouched) b.move(b.chunk(ranks, end), {b.input(ranks, end)}, {b.slot_at(to, constant(chunks - 1))});
        }
        b.signal_data(to, longest);
        b.wait_data(from, longest);
        const auto so_far = [&](Index entry) { return d == 1 ? b.input(ranks, in) : b.work_entry(entry); };
        if (d == last) {
          b.move(b.chunk(ranks, constant(r)),
                 {d == 1 ? b.input(ranks, constant(r)) : b.work_entry(constant(0)), b.slot_of(from)},
                 {b.output(own, constant(0))}, Finish::kYes);
        } else {
          b.repeat(chunks, [&] {
            b.move(b.chunk(ranks, in), {so_far(in_entry), b.slot_of(from, kPiece)}, {b.work_entry(in_entry)});
          });
        }
        b.signal_credit(from, longest);
      }
    });
  });
  return b.finish();
}

}  // namespace hocket
