// SPDX-License-Identifier: Apache-2.0
// ring.cpp: ring all-reduce, reduce-scatter and all-gather.
//
// n ranks, B bytes: all-reduce makes 2(n-1) transfers a rank and sends 2(n-1)/n * B bytes over each link; the other two
// half of that, also with counts that differ from rank to rank. All steps of a tile follow each other before the next
// tile starts (K tiles at a time), so the ring is a pipeline. Chunk c is reduced in the order c+1, c+2, ..., c: the
// same on all ranks, so results are equal bit for bit. Lanes follow the orders of a layout (ring_order.hpp): then c+1
// is the rank after c in its lane's ring. Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for
// clusters of workstations, JPDC 2009. Next stop: exec/executor.hpp runs the plan.
#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"
#include "algorithms/ring_order.hpp"

namespace hocket {

Plan ring_all_reduce(const PlanArgs& args) {
  const int n = args.world;
  if (n == 1) return local_copy(Collective::kAllReduce, "ring", args);
  PlanBuilder b(Collective::kAllReduce, "ring", n, args.rank);
  const CutId even = b.cut(CutKind::kEven, n);
  for (int lane = 0; lane < args.lanes; ++lane) {
    const RingOrder ring(args, lane);
    const Link next = link(lane, ring.next()), previous = link(lane, ring.previous());
    const int r = ring.position();  // chunks are nobody's own: they are numbered by place
    b.lane(lane, args.lanes, [&] {
      b.rounds_by_k({b.longest(even)}, [&] {
        const auto send = [&](Index c) { b.send(next, b.chunk(even, c), b.input(even, c)); };
        const auto reduce_send = [&](Index c) {
          b.recv_reduce_send(previous, next, b.chunk(even, c), b.input(even, c));
        };
        const auto reduce_copy_send = [&](Index c) {
          b.recv_reduce_copy_send(previous, next, b.chunk(even, c), b.input(even, c), b.output(even, c), Finish::kYes);
        };
        const auto copy_send = [&](Index c) { b.recv_copy_send(previous, next, b.chunk(even, c), b.output(even, c)); };
        const auto receive = [&](Index c) { b.recv(previous, b.chunk(even, c), {b.output(even, c)}); };
        b.tiles([&] { send(around(r - 1, 0, n)); });
        b.repeat(n - 2, [&] { b.tiles([&] { reduce_send(around(r - 2, -1, n)); }); });
        b.tiles([&] { reduce_copy_send(constant(r)); });
        b.repeat(n - 2, [&] { b.tiles([&] { copy_send(around(r - 1, -1, n)); }); });
        b.tiles([&] { receive(around(r + 1, 0, n)); });
      });
    });
  }
  return b.finish();
}

namespace {

Plan reduce_scatter(Collective collective, const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(collective, "ring", args);
  PlanBuilder b(collective, "ring", n, r);
  const CutId ranks = b.cut(CutKind::kRanks, n), own = b.cut(CutKind::kOwn, 1);
  for (int lane = 0; lane < args.lanes; ++lane) {
    const RingOrder ring(args, lane);
    const Link next = link(lane, ring.next()), previous = link(lane, ring.previous());
    b.lane(lane, args.lanes, [&] {
      b.rounds_by_k({b.longest(ranks)}, [&] {
        const Index first = constant(ring.previous()), last = constant(r);
        b.tiles([&] { b.send(next, b.chunk(ranks, first), b.input(ranks, first)); });
        ring.walk_back(b, 2, n - 2, [&](Index middle) {
          b.tiles([&] { b.recv_reduce_send(previous, next, b.chunk(ranks, middle), b.input(ranks, middle)); });
        });
        b.tiles([&] {
          b.recv_reduce(previous, b.chunk(ranks, last), b.input(ranks, last), b.output(own, constant(0)), Finish::kYes);
        });
      });
    });
  }
  return b.finish();
}

Plan all_gather(Collective collective, const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  if (n == 1) return local_copy(collective, "ring", args);
  PlanBuilder b(collective, "ring", n, r);
  const CutId ranks = b.cut(CutKind::kRanks, n), own = b.cut(CutKind::kOwn, 1);
  for (int lane = 0; lane < args.lanes; ++lane) {
    const RingOrder ring(args, lane);
    const Link next = link(lane, ring.next()), previous = link(lane, ring.previous());
    b.lane(lane, args.lanes, [&] {
      b.rounds_by_k({b.longest(ranks)}, [&] {
        const Index mine = constant(r), last = constant(ring.next());
        b.tiles([&] {
          b.wait_credit(next, b.chunk(ranks, mine));
          b.move(b.chunk(ranks, mine), {b.input(own, constant(0))}, {b.output(ranks, mine), b.slot_at(next)});
          b.signal_data(next, b.chunk(ranks, mine));
        });
        ring.walk_back(b, 1, n - 2, [&](Index middle) {
          b.tiles([&] { b.recv_copy_send(previous, next, b.chunk(ranks, middle), b.output(ranks, middle)); });
        });
        b.tiles([&] { b.recv(previous, b.chunk(ranks, last), {b.output(ranks, last)}); });
      });
    });
  }
  return b.finish();
}

}  // namespace

Plan ring_reduce_scatter(const PlanArgs& args) {
  return reduce_scatter(Collective::kReduceScatter, args);
}
Plan ring_reduce_scatter_v(const PlanArgs& args) {
  return reduce_scatter(Collective::kReduceScatterV, args);
}
Plan ring_all_gather(const PlanArgs& args) {
  return all_gather(Collective::kAllGather, args);
}
Plan ring_all_gather_v(const PlanArgs& args) {
  return all_gather(Collective::kAllGatherV, args);
}

}  // namespace hocket
