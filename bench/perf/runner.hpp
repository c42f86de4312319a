// SPDX-License-Identifier: Apache-2.0
// perf/runner.hpp: one rank's part in a benchmark: buffers, warm-up, timing, checks.
//
// How a size is measured: one call on fresh data, checked; warm-up; iterations, each a barrier and then a batch of
// calls one after the other, timed on every rank; then as many checked calls on fresh data as -c says. A batch lasts
// about 200 us, so that reading the clock and leaving the barrier do not show in it. The time of an iteration is the
// slowest rank's, per call.
#pragma once

#include "bench/perf/options.hpp"
#include "bench/perf/report.hpp"
#include "hocket/communicator.hpp"

namespace hocket::perf {

/// One rank, and an all-gather between all of them that is not what is measured. Borrowed for the call.
struct Participant {
  Rank rank = 0;
  int size = 1;
  Exchange exchange;
  Report* report = nullptr;  ///< rank 0's
};

/// Runs all sizes on this rank; every rank calls it. The number of wrong elements on all ranks. Errors end it on all.
Result<std::size_t> run_rank(const Options& options, const Participant& participant);

/// Calls of a batch and iterations, when no flag says, for a call of that many seconds.
int calls_for(double seconds);
int iterations_for(double seconds_of_batch);

}  // namespace hocket::perf
