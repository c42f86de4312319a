// SPDX-License-Identifier: Apache-2.0
// two_shot.cpp: all-reduce as a direct reduce-scatter and a direct all-gather in one plan.
//
// n ranks, B bytes: two exchanges, 2(n-1)/n * B bytes out of each rank, no neighbour order: a rank needs only that its
// peers have come, not that they take turns. Chunk r is reduced by rank r in rank order with one rounding. The board
// form writes each byte once into a slot that all peers read (load/store peers). The zero-copy form reads the peers'
// inputs and writes their outputs directly: only for collectively registered memory (mem_alloc).
// Next stop: exec/executor.hpp runs the plan.
#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"

namespace hocket {

Plan two_shot_all_reduce(const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(Collective::kAllReduce, "two_shot", args);
  PlanBuilder b(Collective::kAllReduce, "two_shot", n, r);
  const CutId even = b.cut(CutKind::kEven, n);
  for (int lane = 0; lane < args.lanes; ++lane) {
    const Index to = around(r + 1, 1, n), from = around(r - 1, -1, n), mine = constant(r);
    std::vector<SpanRef> sources, destinations{b.output(even, mine)};
    for (int p = 0; p < n; ++p) sources.push_back(p == r ? b.input(even, mine) : b.slot_of(link(lane, p)));
    for (int d = 1; d < n; ++d) destinations.push_back(b.slot_at(link(lane, (r + d) % n)));
    b.lane(lane, args.lanes, [&] {
      b.rounds({b.longest(even)}, [&] {
        b.repeat(n - 1, [&] { b.send(link(lane, to), b.chunk(even, to), b.input(even, to)); });
        for (int d = 1; d < n; ++d) b.wait_data(link(lane, (r + d) % n), b.chunk(even, mine));
        for (int d = 1; d < n; ++d) b.wait_credit(link(lane, (r + d) % n), b.chunk(even, mine));
        b.move(b.chunk(even, mine), sources, destinations, Finish::kYes);
        for (int d = 1; d < n; ++d) b.signal_data(link(lane, (r + d) % n), b.chunk(even, mine));
        for (int d = 1; d < n; ++d) b.signal_credit(link(lane, (r + d) % n), b.chunk(even, mine));
        b.repeat(n - 1, [&] { b.recv(link(lane, from), b.chunk(even, from), {b.output(even, from)}); });
      });
    });
  }
  return b.finish();
}

Plan two_shot_board_all_reduce(const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(Collective::kAllReduce, "two_shot_board", args);
  PlanBuilder b(Collective::kAllReduce, "two_shot_board", n, r);
  const CutId even = b.cut(CutKind::kEven, n);
  const Extent longest = b.longest(even);
  const Index mine = constant(r), other = around(r + 1, 1, n), from = around(r - 1, -1, n);
  b.pieces(n);
  b.lane(0, 1, [&] {
    b.rounds({longest}, [&] {
      // My whole input, one piece a chunk; a peer reads the piece of the chunk that it reduces.
      for (int d = 1; d < n; ++d) b.wait_credit(link(0, (r + d) % n), longest);
      b.repeat(n - 1,
               [&] { b.move(b.chunk(even, other), {b.input(even, other)}, {b.board(link(0, (r + 1) % n), other)}); });
      for (int d = 1; d < n; ++d) b.signal_data(link(0, (r + d) % n), longest);
      for (int d = 1; d < n; ++d) b.wait_data(link(0, (r + d) % n), longest);
      std::vector<SpanRef> sources;
      for (int p = 0; p < n; ++p) sources.push_back(p == r ? b.input(even, mine) : b.board_of(link(0, p), mine));
      for (int d = 1; d < n; ++d) b.wait_credit(link(0, (r + d) % n), longest);
      const std::vector<SpanRef> destinations{b.output(even, mine), b.board(link(0, (r + 1) % n))};
      b.move(b.chunk(even, mine), sources, destinations, Finish::kYes);
      for (int d = 1; d < n; ++d) b.signal_data(link(0, (r + d) % n), longest);
      for (int d = 1; d < n; ++d) b.signal_credit(link(0, (r + d) % n), longest);
      b.repeat(n - 1, [&] {
        b.wait_data(link(0, from), longest);
        b.move(b.chunk(even, from), {b.board_of(link(0, from))}, {b.output(even, from)});
        b.signal_credit(link(0, from), longest);
      });
    });
  });
  return b.finish();
}

Plan two_shot_zero_copy_all_reduce(const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(Collective::kAllReduce, "two_shot_zero_copy", args);
  PlanBuilder b(Collective::kAllReduce, "two_shot_zero_copy", n, r);
  const CutId even = b.cut(CutKind::kEven, n);
  const Index mine = constant(r);
  std::vector<Link> peers;
  for (int d = 1; d < n; ++d) peers.push_back(link(0, (r + d) % n));
  std::vector<SpanRef> sources, destinations{b.output(even, mine)};
  for (int p = 0; p < n; ++p) sources.push_back(p == r ? b.input(even, mine) : b.peer_input(even, mine, link(0, p)));
  for (const Link& peer : peers) destinations.push_back(b.peer_output(even, mine, peer));
  b.lane(0, 1, [&] {
    for (const Link& peer : peers) b.wait_credit(peer, b.always());
    for (const Link& peer : peers) b.signal_data(peer, b.always(), kGrantBoth);
    for (const Link& peer : peers) b.wait_data(peer, b.always());
    b.move(b.chunk(even, mine), sources, destinations, Finish::kYes);
    for (const Link& peer : peers) b.signal_credit(peer, b.always());
    for (const Link& peer : peers) b.wait_credit(peer, b.always(), 0);
  });
  return b.finish();
}

}  // namespace hocket
