// SPDX-License-Identifier: Apache-2.0
#include "core/membership/costs.hpp"

#include <algorithm>
#include <chrono>

#include "core/membership/hosts.hpp"
#include "topo/cost.hpp"

namespace hocket::membership {
namespace {

// About half of what a yield costs (bench: 4 ranks on 2 cores; 48 looks and more were slower again).
constexpr std::uint32_t kLingerLooks = 16;

}  // namespace

std::vector<topo::HostLinks> take_costs(CommunicatorState& s, Rank leader, const std::vector<Outcome>& outcomes) {
  World& world = s.world;
  std::vector<topo::HostLinks> links_by_host;
  world.size = s.size;
  world.slots = s.layout.slots;
  world.slot_bytes = s.layout.slot_bytes;
  world.tile_bytes = s.settings.tile_bytes;
  world.lanes = s.settings.lanes;
  world.reproducible = s.settings.reproducible;
  world.direct = std::all_of(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return o.direct != 0; });
  world.one_process = s.size > 1 && std::all_of(s.members.begin(), s.members.end(), [&](const Member& m) {
                        return m.address.token == s.members.front().address.token;
                      });
  s.may_be_symmetric.store(world.one_process, std::memory_order_relaxed);
  std::uint64_t cache = 0;
  for (const auto& [r, load] : load_of_hosts(s.members, outcomes)) {
    const Outcome& o = outcomes[static_cast<std::size_t>(r)];
    // The slowest host's figures count for all.
    if (o.hop_seconds > 0) world.hop_seconds = std::max(world.hop_seconds, o.hop_seconds);
    if (o.bytes_per_second > 0) world.seconds_per_byte = std::max(world.seconds_per_byte, 1 / o.bytes_per_second);
    topo::HostLinks links;
    links.hop_seconds = o.hop_seconds;
    links.ring_rate = links.tree_rate = links.direct_rate = links.step_rate = o.bytes_per_second;
    links.net_hop_seconds = o.net_hop_seconds;
    links.net_rate = o.net_bytes_per_second;
    links_by_host.push_back(links);
    if (o.cache_bytes != 0) cache = cache == 0 ? o.cache_bytes : std::min(cache, o.cache_bytes);
    world.crowded |= load.crowded();
    if (r == leader) {
      s.wait_policy.crowded = load.crowded();
      s.wait_policy.linger_looks = load.half_of_them_run() ? kLingerLooks : 0;
    }
  }
  if (cache != 0) world.cache_bytes = cache;
  if (!world.direct && world.hosts == 1) {
    // A network was asked for within the host.
    world.hop_seconds = std::max(world.hop_seconds, topo::kLoopbackSeconds);
    world.seconds_per_byte = std::max(world.seconds_per_byte, 1 / topo::kLoopbackRate);
  }
  // A fence at each signal, or one at each sleep: the latter where ranks seldom sleep and all of the host can.
  s.fenced = world.crowded ||
             !std::all_of(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return o.membarrier != 0; });
  s.wait_policy.fenced = s.fenced;
  if (!world.direct) s.wait_policy.spin_ns = kNetworkSpinNs;
  if (s.settings.spin)
    s.wait_policy.spin_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(*s.settings.spin).count();
  return links_by_host;
}

}  // namespace hocket::membership
