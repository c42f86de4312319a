// SPDX-License-Identifier: Apache-2.0
// topo/search.cpp: see search.hpp.
#include "topo/search.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>

#include "base/binary_tree.hpp"
#include "base/status.hpp"
#include "topo/disjoint_rings.hpp"
#include "topo/disjoint_trees.hpp"
#include "topo/findings.hpp"
#include "topo/ring_packer.hpp"
#include "topo/tree_packer.hpp"

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

// Every ring leads from every GPU to every other one.
double flow_bound(const Paths& paths) {
  double bound = kUnlimited;
  for (std::size_t i = 1; i < paths.gpus().size(); ++i)
    bound = std::min(bound, paths.max_flow(paths.gpus()[0], paths.gpus()[i]));
  return bound == kUnlimited ? 0 : bound;
}

// Over all GPUs of `paths`, whose hops share links.
RingSet packed_rings(const Paths& paths) {
  RingSet set;
  set.bound_bytes_per_second = flow_bound(paths);
  set.rings = pack_rings(paths, set.bound_bytes_per_second);
  add_loads(paths, &set);
  set.best = set.gap() < 1e-9;
  return set;
}

Island make_island(const Paths& paths, std::vector<int> gpus) {
  Island island;
  island.gpus = std::move(gpus);
  if (island.gpus.size() < 2) return island;
  island.complete = true;
  island.links = std::numeric_limits<int>::max();
  double unit = kUnlimited;
  bool any_direct = false, any_switched = false;
  for (const int a : island.gpus) {
    int direct = 0, switched = 0;
    for (const int b : island.gpus) {
      if (a == b) continue;
      const Hop way = hop(paths, a, b);
      if (way.links == 0) {
        island.complete = false;
        continue;
      }
      if (way.switched) {
        switched = std::max(switched, way.links);
      } else {
        direct += way.links;
      }
      unit = std::min(unit, way.rate / way.links);
    }
    any_direct |= direct > 0;
    any_switched |= switched > 0;
    island.links = std::min(island.links, direct + switched);
  }
  if (any_direct && any_switched) {
    island.kind = IslandKind::kMixed;
    island.rings = packed_rings(Paths(paths.graph(), island.gpus));
  } else if (any_switched) {
    island.kind = IslandKind::kSwitched;
    island.rings = rings_of_switch(island.gpus, island.links, unit);
  } else {
    island.kind = IslandKind::kMesh;
    island.rings = rings_of_mesh(paths, island.gpus, unit);
  }
  add_loads(paths, &island.rings);  // in the links of `paths`
  return island;
}

void add_loads(const Paths& paths, TreeSet* set) {
  set->loads.assign(paths.links().size(), 0);
  set->bytes_per_second = 0;
  for (const Tree& tree : set->trees) {
    set->bytes_per_second += tree.bytes_per_second;
    for (std::size_t i = 0; i < tree.gpus.size(); ++i) {
      if (tree.parent[i] < 0) continue;
      const int above = tree.gpus[slot(tree.parent[i])];
      for (const int link : paths.between(tree.gpus[i], above).links) set->loads[slot(link)] += tree.bytes_per_second;
      for (const int link : paths.between(above, tree.gpus[i]).links) set->loads[slot(link)] += tree.bytes_per_second;
    }
  }
}

Tree tree_of(const std::vector<int>& gpus, const std::vector<std::pair<int, int>>& edges, double rate) {
  return {gpus, parents_of(edges, static_cast<int>(gpus.size())), rate};
}

// A tree of n GPUs has n - 1 hops, each of which leaves two GPUs, one each way.
double degree_bound(const Paths& paths) {
  const std::vector<int>& gpus = paths.gpus();
  double out = 0;
  for (const Link& link : paths.links())
    if (std::find(gpus.begin(), gpus.end(), link.from) != gpus.end()) out += link.bytes_per_second;
  return out / (2 * static_cast<double>(gpus.size() - 1));
}

// On a crossbar each GPU's links, `rate` together, carry all hops at it.
TreeSet trees_of_switch(const std::vector<int>& gpus, double rate) {
  constexpr int kMostInChain = 8;
  TreeSet set;
  const int n = static_cast<int>(gpus.size());
  std::vector<std::vector<std::pair<int, int>>> trees;
  double each = 0;
  if (n <= kMostInChain) {
    // An inner GPU of a chain has two hops, its ends have one. So that each GPU is an end equally often: of an even
    // number, chains that begin at every second GPU of an order; of an odd one, at every GPU.
    const int step = n % 2 == 0 ? 2 : 1;
    for (int begin = 0; begin < n; begin += step) {
      trees.emplace_back();
      for (int i = 0; i + 1 < n; ++i) trees.back().emplace_back((begin + i) % n, (begin + i + 1) % n);
    }
    each = rate / ((3 - step) * (n - 1));
  } else {
    // Two binary trees whose inner GPUs, of three hops at most, are the other's leaves.
    for (int tree = 0; tree < 2; ++tree) {
      std::vector<int> at(slot(n));
      for (int i = 0; i < n; ++i) at[slot(binary_tree_label(tree, i, n))] = i;
      trees.emplace_back();
      for (int label = 1; label < n; ++label)
        trees.back().emplace_back(at[slot(label)], at[slot(binary_tree_parent(label, n))]);
    }
    std::vector<int> hops(slot(n), 0);
    for (const auto& tree : trees)
      for (const auto& [a, b] : tree) {
        ++hops[slot(a)];
        ++hops[slot(b)];
      }
    each = rate / *std::max_element(hops.begin(), hops.end());
  }
  for (const auto& tree : trees) set.trees.push_back(tree_of(gpus, tree, each));
  return set;
}

