// SPDX-License-Identifier: Apache-2.0
// topo/hwloc_links.hpp: the direct links between devices that an hwloc topology tells of, as edges.
//
// Three forms occur: a matrix of NVLink bandwidths (of GPUs and NVSwitches), one of xGMI bandwidths with another of
// hops, and a list of xGMI peers at each device. Next stop: topo/paths.hpp.
#pragma once

#include <hwloc.h>

#include <map>

#include "topo/graph.hpp"

namespace hocket::topo {

/// Nodes of devices, by their PCI and OS objects. Looked up only, so that the order of addresses has no effect.
using HwlocNodes = std::map<hwloc_obj_t, int>;

/// What is no link speed is left out, with a note. One thread at a time for one topology.
void add_device_links(hwloc_topology_t topology, const HwlocNodes& nodes, Graph* graph);

}  // namespace hocket::topo
