// SPDX-License-Identifier: Apache-2.0
// topo/near_cpus.cpp: see near_cpus.hpp.
#include "topo/near_cpus.hpp"

namespace hocket::topo {

CpuSet near_cpus(const Graph& graph, int device) {
  const CpuSet& allowed = graph.cpus.allowed;
  for (const NodeKind kind : {NodeKind::kNuma, NodeKind::kPackage}) {
    const int around = graph.ancestor(device, kind);
    if (around < 0) continue;
    CpuSet near = graph.nodes[static_cast<std::size_t>(around)].cpus & allowed;
    if (!near.empty()) return near;
  }
  return allowed;
}

}  // namespace hocket::topo
