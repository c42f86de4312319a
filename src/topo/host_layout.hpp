// SPDX-License-Identifier: Apache-2.0
// topo/host_layout.hpp: what a host's links suggest for the ranks on it: in which orders rings go through them, by
// which trees they are joined, which rail each is near to, and what all that carries.
//
// Ranks are named by their place among the ranks of their host. A host whose ranks have no GPUs of their own gets the
// plain layout: one ring in rank order, two balanced trees. Pure and deterministic: each rank of the host comes to the
// same by itself. Next stop: algorithms/layout.hpp joins the hosts.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "topo/graph.hpp"

namespace hocket::topo {

/// As many as a plan has channels for (exec/block.hpp): a ring takes one, a tree one up and one down.
inline constexpr int kMostLayoutRings = 8;
inline constexpr int kMostLayoutTrees = 4;

/// Figures for the cost of algorithms, in seconds and bytes a second, each direction; 0: unknown. Plain, so that ranks
/// can tell each other.
struct HostLinks {
  double hop_seconds = 0;      ///< a small message between two ranks of the host
  double ring_rate = 0;        ///< what all rings together carry between neighbours
  double tree_rate = 0;        ///< all trees together, up and down at once
  double direct_rate = 0;      ///< what a rank sends while all send to all, contention counted
  double step_rate = 0;        ///< the same while each exchanges with one partner, in the worst of log2(ranks) steps
  double net_hop_seconds = 0;  ///< a small message to another host
  double net_rate = 0;         ///< all rails of the host together
  std::uint32_t device = 0;    ///< 1: the ranks have GPUs, and these are their links
  std::uint32_t rails = 0;

  bool operator==(const HostLinks&) const = default;
};

struct HostLayout {
  std::vector<std::vector<int>> rings;  ///< each all ranks of the host; the last one leads out of it
  std::vector<std::vector<int>> trees;  ///< [ranks]: the parent; -1 is the root
  std::vector<int> rail;                ///< [ranks]: number of the nearest NIC among the host's rails; -1: none
  HostLinks links;
  std::string why_plain;  ///< why the GPUs were not followed; empty if they were, or if there are none
};

/// `gpus`: the Graph node of each rank's GPU, -1 for none, by place. A GPU that two ranks share, or that only some
/// have, makes the layout plain.
HostLayout host_layout(const Graph& graph, std::span<const int> gpus);
/// `ranks` in order, with nothing known of links.
HostLayout plain_layout(int ranks);

/// host_layout() of the machines and GPUs that were asked about last, so that a program with many communicators, or
/// many ranks, searches once. Any thread; who asks for what another searches waits for it.
class HostLayouts {
 public:
  HostLayout of(const Graph& graph, std::span<const int> gpus);
  /// How often host_layout() was called, for tests.
  int searches() const;

 private:
  struct Known {
    std::uint64_t graph = 0;  ///< digest
    std::vector<int> gpus;
    HostLayout layout;
  };
  mutable std::mutex mutex_;
  std::vector<Known> known_;
  int searches_ = 0;
};

/// The GPU that a person means: its number for the driver ("3"), or its PCI address ("0000:3b:00.0", also without the
/// domain). -1 if there is none.
int find_gpu(const Graph& graph, std::string_view name);

}  // namespace hocket::topo
