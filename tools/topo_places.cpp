// SPDX-License-Identifier: Apache-2.0
// tools/topo_places.cpp: see topo_places.hpp.
#include "tools/topo_places.hpp"

#include <algorithm>
#include <vector>

namespace {

using hocket::topo::Graph;
using hocket::topo::Node;
using hocket::topo::NodeKind;

constexpr double kLeafWidth = 78;
constexpr double kLevel = 66;  // from one row to the next
constexpr double kTop = 64;
constexpr double kLeafHeight = kPictureLeafHeight;
constexpr double kGap = kPictureGap;

class Placer {
 public:
  Placer(const Graph& graph, const std::map<int, std::string>& aside) : graph_(graph), aside_(aside) {}

  PicturePlaces places() {
    int deepest = 0;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (is_drawn(static_cast<int>(i))) deepest = std::max(deepest, depth(static_cast<int>(i)));
    }
    places_.leaf_y = kTop + kLevel * std::max(deepest, 1);
    double x = kGap;
    for (const int host : graph_.of_kind(NodeKind::kHost)) x = place_host(host, x) + 3 * kGap;
    places_.width = std::max(x, 480.0);
    return std::move(places_);
  }

 private:
  const Node& at(int node) const { return graph_.nodes[static_cast<std::size_t>(node)]; }

  bool is_leaf(int node) const {
    const NodeKind kind = at(node).kind;
    return kind == NodeKind::kGpu || kind == NodeKind::kNic || kind == NodeKind::kPciDevice;
  }

  bool is_drawn(int node) const {
    switch (at(node).kind) {
      case NodeKind::kGpu:
      case NodeKind::kPciDevice: return true;
      case NodeKind::kNic: return !aside_.contains(node);
      case NodeKind::kHostBridge:
      case NodeKind::kPciSwitch: {
        const std::vector<int> below = graph_.children(node);
        return std::any_of(below.begin(), below.end(), [this](int child) { return is_drawn(child); });
      }
      default: return false;
    }
  }

  // Rows below the NUMA domain's; a host bridge has none.
  int depth(int node) const {
    int rows = 1;
    for (int above = at(node).parent; above >= 0; above = at(above).parent)
      rows += at(above).kind == NodeKind::kPciSwitch;
    return rows;
  }

  double place_host(int host, double x) {
    const double begin = x;
    std::vector<int> loose;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const int node = static_cast<int>(i);
      if (graph_.ancestor(node, NodeKind::kHost) != host) continue;
      if (at(node).kind == NodeKind::kNuma && !at(node).cpus.empty()) x = place_numa(node, x);
      if (at(node).kind == NodeKind::kNuma && at(node).cpus.empty() && has_devices(node)) x = place_numa(node, x);
      if (is_drawn(node) && at(node).parent >= 0 && is_above_domains(at(at(node).parent).kind)) loose.push_back(node);
    }
    for (const int node : loose) x = place(node, x) + kGap;
    if (graph_.count(NodeKind::kHost) > 1) places_.boxes[host] = {begin - kGap / 2, kTop - 22, x - begin, 14};
    return x;
  }

  static bool is_above_domains(NodeKind kind) { return kind == NodeKind::kHost || kind == NodeKind::kPackage; }

  bool has_devices(int node) const {
    const std::vector<int> below = graph_.children(node);
    return std::any_of(below.begin(), below.end(), [this](int child) { return is_drawn(child); });
  }

  double place_numa(int numa, double x) {
    const double begin = x;
    for (const int child : graph_.children(numa)) {
      if (is_drawn(child)) x = place(child, x) + kGap;
    }
    x = std::max(x - kGap, begin + 1.4 * kLeafWidth);
    places_.boxes[numa] = {begin, kTop, x - begin, 26};
    return x + 2 * kGap;
  }

  // Returns the right edge.
  double place(int node, double x) {
    if (is_leaf(node)) {
      places_.boxes[node] = {x, places_.leaf_y, kLeafWidth, kLeafHeight};
      return x + kLeafWidth;
    }
    const double begin = x;
    for (const int child : graph_.children(node)) {
      if (is_drawn(child)) x = place(child, x) + kGap;
    }
    x -= kGap;
    if (at(node).kind == NodeKind::kPciSwitch)
      places_.boxes[node] = {begin, kTop + kLevel * depth(node), x - begin, 18};
    return x;
  }

  const Graph& graph_;
  const std::map<int, std::string>& aside_;
  PicturePlaces places_;
};

}  // namespace

PicturePlaces place_devices(const Graph& graph, const std::map<int, std::string>& aside) {
  return Placer(graph, aside).places();
}
