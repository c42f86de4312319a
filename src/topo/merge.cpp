// SPDX-License-Identifier: Apache-2.0
// topo/merge.cpp: see merge.hpp.
#include "topo/merge.hpp"

#include <algorithm>
#include <map>

#include "base/status.hpp"

namespace hocket::topo {

namespace {

bool is_device(NodeKind kind) {
  switch (kind) {
    case NodeKind::kHostBridge:
    case NodeKind::kPciSwitch:
    case NodeKind::kGpu:
    case NodeKind::kNic:
    case NodeKind::kNvSwitch:
    case NodeKind::kPciDevice: return true;
    default: return false;
  }
}

const Node& node_at(const Graph& graph, int node) {
  return graph.nodes[static_cast<std::size_t>(node)];
}

// What PCI calls it, else a NIC's interface.
std::string name_of(const Node& node) {
  if (!node.name.empty()) return node.name;
  return std::string(node.get("rdma").empty() ? node.get("netdev") : node.get("rdma"));
}

class Merger {
 public:
  Merger(const Graph& machine, const Graph& file) : machine_(machine), file_(file), graph_(machine) {}

  Result<Graph> merge() {
    if (file_.count(NodeKind::kHost) != 1)
      return error(Code::kInvalidArgument, "{}: {} hosts; a machine's file has one", file_.source,
                   file_.count(NodeKind::kHost));
    if (std::none_of(file_.nodes.begin(), file_.nodes.end(), [](const Node& node) { return is_device(node.kind); }))
      return error(Code::kInvalidArgument, "{}: no GPU, NIC or switch in it", file_.source);
    for (std::size_t i = 0; i < machine_.nodes.size(); ++i) {
      const Node& node = machine_.nodes[i];
      if (is_device(node.kind) && node.kind != NodeKind::kHostBridge && !name_of(node).empty())
        found_.try_emplace(name_of(node), static_cast<int>(i));
    }
    compare_domains();
    for (std::size_t i = 0; i < file_.nodes.size(); ++i) {
      if (is_device(file_.nodes[i].kind)) copy(static_cast<int>(i));
    }
    copy_edges();
    drop_replaced();
    graph_.notes.insert(graph_.notes.end(), file_.notes.begin(), file_.notes.end());
    graph_.source = format("{}, devices of {}", machine_.source, file_.source);
    graph_.normalise();
    HOCKET_TRY(graph_.check());
    return std::move(graph_);
  }

 private:
  // The machine's domain that a node of the file stands for; its host if there is none.
  int place_of(int file_node) const {
    const int file_numa = file_.ancestor(file_node, NodeKind::kNuma);
    if (file_numa < 0) return 0;
    const Node& wanted = node_at(file_, file_numa);
    int by_number = -1;
    int by_cpus = -1;
    int domains = 0;
    int only = 0;
    for (const int numa : machine_.of_kind(NodeKind::kNuma)) {
      const Node& node = node_at(machine_, numa);
      if (node.cpus.empty()) continue;
      ++domains;
      only = numa;
      if (wanted.os_index >= 0 && node.os_index == wanted.os_index) by_number = numa;
      if (!wanted.cpus.empty() && node.cpus.has(wanted.cpus.first())) by_cpus = numa;
    }
    if (by_number >= 0) return by_number;
    if (by_cpus >= 0) return by_cpus;
    return domains == 1 ? only : 0;
  }

  void compare_domains() {
    for (const int numa : file_.of_kind(NodeKind::kNuma)) {
      const Node& theirs = node_at(file_, numa);
      for (const int own : machine_.of_kind(NodeKind::kNuma)) {
        const Node& ours = node_at(machine_, own);
        if (theirs.os_index < 0 || ours.os_index != theirs.os_index || theirs.cpus.empty() || ours.cpus.empty() ||
            theirs.cpus.intersects(ours.cpus))
          continue;
        graph_.notes.push_back(format("{}: NUMA {} has CPUs {}, on this machine {}: the machine is believed",
                                      file_.source, theirs.os_index, theirs.cpus.to_string(), ours.cpus.to_string()));
      }
    }
  }

