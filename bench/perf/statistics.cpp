// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/statistics.hpp"

#include <algorithm>
#include <cstddef>

namespace hocket::perf {

std::vector<double> over_ranks(std::span<const double> times, int ranks, OverRanks how) {
  const std::size_t n = static_cast<std::size_t>(ranks), iterations = times.size() / n;
  std::vector<double> result(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(iterations));
  if (how == OverRanks::kRank0) return result;
  for (std::size_t i = 0; i < iterations; ++i) {
    for (std::size_t r = 1; r < n; ++r) {
      const double time = times[r * iterations + i];
      switch (how) {
        case OverRanks::kRank0: break;
        case OverRanks::kAverage: result[i] += time; break;
        case OverRanks::kMinimum: result[i] = std::min(result[i], time); break;
        case OverRanks::kMaximum: result[i] = std::max(result[i], time); break;
      }
    }
    if (how == OverRanks::kAverage) result[i] /= static_cast<double>(ranks);
  }
  return result;
}

Summary summary_of(std::vector<double> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  Summary summary;
  summary.minimum = times.front();
  summary.median = n % 2 == 1 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
  summary.p99 = times[(99 * n + 99) / 100 - 1];
  return summary;
}

}  // namespace hocket::perf
