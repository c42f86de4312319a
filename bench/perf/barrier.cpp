// SPDX-License-Identifier: Apache-2.0
// perf/barrier.cpp: nobody leaves before all have come; the time is all there is.
#include "bench/perf/collective.hpp"

namespace hocket::perf {
namespace {

double bus_factor(int) {
  return 0;
}

Status call(const Call& c) {
  return c.stream ? c.communicator.barrier(*c.stream) : c.communicator.barrier();
}

std::vector<Expected> expected(int, Rank, Rank, std::size_t) {
  return {};
}

}  // namespace

const PerfCollective kBarrierPerf = {.name = "barrier",
                                     .collective = Collective::kBarrier,
                                     .no_data = true,
                                     .bus_factor = bus_factor,
                                     .call = call,
                                     .expected = expected};

}  // namespace hocket::perf
