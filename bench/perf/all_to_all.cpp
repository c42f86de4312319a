// SPDX-License-Identifier: Apache-2.0
// perf/all_to_all.cpp: n ranks give every rank a chunk of its own.
#include "bench/perf/collective.hpp"

namespace hocket::perf {
namespace {

// The chunk for oneself needs no link.
double bus_factor(int n) {
  return double(n - 1) / n;
}

Status call(const Call& c) {
  if (c.stream) return c.communicator.all_to_all(c.input, c.output, c.count, c.type, *c.stream);
  return c.communicator.all_to_all(c.input, c.output, c.count, c.type);
}

std::vector<Expected> expected(int n, Rank me, Rank, std::size_t count) {
  std::vector<Expected> result;
  for (Rank r = 0; r < n; ++r) {
    result.push_back({static_cast<std::size_t>(r) * count, count, r, static_cast<std::size_t>(me) * count});
  }
  return result;
}

}  // namespace

const PerfCollective kAllToAllPerf = {.name = "all_to_all",
                                      .collective = Collective::kAllToAll,
                                      .wide_input = true,
                                      .wide_output = true,
                                      .bus_factor = bus_factor,
                                      .call = call,
                                      .expected = expected};

}  // namespace hocket::perf
