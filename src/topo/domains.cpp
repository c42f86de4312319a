// SPDX-License-Identifier: Apache-2.0
// topo/domains.cpp: see domains.hpp.
#include "topo/domains.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/status.hpp"
#include "topo/hash.hpp"

namespace hocket::topo {

Place place_of(const Graph& graph, const std::array<std::uint64_t, 2>& host, std::uint64_t process,
               const CpuSet& allowed) {
  Place place;
  place.host = host;
  place.process = process;
  place.package = graph.containing(NodeKind::kPackage, allowed);
  place.numa = graph.containing(NodeKind::kNuma, allowed);
  place.l3 = graph.containing(NodeKind::kL3, allowed);
  place.allowed_cpus = allowed.count();
  return place;
}

Domains domains_of(std::span<const Place> places) {
  using Host = std::array<std::uint64_t, 2>;
  std::map<Host, int> hosts;
  std::map<std::pair<Host, std::uint64_t>, int> processes;
  std::map<std::pair<Host, int>, int> packages;
  std::map<std::pair<Host, int>, int> numas;
  std::map<std::pair<Host, int>, int> l3s;
  const auto number = [](auto* seen, const auto& key) {
    return seen->try_emplace(key, static_cast<int>(seen->size())).first->second;
  };
  Domains domains;
  for (const Place& place : places) {
    const auto part = [&](std::map<std::pair<Host, int>, int>* seen, int node) {
      return node < 0 ? -1 : number(seen, std::make_pair(place.host, node));
    };
    domains.host.push_back(number(&hosts, place.host));
    domains.process.push_back(number(&processes, std::make_pair(place.host, place.process)));
    domains.package.push_back(part(&packages, place.package));
    domains.numa.push_back(part(&numas, place.numa));
    domains.l3.push_back(part(&l3s, place.l3));
  }
  domains.hosts = static_cast<int>(hosts.size());
  domains.processes = static_cast<int>(processes.size());
  return domains;
}

std::vector<int> Domains::ranks_of_host(int host_number) const {
  std::vector<int> found;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (host[static_cast<std::size_t>(rank)] == host_number) found.push_back(rank);
  }
  return found;
}

int Domains::local_rank(int rank) const {
  const auto end = host.begin() + rank;
  return static_cast<int>(std::count(host.begin(), end, *end));
}

int Domains::local_size(int rank) const {
  return static_cast<int>(std::count(host.begin(), host.end(), host[static_cast<std::size_t>(rank)]));
}

int Domains::leader(int rank) const {
  return static_cast<int>(std::find(host.begin(), host.end(), host[static_cast<std::size_t>(rank)]) - host.begin());
}

std::uint64_t Domains::digest() const {
  std::uint64_t h = hash_bytes("domains");
  for (const std::vector<int>* list : {&process, &host, &package, &numa, &l3}) {
    std::string bytes;
    for (const int value : *list) {
      for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(static_cast<std::uint32_t>(value) >> (8 * i)));
    }
    h = hash_bytes(bytes, h);
  }
  return h;
}

std::string Domains::to_text() const {
  const auto name = [](int group) { return group < 0 ? std::string("?") : format("{}", group); };
  const auto some = [](int n, std::string_view one, std::string_view many) {
    return format("{} {}", n, n == 1 ? one : many);
  };
  std::string out = format("{}, {}, {}\n", some(ranks(), "rank", "ranks"), some(processes, "process", "processes"),
                           some(hosts, "host", "hosts"));
  for (std::size_t r = 0; r < host.size(); ++r) {
    out += format("rank {}  host {}  process {}  package {}  NUMA {}  L3 {}\n", r, host[r], process[r],
                  name(package[r]), name(numa[r]), name(l3[r]));
  }
  return out;
}

}  // namespace hocket::topo
