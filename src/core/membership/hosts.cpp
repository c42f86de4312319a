// SPDX-License-Identifier: Apache-2.0
#include "core/membership/hosts.hpp"

#include <algorithm>

#include "base/os/membarrier.hpp"
#include "base/status.hpp"
#include "topo/cpu_budget.hpp"
#include "topo/hash.hpp"
#include "topo/host_layout.hpp"

namespace hocket::membership {

int number_hosts(std::vector<Member>* members) {
  std::map<std::array<std::uint64_t, 2>, Rank> leaders;
  for (std::size_t r = 0; r < members->size(); ++r)
    (*members)[r].host = leaders.try_emplace((*members)[r].address.host, static_cast<Rank>(r)).first->second;
  return static_cast<int>(leaders.size());
}

std::vector<std::int32_t> host_numbers(const std::vector<Member>& members) {
  std::map<Rank, std::int32_t> number;
  for (const Member& member : members) number.try_emplace(member.host, static_cast<std::int32_t>(number.size()));
  std::vector<std::int32_t> host;
  host.reserve(members.size());
  for (const Member& member : members) host.push_back(number.at(member.host));
  return host;
}

void fill_cpus(Outcome& member) {
  std::vector<std::string> notes;
  const topo::CpuBudget budget = topo::read_cpu_budget("", &notes);
  const std::vector<int> cpus = budget.allowed.to_vector();
  member.cpu_count = static_cast<std::uint16_t>(std::min<std::size_t>(cpus.size(), 0xffff));
  if (!cpus.empty()) {
    member.cpu_first = static_cast<std::uint16_t>(cpus.front());
    member.cpu_last = static_cast<std::uint16_t>(cpus.back());
  }
  member.cpu_mask = static_cast<std::uint32_t>(
      topo::hash_bytes({reinterpret_cast<const char*>(cpus.data()), cpus.size() * sizeof(int)}));
  member.quota = static_cast<float>(budget.quota_cpus);
  member.membarrier = os::register_membarrier();
}

double HostLoad::usable() const {
  double usable = 0;
  std::vector<const Outcome*> sets;
  for (const auto& [hash, member] : masks) sets.push_back(member);
  std::sort(sets.begin(), sets.end(), [](const Outcome* a, const Outcome* b) { return a->cpu_first < b->cpu_first; });
  for (std::size_t i = 0; i < sets.size();) {
    int last = -1;
    double most = 0;
    for (bool first = true; i < sets.size() && (first || sets[i]->cpu_first <= last); ++i, first = false) {
      last = std::max<int>(last, sets[i]->cpu_last);
      most = std::max<double>(most, sets[i]->cpu_count);
    }
    usable += most;
  }
  if (quota > 0) usable = std::min<double>(usable, quota);
  return usable;
}

std::map<Rank, HostLoad> load_of_hosts(const std::vector<Member>& members, const std::vector<Outcome>& outcomes) {
  std::map<Rank, HostLoad> hosts;
  for (std::size_t r = 0; r < members.size(); ++r) {
    const Outcome& o = outcomes[r];
    HostLoad& load = hosts[members[r].host];
    ++load.ranks;
    load.masks.try_emplace(o.cpu_mask, &o);
    if (o.quota > 0) load.quota = load.quota == 0 ? o.quota : std::min(load.quota, o.quota);
  }
  return hosts;
}

std::ptrdiff_t local_place(const std::vector<std::int32_t>& host, Rank rank) {
  const auto mine = host.begin() + rank;
  return std::count(host.begin(), mine, *mine);
}

}  // namespace hocket::membership
