// SPDX-License-Identifier: Apache-2.0
// perf/all_reduce.cpp: n ranks reduce one buffer, all get the result.
#include "bench/perf/collective.hpp"

namespace hocket::perf {
namespace {

// Each rank has to send and to receive 2 (n-1)/n of the buffer at least.
double bus_factor(int n) {
  return 2.0 * (n - 1) / n;
}

Status call(const Call& c) {
  if (c.stream) return c.communicator.all_reduce(c.input, c.output, c.count, c.type, c.op, *c.stream);
  return c.communicator.all_reduce(c.input, c.output, c.count, c.type, c.op);
}

std::vector<Expected> expected(int, Rank, Rank, std::size_t count) {
  return {{0, count, kAllRanks, 0}};
}

}  // namespace

const PerfCollective kAllReducePerf = {.name = "all_reduce",
                                       .collective = Collective::kAllReduce,
                                       .reduces = true,
                                       .in_place = true,
                                       .bus_factor = bus_factor,
                                       .call = call,
                                       .expected = expected};

}  // namespace hocket::perf
