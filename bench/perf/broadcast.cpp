// SPDX-License-Identifier: Apache-2.0
// perf/broadcast.cpp: the buffer of one rank goes to all.
#include "bench/perf/collective.hpp"

namespace hocket::perf {
namespace {

// Each rank but the root receives the buffer once.
double bus_factor(int) {
  return 1;
}

Status call(const Call& c) {
  if (c.stream) return c.communicator.broadcast(c.input, c.output, c.count, c.type, c.root, *c.stream);
  return c.communicator.broadcast(c.input, c.output, c.count, c.type, c.root);
}

std::vector<Expected> expected(int, Rank, Rank root, std::size_t count) {
  return {{0, count, root, 0}};
}

}  // namespace

const PerfCollective kBroadcastPerf = {.name = "broadcast",
                                       .collective = Collective::kBroadcast,
                                       .rooted = true,
                                       .in_place = true,
                                       .bus_factor = bus_factor,
                                       .call = call,
                                       .expected = expected};

}  // namespace hocket::perf
