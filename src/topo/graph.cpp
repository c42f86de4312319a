// SPDX-License-Identifier: Apache-2.0
// topo/graph.cpp: order, checks and queries of a Graph; graph_text.cpp prints it, graph_bytes.cpp packs it.
#include "topo/graph.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "base/status.hpp"

namespace hocket::topo {

std::string_view to_string(NodeKind kind) {
  switch (kind) {
    case NodeKind::kHost: return "host";
    case NodeKind::kPackage: return "package";
    case NodeKind::kNuma: return "numa";
    case NodeKind::kL3: return "l3";
    case NodeKind::kCore: return "core";
    case NodeKind::kHostBridge: return "host bridge";
    case NodeKind::kPciSwitch: return "pci switch";
    case NodeKind::kGpu: return "gpu";
    case NodeKind::kNic: return "nic";
    case NodeKind::kNvSwitch: return "nvswitch";
    case NodeKind::kPciDevice: return "pci device";
  }
  return "?";
}

std::string_view to_string(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::kMemory: return "memory";
    case EdgeKind::kPcie: return "pcie";
    case EdgeKind::kNvlink: return "nvlink";
    case EdgeKind::kC2c: return "c2c";
    case EdgeKind::kSocket: return "socket";
    case EdgeKind::kNetwork: return "network";
  }
  return "?";
}

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::kUnknown: return "unknown";
    case Origin::kNominal: return "nominal";
    case Origin::kReported: return "reported";
    case Origin::kMeasured: return "measured";
  }
  return "?";
}

void Node::set(std::string_view key, std::string value) {
  const auto at = std::lower_bound(attributes.begin(), attributes.end(), key,
                                   [](const auto& attribute, std::string_view k) { return attribute.first < k; });
  if (at != attributes.end() && at->first == key) {
    at->second = std::move(value);
  } else {
    attributes.emplace(at, std::string(key), std::move(value));
  }
}

std::string_view Node::get(std::string_view key) const {
  const auto at = std::lower_bound(attributes.begin(), attributes.end(), key,
                                   [](const auto& attribute, std::string_view k) { return attribute.first < k; });
  return at != attributes.end() && at->first == key ? std::string_view(at->second) : std::string_view();
}

int Graph::add(NodeKind kind, int parent) {
  Node node;
  node.kind = kind;
  node.parent = parent;
  nodes.push_back(std::move(node));
  return static_cast<int>(nodes.size()) - 1;
}

namespace {

std::vector<std::vector<int>> children_of_all(const Graph& graph, std::vector<int>* roots) {
  std::vector<std::vector<int>> below(graph.nodes.size());
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const int parent = graph.nodes[static_cast<std::size_t>(i)].parent;
    (parent < 0 ? *roots : below[static_cast<std::size_t>(parent)]).push_back(i);
  }
  return below;
}

}  // namespace

void Graph::normalise() {
  std::vector<int> roots;
  std::vector<std::vector<int>> below = children_of_all(*this, &roots);
  const auto at = [this](int i) -> const Node& { return nodes[static_cast<std::size_t>(i)]; };

  // By kind, then by the first CPU (memory without CPUs last), then by what the system calls it.
  const auto earlier = [&at](int a, int b) {
    const auto key = [&at](int i) {
      const Node& n = at(i);
      constexpr int kLast = std::numeric_limits<int>::max();
      return std::make_tuple(n.kind, n.cpus.empty() ? kLast : n.cpus.first(), n.os_index < 0 ? kLast : n.os_index,
                             std::string_view(n.name));
    };
    return std::tuple_cat(key(a), std::tie(at(a).attributes)) < std::tuple_cat(key(b), std::tie(at(b).attributes));
  };
  std::stable_sort(roots.begin(), roots.end(), earlier);
  for (std::vector<int>& list : below) std::stable_sort(list.begin(), list.end(), earlier);

  // Children were added after their parents, so one pass from the end tells which bridges lead to a device.
  std::vector<char> keep(nodes.size(), 0);
  for (int i = static_cast<int>(nodes.size()) - 1; i >= 0; --i) {
    const auto slot = static_cast<std::size_t>(i);
    const bool bridge = at(i).kind == NodeKind::kHostBridge || at(i).kind == NodeKind::kPciSwitch;
    keep[slot] = !bridge || std::any_of(below[slot].begin(), below[slot].end(),
                                        [&keep](int child) { return keep[static_cast<std::size_t>(child)] != 0; });
  }

  std::vector<int> renumbered(nodes.size(), -1);
  std::vector<Node> ordered;
  std::vector<int> counts(kNodeKinds, 0);
  std::vector<int> stack(roots.rbegin(), roots.rend());
  while (!stack.empty()) {
    const int i = stack.back();
    stack.pop_back();
    if (!keep[static_cast<std::size_t>(i)]) continue;
    renumbered[static_cast<std::size_t>(i)] = static_cast<int>(ordered.size());
    Node node = at(i);
    if (node.parent >= 0) node.parent = renumbered[static_cast<std::size_t>(node.parent)];
    node.index = counts[static_cast<std::size_t>(node.kind)]++;
    ordered.push_back(std::move(node));
    const std::vector<int>& list = below[static_cast<std::size_t>(i)];
    stack.insert(stack.end(), list.rbegin(), list.rend());
  }
  nodes = std::move(ordered);

  std::vector<Edge> kept;
  for (Edge edge : edges) {
    edge.from = renumbered[static_cast<std::size_t>(edge.from)];
    edge.to = renumbered[static_cast<std::size_t>(edge.to)];
    if (edge.from > edge.to) std::swap(edge.from, edge.to);
    if (edge.from >= 0 && edge.from != edge.to) kept.push_back(edge);
  }
  // Two reports of one link (each end's own) are one edge: the better figure stands.
  std::stable_sort(kept.begin(), kept.end(), [](const Edge& a, const Edge& b) {
    return std::make_tuple(a.from, a.to, a.kind, -static_cast<int>(a.rate.origin), -a.rate.bytes_per_second, -a.links) <
           std::make_tuple(b.from, b.to, b.kind, -static_cast<int>(b.rate.origin), -b.rate.bytes_per_second, -b.links);
  });
  kept.erase(
      std::unique(kept.begin(), kept.end(),
                  [](const Edge& a, const Edge& b) { return a.from == b.from && a.to == b.to && a.kind == b.kind; }),
      kept.end());
  edges = std::move(kept);
}

