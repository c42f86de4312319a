// SPDX-License-Identifier: Apache-2.0
// perf/all_gather_v.cpp: rank r gives r+1 shares, all get all shares.
#include "bench/perf/collective.hpp"

namespace hocket::perf {
namespace {

// As all_gather: of n(n+1)/2 shares, (n+1)/2 are a rank's own on average.
double bus_factor(int n) {
  return double(n - 1) / n;
}

Status call(const Call& c) {
  const std::vector<std::size_t> counts = uneven_counts(c.communicator.size(), c.count);
  if (c.stream) return c.communicator.all_gather_v(c.input, c.output, counts, c.type, {}, *c.stream);
  return c.communicator.all_gather_v(c.input, c.output, counts, c.type);
}

std::vector<Expected> expected(int n, Rank, Rank, std::size_t count) {
  std::vector<Expected> result;
  std::size_t at = 0;
  for (const std::size_t length : uneven_counts(n, count)) {
    result.push_back({at, length, static_cast<Rank>(result.size()), 0});
    at += length;
  }
  return result;
}

}  // namespace

const PerfCollective kAllGatherVPerf = {.name = "all_gather_v",
                                        .collective = Collective::kAllGatherV,
                                        .in_place = true,
                                        .wide_output = true,
                                        .uneven = true,
                                        .bus_factor = bus_factor,
                                        .call = call,
                                        .expected = expected};

}  // namespace hocket::perf
