// SPDX-License-Identifier: Apache-2.0
// perf/scatter.cpp: one rank gives every rank a chunk of its own.
#include "bench/perf/collective.hpp"

namespace hocket::perf {
namespace {

// The root sends all but its own chunk.
double bus_factor(int n) {
  return double(n - 1) / n;
}

Status call(const Call& c) {
  if (c.stream) return c.communicator.scatter(c.input, c.output, c.count, c.type, c.root, *c.stream);
  return c.communicator.scatter(c.input, c.output, c.count, c.type, c.root);
}

std::vector<Expected> expected(int, Rank me, Rank root, std::size_t count) {
  return {{0, count, root, static_cast<std::size_t>(me) * count}};
}

}  // namespace

const PerfCollective kScatterPerf = {.name = "scatter",
                                     .collective = Collective::kScatter,
                                     .rooted = true,
                                     .in_place = true,
                                     .wide_input = true,
                                     .bus_factor = bus_factor,
                                     .call = call,
                                     .expected = expected};

}  // namespace hocket::perf
