// SPDX-License-Identifier: Apache-2.0
// topo/paths.hpp: how two devices of a Graph reach each other, over which links, and how near that is.
//
// The words are NCCL's. Links are directed; a path lists those it loads, so who adds up several paths sees what they
// share. All NVSwitches of a Graph are one crossbar: traffic is spread over them, so a GPU's links to them are one
// link. Pure. Next stop: topo/nics.hpp (which NIC is near), topo/search.hpp (rings).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "topo/graph.hpp"

namespace hocket::topo {

/// From nearest to farthest.
enum class PathType : std::uint8_t {
  kLoc = 0,   ///< the same device
  kNvl = 1,   ///< NVLink or xGMI, direct or over NVSwitches
  kNvb = 2,   ///< two of them, through another GPU
  kC2c = 3,   ///< the coherent link between a GPU and its CPU
  kPix = 4,   ///< at most one PCI switch
  kPxb = 5,   ///< several, and no host bridge
  kP2c = 6,   ///< over C2C to the CPU, and from its PCI to a NIC
  kPxn = 7,   ///< over NVLink to a GPU that has the NIC near it
  kPhb = 8,   ///< a host bridge, or an unknown number of them in one NUMA domain
  kNode = 9,  ///< two host bridges of one NUMA domain (NCCL: PHB)
  kSys = 10,  ///< between NUMA domains
  kNet = 11,  ///< between hosts
  kDis = 12,  ///< no way is known
};

std::string_view to_string(PathType type);

/// One direction of an edge, or of all edges from a GPU to NVSwitches.
struct Link {
  EdgeKind kind = EdgeKind::kPcie;
  int from = 0;  ///< Graph node; Paths::kCrossbar for the NVSwitches
  int to = 0;
  int links = 1;                ///< parallel ones
  double bytes_per_second = 0;  ///< what transfers get; infinite where nothing limits them
};

struct Path {
  PathType type = PathType::kDis;
  double bytes_per_second = 0;  ///< of the narrowest link, alone on it
  std::vector<int> links;       ///< indices of Paths::links(), in order
};

/// Which switch levels are one chip: Broadcom's two-level switches, as NCCL merges them before it tells PIX from PXB.
bool is_part_of_parent(const Graph& graph, int pci_switch);

/// Holds the Graph by reference. Any thread.
class Paths {
 public:
  static constexpr int kCrossbar = -2;

  explicit Paths(const Graph& graph);
  /// As if the machine had no other GPUs than these.
  Paths(const Graph& graph, std::span<const int> gpus);

  const Graph& graph() const { return graph_; }
  const std::vector<Link>& links() const { return links_; }
  /// GPUs in the order in which people number them: rank, else driver index, else place; host by host.
  const std::vector<int>& gpus() const { return gpus_; }

  /// The nearest way. From a GPU to a NIC also over a peer (PXN), where that is nearer than PCI.
  Path between(int from, int to) const;
  /// Without NVLink, xGMI and peers: over PCI and CPUs, or C2C where a GPU has it.
  Path over_pci(int from, int to) const;
  /// Over NVLink or xGMI in one hop; kDis if there is none.
  Path over_nvlink(int from, int to) const;

  /// The most bytes a second that can go from one node to the other over all links at once (maximum flow).
  double max_flow(int from, int to) const;

 private:
  struct Climb;

  void add_link(EdgeKind kind, int from, int to, int links, double rate);
  int find(EdgeKind kind, int from, int to) const;
  Climb climb(int node, bool c2c) const;
  int socket_link(int from_numa, int to_numa) const;
  int c2c_numa(int gpu) const;
  void finish(Path* path) const;
  const Node& at(int node) const { return graph_.nodes[static_cast<std::size_t>(node)]; }

  const Graph& graph_;
  std::vector<int> gpus_;
  std::vector<Link> links_;
  std::vector<std::vector<std::pair<int, int>>> out_;  // [nodes]: where to, link
};

/// "GPU 3", with its host where there are several; the number that people use.
std::string gpu_label(const Graph& graph, int gpu);

}  // namespace hocket::topo