namespace {

Status check_rate(const Rate& rate, std::string_view where, int index) {
  const double value = rate.bytes_per_second;
  if (static_cast<int>(rate.origin) > static_cast<int>(Origin::kMeasured) || !std::isfinite(value) ||
      (rate.known() ? value <= 0 : value != 0))
    return error(Code::kInvalidArgument, "graph: {} {} has no valid rate", where, index);
  return {};
}

}  // namespace

Status Graph::check() const {
  const int n = static_cast<int>(nodes.size());
  if (nodes.empty() || nodes[0].kind != NodeKind::kHost)
    return error(Code::kInvalidArgument, "graph: node 0 is not a host");
  if (!std::isfinite(cpus.quota_cpus) || cpus.quota_cpus < 0)
    return error(Code::kInvalidArgument, "graph: the CPU quota is not a number of CPUs");
  for (int i = 0; i < n; ++i) {
    const Node& node = nodes[static_cast<std::size_t>(i)];
    if (static_cast<int>(node.kind) >= kNodeKinds)
      return error(Code::kInvalidArgument, "graph: node {} has no kind", i);
    const bool host = node.kind == NodeKind::kHost;
    if (host ? node.parent != -1 : (node.parent < 0 || node.parent >= i))
      return error(Code::kInvalidArgument, "graph: node {} has parent {}", i, node.parent);
    if (node.index < 0 || node.os_index < -1)
      return error(Code::kInvalidArgument, "graph: node {} has a bad number", i);
    for (std::size_t k = 1; k < node.attributes.size(); ++k) {
      if (node.attributes[k - 1].first >= node.attributes[k].first)
        return error(Code::kInvalidArgument, "graph: node {} has attributes out of order", i);
    }
    HOCKET_TRY(check_rate(node.rate, "node", i));
  }
  for (int i = 0; i < static_cast<int>(edges.size()); ++i) {
    const Edge& edge = edges[static_cast<std::size_t>(i)];
    if (static_cast<int>(edge.kind) >= kEdgeKinds || edge.from < 0 || edge.from >= edge.to || edge.to >= n ||
        edge.links < 1 || !std::isfinite(edge.latency_seconds) || edge.latency_seconds < 0)
      return error(Code::kInvalidArgument, "graph: edge {} is out of range", i);
    HOCKET_TRY(check_rate(edge.rate, "edge", i));
  }
  return {};
}

int Graph::containing(NodeKind kind, int cpu) const {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].kind == kind && nodes[i].cpus.has(cpu)) return static_cast<int>(i);
  }
  return -1;
}

int Graph::containing(NodeKind kind, const CpuSet& set) const {
  if (set.empty()) return -1;
  const int node = containing(kind, set.first());
  return node >= 0 && nodes[static_cast<std::size_t>(node)].cpus.contains(set) ? node : -1;
}

int Graph::count(NodeKind kind) const {
  return static_cast<int>(std::count_if(nodes.begin(), nodes.end(), [kind](const Node& n) { return n.kind == kind; }));
}

std::vector<int> Graph::of_kind(NodeKind kind) const {
  std::vector<int> found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].kind == kind) found.push_back(static_cast<int>(i));
  }
  return found;
}

std::vector<int> Graph::children(int node) const {
  std::vector<int> found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].parent == node) found.push_back(static_cast<int>(i));
  }
  return found;
}

int Graph::ancestor(int node, NodeKind kind) const {
  while (node >= 0 && nodes[static_cast<std::size_t>(node)].kind != kind)
    node = nodes[static_cast<std::size_t>(node)].parent;
  return node;
}

namespace {

std::uint64_t least_allowed(const Graph& graph, NodeKind kind) {
  std::uint64_t least = 0;
  for (const Node& node : graph.nodes) {
    if (node.kind != kind || node.bytes == 0) continue;
    if (!graph.cpus.allowed.empty() && !graph.cpus.allowed.intersects(node.cpus)) continue;
    if (least == 0 || node.bytes < least) least = node.bytes;
  }
  return least;
}

}  // namespace

std::uint64_t Graph::l2_bytes() const {
  return least_allowed(*this, NodeKind::kCore);
}

std::uint64_t Graph::l3_bytes() const {
  return least_allowed(*this, NodeKind::kL3);
}

}  // namespace hocket::topo
