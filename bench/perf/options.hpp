// SPDX-License-Identifier: Apache-2.0
// perf/options.hpp: the flags of `hocket perf`: those of nccl-tests with their meanings, and a few of our own.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/perf/collective.hpp"
#include "bench/perf/statistics.hpp"
#include "hocket/status.hpp"
#include "hocket/types.hpp"

namespace hocket::perf {

struct Options {
  const PerfCollective* collective = nullptr;
  std::size_t min_bytes = std::size_t{32} << 20;
  std::size_t max_bytes = std::size_t{32} << 20;
  std::size_t step_bytes = std::size_t{1} << 20;
  std::size_t step_factor = 1;    ///< more than 1: sizes grow by it, and not by step_bytes
  std::optional<int> iterations;  ///< else by time
  std::optional<int> warmups;     ///< else 5, fewer if they take long
  std::optional<int> calls;       ///< per iteration; else by time
  int checks = 1;                 ///< 0: data is not checked
  std::vector<ReduceOp> ops = {ReduceOp::kSum};
  std::vector<DataType> types = {DataType::kFloat32};
  std::optional<Rank> root = 0;  ///< none: each rank in turn
  bool blocking = true;
  OverRanks over_ranks = OverRanks::kMaximum;
  int timeout_s = 0;
  int threads = 1;           ///< ranks of a process
  std::optional<int> ranks;  ///< all together, started by us; else the launcher's
  bool pin = false;
  bool symmetric = false;
  bool compare = false;
  bool json = false;
  std::string csv;   ///< a file; empty: none
  std::string plot;  ///< likewise; sets `compare`
};

/// Reads the flags; argv[0] is skipped. Prints help itself. Without a value the program is to exit with `exit_code`.
struct Parsed {
  std::optional<Options> options;
  int exit_code = 0;
};
Parsed parse_options(int argc, const char* const* argv);

/// "8", "32M", "0.5g" (1024 based); nothing if it is no size.
std::optional<std::size_t> parse_bytes(std::string_view text);
/// nccl-tests' and hocket's names, one.
std::optional<DataType> parse_type(std::string_view name);
std::optional<ReduceOp> parse_op(std::string_view name);
/// nccl-tests' names: float, half …; prod, avg …
std::string_view nccl_name(DataType type);
std::string_view nccl_name(ReduceOp op);

/// All sizes from min to max.
std::vector<std::size_t> sizes_of(const Options& options);
/// The counts that are measured for these, each once: small sizes are rounded up to the same.
std::vector<std::size_t> counts_of(const Options& options, DataType type, int ranks);

}  // namespace hocket::perf
