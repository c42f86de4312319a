// SPDX-License-Identifier: Apache-2.0
// judge.hpp: whether a rank's output is what its collective promises, element by element, and if not, what it is
// instead. Private to the checker.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checker/symbolic_lane.hpp"

namespace hocket::check {

/// Of one run. What is wrong goes to Run::fail.
class Judge {
 public:
  explicit Judge(Run& run) : run_(run) {}

  /// Forgets all results.
  void reset();
  /// The output of a rank whose lanes have ended.
  void check(int rank);

  /// Of the results so far: whether they are equal to the bit, and reduced in rank order.
  bool equal_bits() const { return equal_bits_; }
  bool ordered() const { return ordered_; }

 private:
  void check_element(int rank, std::uint64_t e, std::uint64_t expected);
  void check_gaps(int rank);
  std::string diagnose(int rank, std::uint64_t got, std::uint64_t expected);

  Run& run_;
  std::vector<std::vector<std::uint64_t>> sums_;   // by call: expected sums of an all-reduce, reduce
  std::vector<std::vector<std::uint64_t>> trees_;  // by call: the first result's expression trees
  bool equal_bits_ = true;
  bool ordered_ = true;
};

}  // namespace hocket::check
