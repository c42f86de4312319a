// SPDX-License-Identifier: Apache-2.0
// dump.hpp: a plan as text, one step a line, the way people write it.
#pragma once

#include <string>

#include "algorithms/plan.hpp"

namespace hocket {

/// The whole plan: a headline, its cuts, then each lane with loops indented and steps numbered from the lane's first.
std::string to_text(const Plan& plan);
/// One step without number and indentation: "wait data ch0 from 2, a[(3 - i) mod 8]". Errors of the checker use it.
std::string step_text(const PlanView& plan, const LaneProgram& lane, std::uint32_t step);
/// "(3 - i) mod 8", "5", "2*j + 1".
std::string to_text(const Index& index);

}  // namespace hocket
