// SPDX-License-Identifier: Apache-2.0
// exchange.hpp: the plan of a group of sends and receives, one rank's part of it. Next stop: exchange.cpp.
#pragma once

#include <span>

#include "algorithms/plan.hpp"
#include "hocket/status.hpp"
#include "hocket/types.hpp"

namespace hocket {

/// Of one rank in one group, each way.
inline constexpr std::size_t kMostMessages = 1 << 16;

/// `sends[e]` is the rank that message e goes to, `receives[e]` the one that message e comes from, in the group's
/// order; a peer may be there more than once, and its i-th message meets the i-th that it has for this rank. Message e
/// is chunk e of the shape's send row (send_counts, send_offsets) or receive column; the two ends must agree on the
/// length, as for a send and a receive. Messages of different types go together if the call's element is a byte.
///
/// A message moves as send_plan and receive_plan move it when `lanes` is 1: on the same channel, tile by tile. Its
/// other end may then be a send or a receive outside of any group, as long as tile and protocol are the same.
///
/// Pure; any thread. Errors: kInvalidArgument for a rank that is not there, no message at all, or messages to oneself
/// that do not match; kUnsupported for more than kMostMessages.
Result<Plan> exchange_plan(int world, Rank rank, std::span<const Rank> sends, std::span<const Rank> receives,
                           int lanes = 1);

}  // namespace hocket
