// SPDX-License-Identifier: Apache-2.0
// topo/cost.cpp: see cost.hpp.
#include "topo/cost.hpp"

#include <algorithm>
#include <bit>
#include <map>

namespace hocket::topo {

std::string_view to_string(LinkKind kind) {
  switch (kind) {
    case LinkKind::kProcess: return "process";
    case LinkKind::kShm: return "shm";
    case LinkKind::kNvlink: return "nvlink";
    case LinkKind::kPcie: return "pcie";
    case LinkKind::kNet: return "net";
  }
  return "?";
}

std::uint64_t l2_tile_budget(std::uint64_t l2_bytes) {
  return std::clamp<std::uint64_t>(std::bit_floor(l2_bytes / 4), 16 << 10, 256 << 10);
}

HostCost host_cost(const Graph& graph) {
  HostCost cost;
  const CpuSet& allowed = graph.cpus.allowed;
  // Without any L3 in the Graph (some virtual machines hide it) one package decides.
  const NodeKind shared = graph.count(NodeKind::kL3) > 0 ? NodeKind::kL3 : NodeKind::kPackage;
  cost.one_l3 = allowed.empty() || graph.count(shared) == 0 || graph.containing(shared, allowed) >= 0;
  cost.line_seconds = cost.one_l3 ? kLineNearSeconds : kLineFarSeconds;
  int domains = 0;
  double traffic = 0;
  for (const Node& node : graph.nodes) {
    if (node.kind != NodeKind::kNuma || node.cpus.empty()) continue;
    if (!allowed.empty() && !node.cpus.intersects(allowed)) continue;
    ++domains;
    traffic += node.rate.known() ? node.rate.bytes_per_second : kDramTrafficRate;
  }
  if (domains > 0) cost.dram_traffic_rate = traffic;
  cost.usable_cpus = graph.cpus.usable_cpus() > 0 ? graph.cpus.usable_cpus() : 1;
  if (const std::uint64_t bytes = graph.l2_bytes(); bytes > 0) cost.l2_bytes = bytes;
  if (const std::uint64_t bytes = graph.l3_bytes(); bytes > 0) cost.l3_bytes = bytes;
  cost.tile_bytes = l2_tile_budget(cost.l2_bytes);
  return cost;
}

namespace {

bool is_gpu(const Graph& graph, int node) {
  return graph.nodes[static_cast<std::size_t>(node)].kind == NodeKind::kGpu;
}

void take(LinkCost* cost, const Rate& rate) {
  cost->beta_bytes_per_second = rate.bytes_per_second;
  cost->origin = rate.origin;
}

// What each GPU has in all NVLinks together; the poorest GPU with any is the bound.
LinkCost nvlink_cost(const Graph& graph) {
  LinkCost cost{kNvlinkSeconds, kNvlinkRate, Origin::kNominal};
  std::map<int, Rate> of_gpu;
  for (const Edge& edge : graph.edges) {
    if (edge.kind != EdgeKind::kNvlink || !edge.rate.known()) continue;
    for (const int end : {edge.from, edge.to}) {
      if (!is_gpu(graph, end)) continue;
      Rate& sum = of_gpu[end];
      sum.bytes_per_second += edge.rate.bytes_per_second;
      sum.origin = std::max(sum.origin, edge.rate.origin);
    }
  }
  const auto least = std::min_element(of_gpu.begin(), of_gpu.end(), [](const auto& a, const auto& b) {
    return a.second.bytes_per_second < b.second.bytes_per_second;
  });
  if (least != of_gpu.end()) take(&cost, least->second);
  return cost;
}

LinkCost pcie_cost(const Graph& graph) {
  LinkCost cost{kPcieSeconds, kPcieRate, Origin::kNominal};
  Rate least;
  for (const Edge& edge : graph.edges) {
    if (edge.kind != EdgeKind::kPcie || !is_gpu(graph, edge.to) || !edge.rate.known()) continue;
    if (!least.known() || edge.rate.bytes_per_second < least.bytes_per_second) least = edge.rate;
  }
  if (least.known()) take(&cost, least);
  return cost;
}

LinkCost net_cost(const Graph& graph) {
  LinkCost cost{kTcpSeconds, kNetRate, Origin::kNominal};
  Rate best;
  bool verbs = false;
  for (const Node& node : graph.nodes) {
    if (node.kind != NodeKind::kNic) continue;
    const bool has_verbs = !node.get("rdma").empty();
    const bool better = has_verbs != verbs ? has_verbs : node.rate.bytes_per_second > best.bytes_per_second;
    if (!better) continue;
    best = node.rate;
    verbs = has_verbs;
  }
  if (verbs) cost.alpha_seconds = kVerbsSeconds;
  if (best.known()) take(&cost, best);
  return cost;
}

}  // namespace

LinkCost link_cost(const Graph& graph, LinkKind kind) {
  switch (kind) {
    case LinkKind::kProcess:
    case LinkKind::kShm: {
      // Data and its flag may be two lines. Between L3s the copy is bound by what crosses, which is DRAM's pace.
      const HostCost host = host_cost(graph);
      return {2 * host.line_seconds, host.one_l3 ? host.cache_copy_rate : host.dram_copy_rate, Origin::kNominal};
    }
    case LinkKind::kNvlink: return nvlink_cost(graph);
    case LinkKind::kPcie: return pcie_cost(graph);
    case LinkKind::kNet: return net_cost(graph);
  }
  return {};
}

}  // namespace hocket::topo
