// SPDX-License-Identifier: Apache-2.0
// topo/cpu_set.hpp: a set of CPU numbers, as the kernel writes them ("0,3,5-7").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hocket/status.hpp"

namespace hocket::topo {

/// A value; equal sets compare equal. CPU numbers are 0 .. kLimit - 1.
class CpuSet {
 public:
  static constexpr int kLimit = 1 << 14;

  /// "0", "3,5-7", "" (empty), with blanks and a newline around. kInvalidArgument on anything else.
  static Result<CpuSet> parse_list(std::string_view text);
  /// Hexadecimal groups of 32 bits, highest first: "ff", "00000001,ffffffff". kInvalidArgument on anything else.
  static Result<CpuSet> parse_mask(std::string_view text);
  /// CPUs first .. last, cut to the valid numbers.
  static CpuSet range(int first, int last);
  /// The calling thread's affinity mask; kSystem if the kernel does not tell.
  static Result<CpuSet> of_this_thread();
  /// What the main thread and the calling thread together may use: a rank that pinned its own thread does not hide
  /// the CPUs of the process's other ranks.
  static Result<CpuSet> of_this_process();

  void add(int cpu);
  bool has(int cpu) const;
  bool empty() const { return words_.empty(); }
  int count() const;
  int first() const;  ///< lowest number, -1 when empty
  int last() const;   ///< highest number, -1 when empty
  bool contains(const CpuSet& other) const;
  bool intersects(const CpuSet& other) const;
  CpuSet operator|(const CpuSet& other) const;
  CpuSet operator&(const CpuSet& other) const;
  bool operator==(const CpuSet& other) const = default;

  std::vector<int> to_vector() const;
  std::string to_string() const;  ///< "0-3,8", "" when empty; parse_list reads it back

 private:
  void trim();
  std::vector<std::uint64_t> words_;  // no zero word at the end, so that == is equality of sets
};

}  // namespace hocket::topo
