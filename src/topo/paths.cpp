// SPDX-License-Identifier: Apache-2.0
// topo/paths.cpp: see paths.hpp.
#include "topo/paths.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "base/status.hpp"
#include "topo/link_speed.hpp"

namespace hocket::topo {

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
constexpr double kSocketRate = 10e9;  // if a Graph doesn't know the CPU

double usable(const Edge& edge) {
  switch (edge.kind) {
    case EdgeKind::kPcie: return usable_pcie(edge.rate);
    case EdgeKind::kNvlink:
      if (!edge.rate.known()) return nvlink_bytes_per_second(0) * edge.links;
      // What a driver reports is the signalling; transfers get four fifths of it.
      return edge.rate.origin == Origin::kReported ? edge.rate.bytes_per_second * 0.8 : edge.rate.bytes_per_second;
    case EdgeKind::kSocket:
    case EdgeKind::kC2c:
    case EdgeKind::kNetwork: return edge.rate.known() ? edge.rate.bytes_per_second : kSocketRate;
    case EdgeKind::kMemory: return kUnlimited;
  }
  return kUnlimited;
}

int number_of(std::string_view text) {
  int value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  return bad == std::errc() && end == text.data() + text.size() && value >= 0 ? value : std::numeric_limits<int>::max();
}

}  // namespace

std::string_view to_string(PathType type) {
  static constexpr std::string_view kNames[] = {"LOC", "NVL", "NVB",  "C2C", "PIX", "PXB", "P2C",
                                                "PXN", "PHB", "NODE", "SYS", "NET", "DIS"};
  return kNames[static_cast<std::size_t>(type)];
}

bool is_part_of_parent(const Graph& graph, int pci_switch) {
  const Node& lower = graph.nodes[static_cast<std::size_t>(pci_switch)];
  if (lower.kind != NodeKind::kPciSwitch || lower.parent < 0) return false;
  const Node& upper = graph.nodes[static_cast<std::size_t>(lower.parent)];
  if (upper.kind != NodeKind::kPciSwitch) return false;
  const auto is = [](const Node& node, std::string_view device, std::string_view subsystem) {
    return node.get("vendor") == "1000" && node.get("device") == device && node.get("subsystem_vendor") == "1000" &&
           node.get("subsystem_device").starts_with(subsystem);
  };
  return (is(upper, "c010", "a") && is(lower, "c010", "a")) || (is(upper, "c030", "0") && is(lower, "c030", "1"));
}

Paths::Paths(const Graph& graph) : Paths(graph, graph.of_kind(NodeKind::kGpu)) {}

Paths::Paths(const Graph& graph, std::span<const int> gpus)
    : graph_(graph), gpus_(gpus.begin(), gpus.end()), out_(graph.nodes.size() + 1) {
  const auto key = [this](int gpu) {
    return std::make_tuple(graph_.ancestor(gpu, NodeKind::kHost), number_of(at(gpu).get("rank")),
                           at(gpu).os_index < 0 ? std::numeric_limits<int>::max() : at(gpu).os_index, gpu);
  };
  std::sort(gpus_.begin(), gpus_.end(), [&key](int a, int b) { return key(a) < key(b); });

  const std::set<int> used(gpus_.begin(), gpus_.end());
  const auto is_left_out = [&](int node) { return at(node).kind == NodeKind::kGpu && !used.contains(node); };
  std::map<int, std::pair<int, double>> to_crossbar;  // GPU: links, rate
  for (const Edge& edge : graph.edges) {
    if (is_left_out(edge.from) || is_left_out(edge.to)) continue;
    const NodeKind from = at(edge.from).kind;
    const NodeKind to = at(edge.to).kind;
    if (edge.kind == EdgeKind::kNvlink && (from == NodeKind::kNvSwitch || to == NodeKind::kNvSwitch)) {
      if (from == to) continue;  // trunks between switches are as wide as what hangs on them
      auto& [links, rate] = to_crossbar[from == NodeKind::kNvSwitch ? edge.to : edge.from];
      links += edge.links;
      rate += usable(edge);
      continue;
    }
    add_link(edge.kind, edge.from, edge.to, edge.links, usable(edge));
  }
  for (const auto& [gpu, up] : to_crossbar) add_link(EdgeKind::kNvlink, gpu, kCrossbar, up.first, up.second);
}

