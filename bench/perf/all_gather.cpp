// SPDX-License-Identifier: Apache-2.0
// perf/all_gather.cpp: n ranks give a chunk each, all get all chunks.
#include "bench/perf/collective.hpp"

namespace hocket::perf {
namespace {

// Each rank receives all but its own chunk.
double bus_factor(int n) {
  return double(n - 1) / n;
}

Status call(const Call& c) {
  if (c.stream) return c.communicator.all_gather(c.input, c.output, c.count, c.type, *c.stream);
  return c.communicator.all_gather(c.input, c.output, c.count, c.type);
}

std::vector<Expected> expected(int n, Rank, Rank, std::size_t count) {
  std::vector<Expected> result;
  for (Rank r = 0; r < n; ++r) result.push_back({static_cast<std::size_t>(r) * count, count, r, 0});
  return result;
}

}  // namespace

const PerfCollective kAllGatherPerf = {.name = "all_gather",
                                       .collective = Collective::kAllGather,
                                       .in_place = true,
                                       .wide_output = true,
                                       .bus_factor = bus_factor,
                                       .call = call,
                                       .expected = expected};

}  // namespace hocket::perf
