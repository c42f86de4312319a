// SPDX-License-Identifier: Apache-2.0
// tools/sim_report.hpp: what `hocket sim` prints: tables, the critical path, crossing points, JSON and a picture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/simulate.hpp"

/// One algorithm's price for one size.
struct SimPoint {
  std::uint64_t bytes = 0;
  std::optional<hocket::sim::Price> price;  ///< none: not for this size; `why` says it
  std::string busiest;                      ///< name of the most loaded link
  std::string why;
};
struct SimLine {
  std::string algorithm;
  int hosts = 1;
  int ranks = 1;
  int copies = 1;
  std::size_t classes = 0;
  std::int64_t actors = 0;
  bool exact = true;
  bool in_library = true;         ///< else a plan that the library does not run yet
  std::string why;                ///< it can't be simulated at all
  std::vector<SimPoint> points;   ///< by size
  std::vector<std::string> path;  ///< the critical path of the last size, if it is known hop by hop
};

/// The algorithm, with a star where the library does not run it yet.
std::string sim_name(const SimLine& line);
/// "64 KiB"
std::string sim_size(std::uint64_t bytes);
/// One size: a row for each algorithm. Several: busbw by size and algorithm, and where another becomes the fastest.
std::string sim_table(const std::vector<SimLine>& lines);
/// Where the time of a price goes, and its path.
std::string sim_details(const SimLine& line);
std::string sim_json(const std::string& machine, const std::vector<SimLine>& lines);
/// busbw over size, or, where only hosts differ, over hosts. A line for each algorithm and number of hosts; dots where
/// another algorithm becomes the fastest.
std::string sim_svg(const std::string& title, const std::string& subtitle, const std::vector<SimLine>& lines);
/// The critical path in words: equal hops one after the other are one entry.
std::vector<std::string> sim_path(const hocket::sim::Simulation& simulation, const hocket::sim::Price& price);