void Paths::add_link(EdgeKind kind, int from, int to, int links, double rate) {
  const auto slot = [this](int node) {
    return node == kCrossbar ? graph_.nodes.size() : static_cast<std::size_t>(node);
  };
  out_[slot(from)].emplace_back(to, static_cast<int>(links_.size()));
  links_.push_back({kind, from, to, links, rate});
  out_[slot(to)].emplace_back(from, static_cast<int>(links_.size()));
  links_.push_back({kind, to, from, links, rate});
}

int Paths::find(EdgeKind kind, int from, int to) const {
  const std::size_t slot = from == kCrossbar ? graph_.nodes.size() : static_cast<std::size_t>(from);
  for (const auto& [where, link] : out_[slot]) {
    if (where == to && links_[static_cast<std::size_t>(link)].kind == kind) return link;
  }
  return -1;
}

void Paths::finish(Path* path) const {
  path->bytes_per_second = kUnlimited;
  for (const int link : path->links)
    path->bytes_per_second = std::min(path->bytes_per_second, links_[static_cast<std::size_t>(link)].bytes_per_second);
}

Path Paths::over_nvlink(int from, int to) const {
  Path path;
  if (const int direct = find(EdgeKind::kNvlink, from, to); direct >= 0) {
    path.type = PathType::kNvl;
    path.links = {direct};
  } else {
    const int up = find(EdgeKind::kNvlink, from, kCrossbar);
    const int down = find(EdgeKind::kNvlink, kCrossbar, to);
    if (up < 0 || down < 0 || from == to) return path;
    path.type = PathType::kNvl;
    path.links = {up, down};
  }
  finish(&path);
  return path;
}

// The way from a node up to its NUMA domain (or host, if it has none).
struct Paths::Climb {
  std::vector<int> nodes;  // the node itself first
  std::vector<int> up;     // links, one for each step that has one
  std::vector<int> down;   // the same links the other way, in the same order
  int numa = -1;
  bool c2c = false;
};

int Paths::c2c_numa(int gpu) const {
  if (at(gpu).kind != NodeKind::kGpu) return -1;
  for (const auto& [where, link] : out_[static_cast<std::size_t>(gpu)]) {
    if (links_[static_cast<std::size_t>(link)].kind == EdgeKind::kC2c) return where;
  }
  return -1;
}

Paths::Climb Paths::climb(int node, bool c2c) const {
  Climb climb;
  climb.nodes.push_back(node);
  if (c2c) {
    if (const int numa = c2c_numa(node); numa >= 0) {
      climb.c2c = true;
      climb.numa = numa;
      climb.nodes.push_back(numa);
      climb.up.push_back(find(EdgeKind::kC2c, node, numa));
      climb.down.push_back(find(EdgeKind::kC2c, numa, node));
      return climb;
    }
  }
  const auto is_end = [this](int n) {
    const NodeKind kind = at(n).kind;
    return kind == NodeKind::kNuma || kind == NodeKind::kHost || kind == NodeKind::kPackage;
  };
  for (int n = node; !is_end(n);) {
    const int parent = at(n).parent;
    if (const int link = find(EdgeKind::kPcie, n, parent); link >= 0) {
      climb.up.push_back(link);
      climb.down.push_back(find(EdgeKind::kPcie, parent, n));
    }
    n = parent;
    climb.nodes.push_back(n);
  }
  climb.numa = climb.nodes.back();
  return climb;
}

// Between domains directly, or between the packages around them; -1 where nothing is known to limit it.
int Paths::socket_link(int from_numa, int to_numa) const {
  if (const int direct = find(EdgeKind::kSocket, from_numa, to_numa); direct >= 0) return direct;
  const int from = graph_.ancestor(from_numa, NodeKind::kPackage);
  const int to = graph_.ancestor(to_numa, NodeKind::kPackage);
  return from >= 0 && to >= 0 && from != to ? find(EdgeKind::kSocket, from, to) : -1;
}

