// SPDX-License-Identifier: Apache-2.0
// topo/graph.hpp: a machine as a value: what contains what, and which links join the parts at what speed.
//
// Readers (topo/hwloc_reader.hpp) make it, topo/domains.hpp and topo/cost.hpp draw conclusions from it. It knows no
// hwloc, no driver and no file, so one rank per host can load it and send the bytes to the others, and every decision
// can be repeated for a machine that nobody here owns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hocket/status.hpp"
#include "topo/cpu_budget.hpp"
#include "topo/cpu_set.hpp"

namespace hocket::topo {

/// Values are part of the binary form. Children are ordered by them.
enum class NodeKind : std::uint8_t {
  kHost = 0,
  kPackage = 1,     ///< a CPU socket
  kNuma = 2,        ///< a memory domain; with no CPUs if it is memory only (a GPU's, HBM beside DRAM)
  kL3 = 3,          ///< cores that share a last-level cache
  kCore = 4,        ///< its hardware threads are `cpus`; `bytes` is its share of the L2 cache
  kHostBridge = 5,  ///< a PCI root complex
  kPciSwitch = 6,   ///< one PCI switch: its ports are links, not nodes
  kGpu = 7,
  kNic = 8,  ///< `rate` is the port's; the sum of its ports if it has several
  kNvSwitch = 9,
  kPciDevice = 10,  ///< something on PCI of which a file tells no more: a GPU or a NIC, most likely
};
inline constexpr int kNodeKinds = 11;

enum class EdgeKind : std::uint8_t {
  kMemory = 0,   ///< a NUMA domain and what it serves
  kPcie = 1,     ///< device, switch or host bridge to the one above
  kNvlink = 2,   ///< also xGMI; `links` says how many there are in parallel
  kC2c = 3,      ///< coherent link between CPU and GPU
  kSocket = 4,   ///< package to package, or NUMA domain to NUMA domain where packages are unknown
  kNetwork = 5,  ///< NIC to NIC or to a network's switch
};
inline constexpr int kEdgeKinds = 6;

/// Where a figure comes from, from no trust to most.
enum class Origin : std::uint8_t { kUnknown = 0, kNominal = 1, kReported = 2, kMeasured = 3 };

std::string_view to_string(NodeKind kind);
std::string_view to_string(EdgeKind kind);
std::string_view to_string(Origin origin);

/// Bytes a second in one direction. Unknown is 0 with Origin::kUnknown, and no other figure is 0.
struct Rate {
  double bytes_per_second = 0;
  Origin origin = Origin::kUnknown;

  bool known() const { return origin != Origin::kUnknown; }
  bool operator==(const Rate&) const = default;
};

struct Node {
  NodeKind kind = NodeKind::kHost;
  int parent = -1;          ///< the node that contains it; -1 for a host only
  int index = 0;            ///< its number among the nodes of its kind
  int os_index = -1;        ///< the operating system's number; -1 if it has none
  std::string name;         ///< PCI bus id, model of a package …; may be empty
  CpuSet cpus;              ///< hardware threads inside; of a device: none, ask the nodes above it
  std::uint64_t bytes = 0;  ///< cache or memory; 0 if unknown
  Rate rate;                ///< what the node itself can move (a NIC's ports, a domain's memory)
  /// Everything else, sorted by key: vendor, device, class, model, netdev, rdma, subtype, link_speed …
  std::vector<std::pair<std::string, std::string>> attributes;

  void set(std::string_view key, std::string value);
  /// The attribute's value; "" if there is none.
  std::string_view get(std::string_view key) const;
  bool operator==(const Node&) const = default;
};

/// An undirected link between two nodes, `from` < `to`.
struct Edge {
  EdgeKind kind = EdgeKind::kPcie;
  int from = 0;
  int to = 0;
  int links = 1;               ///< parallel links, all included in `rate`
  Rate rate;                   ///< each direction
  double latency_seconds = 0;  ///< one way; 0 if unknown

  bool operator==(const Edge&) const = default;
};

/// A value: copies, compares, prints. Nodes are in preorder (a parent before its children), so each host's nodes are
/// one run of indices; the order is the same however a reader found them, once `normalise` ran.
struct Graph {
  std::string host_id;  ///< names the running kernel (boot id or HOCKET_HOST_ID); "" for a file's machine
  std::string source;   ///< "live", "hwloc xml FILE" …
  CpuBudget cpus;       ///< of the process that loaded it
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<std::string> notes;  ///< what could not be read or was not believed, for people

  /// Append a node below `parent` and return its index (preliminary until `normalise`).
  int add(NodeKind kind, int parent);

  /// Canonical order, numbers per kind, no double edges, no PCI bridge that leads to no device.
  void normalise();

  /// kInvalidArgument if an index, a kind or a figure is out of range; the first one found is named.
  Status check() const;

  /// The node of `kind` whose CPUs include `cpu`, and the one that includes all of `set`. -1 if there is none.
  int containing(NodeKind kind, int cpu) const;
  int containing(NodeKind kind, const CpuSet& set) const;
  int numa_of(int cpu) const { return containing(NodeKind::kNuma, cpu); }
  int l3_of(int cpu) const { return containing(NodeKind::kL3, cpu); }
  int package_of(int cpu) const { return containing(NodeKind::kPackage, cpu); }

  int count(NodeKind kind) const;
  std::vector<int> of_kind(NodeKind kind) const;
  std::vector<int> children(int node) const;
  /// The nearest node of `kind` at or above `node`; -1 if there is none.
  int ancestor(int node, NodeKind kind) const;

  /// The smallest L2 share of one core, and the smallest L3, among those with allowed CPUs; 0 if unknown.
  std::uint64_t l2_bytes() const;
  std::uint64_t l3_bytes() const;

  /// Equal for equal machines with equal budgets, whatever their host id, source and notes. Stable across releases
  /// of the same binary form.
  std::uint64_t digest() const;

  /// For another rank of the same release; from_bytes takes anything and gives kInvalidArgument for bad bytes.
  std::string to_bytes() const;
  static Result<Graph> from_bytes(std::string_view bytes);

  std::string to_text() const;  ///< an indented tree for people
  std::string to_json() const;

  bool operator==(const Graph&) const = default;
};

/// "1 MiB", "768 KiB", "31.4 GiB"; "unknown" for 0.
std::string bytes_to_text(std::uint64_t bytes);
/// "12.3 GB/s", "unknown".
std::string rate_to_text(const Rate& rate);
/// With quotes. Control characters are escaped, bytes that are no UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

}  // namespace hocket::topo
