// SPDX-License-Identifier: Apache-2.0
// membership/costs.hpp: what all ranks may base a choice on, from what each one said of itself and its host.
#pragma once

#include <vector>

#include "core/communicator_state.hpp"
#include "core/membership/messages.hpp"
#include "topo/host_layout.hpp"

namespace hocket::membership {

/// Fills in the world of `s` and how its calls wait. `leader` is its host's. Returns the links of each host, as hosts
/// are numbered: of the slowest counts what counts for all.
std::vector<topo::HostLinks> take_costs(CommunicatorState& s, Rank leader, const std::vector<Outcome>& outcomes);

}  // namespace hocket::membership
