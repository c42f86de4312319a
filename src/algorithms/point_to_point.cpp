// SPDX-License-Identifier: Apache-2.0
// point_to_point.cpp: send and receive between two ranks, tile by tile. Nobody else takes part.
//
// They run on channel ids of their own, so a transfer's number on its channel is the pair's sequence number.
// Next stop: exec/executor.hpp runs the plan.
#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"

namespace hocket {

Plan send_plan(const PlanArgs& args) {
  PlanBuilder b(Collective::kSend, "direct", args.world, args.rank, args.root);
  const CutId own = b.cut(CutKind::kOwn, 1);
  const Extent all = b.chunk(own, constant(0));
  b.lane(0, 1, [&] { b.rounds({all}, [&] { b.send(link(0, args.root), all, b.input(own, constant(0))); }); });
  return b.finish();
}

Plan receive_plan(const PlanArgs& args) {
  PlanBuilder b(Collective::kReceive, "direct", args.world, args.rank, args.root);
  const CutId own = b.cut(CutKind::kOwn, 1);
  const Extent all = b.chunk(own, constant(0));
  b.lane(0, 1, [&] { b.rounds({all}, [&] { b.recv(link(0, args.root), all, {b.output(own, constant(0))}); }); });
  return b.finish();
}

}  // namespace hocket
