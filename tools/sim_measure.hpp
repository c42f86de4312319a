// SPDX-License-Identifier: Apache-2.0
// tools/sim_measure.hpp: what `hocket sim --calibrate` measures before it predicts.
#pragma once

#include <string>

#include "hocket/status.hpp"

/// Runs `hocket perf all_reduce` and all_gather on two ranks of this host, by several algorithms and sizes, and appends
/// the rows to `file`, which is emptied first. Errors: kSystem if a run can't be started or fails.
hocket::Status sim_measure(const std::string& file);