Path Paths::over_pci(int from, int to) const {
  Path path;
  if (from == to) {
    path.type = PathType::kLoc;
    path.bytes_per_second = kUnlimited;
    return path;
  }
  if (graph_.ancestor(from, NodeKind::kHost) != graph_.ancestor(to, NodeKind::kHost)) {
    path.type = PathType::kNet;
    return path;
  }
  Climb a = climb(from, false);
  Climb b = climb(to, false);
  // Below a common switch or bridge?
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    const int meet = a.nodes[i];
    const NodeKind kind = at(meet).kind;
    if (meet == a.numa) break;
    const auto found = std::find(b.nodes.begin(), b.nodes.end(), meet);
    if (found == b.nodes.end()) continue;
    const auto j = static_cast<std::size_t>(found - b.nodes.begin());
    // Each step below the meeting point has its link.
    path.links.assign(a.up.begin(), a.up.begin() + static_cast<std::ptrdiff_t>(std::min(i, a.up.size())));
    for (std::size_t k = std::min(j, b.down.size()); k > 0; --k) path.links.push_back(b.down[k - 1]);
    if (kind == NodeKind::kHostBridge) {
      path.type = PathType::kPhb;
    } else {
      int switches = 1;
      for (std::size_t k = 0; k < i; ++k)
        switches += at(a.nodes[k]).kind == NodeKind::kPciSwitch && !is_part_of_parent(graph_, a.nodes[k]);
      for (std::size_t k = 0; k < j; ++k)
        switches += at(b.nodes[k]).kind == NodeKind::kPciSwitch && !is_part_of_parent(graph_, b.nodes[k]);
      path.type = switches > 1 ? PathType::kPxb : PathType::kPix;
    }
    finish(&path);
    return path;
  }
  // Through a CPU: a GPU's coherent link is the wider way to it.
  if (c2c_numa(from) >= 0) a = climb(from, true);
  if (c2c_numa(to) >= 0) b = climb(to, true);
  path.links = a.up;
  if (a.numa == b.numa && at(a.numa).kind != NodeKind::kHost) {
    const bool cpu_end = a.nodes.size() == 1 || b.nodes.size() == 1;
    const auto has_bridge = [this](const Climb& c) {
      return std::any_of(c.nodes.begin(), c.nodes.end(), [this](int n) { return at(n).kind == NodeKind::kHostBridge; });
    };
    path.type = PathType::kPhb;
    if (!cpu_end && has_bridge(a) && has_bridge(b)) path.type = PathType::kNode;
    if (a.c2c || b.c2c) path.type = cpu_end || (a.c2c && b.c2c) ? PathType::kC2c : PathType::kP2c;
  } else {
    path.type = PathType::kSys;
    if (const int link = socket_link(a.numa, b.numa); link >= 0) path.links.push_back(link);
  }
  path.links.insert(path.links.end(), b.down.rbegin(), b.down.rend());
  finish(&path);
  return path;
}

Path Paths::between(int from, int to) const {
  Path best = over_pci(from, to);
  if (from == to) return best;
  if (at(from).kind == NodeKind::kGpu && at(to).kind == NodeKind::kGpu) {
    Path direct = over_nvlink(from, to);
    if (direct.type == PathType::kNvl) return direct;
    Path bridged;
    for (const int middle : gpus_) {
      if (middle == from || middle == to) continue;
      const Path first = over_nvlink(from, middle);
      const Path second = over_nvlink(middle, to);
      if (first.type != PathType::kNvl || second.type != PathType::kNvl) continue;
      const double rate = std::min(first.bytes_per_second, second.bytes_per_second);
      if (rate <= bridged.bytes_per_second) continue;
      bridged = first;
      bridged.type = PathType::kNvb;
      bridged.bytes_per_second = rate;
      bridged.links.insert(bridged.links.end(), second.links.begin(), second.links.end());
    }
    return bridged.type < best.type ? bridged : best;
  }
  const bool gpu_to_nic = at(from).kind == NodeKind::kGpu && at(to).kind == NodeKind::kNic;
  const bool nic_to_gpu = at(from).kind == NodeKind::kNic && at(to).kind == NodeKind::kGpu;
  if ((gpu_to_nic || nic_to_gpu) && best.type > PathType::kPxn) {
    const int gpu = gpu_to_nic ? from : to;
    for (const int peer : gpus_) {
      if (peer == gpu) continue;
      const Path near = gpu_to_nic ? over_pci(peer, to) : over_pci(from, peer);
      const Path hop = gpu_to_nic ? over_nvlink(gpu, peer) : over_nvlink(peer, gpu);
      if (near.type > PathType::kPxb || hop.type != PathType::kNvl) continue;
      Path over = gpu_to_nic ? hop : near;
      const Path& rest = gpu_to_nic ? near : hop;
      over.links.insert(over.links.end(), rest.links.begin(), rest.links.end());
      over.type = PathType::kPxn;
      finish(&over);
      if (best.type != PathType::kPxn || over.bytes_per_second > best.bytes_per_second) best = over;
    }
  }
  return best;
}

