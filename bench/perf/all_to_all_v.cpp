// SPDX-License-Identifier: Apache-2.0
// perf/all_to_all_v.cpp: n ranks give every rank a chunk of its own, of 1 to n shares.
#include "bench/perf/collective.hpp"

namespace hocket::perf {
namespace {

// As all_to_all: the chunk for oneself, (n+1)/2 of n(n+1)/2 shares on average, needs no link.
double bus_factor(int n) {
  return double(n - 1) / n;
}

// What rank `a` sends to rank `b`, and the other way round. Each rank's add up to all shares.
std::size_t pair_count(int n, Rank a, Rank b, std::size_t count) {
  return (1 + static_cast<std::size_t>((a + b) % n)) * count;
}

Status call(const Call& c) {
  const int n = c.communicator.size();
  std::vector<std::size_t> counts;
  for (Rank p = 0; p < n; ++p) counts.push_back(pair_count(n, c.communicator.rank(), p, c.count));
  if (c.stream) return c.communicator.all_to_all_v(c.input, counts, c.output, counts, c.type, {}, {}, *c.stream);
  return c.communicator.all_to_all_v(c.input, counts, c.output, counts, c.type);
}

std::vector<Expected> expected(int n, Rank me, Rank, std::size_t count) {
  std::vector<Expected> result;
  std::size_t output = 0;
  for (Rank r = 0; r < n; ++r) {
    std::size_t input = 0;  // of the chunk for me in the input of rank r
    for (Rank p = 0; p < me; ++p) input += pair_count(n, r, p, count);
    const std::size_t length = pair_count(n, r, me, count);
    result.push_back({output, length, r, input});
    output += length;
  }
  return result;
}

}  // namespace

const PerfCollective kAllToAllVPerf = {.name = "all_to_all_v",
                                       .collective = Collective::kAllToAllV,
                                       .wide_input = true,
                                       .wide_output = true,
                                       .uneven = true,
                                       .bus_factor = bus_factor,
                                       .call = call,
                                       .expected = expected};

}  // namespace hocket::perf
