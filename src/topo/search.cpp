// SPDX-License-Identifier: Apache-2.0
// topo/search.cpp: see search.hpp.
#include "topo/search.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>

#include "base/status.hpp"
#include "topo/disjoint_rings.hpp"
#include "topo/findings.hpp"
#include "topo/ring_packer.hpp"

namespace hocket::topo {

namespace {

// A file may claim anything. The largest NVLink domain that is announced has 576 GPUs, meshes are far smaller; beyond
// that a search would take minutes.
constexpr std::size_t kMostGpus = 576;
constexpr std::size_t kMostInMesh = 128;
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

std::size_t slot(int index) {
  return static_cast<std::size_t>(index);
}

// Links and rate of one GPU's way to another in one NVLink hop.
struct Hop {
  int links = 0;
  double rate = 0;
  bool switched = false;
};

Hop hop(const Paths& paths, int from, int to) {
  const Path path = paths.over_nvlink(from, to);
  if (path.type != PathType::kNvl) return {};
  Hop hop;
  hop.links = std::numeric_limits<int>::max();
  for (const int link : path.links) hop.links = std::min(hop.links, paths.links()[slot(link)].links);
  hop.rate = path.bytes_per_second;
  hop.switched = path.links.size() > 1;
  return hop;
}

std::vector<std::vector<int>> components(const Paths& paths) {
  const std::vector<int>& gpus = paths.gpus();
  std::vector<int> group(gpus.size(), -1);
  std::vector<std::vector<int>> found;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (group[i] >= 0) continue;
    const int number = static_cast<int>(found.size());
    std::vector<std::size_t> stack{i};
    group[i] = number;
    std::vector<std::size_t> members;
    while (!stack.empty()) {
      const std::size_t a = stack.back();
      stack.pop_back();
      members.push_back(a);
      for (std::size_t b = 0; b < gpus.size(); ++b) {
        if (group[b] >= 0 || hop(paths, gpus[a], gpus[b]).links == 0) continue;
        group[b] = number;
        stack.push_back(b);
      }
    }
    std::sort(members.begin(), members.end());
    std::vector<int> nodes;
    nodes.reserve(members.size());
    for (const std::size_t m : members) nodes.push_back(gpus[m]);
    found.push_back(std::move(nodes));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return found;
}

void add_loads(const Paths& paths, RingSet* set) {
  set->loads.assign(paths.links().size(), 0);
  set->bytes_per_second = 0;
  for (const Ring& ring : set->rings) {
    set->bytes_per_second += ring.bytes_per_second;
    for (std::size_t i = 0; ring.gpus.size() > 1 && i < ring.gpus.size(); ++i) {
      const Path path = paths.between(ring.gpus[i], ring.gpus[(i + 1) % ring.gpus.size()]);
      for (const int link : path.links) set->loads[slot(link)] += ring.bytes_per_second;
    }
  }
}

RingSet rings_of_switch(const std::vector<int>& gpus, int links, double unit) {
  RingSet set;
  set.bound_rings = links;
  set.rings.assign(slot(links), Ring{gpus, unit});
  set.bound_bytes_per_second = links * unit;
  set.best = true;
  return set;
}

RingSet rings_of_mesh(const Paths& paths, const std::vector<int>& gpus, double unit) {
  const std::size_t n = gpus.size();
  if (n > kMostInMesh) return {};
  std::vector<std::vector<int>> links(n, std::vector<int>(n, 0));
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      if (a != b) links[a][b] = hop(paths, gpus[a], gpus[b]).links;
    }
  }
  // Machines of up to 16 GPUs are done in a few ms; larger meshes get time to match, up to about a second.
  constexpr std::int64_t kSteps = 2'000'000;
  const auto size = static_cast<std::int64_t>(n);
  const DisjointRings found = disjoint_rings(links, std::clamp(kSteps * size * size / 256, kSteps, 8 * kSteps));
  RingSet set;
  set.bound_rings = found.bound;
  set.best = found.best;
  for (const std::vector<int>& order : found.rings) {
    Ring ring;
    ring.bytes_per_second = unit;
    for (const int v : order) ring.gpus.push_back(gpus[slot(v)]);
    set.rings.push_back(std::move(ring));
  }
  set.bound_bytes_per_second = found.bound * unit;
  return set;
}

