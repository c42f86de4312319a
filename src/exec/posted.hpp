// SPDX-License-Identifier: Apache-2.0
// posted.hpp: where a lane must wait for its posted puts, derived and never written by hand.
//
// Over a network a Move returns before its sources were read. Three things depend on that: the credit for a slot that a
// put still reads, a Move that writes own memory that a put still reads, and the end of the lane. A lane is run alone,
// with every remote destination posted and as little known from credits as may be, over a few shapes that stand for
// all; where one of the three would come too early, the step gets a completion wait. The checker's posted mode proves
// the result with all ranks together.
#pragma once

#include "algorithms/plan.hpp"
#include "hocket/status.hpp"

namespace hocket {

/// Sets Step::completion and LaneProgram::completion anew: kSlotCompletion on credits, kAllCompletion on Moves and lane
/// ends. What comes back from peers is not known here, so a wait of the last two kinds may be implied by it.
/// Microseconds to a few milliseconds; once a plan. Errors: the plan is not valid.
Status derive_completions(Plan& plan);

}  // namespace hocket
