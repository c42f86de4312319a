// SPDX-License-Identifier: Apache-2.0
// doctor/checks.hpp: what a machine's facts mean for hocket: one table of small pure functions.
//
// Each finding says what was seen, what it costs and the one command that mends it. A fact that could not be read is
// told as unknown and leads to nothing else. Next stop: doctor/report.hpp prints them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/doctor/facts.hpp"

namespace hocket::doctor {

/// From nothing to worst.
enum class Severity {
  kFine,     ///< looked at and right
  kUnknown,  ///< could not be read
  kNote,     ///< good to know; costs hocket nothing as it is used today
  kWarning,  ///< slower, or riskier
  kError,    ///< hocket will not run, or not over what this is about
};
std::string_view to_string(Severity severity);

struct Finding {
  Severity severity = Severity::kFine;
  std::string check;  ///< the name in the table
  std::string seen;
  std::string cost;  ///< empty for kFine and kUnknown
  std::string mend;  ///< one command, or what else to do; empty where there is nothing to mend
};

struct Check {
  std::string_view name;
  std::vector<Finding> (*run)(const Facts&);  ///< `check` of what it returns is filled in by run_checks
};
/// In the order of printing.
std::span<const Check> checks();
std::vector<Finding> run_checks(const Facts& facts);

Severity worst_of(const std::vector<Finding>& findings);
/// 0 without warnings, 1 with, 2 with errors.
int exit_status(const std::vector<Finding>& findings);

}  // namespace hocket::doctor
