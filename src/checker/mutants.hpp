// SPDX-License-Identifier: Apache-2.0
// mutants.hpp: small mistakes in a plan, to show that the checker would see them. For tests.
//
// A mutant that the checker accepts is a correct plan; each has to belong to a class that says why, and the classes are
// closed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/plan.hpp"

namespace hocket {

enum class MutantKind : std::uint8_t {
  kDropMove,
  kDropSignal,
  kDropWaitData,
  kDropWaitCredit,
  kSwap,
  kDoubleSignal,
  kDropSource,
  kDropDestination,
  kWrongChunk,
  kWrongPiece,
  kWrongPeer,
  kCreditBound,
  kRepeatMore,
  kRepeatLess,
  kDropCompletion,
  kDropGrant,
  kFlipFinish,
};
inline constexpr int kMutantKindCount = 17;
std::string_view to_string(MutantKind kind) noexcept;

struct Mutant {
  MutantKind kind;
  std::uint32_t lane = 0;
  std::uint32_t step = 0;  ///< of the lane, in the original; the lane's count for its end
  int span = -1;           ///< of the Move, or -1
  std::string text;        ///< "rank 3, lane 0: swap steps 4 and 5 (… ; …)"
  Plan plan;
};

/// All single mistakes in a plan. `slots` is S of the checks to come: a credit bound of "a slot is free" becomes S.
/// Mistakes that make an invalid plan are left out; a step inside a repeat of count 0 never runs and is no mutant.
std::vector<Mutant> mutants_of(const Plan& plan, int slots);

/// Why an accepted mutant is a correct plan.
enum class Survivor : std::uint8_t {
  kIndependentSwap,    ///< two Moves on other elements, two Signals, two Waits, a Wait and a Signal, a Move and a
                       ///< following Wait credit, a Move and a Wait data or a Signal of a channel whose slots the
                       ///< Move does not name
  kSelfExchange,       ///< one repeat more: the index wraps onto the own rank, which hands itself what it has
  kImpliedDrain,       ///< a wait for credits that another one of the same peer implies
  kUnusedPeer,         ///< a peer that nothing depends on: of a board, any of its readers will do
  kImpliedCompletion,  ///< what the put's receiver sent back says that it has read: the derivation looks at one lane
                       ///< alone
};
inline constexpr int kSurvivorCount = 5;
std::string_view to_string(Survivor survivor) noexcept;

/// The class of an accepted mutant, from the two plans alone; none: the checker has a hole or the plan a needless step.
std::optional<Survivor> classify(const Plan& original, const Mutant& mutant);

}  // namespace hocket