double Paths::max_flow(int from, int to) const {
  // Edmonds and Karp's method on links, with unlimited joints where a tree edge has no link.
  struct Arc {
    int to;
    double left;
    std::size_t back;
  };
  const std::size_t n = graph_.nodes.size() + 1;
  std::vector<std::vector<Arc>> arcs(n);
  const auto slot = [this](int node) {
    return node == kCrossbar ? graph_.nodes.size() : static_cast<std::size_t>(node);
  };
  const auto add = [&arcs, &slot](int a, int b, double forth, double back) {
    const std::size_t u = slot(a);
    const std::size_t v = slot(b);
    arcs[u].push_back({static_cast<int>(v), forth, arcs[v].size()});
    arcs[v].push_back({static_cast<int>(u), back, arcs[u].size() - 1});
  };
  for (std::size_t i = 0; i + 1 < links_.size(); i += 2)
    add(links_[i].from, links_[i].to, links_[i].bytes_per_second, links_[i + 1].bytes_per_second);
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const int parent = graph_.nodes[i].parent;
    const NodeKind kind = graph_.nodes[i].kind;
    if (parent < 0 || find(EdgeKind::kPcie, static_cast<int>(i), parent) >= 0) continue;
    if (kind == NodeKind::kHostBridge || kind == NodeKind::kNic)
      add(static_cast<int>(i), parent, kUnlimited, kUnlimited);
    // Domains of one package are joined by it.
    if (kind == NodeKind::kNuma && at(parent).kind == NodeKind::kPackage)
      add(static_cast<int>(i), parent, kUnlimited, kUnlimited);
  }
  // Where GPUs hang at places of one host that no known link joins, paths between them are not limited either.
  std::set<int> homes;
  for (const int gpu : gpus_) {
    homes.insert(climb(gpu, false).numa);
    if (const int numa = c2c_numa(gpu); numa >= 0) homes.insert(numa);
  }
  for (const int a : homes) {
    for (const int b : homes) {
      if (a < b && graph_.ancestor(a, NodeKind::kHost) == graph_.ancestor(b, NodeKind::kHost) && socket_link(a, b) < 0)
        add(a, b, kUnlimited, kUnlimited);
    }
  }
  double flow = 0;
  while (true) {
    std::vector<std::pair<int, std::size_t>> came(n, {-1, 0});
    std::queue<std::size_t> next;
    next.push(slot(from));
    came[slot(from)] = {static_cast<int>(slot(from)), 0};
    while (!next.empty() && came[slot(to)].first < 0) {
      const std::size_t u = next.front();
      next.pop();
      for (std::size_t k = 0; k < arcs[u].size(); ++k) {
        const Arc& arc = arcs[u][k];
        if (arc.left <= 1 || came[static_cast<std::size_t>(arc.to)].first >= 0) continue;
        came[static_cast<std::size_t>(arc.to)] = {static_cast<int>(u), k};
        next.push(static_cast<std::size_t>(arc.to));
      }
    }
    if (came[slot(to)].first < 0) return flow;
    double more = kUnlimited;
    for (std::size_t v = slot(to); v != slot(from); v = static_cast<std::size_t>(came[v].first))
      more = std::min(more, arcs[static_cast<std::size_t>(came[v].first)][came[v].second].left);
    if (more == kUnlimited) return kUnlimited;
    for (std::size_t v = slot(to); v != slot(from); v = static_cast<std::size_t>(came[v].first)) {
      Arc& arc = arcs[static_cast<std::size_t>(came[v].first)][came[v].second];
      arc.left -= more;
      arcs[v][arc.back].left += more;
    }
    flow += more;
  }
}

std::string gpu_label(const Graph& graph, int gpu) {
  const Node& node = graph.nodes[static_cast<std::size_t>(gpu)];
  std::string number = format("{}", node.os_index >= 0 ? node.os_index : node.index);
  if (graph.count(NodeKind::kHost) < 2) return number;
  const int host = graph.ancestor(gpu, NodeKind::kHost);
  return format("{}.{}", graph.nodes[static_cast<std::size_t>(host)].index, number);
}

}  // namespace hocket::topo
