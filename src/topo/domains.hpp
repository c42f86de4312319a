// SPDX-License-Identifier: Apache-2.0
// topo/domains.hpp: which ranks share a process, a host, a package, a NUMA domain, an L3.
//
// Each rank describes its own place, the places travel in one all-gather, and every rank draws the same conclusion.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topo/graph.hpp"

namespace hocket::topo {

/// Where one rank runs. Plain bytes, for the all-gather of start-up.
struct Place {
  std::array<std::uint64_t, 2> host{};  ///< hash_of_host() of its id
  std::uint64_t process = 0;            ///< a number that the process drew at random; ranks that are threads share it
  // Graph node indices of the host's Graph; -1 where the rank may run in more than one, or where it is unknown.
  std::int32_t package = -1;
  std::int32_t numa = -1;
  std::int32_t l3 = -1;
  std::int32_t allowed_cpus = 0;  ///< size of the rank's mask

  bool operator==(const Place&) const = default;
};
static_assert(sizeof(Place) == 40);

/// A rank's place from its host's Graph and its own affinity mask. The CPU it runs on at the moment plays no part: the
/// scheduler may move it, and the same job has to reach the same conclusions in every run. Pure.
Place place_of(const Graph& graph, const std::array<std::uint64_t, 2>& host, std::uint64_t process,
               const CpuSet& allowed);

/// Groups of ranks. Groups are numbered by their lowest rank, over all hosts; -1 is "can't be told".
struct Domains {
  std::vector<int> process;  // [ranks], each of these
  std::vector<int> host;
  std::vector<int> package;
  std::vector<int> numa;
  std::vector<int> l3;
  int hosts = 0;
  int processes = 0;

  int ranks() const { return static_cast<int>(host.size()); }
  bool same_process(int a, int b) const { return same(process, a, b); }
  bool same_host(int a, int b) const { return same(host, a, b); }
  bool same_package(int a, int b) const { return same(package, a, b); }
  bool same_numa(int a, int b) const { return same(numa, a, b); }
  bool same_l3(int a, int b) const { return same(l3, a, b); }

  std::vector<int> ranks_of_host(int host_number) const;  ///< ascending
  int local_rank(int rank) const;                         ///< its position among the ranks of its host
  int local_size(int rank) const;                         ///< ranks on its host
  /// The lowest rank of its host: the one that loads the topology.
  int leader(int rank) const;

  /// Equal on all ranks if and only if they were given the same places; start-up compares it.
  std::uint64_t digest() const;
  std::string to_text() const;
  bool operator==(const Domains&) const = default;

 private:
  static bool same(const std::vector<int>& group, int a, int b) {
    const int of_a = group[static_cast<std::size_t>(a)];
    return of_a >= 0 && of_a == group[static_cast<std::size_t>(b)];
  }
};

/// Pure; places[r] is rank r's.
Domains domains_of(std::span<const Place> places);

}  // namespace hocket::topo
