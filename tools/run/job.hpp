// SPDX-License-Identifier: Apache-2.0
// tools/run/job.hpp: all children of a launcher, from the first start to the last end.
//
// Next stops, in the order in which a job meets them: child.hpp starts one, exchanges.hpp answers what ranks ask,
// outputs.hpp passes on what they write, termination.hpp ends those that do not end by themselves.
#pragma once

#include <vector>

#include "hocket/status.hpp"
#include "tools/run.hpp"
#include "tools/run/child.hpp"
#include "tools/run/signals.hpp"

namespace hocket::run {

/// Runs to the end of all; returns and errors as run_ranks(). Nothing of the children is left, whatever happened.
Result<int> run_job(const Options& options, Signals& signals, const std::vector<Spec>& specs);

}  // namespace hocket::run
