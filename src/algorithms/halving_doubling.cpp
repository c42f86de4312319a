// SPDX-License-Identifier: Apache-2.0
// halving_doubling.cpp: all-reduce by recursive halving (reduce-scatter), then recursive doubling (all-gather).
//
// p = the largest power of two up to n. The e = n - p ranks too many first fold their input into a partner and get the
// result from it at the end. The p others have p chunks: in step k of the way down a rank gives its partner at distance
// 2^k those half of its chunks that the partner keeps, and reduces what it gets into its own; the way up is the mirror.
// 2 log2(p) hops, 2(p-1)/p * B bytes out of each rank; an extra rank adds two hops and 2 * B bytes over its link. The
// nearest partner gets the most, so ranks of one host, which are neighbours, keep the large exchanges among themselves.
// Chunks of a step travel under one signal, as pieces of a slot: many hops less than a ring for sizes in between, but
// smaller tiles. Each chunk is reduced by one rank at every step, so all ranks get equal bits.
// Source: Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, IJHPCA 2005.
// Next stop: exec/executor.hpp runs the plan.
#include <bit>

#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"

namespace hocket {

Plan halving_doubling_all_reduce(const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(Collective::kAllReduce, "halving_doubling", args);
  const int p = static_cast<int>(std::bit_floor(static_cast<unsigned>(n))), extra = n - p;
  PlanBuilder b(Collective::kAllReduce, "halving_doubling", n, r);
  const CutId even = b.cut(CutKind::kEven, p);
  const Extent longest = b.longest(even);
  b.pieces(p / 2);

  // All chunks, in two transfers of p/2 pieces: chunk i * p/2 + j is piece j of transfer i.
  const Index every{.s0 = p / 2, .s1 = 1}, piece{.s1 = 1};
  const auto send_all = [&](Link to, SpanRef from) {
    b.repeat(0, 2, [&] {
      b.wait_credit(to, longest);
      b.repeat(1, p / 2, [&] { b.move(b.chunk(even, every), {from}, {b.slot_at(to, piece)}); });
      b.signal_data(to, longest);
    });
  };

  // Of the first 2e ranks, odd ones fold into the one before them.
  if (r < 2 * extra && r % 2 == 1) {
    const Link partner = link(0, r - 1);
    b.lane(0, 1, [&] {
      b.rounds({longest}, [&] {
        send_all(partner, b.input(even, every));
        b.repeat(0, 2, [&] {
          b.wait_data(partner, longest);
          b.repeat(1, p / 2,
                   [&] { b.move(b.chunk(even, every), {b.slot_of(partner, piece)}, {b.output(even, every)}); });
          b.signal_credit(partner, longest);
        });
      });
    });
    return b.finish();
  }

  const bool folds = r < 2 * extra;
  const int me = folds ? r / 2 : r - extra;
  const auto rank_of = [&](int core) { return core < extra ? 2 * core : core + extra; };
  b.lane(0, 1, [&] {
    b.rounds({longest}, [&] {
      if (folds) {
        const Link partner = link(0, r + 1);
        b.repeat(0, 2, [&] {
          b.wait_data(partner, longest);
          b.repeat(1, p / 2, [&] {
            b.move(b.chunk(even, every), {b.input(even, every), b.slot_of(partner, piece)}, {b.output(even, every)});
          });
          b.signal_credit(partner, longest);
        });
      }
      // Before the step at distance d, I have the sums of the chunks that equal me modulo d.
      for (int d = 1; d < p; d *= 2) {
        const Link partner = link(0, rank_of(me ^ d));
        const bool reduced = folds || d > 1, last = 2 * d == p;
        const Index theirs{.base = (me ^ d) & (2 * d - 1), .s1 = 2 * d}, mine{.base = me & (2 * d - 1), .s1 = 2 * d};
        const auto so_far = [&](Index c) { return reduced ? b.output(even, c) : b.input(even, c); };
        b.wait_credit(partner, longest);
        b.repeat(1, p / (2 * d), [&] { b.move(b.chunk(even, theirs), {so_far(theirs)}, {b.slot_at(partner, piece)}); });
        b.signal_data(partner, longest);
        b.wait_data(partner, longest);
        b.repeat(1, p / (2 * d), [&] {
          b.move(b.chunk(even, mine), {so_far(mine), b.slot_of(partner, piece)}, {b.output(even, mine)},
                 last ? Finish::kYes : Finish::kNo);
        });
        b.signal_credit(partner, longest);
      }
      for (int d = p / 2; d >= 1; d /= 2) {
        const Link partner = link(0, rank_of(me ^ d));
        const Index theirs{.base = (me ^ d) & (2 * d - 1), .s1 = 2 * d}, mine{.base = me & (2 * d - 1), .s1 = 2 * d};
        b.wait_credit(partner, longest);
        b.repeat(1, p / (2 * d),
                 [&] { b.move(b.chunk(even, mine), {b.output(even, mine)}, {b.slot_at(partner, piece)}); });
        b.signal_data(partner, longest);
        b.wait_data(partner, longest);
        b.repeat(1, p / (2 * d),
                 [&] { b.move(b.chunk(even, theirs), {b.slot_of(partner, piece)}, {b.output(even, theirs)}); });
        b.signal_credit(partner, longest);
      }
      if (folds) send_all(link(0, r + 1), b.output(even, every));
    });
  });
  return b.finish();
}

}  // namespace hocket