Island make_island(const Paths& paths, std::vector<int> gpus) {
  Island island;
  island.gpus = std::move(gpus);
  if (island.gpus.size() < 2) return island;
  island.kind = IslandKind::kMesh;
  island.complete = true;
  island.links = std::numeric_limits<int>::max();
  double unit = kUnlimited;
  for (const int a : island.gpus) {
    int links = 0;
    for (const int b : island.gpus) {
      if (a == b) continue;
      const Hop way = hop(paths, a, b);
      if (way.links == 0) {
        island.complete = false;
        continue;
      }
      if (way.switched) island.kind = IslandKind::kSwitched;
      links = way.switched ? std::max(links, way.links) : links + way.links;
      unit = std::min(unit, way.rate / way.links);
    }
    island.links = std::min(island.links, links);
  }
  island.rings = island.kind == IslandKind::kSwitched && island.complete
                     ? rings_of_switch(island.gpus, island.links, unit)
                     : rings_of_mesh(paths, island.gpus, unit);
  add_loads(paths, &island.rings);
  return island;
}

// Every ring leads from every GPU to every other one.
double flow_bound(const Paths& paths) {
  double bound = kUnlimited;
  for (std::size_t i = 1; i < paths.gpus().size(); ++i)
    bound = std::min(bound, paths.max_flow(paths.gpus()[0], paths.gpus()[i]));
  return bound == kUnlimited ? 0 : bound;
}

Tree tree_of(const Paths& paths, const Ring& ring) {
  // Cut the ring at its farthest hop, and hang the chain up in its middle.
  const std::size_t n = ring.gpus.size();
  std::size_t cut = 0;
  PathType farthest = PathType::kLoc;
  for (std::size_t i = 0; i < n; ++i) {
    const PathType type = paths.between(ring.gpus[i], ring.gpus[(i + 1) % n]).type;
    if (type > farthest) {
      farthest = type;
      cut = i;
    }
  }
  Tree tree;
  tree.bytes_per_second = ring.bytes_per_second;
  const int root = static_cast<int>(n / 2);
  for (std::size_t i = 0; i < n; ++i) {
    tree.gpus.push_back(ring.gpus[(cut + 1 + i) % n]);
    const int at = static_cast<int>(i);
    tree.parent.push_back(at == root ? -1 : at < root ? at + 1 : at - 1);
  }
  return tree;
}

}  // namespace

SearchResult search(const Paths& paths) {
  SearchResult result;
  if (paths.gpus().size() > kMostGpus) {
    result.findings.push_back(format("{} GPUs are more than are searched ({})", paths.gpus().size(), kMostGpus));
    return result;
  }
  for (std::vector<int>& gpus : components(paths)) result.islands.push_back(make_island(paths, std::move(gpus)));
  if (result.islands.size() == 1) {
    result.machine = result.islands[0].rings;
  } else if (!result.islands.empty()) {
    const double bound = flow_bound(paths);
    result.machine.rings = pack_rings(paths, bound);
    result.machine.bound_bytes_per_second = bound;
    add_loads(paths, &result.machine);
    result.machine.best = result.machine.gap() < 1e-9;
  }
  for (const Ring& ring : result.machine.rings) result.trees.push_back(tree_of(paths, ring));
  result.findings = findings_of(paths);
  return result;
}

Status check_rings(const Paths& paths, const std::vector<int>& gpus, const RingSet& set) {
  std::vector<int> all = gpus;
  std::sort(all.begin(), all.end());
  RingSet again = set;
  add_loads(paths, &again);
  for (std::size_t i = 0; i < set.rings.size(); ++i) {
    std::vector<int> visited = set.rings[i].gpus;
    std::sort(visited.begin(), visited.end());
    if (visited != all) return error(Code::kInternal, "ring {} does not visit every GPU once", i);
    if (!(set.rings[i].bytes_per_second > 0)) return error(Code::kInternal, "ring {} has no rate", i);
  }
  constexpr double kRounding = 1 + 1e-9;
  for (std::size_t i = 0; i < again.loads.size(); ++i) {
    const Link& link = paths.links()[i];
    if (again.loads[i] > link.bytes_per_second * kRounding)
      return error(Code::kInternal, "link {} from node {} to {} carries {:.4g} of {:.4g} GB/s", i, link.from, link.to,
                   again.loads[i] / 1e9, link.bytes_per_second / 1e9);
  }
  if (set.bytes_per_second > set.bound_bytes_per_second * kRounding)
    return error(Code::kInternal, "rings carry {:.4g} GB/s, the bound is {:.4g}", set.bytes_per_second / 1e9,
                 set.bound_bytes_per_second / 1e9);
  return {};
}

}  // namespace hocket::topo
