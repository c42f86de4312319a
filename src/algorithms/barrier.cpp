// SPDX-License-Identifier: Apache-2.0
// barrier.cpp: dissemination barrier: in round k, tell r + 2^k and hear from r - 2^k; ceil(log2 n) rounds, no data.
//
// Source: Hensgen, Finkel and Manber, Two algorithms for barrier synchronization, IJPP 1988.
// Next stop: exec/executor.hpp runs the plan.
#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"

namespace hocket {

Plan dissemination_barrier(const PlanArgs& args) {
  const int n = args.world, r = args.rank;
  PlanBuilder b(Collective::kBarrier, "dissemination", n, r);
  b.lane(0, 1, [&] {
    for (int distance = 1; distance < n; distance *= 2) {
      const Link to = link(0, (r + distance) % n), from = link(0, (r - distance + n) % n);
      b.wait_credit(to, b.always());
      b.signal_data(to, b.always());
      b.wait_data(from, b.always());
      b.signal_credit(from, b.always());
    }
  });
  return b.finish();
}

}  // namespace hocket
