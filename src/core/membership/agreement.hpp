// SPDX-License-Identifier: Apache-2.0
// membership/agreement.hpp: what must be equal on all ranks, whether it is, and how to say where it is not.
//
// Every rank looks at all entries in the same order, and so comes to the same conclusion.
#pragma once

#include <string>
#include <vector>

#include "core/communicator_state.hpp"
#include "core/membership/messages.hpp"

namespace hocket::membership {

/// All that is the same on all ranks of one build and one job; the rest is this rank's.
Member member_of(const CommunicatorState& state, std::uint64_t settings_digest);

const Tuning& tuning_of(const World& world);

/// All that must agree, as text; also which transports may be used, since with other lists one rank would wait for what
/// another rules out, and the rows of the tuning tables and the tuner, by which all have to choose alike.
std::string settings_text(const Settings& settings, const World& world);

/// Which algorithms, protocols and transports the settings leave. Errors: kInvalidArgument, and kUnsupported if nothing
/// is left.
Status read_lists(const Settings& settings, World* world);

/// A tuner's name is in texts that ranks compare and print. Errors: kInvalidArgument.
Status check_tuner(const Tuner& tuner);

/// All entries are what they should be. The same answer on every rank, worded for this one. `words`: some rank has more
/// to say.
Status check_members(const std::vector<Member>& members, Rank rank, bool* words);

/// Why there will be no communicator, from what all ranks said.
Status explain(const std::vector<Member>& members, const std::vector<Words>& words);

}  // namespace hocket::membership
