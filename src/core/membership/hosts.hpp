// SPDX-License-Identifier: Apache-2.0
// membership/hosts.hpp: which ranks share a host, what of it they may use, and which GPU is whose.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/communicator_state.hpp"
#include "core/membership/messages.hpp"
#include "topo/graph.hpp"

namespace hocket::membership {

/// Numbers hosts by their lowest rank, the leader; how many there are.
int number_hosts(std::vector<Member>* members);
/// The same numbers without gaps.
std::vector<std::int32_t> host_numbers(const std::vector<Member>& members);

/// What this process may use of its CPUs.
void fill_cpus(Outcome& outcome);

/// What counts of a host, from its ranks' entries.
struct HostLoad {
  int ranks = 0;
  std::map<std::uint32_t, const Outcome*> masks;  ///< the different sets of CPUs
  float quota = 0;

  bool crowded() const { return ranks > usable(); }
  /// Two ranks a core, or fewer: then a peer of another core is more likely running than not.
  bool half_of_them_run() const { return ranks <= 2 * usable(); }

 private:
  /// CPUs that the ranks may use together. Sets that may overlap count as one.
  double usable() const;
};
/// By leader, as hosts are numbered. Points into `outcomes`.
std::map<Rank, HostLoad> load_of_hosts(const std::vector<Member>& members, const std::vector<Outcome>& outcomes);

/// Among the ranks of its host.
std::ptrdiff_t local_place(const std::vector<std::int32_t>& host, Rank rank);

}  // namespace hocket::membership
