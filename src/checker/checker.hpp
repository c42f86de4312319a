// SPDX-License-Identifier: Apache-2.0
// checker.hpp: proves a world of plans: every rank's plan for a sequence of calls, run once with symbolic data.
//
// It runs the executors' own step machine (exec/step_machine.hpp) over a symbolic lane (symbolic_lane.hpp). Counters
// only grow, each has one writer, and no step depends on data or timing, so one run decides for all timings. It checks
//   values      each element is the sum of one random token per (rank, origin element, call) that belongs in it,
//               divided (the `finish` flag) exactly once and only when it is complete; expression trees tell whether
//               all ranks get equal bits (judge.hpp)
//   order       vector clocks; the caller writes its input before a call and overwrites input and output right after it
//   slots       local rules that do not depend on luck in timing, from a start in which S transfers of every channel
//               were consumed but not yet seen to be, so any plan may have run before
//   progress    no deadlock, also with few lanes at a time (resident)
//   balance     in every call, on every channel, data signals = credit signals
// An error is one sentence that names call, rank, lane, step, channel and element.
// Next stop: checker.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "algorithms/bind.hpp"
#include "algorithms/plan.hpp"
#include "algorithms/protocol.hpp"
#include "checker/plan_world.hpp"
#include "hocket/status.hpp"

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

/// Keeps its memory between checks. One thread at a time.
class Checker {
 public:
  Checker();
  ~Checker();
  /// OK with a report: the calls, in this order, are right. All worlds have one size. Errors: kInternal with what is
  /// wrong; kInvalidArgument when the question itself makes no sense.
  Result<CheckReport> check(std::span<const CheckCall> calls, const CheckOptions& options);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The smallest number of lanes of a rank that must make progress at once.
Result<int> resident(const PlanWorld& world);
/// Lets the longest chunk have about `tiles` tiles.
std::uint64_t tile_for(const PlanWorld& world, const CheckCall& call, std::uint64_t tiles);

}  // namespace hocket
