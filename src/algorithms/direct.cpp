// SPDX-License-Identifier: Apache-2.0
// direct.cpp: all-gather, reduce-scatter, broadcast and all-to-all in one exchange, each chunk straight to who needs
// it.
//
// n ranks, chunks of B bytes: (n-1) * B bytes out of each rank, one hop, no neighbour order: a rank waits only for
// peers to have come. The uneven forms are the same plans: a step runs for as many tiles as the chunk it names has, and
// all-to-all needs only a rank's own row and column of counts. Best between ranks that reach each other at equal cost,
// as on one host, and with more ranks than cores. Next stop: exec/executor.hpp runs the plan.
#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"

namespace hocket {
namespace {

Plan all_gather(Collective collective, const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(collective, "direct", args);
  PlanBuilder b(collective, "direct", n, r);
  const CutId ranks = b.cut(CutKind::kRanks, n), own = b.cut(CutKind::kOwn, 1);
  const Index mine = constant(r), from = around(r - 1, -1, n);
  for (int lane = 0; lane < args.lanes; ++lane) {
    std::vector<SpanRef> destinations{b.output(ranks, mine)};
    for (int d = 1; d < n; ++d) destinations.push_back(b.slot_at(link(lane, (r + d) % n)));
    const SpanRef in = b.input(own, constant(0));
    b.lane(lane, args.lanes, [&] {
      b.rounds_by_k({b.longest(ranks)}, [&] {
        b.tiles([&] {
          for (int d = 1; d < n; ++d) b.wait_credit(link(lane, (r + d) % n), b.chunk(ranks, mine));
          b.move(b.chunk(ranks, mine), std::span<const SpanRef>(&in, 1), destinations);
          for (int d = 1; d < n; ++d) b.signal_data(link(lane, (r + d) % n), b.chunk(ranks, mine));
        });
        b.tiles(
            [&] { b.repeat(n - 1, [&] { b.recv(link(lane, from), b.chunk(ranks, from), {b.output(ranks, from)}); }); });
      });
    });
  }
  return b.finish();
}

Plan reduce_scatter(Collective collective, const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(collective, "direct", args);
  PlanBuilder b(collective, "direct", n, r);
  const CutId ranks = b.cut(CutKind::kRanks, n), own = b.cut(CutKind::kOwn, 1);
  const Index mine = constant(r), to = around(r + 1, 1, n);
  const SpanRef out = b.output(own, constant(0));
  for (int lane = 0; lane < args.lanes; ++lane) {
    std::vector<SpanRef> sources;
    for (int p = 0; p < n; ++p) sources.push_back(p == r ? b.input(ranks, mine) : b.slot_of(link(lane, p)));
    b.lane(lane, args.lanes, [&] {
      b.rounds_by_k({b.longest(ranks)}, [&] {
        b.tiles([&] { b.repeat(n - 1, [&] { b.send(link(lane, to), b.chunk(ranks, to), b.input(ranks, to)); }); });
        b.tiles([&] {
          for (int d = 1; d < n; ++d) b.wait_data(link(lane, (r + d) % n), b.chunk(ranks, mine));
          b.move(b.chunk(ranks, mine), sources, std::span<const SpanRef>(&out, 1), Finish::kYes);
          for (int d = 1; d < n; ++d) b.signal_credit(link(lane, (r + d) % n), b.chunk(ranks, mine));
        });
      });
    });
  }
  return b.finish();
}

Plan all_to_all(Collective collective, const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(collective, "direct", args);
  PlanBuilder b(collective, "direct", n, r);
  const CutId row = b.cut(CutKind::kSendRow, n), column = b.cut(CutKind::kReceiveColumn, n);
  const Index to = around(r + 1, 1, n), from = around(r - 1, -1, n), mine = constant(r);
  for (int lane = 0; lane < args.lanes; ++lane) {
    b.lane(lane, args.lanes, [&] {
      b.rounds_by_k({b.longest(row), b.longest(column)}, [&] {
        b.tiles([&] { b.repeat(n - 1, [&] { b.send(link(lane, to), b.chunk(row, to), b.input(row, to)); }); });
        b.tiles([&] { b.move(b.chunk(row, mine), {b.input(row, mine)}, {b.output(column, mine)}); });
        b.tiles([&] {
          b.repeat(n - 1, [&] { b.recv(link(lane, from), b.chunk(column, from), {b.output(column, from)}); });
        });
      });
    });
  }
  return b.finish();
}

}  // namespace

Plan direct_all_gather(const PlanArgs& args) {
  return all_gather(Collective::kAllGather, args);
}
Plan direct_all_gather_v(const PlanArgs& args) {
  return all_gather(Collective::kAllGatherV, args);
}
Plan direct_reduce_scatter(const PlanArgs& args) {
  return reduce_scatter(Collective::kReduceScatter, args);
}
Plan direct_reduce_scatter_v(const PlanArgs& args) {
  return reduce_scatter(Collective::kReduceScatterV, args);
}
Plan direct_all_to_all(const PlanArgs& args) {
  return all_to_all(Collective::kAllToAll, args);
}
Plan direct_all_to_all_v(const PlanArgs& args) {
  return all_to_all(Collective::kAllToAllV, args);
}

// Direct put: each rank first grants its output; the peers write their chunk into it.
Plan direct_zero_copy_all_gather(const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(Collective::kAllGather, "direct_zero_copy", args);
  PlanBuilder b(Collective::kAllGather, "direct_zero_copy", n, r);
  const CutId ranks = b.cut(CutKind::kRanks, n), own = b.cut(CutKind::kOwn, 1);
  const Index mine = constant(r);
  const SpanRef in = b.input(own, constant(0));
  std::vector<Link> peers;
  for (int d = 1; d < n; ++d) peers.push_back(link(0, (r + d) % n));
  std::vector<SpanRef> destinations{b.output(ranks, mine)};
  for (const Link& peer : peers) destinations.push_back(b.peer_output(ranks, mine, peer));
  b.lane(0, 1, [&] {
    for (const Link& peer : peers) b.signal_credit(peer, b.always(), kGrantOutput);
    for (const Link& peer : peers) b.wait_credit(peer, b.always(), -1);
    b.move(b.chunk(ranks, mine), std::span<const SpanRef>(&in, 1), destinations);
    for (const Link& peer : peers) b.signal_data(peer, b.always());
    for (const Link& peer : peers) b.wait_data(peer, b.always(), 0);
  });
  return b.finish();
}

// Direct get: each rank lets its peers read its input, takes what it needs from theirs, and waits until they have done
// so.
Plan direct_zero_copy_reduce_scatter(const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(Collective::kReduceScatter, "direct_zero_copy", args);
  PlanBuilder b(Collective::kReduceScatter, "direct_zero_copy", n, r);
  const CutId ranks = b.cut(CutKind::kRanks, n), own = b.cut(CutKind::kOwn, 1);
  const Index mine = constant(r);
  std::vector<Link> peers;
  for (int d = 1; d < n; ++d) peers.push_back(link(0, (r + d) % n));
  std::vector<SpanRef> sources;
  for (int p = 0; p < n; ++p) sources.push_back(p == r ? b.input(ranks, mine) : b.peer_input(ranks, mine, link(0, p)));
  const SpanRef out = b.output(own, constant(0));
  b.lane(0, 1, [&] {
    for (const Link& peer : peers) b.wait_credit(peer, b.always());
    for (const Link& peer : peers) b.signal_data(peer, b.always(), kGrantInput);
    for (const Link& peer : peers) b.wait_data(peer, b.always());
    b.move(b.chunk(ranks, mine), sources, std::span<const SpanRef>(&out, 1), Finish::kYes);
    for (const Link& peer : peers) b.signal_credit(peer, b.always());
    for (const Link& peer : peers) b.wait_credit(peer, b.always(), 0);
  });
  return b.finish();
}

Plan direct_zero_copy_all_to_all(const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(Collective::kAllToAll, "direct_zero_copy", args);
  PlanBuilder b(Collective::kAllToAll, "direct_zero_copy", n, r);
  // All counts are equal, so a peer's row is cut as this rank's own.
  const CutId ranks = b.cut(CutKind::kRanks, n);
  const Index to = around(r + 1, 1, n), from = around(r - 1, -1, n), mine = constant(r);
  b.lane(0, 1, [&] {
    b.repeat(n - 1, [&] {
      b.wait_credit(link(0, to), b.always());
      b.signal_data(link(0, to), b.always(), kGrantInput);
    });
    b.move(b.chunk(ranks, mine), {b.input(ranks, mine)}, {b.output(ranks, mine)});
    b.repeat(n - 1, [&] {
      b.wait_data(link(0, from), b.always());
      b.move(b.chunk(ranks, from), {b.peer_input(ranks, mine, link(0, from))}, {b.output(ranks, from)});
      b.signal_credit(link(0, from), b.always());
    });
    b.repeat(n - 1, [&] { b.wait_credit(link(0, to), b.always(), 0); });
  });
  return b.finish();
}

Plan direct_zero_copy_broadcast(const PlanArgs& args) {
  const int n = args.world, r = args.rank, root = args.root;
  if (n == 1) return local_copy(Collective::kBroadcast, "direct_zero_copy", args);
  PlanBuilder b(Collective::kBroadcast, "direct_zero_copy", n, r, root);
  const CutId own = b.cut(CutKind::kOwn, 1);
  const Extent all = b.chunk(own, constant(0));
  const SpanRef out = b.output(own, constant(0));
  b.lane(0, 1, [&] {
    if (r != root) {
      b.wait_data(link(0, root), b.always());
      b.move(all, {b.peer_input(own, constant(0), link(0, root))}, {out});
      b.signal_credit(link(0, root), b.always());
      return;
    }
    const Index to = around(r + 1, 1, n);
    // First: in place the input is written by it.
    b.move(all, {b.input(own, constant(0))}, {out});
    b.repeat(n - 1, [&] {
      b.wait_credit(link(0, to), b.always());
      b.signal_data(link(0, to), b.always(), kGrantInput);
    });
    b.repeat(n - 1, [&] { b.wait_credit(link(0, to), b.always(), 0); });
  });
  return b.finish();
}

Plan direct_broadcast(const PlanArgs& args) {
  const int n = args.world, r = args.rank, root = args.root;
  if (n == 1) return local_copy(Collective::kBroadcast, "direct", args);
  PlanBuilder b(Collective::kBroadcast, "direct", n, r, root);
  const CutId own = b.cut(CutKind::kOwn, 1);
  const Extent all = b.chunk(own, constant(0));
  const SpanRef in = b.input(own, constant(0)), out = b.output(own, constant(0));
  b.lane(0, 1, [&] {
    b.rounds({all}, [&] {
      if (r != root) {
        b.recv(link(0, root), all, {out});
        return;
      }
      std::vector<SpanRef> destinations{out};
      for (int d = 1; d < n; ++d) destinations.push_back(b.slot_at(link(0, (r + d) % n)));
      for (int d = 1; d < n; ++d) b.wait_credit(link(0, (r + d) % n), all);
      b.move(all, std::span<const SpanRef>(&in, 1), destinations);
      for (int d = 1; d < n; ++d) b.signal_data(link(0, (r + d) % n), all);
    });
  });
  return b.finish();
}

}  // namespace hocket
