// SPDX-License-Identifier: Apache-2.0
// perf/reduce_scatter.cpp: n ranks reduce n chunks, each gets one.
#include "bench/perf/collective.hpp"

namespace hocket::perf {
namespace {

// Each rank sends all but its own chunk.
double bus_factor(int n) {
  return double(n - 1) / n;
}

Status call(const Call& c) {
  if (c.stream) return c.communicator.reduce_scatter(c.input, c.output, c.count, c.type, c.op, *c.stream);
  return c.communicator.reduce_scatter(c.input, c.output, c.count, c.type, c.op);
}

std::vector<Expected> expected(int, Rank me, Rank, std::size_t count) {
  return {{0, count, kAllRanks, static_cast<std::size_t>(me) * count}};
}

}  // namespace

const PerfCollective kReduceScatterPerf = {.name = "reduce_scatter",
                                           .collective = Collective::kReduceScatter,
                                           .reduces = true,
                                           .in_place = true,
                                           .wide_input = true,
                                           .bus_factor = bus_factor,
                                           .call = call,
                                           .expected = expected};

}  // namespace hocket::perf
