// SPDX-License-Identifier: Apache-2.0
// doctor/report.hpp: findings for people, and as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/checks.hpp"

namespace hocket::doctor {

/// The worst first; what is fine is one short line each at the end.
std::string report_text(const std::string& host, const std::vector<Finding>& findings);

/// {"schema":"hocket doctor 1","version":…,"host":…,"worst":"warning","exit_status":1,"findings":[{"check":…,
/// "severity":"error|warning|note|unknown|fine","seen":…,"cost":…,"mend":…}, …]} in the order of the checks. Fields are
/// only ever added under this schema's name.
std::string report_json(const std::string& host, const std::string& version, const std::vector<Finding>& findings);

}  // namespace hocket::doctor
