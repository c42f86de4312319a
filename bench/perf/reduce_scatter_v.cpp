// SPDX-License-Identifier: Apache-2.0
// perf/reduce_scatter_v.cpp: n ranks reduce one buffer, rank r gets r+1 shares of the result.
#include "bench/perf/collective.hpp"

namespace hocket::perf {
namespace {

// As reduce_scatter: of n(n+1)/2 shares, (n+1)/2 are a rank's own on average.
double bus_factor(int n) {
  return double(n - 1) / n;
}

Status call(const Call& c) {
  const std::vector<std::size_t> counts = uneven_counts(c.communicator.size(), c.count);
  if (c.stream) return c.communicator.reduce_scatter_v(c.input, c.output, counts, c.type, c.op, {}, *c.stream);
  return c.communicator.reduce_scatter_v(c.input, c.output, counts, c.type, c.op);
}

std::vector<Expected> expected(int, Rank me, Rank, std::size_t count) {
  const auto before = static_cast<std::size_t>(me);
  return {{0, (before + 1) * count, kAllRanks, before * (before + 1) / 2 * count}};
}

}  // namespace

const PerfCollective kReduceScatterVPerf = {.name = "reduce_scatter_v",
                                            .collective = Collective::kReduceScatterV,
                                            .reduces = true,
                                            .in_place = true,
                                            .wide_input = true,
                                            .uneven = true,
                                            .bus_factor = bus_factor,
                                            .call = call,
                                            .expected = expected};

}  // namespace hocket::perf
