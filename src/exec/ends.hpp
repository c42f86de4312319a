// SPDX-License-Identifier: Apache-2.0
// ends.hpp: what a plan uses of the world, derived by running its lanes without data; nothing is declared by hand.
//
// The channel ends tell an executor which connections to make, the reach tells a selection which links a plan needs,
// and the packet question decides the protocol. All are pure functions of one rank's plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/plan.hpp"
#include "hocket/status.hpp"

namespace hocket {

/// This rank's end of channel (channel, from, to), where one of from and to is this rank and `peer` is the other.
struct ChannelEnd {
  std::uint16_t channel = 0;
  std::int32_t peer = 0;
  bool outgoing = false;  ///< this rank sends data on it
  std::uint32_t lane = 0;
  std::uint32_t signals = 0;  ///< of one tile; 0: only waits name it
  bool slotted = false;       ///< some transfer goes through a slot
  bool bare = false;          ///< some transfer has no slot: order only, or direct
  bool board = false;         ///< slots at the writer, read by several
};

/// What a plan asks of its links.
struct Reach {
  bool loads = false;       ///< reads a peer's memory: load/store peers only
  bool registered = false;  ///< names a peer's input or output: collectively registered memory only
};

/// All channel ends, ordered by lane and first use. Error: an end is used by two lanes.
Result<std::vector<ChannelEnd>> ends_of(const Plan& plan);
Reach reach_of(const Plan& plan);
/// OK when every channel is purely slotted or purely order only, so that the packet protocol may run it; else why not.
Status qualifies_for_packets(const Plan& plan);

}  // namespace hocket
