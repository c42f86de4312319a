// SPDX-License-Identifier: Apache-2.0
// topo/cpu_budget.hpp: how much CPU this process may use: its affinity mask and its cgroups' quota.
//
// Threads are sized by this and never by the number of CPUs in the machine: a container may own 1.5 of 128.
#pragma once

#include <string>
#include <vector>

#include "topo/cpu_set.hpp"

namespace hocket::topo {

struct CpuBudget {
  CpuSet online;          ///< CPUs that the kernel runs; empty if unknown
  CpuSet allowed;         ///< CPUs that the process may run on
  double quota_cpus = 0;  ///< CPU seconds per second that its cgroups grant; 0 means no limit

  /// min(allowed CPUs, quota). May be below 1 and a fraction.
  double usable_cpus() const;
  bool operator==(const CpuBudget&) const = default;
};

/// The smallest quota of the process's cgroups, v1 and v2, from its own up to the root; 0 when none limits.
///
/// `root` is put before every path ("" is the machine). What can't be read is left out and said in `notes`.
double read_cpu_quota(const std::string& root, std::vector<std::string>* notes);

/// Online CPUs and quota from files under `root`, the affinity mask from the kernel.
CpuBudget read_cpu_budget(const std::string& root, std::vector<std::string>* notes);

/// A small file's text. kSystem with the path and the reason if it can't be read or is longer than `limit` bytes.
Result<std::string> read_small_file(const std::string& path, std::size_t limit = 1 << 20);

}  // namespace hocket::topo
