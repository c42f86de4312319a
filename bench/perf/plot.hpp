// SPDX-License-Identifier: Apache-2.0
// perf/plot.hpp: bus bandwidth over size as an SVG picture, one line for each algorithm. For `hocket perf --plot`.
#pragma once

#include <string>
#include <vector>

#include "bench/perf/report.hpp"

namespace hocket::perf {

/// The picture. x: bytes, logarithmic; y: busbw in GB/s from 0. Rows in place are left out where there are others; of
/// several types, operations or roots each has lines of its own. `subtitle` says where it was measured. Pure.
std::string plot_svg(const std::string& title, const std::string& subtitle, const std::vector<Row>& rows);

/// "AMD EPYC 7B13, 2 of 8 CPUs": this machine, as far as it says so.
std::string machine_text();

}  // namespace hocket::perf
