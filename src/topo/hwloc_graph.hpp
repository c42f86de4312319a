// SPDX-License-Identifier: Apache-2.0
// topo/hwloc_graph.hpp: hwloc's tree as a Graph.
//
// Normal objects give packages, L3s and cores, memory objects give NUMA domains (put between their object and its
// children, if they have CPUs), I/O objects give host bridges, switches and devices. Next stop: topo/hwloc_links.hpp
// joins the devices.
#pragma once

#include <hwloc.h>

#include <string>

#include "topo/graph.hpp"

namespace hocket::topo {

/// Of a loaded topology. `sysfs_root` stands for / where link speeds and ports are read, which `read_sysfs` asks for.
/// One thread at a time for one topology.
Graph graph_of_hwloc(hwloc_topology_t topology, const std::string& sysfs_root, bool read_sysfs);

/// Without the end of the line and blanks before it.
std::string first_line(std::string text);

}  // namespace hocket::topo
