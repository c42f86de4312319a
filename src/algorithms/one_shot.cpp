// SPDX-License-Identifier: Apache-2.0
// one_shot.cpp: every rank gives its whole input to everybody, and everybody reduces all of it.
//
// n ranks, B bytes: one exchange, (n-1) * B bytes out of each rank. Best where latency counts, and for two ranks at
// every size on the host, where it moves no more bytes than any other form. K tiles are given before the first is
// reduced. Elements are reduced in rank order with one rounding, so all ranks have equal bits. The board form writes
// the input once, into a slot that all peers read: (n-1) times fewer stores, load/store peers only. Next stop:
// exec/executor.hpp runs the plan.
#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"

namespace hocket {
namespace {

/// Peers of r, the next one first, so that not all ranks write to the same one at once.
std::vector<Link> peers_of(int r, int n, int channel) {
  std::vector<Link> peers;
  for (int d = 1; d < n; ++d) peers.push_back(link(channel, (r + d) % n));
  return peers;
}

}  // namespace

Plan one_shot_all_reduce(const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(Collective::kAllReduce, "one_shot", args);
  PlanBuilder b(Collective::kAllReduce, "one_shot", n, r);
  const CutId own = b.cut(CutKind::kOwn, 1);
  const Extent all = b.chunk(own, constant(0));
  const SpanRef in = b.input(own, constant(0)), out = b.output(own, constant(0));
  for (int lane = 0; lane < args.lanes; ++lane) {
    const std::vector<Link> peers = peers_of(r, n, lane);
    std::vector<SpanRef> slots, sources;
    for (const Link& peer : peers) slots.push_back(b.slot_at(peer));
    for (int p = 0; p < n; ++p) sources.push_back(p == r ? in : b.slot_of(link(lane, p)));
    b.lane(lane, args.lanes, [&] {
      b.rounds_by_k({all}, [&] {
        b.tiles([&] {
          for (const Link& peer : peers) b.wait_credit(peer, all);
          b.move(all, std::span<const SpanRef>(&in, 1), slots);
          for (const Link& peer : peers) b.signal_data(peer, all);
        });
        b.tiles([&] {
          for (const Link& peer : peers) b.wait_data(peer, all);
          b.move(all, sources, std::span<const SpanRef>(&out, 1), Finish::kYes);
          for (const Link& peer : peers) b.signal_credit(peer, all);
        });
      });
    });
  }
  return b.finish();
}

Plan one_shot_board_all_reduce(const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(Collective::kAllReduce, "one_shot_board", args);
  PlanBuilder b(Collective::kAllReduce, "one_shot_board", n, r);
  const CutId own = b.cut(CutKind::kOwn, 1);
  const Extent all = b.chunk(own, constant(0));
  const SpanRef in = b.input(own, constant(0)), out = b.output(own, constant(0));
  const std::vector<Link> peers = peers_of(r, n, 0);
  std::vector<SpanRef> sources;
  for (int p = 0; p < n; ++p) sources.push_back(p == r ? in : b.board_of(link(0, p)));
  b.lane(0, 1, [&] {
    b.rounds_by_k({all}, [&] {
      b.tiles([&] {
        for (const Link& peer : peers) b.wait_credit(peer, all);
        b.move(all, {in}, {b.board(peers.front())});
        for (const Link& peer : peers) b.signal_data(peer, all);
      });
      b.tiles([&] {
        for (const Link& peer : peers) b.wait_data(peer, all);
        b.move(all, sources, std::span<const SpanRef>(&out, 1), Finish::kYes);
        for (const Link& peer : peers) b.signal_credit(peer, all);
      });
    });
  });
  return b.finish();
}

Plan one_shot_reduce(const PlanArgs& args) {
  const int n = args.world, r = args.rank, root = args.root;
  if (n == 1) return local_copy(Collective::kReduce, "one_shot", args);
  PlanBuilder b(Collective::kReduce, "one_shot", n, r, root);
  const CutId own = b.cut(CutKind::kOwn, 1);
  const Extent all = b.chunk(own, constant(0));
  const SpanRef in = b.input(own, constant(0)), out = b.output(own, constant(0));
  b.lane(0, 1, [&] {
    b.rounds({all}, [&] {
      if (r != root) {
        b.send(link(0, root), all, in);
        return;
      }
      const std::vector<Link> peers = peers_of(r, n, 0);
      std::vector<SpanRef> sources;
      for (int p = 0; p < n; ++p) sources.push_back(p == r ? in : b.slot_of(link(0, p)));
      for (const Link& peer : peers) b.wait_data(peer, all);
      b.move(all, sources, std::span<const SpanRef>(&out, 1), Finish::kYes);
      for (const Link& peer : peers) b.signal_credit(peer, all);
    });
  });
  return b.finish();
}

}  // namespace hocket
