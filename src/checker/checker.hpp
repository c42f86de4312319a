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

#include "checker/check_call.hpp"
#include "checker/plan_world.hpp"
#include "hocket/status.hpp"

namespace hocket {

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
