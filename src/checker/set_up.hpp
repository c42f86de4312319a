// SPDX-License-Identifier: Apache-2.0
// set_up.hpp: the memory, clocks and channels of a world of ranks before the first of its calls. Private to the
// checker.
#pragma once

#include <span>

#include "checker/symbolic_lane.hpp"

namespace hocket::check {

/// As if another plan had run before: every channel's slots are consumed, and no sender has seen it. Errors:
/// kInvalidArgument: these calls cannot be checked together, or not with these options.
Status set_up(Run& run, std::span<const CheckCall> calls, const CheckOptions& options);

}  // namespace hocket::check
