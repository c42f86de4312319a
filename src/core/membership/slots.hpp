// SPDX-License-Identifier: Apache-2.0
// membership/slots.hpp: how many slots a channel has, and how large they are.
#pragma once

#include <cstdint>

#include "core/communicator_state.hpp"

namespace hocket::membership {

struct SlotSizes {
  std::uint64_t slots, slot_bytes;
};
/// All slots that a rank receives on together should not fit the cache of one core (1 MiB and more): lines that the
/// reader's cache still holds are several times slower to write again than those that have moved on to the shared
/// cache. Over a network a transfer costs system calls and packets, so few large slots are better
/// (docs/performance.md).
SlotSizes slots_for(const Settings& settings, std::size_t ranks, bool network);

/// Whether some of the ranks reach each other only over a network, as far as it can be known before they have met.
/// Equal on all ranks, though each has its own list of transports. An all-gather; errors: the exchange's.
Result<bool> over_network(const CreateArgs& args);

}  // namespace hocket::membership
