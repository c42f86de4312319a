// SPDX-License-Identifier: Apache-2.0
// topo/findings.cpp: see findings.hpp.
#include "topo/findings.hpp"

#include <algorithm>
#include <map>

#include "base/status.hpp"

namespace hocket::topo {

namespace {

const Node& node_at(const Graph& graph, int node) {
  return graph.nodes[static_cast<std::size_t>(node)];
}

// What most of them have; 0 for none.
template <class Value>
Value usual(const std::map<int, Value>& values) {
  std::map<Value, int> times;
  for (const auto& [gpu, value] : values) ++times[value];
  const auto most =
      std::max_element(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == times.end() ? Value{} : most->first;
}

// GPUs of one kind, which should be alike.
std::map<std::string, std::vector<int>> kinds(const Paths& paths) {
  std::map<std::string, std::vector<int>> found;
  for (const int gpu : paths.gpus()) {
    const Node& node = node_at(paths.graph(), gpu);
    found[format("{} {} {}", node.get("device"), node.get("sm"), node.get("gcn"))].push_back(gpu);
  }
  return found;
}

}  // namespace

std::vector<std::string> findings_of(const Paths& paths) {
  std::vector<std::string> found;
  const Graph& graph = paths.graph();
  for (const auto& [kind, gpus] : kinds(paths)) {
    std::map<int, int> links;
    std::map<int, double> pcie;
    for (const int gpu : gpus) links[gpu] = 0;
    for (std::size_t i = 0; i < paths.links().size(); i += 2) {
      const Link& link = paths.links()[i];
      for (const int end : {link.from, link.to}) {
        if (link.kind == EdgeKind::kNvlink && links.contains(end)) links[end] += link.links;
      }
    }
    for (const Edge& edge : graph.edges) {
      if (edge.kind == EdgeKind::kPcie && edge.rate.origin >= Origin::kReported && links.contains(edge.to))
        pcie[edge.to] = edge.rate.bytes_per_second;
    }
    const int links_usual = usual(links);
    // A bridge joins two of many by design, so only what nearly all have is missed in the others.
    const auto with_usual =
        std::count_if(links.begin(), links.end(), [links_usual](const auto& one) { return one.second == links_usual; });
    const bool most_alike = with_usual > 2 && 4 * static_cast<std::size_t>(with_usual) >= 3 * gpus.size();
    const double pcie_usual = usual(pcie);
    for (const int gpu : gpus) {
      if (most_alike && links[gpu] < links_usual)
        found.push_back(
            format("GPU {} has {} NVLinks, its like have {}: rings through it are slow; reset it or look for a "
                   "fabric error",
                   gpu_label(graph, gpu), links[gpu], links_usual));
      if (gpus.size() > 2 && pcie.contains(gpu) && pcie[gpu] < 0.9 * pcie_usual)
        found.push_back(format("GPU {} has a PCIe link of {:.3g} GB/s, its like have {:.3g}", gpu_label(graph, gpu),
                               pcie[gpu] / 1e9, pcie_usual / 1e9));
    }
  }
  return found;
}

}  // namespace hocket::topo
