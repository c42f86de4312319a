// SPDX-License-Identifier: Apache-2.0
// unit/sim_graphs.hpp: machines made up for the simulator's tests.
#pragma once

#include "topo/graph.hpp"

namespace hocket::sim {

/// `gpus` on one switch, each with `rate` bytes/s up and down as transfers see it, and a NIC of `nic` each (0: none).
inline topo::Graph switched(int gpus, double rate, double nic = 0) {
  using topo::NodeKind;
  topo::Graph graph;
  const int host = graph.add(NodeKind::kHost, -1);
  const int numa = graph.add(NodeKind::kNuma, host);
  const int nv_switch = graph.add(NodeKind::kNvSwitch, numa);
  for (int g = 0; g < gpus; ++g) {
    const int bridge = graph.add(NodeKind::kHostBridge, numa);
    const int pci = graph.add(NodeKind::kPciSwitch, bridge);
    const int gpu = graph.add(NodeKind::kGpu, pci);
    graph.nodes[static_cast<std::size_t>(gpu)].os_index = g;
    const topo::Rate pcie{64e9 * 0.98, topo::Origin::kNominal};
    graph.edges.push_back({topo::EdgeKind::kNvlink,
                           std::min(nv_switch, gpu),
                           std::max(nv_switch, gpu),
                           18,
                           {rate, topo::Origin::kNominal}});
    graph.edges.push_back({topo::EdgeKind::kPcie, bridge, pci, 1, pcie});
    graph.edges.push_back({topo::EdgeKind::kPcie, pci, gpu, 1, pcie});
    if (nic > 0) {
      const int port = graph.add(NodeKind::kNic, pci);
      graph.nodes[static_cast<std::size_t>(port)].rate = {nic, topo::Origin::kReported};
      graph.nodes[static_cast<std::size_t>(port)].set("rdma", "mlx5_" + std::to_string(g));
      graph.edges.push_back({topo::EdgeKind::kPcie, pci, port, 1, pcie});
    }
  }
  graph.normalise();
  return graph;
}

}  // namespace hocket::sim
