// SPDX-License-Identifier: Apache-2.0
#include "core/membership/slots.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <vector>

#include "base/settings.hpp"
#include "base/status.hpp"
#include "core/membership/exchange.hpp"

namespace hocket::membership {

SlotSizes slots_for(const Settings& settings, std::size_t ranks, bool network) {
  SlotSizes sizes{ranks <= 2 ? 16u : ranks <= 4 ? 8u : 4u, 64 << 10};
  if (network) sizes = {ranks <= 2 ? 8u : 4u, ranks <= 4 ? 256u << 10 : 128u << 10};
  if (settings.slots >= 2 && std::has_single_bit(static_cast<std::uint32_t>(settings.slots)))
    sizes.slots = static_cast<std::uint64_t>(settings.slots);
  if (settings.slot_bytes >= 4096 && std::has_single_bit(settings.slot_bytes))
    sizes.slot_bytes = settings.slot_bytes;
  else if (settings.tile_bytes > sizes.slot_bytes && settings.tile_bytes <= std::size_t{4} << 20)
    sizes.slot_bytes = std::bit_ceil(settings.tile_bytes);
  return sizes;
}

Result<bool> over_network(const CreateArgs& args) {
  struct Near {
    std::array<std::uint64_t, 2> host;
    std::uint64_t shared_memory;
    bool operator==(const Near&) const = default;
  };
  const std::string_view transports[] = {"local", "shm", "tcp"};
  const auto allowed = AllowList::parse(args.settings.transport, transports, "HOCKET_TRANSPORT");
  const Near own{args.engine->address().host, !allowed.ok() || allowed->allows(Collective::kBarrier, "shm")};
  std::vector<Near> all(static_cast<std::size_t>(args.size), own);
  if (args.size > 1) HOCKET_TRY(exchange_all(args.exchange, own, &all, "hosts"));
  return std::any_of(all.begin(), all.end(),
                     [&](const Near& near) { return near != all.front() || near.shared_memory == 0; });
}

}  // namespace hocket::membership
