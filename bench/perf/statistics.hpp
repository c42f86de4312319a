// SPDX-License-Identifier: Apache-2.0
// perf/statistics.hpp: the times of the iterations, over ranks and in order.
#pragma once

#include <span>
#include <vector>

namespace hocket::perf {

/// How the ranks' times of one iteration become one, as nccl-tests' -a counts them.
enum class OverRanks { kRank0 = 0, kAverage = 1, kMinimum = 2, kMaximum = 3 };

/// `times` holds all iterations of rank 0, then of rank 1 …; the result is one time an iteration.
std::vector<double> over_ranks(std::span<const double> times, int ranks, OverRanks how);

struct Summary {
  double minimum = 0;
  double median = 0;
  double p99 = 0;  ///< the smallest time that at least 99 % do not exceed
};

/// Zeros if there are no times.
Summary summary_of(std::vector<double> times);

}  // namespace hocket::perf