TreeSet trees_of_mesh(const Paths& paths, const Island& island) {
  TreeSet set;
  const std::size_t n = island.gpus.size();
  if (n > kMostInMesh) return set;
  std::vector<std::vector<int>> links(n, std::vector<int>(n, 0));
  double unit = kUnlimited;
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      const Hop way = hop(paths, island.gpus[a], island.gpus[b]);
      links[a][b] = way.links;
      if (way.links > 0) unit = std::min(unit, way.rate / way.links);
    }
  }
  const DisjointTrees found = disjoint_trees(links);
  for (const auto& edges : found.trees) set.trees.push_back(tree_of(island.gpus, edges, unit));
  set.bound_trees = static_cast<int>(std::floor(found.bound + 1e-9));
  set.best = found.best;
  // Links of one kind only: where some are faster, more may be possible.
  double widest = unit;
  for (const Link& link : paths.links())
    if (link.kind == EdgeKind::kNvlink) widest = std::max(widest, link.bytes_per_second / link.links);
  set.bound_bytes_per_second = found.bound * widest;
  return set;
}

TreeSet find_trees(const Paths& paths, const SearchResult& result) {
  TreeSet set;
  if (paths.gpus().size() < 2) return set;
  const bool one = result.islands.size() == 1;
  if (one && result.islands[0].kind == IslandKind::kSwitched) {
    const Island& island = result.islands[0];
    set = trees_of_switch(island.gpus, island.rings.bound_bytes_per_second);
    double out = 0;
    for (const int a : island.gpus) {
      double widest = 0;
      for (const int b : island.gpus)
        if (a != b) widest = std::max(widest, hop(paths, a, b).rate);
      out += widest;
    }
    set.bound_bytes_per_second = out / (2 * static_cast<double>(island.gpus.size() - 1));
  } else if (one && result.islands[0].kind == IslandKind::kMesh) {
    set = trees_of_mesh(paths, result.islands[0]);
  } else {
    const double bound = std::min(flow_bound(paths), degree_bound(paths));
    const PackedTrees packed = pack_trees(paths, bound);
    for (const auto& edges : packed.trees) set.trees.push_back(tree_of(paths.gpus(), edges, packed.rate));
    set.bound_bytes_per_second = bound;
  }
  add_loads(paths, &set);
  set.best |= !set.trees.empty() && set.gap() < 1e-9;
  return set;
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
    result.machine = packed_rings(paths);
  }
  result.trees = find_trees(paths, result);
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

int depth_of(const Tree& tree) {
  int deepest = 0;
  for (std::size_t i = 0; i < tree.gpus.size(); ++i) {
    int depth = 0;
    for (int at = static_cast<int>(i); tree.parent[slot(at)] >= 0 && depth <= static_cast<int>(tree.gpus.size());
         ++depth)
      at = tree.parent[slot(at)];
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

Status check_trees(const Paths& paths, const std::vector<int>& gpus, const TreeSet& set) {
  std::vector<int> all = gpus;
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < set.trees.size(); ++i) {
    const Tree& tree = set.trees[i];
    std::vector<int> visited = tree.gpus;
    std::sort(visited.begin(), visited.end());
    if (visited != all || tree.parent.size() != all.size())
      return error(Code::kInternal, "tree {} does not have every GPU once", i);
    const int n = static_cast<int>(all.size());
    if (std::any_of(tree.parent.begin(), tree.parent.end(), [n](int p) { return p < -1 || p >= n; }) ||
        std::count(tree.parent.begin(), tree.parent.end(), -1) != 1 || depth_of(tree) >= n)
      return error(Code::kInternal, "tree {} is no tree", i);
    if (!(tree.bytes_per_second > 0)) return error(Code::kInternal, "tree {} has no rate", i);
  }
  TreeSet again = set;
  add_loads(paths, &again);
  constexpr double kRounding = 1 + 1e-9;
  for (std::size_t i = 0; i < again.loads.size(); ++i) {
    const Link& link = paths.links()[i];
    if (again.loads[i] > link.bytes_per_second * kRounding)
      return error(Code::kInternal, "link {} from node {} to {} carries {:.4g} of {:.4g} GB/s of trees", i, link.from,
                   link.to, again.loads[i] / 1e9, link.bytes_per_second / 1e9);
  }
  if (again.bytes_per_second > set.bound_bytes_per_second * kRounding)
    return error(Code::kInternal, "trees carry {:.4g} GB/s, the bound is {:.4g}", again.bytes_per_second / 1e9,
                 set.bound_bytes_per_second / 1e9);
  return {};
}

}  // namespace hocket::topo
