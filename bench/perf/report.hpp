// SPDX-License-Identifier: Apache-2.0
// perf/report.hpp: results as nccl-tests' table, as CSV and as JSON. Rank 0's alone; the others have none.
#pragma once

#include <sched.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/perf/options.hpp"
#include "hocket/status.hpp"

namespace hocket::perf {

/// One measurement. A value.
struct Row {
  std::string collective, type, op;  ///< hocket's names; op is "none" for collectives that do not reduce
  int ranks = 1;
  std::string transport, algo, proto;
  std::size_t bytes = 0, count = 0;
  Rank root = -1;  ///< -1: has none
  bool in_place = false;
  double min_us = 0, median_us = 0, p99_us = 0;
  double algbw = 0, busbw = 0;       ///< GB/s (10^9), of the median
  std::optional<std::size_t> wrong;  ///< elements over all ranks; nothing if not checked
};

/// Where a rank runs.
struct RankInfo {
  char host[64];
  int pid;
  int cpu;            ///< where it is when it says so
  cpu_set_t allowed;  ///< where it may be
};

/// What a reader of the times has to know of where ranks run: that they share CPUs, or may come to share one; empty if
/// each has a CPU to itself.
std::string placement_note(const std::vector<RankInfo>& ranks);

/// algbw and busbw from the other values of a row; 0 where there is no time.
void set_bandwidths(Row& row, double bus_factor);

/// Header and line of CSV without the newline. Floating values have 6 significant digits or more.
std::string csv_header();
std::string csv_line(const Row& row);
std::string json_object(const Row& row);

/// --compare's lines for one size: one for each algorithm, the fastest marked, at most 120 columns.
std::vector<std::string> compare_table(const std::vector<Row>& rows);

class Report {
 public:
  /// Opens the files (replaced). Errors: kInvalidArgument if that is not possible.
  static Result<std::unique_ptr<Report>> open(const Options& options, std::string version);

  void head(const std::vector<RankInfo>& ranks, const std::string& description);
  /// A line about something that is not measured; a comment in the table.
  void note(const std::string& text);
  /// One size: the rows out of place and in place, of the same algorithm (none if not offered), or with --compare one
  /// of each.
  void rows(const std::vector<Row>& rows);
  void foot();
  /// What is being measured, on stderr if that is a terminal; gone with the next output.
  void progress(const std::string& text);

  std::size_t wrong() const noexcept { return wrong_; }
  /// Ends the files. Errors: kSystem if not all could be written.
  Status close();

 private:
  explicit Report(const Options& options, std::string version) : options_(options), version_(std::move(version)) {}
  void clear_progress();
  void table_line(const std::vector<Row>& rows);
  void compare_lines(const std::vector<Row>& rows);

  const Options& options_;
  const std::string version_;
  void write_plot();
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> csv_{nullptr, &std::fclose};
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> plot_{nullptr, &std::fclose};
  std::vector<RankInfo> ranks_;
  std::vector<Row> all_;
  std::vector<std::string> notes_;
  std::size_t wrong_ = 0;
  bool progress_shown_ = false;
};

}  // namespace hocket::perf
