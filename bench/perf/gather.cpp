// SPDX-License-Identifier: Apache-2.0
// perf/gather.cpp: n ranks give a chunk each, one gets all chunks.
#include "bench/perf/collective.hpp"

namespace hocket::perf {
namespace {

// The root receives all but its own chunk.
double bus_factor(int n) {
  return double(n - 1) / n;
}

Status call(const Call& c) {
  if (c.stream) return c.communicator.gather(c.input, c.output, c.count, c.type, c.root, *c.stream);
  return c.communicator.gather(c.input, c.output, c.count, c.type, c.root);
}

std::vector<Expected> expected(int n, Rank me, Rank root, std::size_t count) {
  std::vector<Expected> result;
  for (Rank r = 0; r < n && me == root; ++r) result.push_back({static_cast<std::size_t>(r) * count, count, r, 0});
  return result;
}

}  // namespace

const PerfCollective kGatherPerf = {.name = "gather",
                                    .collective = Collective::kGather,
                                    .rooted = true,
                                    .in_place = true,
                                    .wide_output = true,
                                    .bus_factor = bus_factor,
                                    .call = call,
                                    .expected = expected};

}  // namespace hocket::perf
