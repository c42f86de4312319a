// SPDX-License-Identifier: Apache-2.0
// chain.cpp: broadcast along a chain root, root+1, ..., root-1, pipelined over tiles; reduce the other way. With a
// layout root+1 is the rank after root in the lane's ring (ring_order.hpp).
//
// n ranks, B bytes in T tiles: T + n - 2 tile times; each rank sends and receives B bytes at most once, so for many
// tiles it reaches the bandwidth of one link. Next stop: exec/executor.hpp runs the plan.
#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"
#include "algorithms/ring_order.hpp"

namespace hocket {

Plan chain_broadcast(const PlanArgs& args) {
  const int n = args.world, r = args.rank, root = args.root;
  if (n == 1) return local_copy(Collective::kBroadcast, "chain", args);
  PlanBuilder b(Collective::kBroadcast, "chain", n, r, root);
  const CutId own = b.cut(CutKind::kOwn, 1);
  const Extent all = b.chunk(own, constant(0));
  const SpanRef in = b.input(own, constant(0)), out = b.output(own, constant(0));
  for (int lane = 0; lane < args.lanes; ++lane) {
    const RingOrder ring(args, lane);
    const Link next = link(lane, ring.next()), previous = link(lane, ring.previous());
    const int position = ring.distance_from(root);
    b.lane(lane, args.lanes, [&] {
      b.rounds({all}, [&] {
        if (position == 0) {
          b.wait_credit(next, all);
          b.move(all, {in}, {out, b.slot_at(next)});
          b.signal_data(next, all);
        } else if (position < n - 1) {
          b.recv_copy_send(previous, next, all, out);
        } else {
          b.recv(previous, all, {out});
        }
      });
    });
  }
  return b.finish();
}

Plan chain_reduce(const PlanArgs& args) {
  const int n = args.world, r = args.rank, root = args.root;
  if (n == 1) return local_copy(Collective::kReduce, "chain", args);
  PlanBuilder b(Collective::kReduce, "chain", n, r, root);
  const CutId own = b.cut(CutKind::kOwn, 1);
  const Extent all = b.chunk(own, constant(0));
  const SpanRef in = b.input(own, constant(0));
  for (int lane = 0; lane < args.lanes; ++lane) {
    const RingOrder ring(args, lane);
    const Link next = link(lane, ring.previous()), previous = link(lane, ring.next());
    const int position = ring.distance_from(root);
    b.lane(lane, args.lanes, [&] {
      b.rounds({all}, [&] {
        if (position == n - 1) {
          b.send(next, all, in);
        } else if (position > 0) {
          b.recv_reduce_send(previous, next, all, in);
        } else {
          b.recv_reduce(previous, all, in, b.output(own, constant(0)), Finish::kYes);
        }
      });
    });
  }
  return b.finish();
}

}  // namespace hocket
