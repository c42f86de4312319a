// SPDX-License-Identifier: Apache-2.0
// perf/reduce.cpp: n ranks reduce one buffer, one rank gets the result.
#include "bench/perf/collective.hpp"

namespace hocket::perf {
namespace {

// Each rank but the root sends the buffer once.
double bus_factor(int) {
  return 1;
}

Status call(const Call& c) {
  if (c.stream) return c.communicator.reduce(c.input, c.output, c.count, c.type, c.op, c.root, *c.stream);
  return c.communicator.reduce(c.input, c.output, c.count, c.type, c.op, c.root);
}

std::vector<Expected> expected(int, Rank me, Rank root, std::size_t count) {
  if (me != root) return {};
  return {{0, count, kAllRanks, 0}};
}

}  // namespace

const PerfCollective kReducePerf = {.name = "reduce",
                                    .collective = Collective::kReduce,
                                    .reduces = true,
                                    .rooted = true,
                                    .in_place = true,
                                    .bus_factor = bus_factor,
                                    .call = call,
                                    .expected = expected};

}  // namespace hocket::perf