  void copy(int from) {
    const Node& theirs = node_at(file_, from);
    const auto above = copied_.find(theirs.parent);
    const int to = graph_.add(theirs.kind, above == copied_.end() ? place_of(from) : above->second);
    Node& node = graph_.nodes[static_cast<std::size_t>(to)];
    const int parent = node.parent;
    node = theirs;
    node.parent = parent;
    copied_[from] = to;
    const auto known = found_.find(name_of(theirs));
    if (known == found_.end() || theirs.kind == NodeKind::kHostBridge) return;
    const Node& ours = node_at(machine_, known->second);
    replaced_[known->second] = to;
    if (node.kind == NodeKind::kPciDevice) node.kind = ours.kind;
    if (!node.rate.known()) node.rate = ours.rate;
    for (const auto& [key, value] : ours.attributes) {
      if (node.get(key).empty()) node.set(key, value);
    }
  }

  void copy_edges() {
    for (const Edge& edge : file_.edges) {
      if (edge.kind == EdgeKind::kMemory || edge.kind == EdgeKind::kSocket) continue;
      const auto end = [this](int node) {
        const auto known = copied_.find(node);
        return known == copied_.end() ? place_of(node) : known->second;
      };
      Edge copy = edge;
      copy.from = end(edge.from);
      copy.to = end(edge.to);
      if (copy.kind == EdgeKind::kPcie) compare_link(edge, &copy);
      graph_.edges.push_back(copy);
    }
    const auto is_link = [](const Edge& edge) { return edge.kind == EdgeKind::kNvlink; };
    if (std::any_of(file_.edges.begin(), file_.edges.end(), is_link)) return;
    // A skeleton: the links between its GPUs are those that were found.
    for (const Edge& edge : machine_.edges) {
      if (edge.kind != EdgeKind::kNvlink && edge.kind != EdgeKind::kC2c) continue;
      Edge moved = edge;
      if (const auto known = replaced_.find(edge.from); known != replaced_.end()) moved.from = known->second;
      if (const auto known = replaced_.find(edge.to); known != replaced_.end()) moved.to = known->second;
      if (moved.from != edge.from || moved.to != edge.to) graph_.edges.push_back(moved);
    }
  }

  void compare_link(const Edge& theirs, Edge* copy) {
    const std::string name = name_of(node_at(file_, theirs.to));
    const auto known = found_.find(name);
    if (known == found_.end()) return;
    for (const Edge& ours : machine_.edges) {
      if (ours.kind != EdgeKind::kPcie || ours.to != known->second || !ours.rate.known()) continue;
      if (!theirs.rate.known() || theirs.rate.origin < Origin::kReported) {
        copy->rate = ours.rate;
        continue;
      }
      const double factor = theirs.rate.bytes_per_second / ours.rate.bytes_per_second;
      if (factor > 2 || factor < 0.5)
        graph_.notes.push_back(format("{}: PCIe link of {}: {:.3g} GB/s, on this machine {:.3g}: the file is believed",
                                      file_.source, name, theirs.rate.bytes_per_second / 1e9,
                                      ours.rate.bytes_per_second / 1e9));
    }
  }

  // What the file names too goes, with what hangs below it; bridges that lead nowhere then go in normalise().
  void drop_replaced() {
    std::vector<int> renumbered(graph_.nodes.size(), -1);
    std::vector<Node> kept;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node node = graph_.nodes[i];
      const bool gone = replaced_.contains(static_cast<int>(i)) && i < machine_.nodes.size();
      if (gone && node.kind != NodeKind::kPciSwitch) continue;
      if (node.parent >= 0) {
        // A switch of both stays for what else hangs on it, unless that is nothing.
        node.parent = renumbered[static_cast<std::size_t>(node.parent)];
        if (node.parent < 0) continue;
      }
      renumbered[i] = static_cast<int>(kept.size());
      kept.push_back(std::move(node));
    }
    graph_.nodes = std::move(kept);
    std::vector<Edge> edges;
    for (Edge edge : graph_.edges) {
      edge.from = renumbered[static_cast<std::size_t>(edge.from)];
      edge.to = renumbered[static_cast<std::size_t>(edge.to)];
      if (edge.from >= 0 && edge.to >= 0) edges.push_back(edge);
    }
    graph_.edges = std::move(edges);
  }

  const Graph& machine_;
  const Graph& file_;
  Graph graph_;
  std::map<std::string, int> found_;  // name: node of the machine
  std::map<int, int> copied_;         // node of the file: node of the result
  std::map<int, int> replaced_;       // node of the machine: node of the result
};

}  // namespace

Result<Graph> with_devices_of(const Graph& machine, const Graph& file) {
  return Merger(machine, file).merge();
}

}  // namespace hocket::topo
