// SPDX-License-Identifier: Apache-2.0
// check_call.hpp: what is checked: calls with their counts, and how; and what comes out.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/bind.hpp"
#include "algorithms/plan.hpp"
#include "algorithms/protocol.hpp"
#include "checker/plan_world.hpp"

namespace hocket {

/// Of a group of sends and receives: one message, as one of its two ends sees it.
struct Message {
  int peer = 0;
  std::uint64_t count = 0;
};

/// Counts that differ: of all-gather and reduce-scatter by rank, of all-to-all by pair ([from * world + to]), of an
/// exchange by message.
struct UnevenCounts {
  std::vector<std::uint64_t> ranks;
  std::vector<std::uint64_t> pairs;
  std::vector<std::vector<Message>> sends;     ///< [rank], in the order of the plan's chunks
  std::vector<std::vector<Message>> receives;  ///< [rank], likewise
  /// Not 0: chunks lie in their buffer last one first, with that many elements between them that nobody may write.
  std::uint64_t gap = 0;
};

/// One call of a sequence, as all ranks make it.
struct CheckCall {
  const PlanWorld* plans = nullptr;
  std::uint64_t count = 1;
  std::uint64_t tile = kWholeChunk;  ///< ignored where the plan has no slots
  std::uint32_t unit = 1;
  std::int32_t tiles_per_round = 1;
  bool in_place = false;
  const UnevenCounts* uneven = nullptr;
  std::vector<std::uint8_t>* ran = nullptr;  ///< coverage: 1 for each step that ran, [plans->steps()]
};

enum class Order : std::uint8_t { kForward, kBackward, kShuffled };

struct CheckOptions {
  int slots = 2;
  /// kPacket: a wait for a slot orders only what the sender did up to its Move. kFirstLine orders as kBulk does.
  Protocol protocol = Protocol::kBulk;
  bool posted = false;  ///< Moves with a remote destination return before their sources were read
  Order order = Order::kForward;
  std::uint64_t seed = 1;
  int resident = 0;  ///< only the first that many unfinished lanes of a rank run; 0: all
};

/// What one rank wrote to (or read from) another's memory, by the first call of the sequence.
struct LinkUse {
  std::uint64_t elements = 0;
  std::uint64_t data_signals = 0;
  std::uint64_t credit_signals = 0;
};

struct CheckReport {
  std::uint64_t steps = 0;
  bool equal_bits = true;      ///< of all ranks' results of an all-reduce
  bool ordered = true;         ///< every reduced element was made by one Move of all ranks' inputs, in rank order
  std::vector<LinkUse> links;  ///< [from * world + to], the way the data went
};

inline constexpr int kMaxCheckedSlots = 6;
inline constexpr int kMaxCheckedCalls = 6;

}  // namespace hocket
