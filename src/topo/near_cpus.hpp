// SPDX-License-Identifier: Apache-2.0
// topo/near_cpus.hpp: where the helper threads of a GPU or NIC run best.
#pragma once

#include "topo/graph.hpp"

namespace hocket::topo {

/// The allowed CPUs of the device's NUMA domain, or of its package where the domain has none; all allowed ones if none
/// of them is near, or nothing is known. Never a CPU that is not allowed. Pure.
CpuSet near_cpus(const Graph& graph, int device);

}  // namespace hocket::topo
