// SPDX-License-Identifier: Apache-2.0
// sim/calibration.hpp: the simulator against `hocket perf` on a host's memory.
//
// A host has seven constants: what a signal, a Move, a Signal and a call cost, what a core copies in the cache and
// beyond it, and how much dearer bytes are that another core has just written. They are fitted to some measured rows
// (least squares of logarithms, by coordinate search), and the others are predicted. Rows are those of `hocket perf
// --csv`. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hocket/status.hpp"
#include "hocket/types.hpp"

namespace hocket::sim {

struct Measured {
  Collective collective = Collective::kAllReduce;
  std::string algorithm;
  int ranks = 1;
  std::uint64_t bytes = 0;  ///< as perf counts them
  double seconds = 0;       ///< the median
};

/// Rows out of place on shared memory or threads. Others, and algorithms that are not simulated, are left out.
/// kInvalidArgument with name and line for text that is no such CSV, or if nothing is left.
Result<std::vector<Measured>> read_perf_csv(std::string_view text, std::string_view name);

struct HostConstants {
  double line_seconds = 200e-9;
  double move_seconds = 50e-9;
  double signal_seconds = 20e-9;
  double call_seconds = 100e-9;
  double cache_rate = 20e9;  ///< bytes/s that one core copies
  double memory_rate = 8e9;
  double slot_weight = 1;
  double cache_bytes = 32 << 20;  ///< given: buffers of all ranks together that stay in the cache
};

struct Checked {
  Measured row;
  double predicted = 0;
  bool fitted = false;  ///< it was among those that the constants come from
  double error() const { return predicted / row.seconds - 1; }
};

struct Calibration {
  HostConstants constants;
  std::vector<Checked> rows;
  double median_error = 0;  ///< of the absolute errors of the rows that were not fitted
  double worst_error = 0;
};

/// Fits to every second size of each algorithm, and predicts the rest.
Result<Calibration> calibrate(const std::vector<Measured>& rows, double cache_bytes);
std::string calibration_text(const Calibration& calibration);

}  // namespace hocket::sim
