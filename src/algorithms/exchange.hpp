// SPDX-License-Identifier: Apache-2.0
// exchange.hpp: the plan of a group of sends and receives, one rank's part of it. Next stop: exchange.cpp.
#pragma once

#include <cstdint>
#include <span>

#include "algorithms/plan.hpp"
#include "hocket/status.hpp"
#include "hocket/types.hpp"

namespace hocket {

/// Of one rank in one group, each way.
inline constexpr std::size_t kMostMessages = 1 << 16;

/// How the messages of a rank share its lanes.
enum class ExchangeForm : std::uint8_t {
  /// Each lane takes turns over sends and receives, tile by tile. All ranks must take part in one group: a peer that
  /// first receives and then sends would wait. Few lanes, as a device wants them.
  kInterleaved,
  /// A lane for each peer and direction, which waits for nobody but its own peer, whatever else that does. For
  /// executors whose lanes take turns on one thread; `lanes` does not count.
  kSideBySide,
};

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
                           int lanes = 1, ExchangeForm form = ExchangeForm::kInterleaved);

}  // namespace hocket
