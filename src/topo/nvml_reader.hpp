// SPDX-License-Identifier: Apache-2.0
// topo/nvml_reader.hpp: NVLinks of the running machine's GPUs, by the driver's management library.
//
// libnvidia-ml.so.1 is looked up at run time; without NVIDIA GPUs it isn't even looked for. It is asked once per host.
#pragma once

#include <string>

#include "topo/graph.hpp"

namespace hocket::topo {

/// Adds to a Graph's GPUs, found by their bus ids, what NVML knows: driver index, compute capability, active NVLinks to
/// GPUs, NVSwitches (hidden ones as one node) and CPUs. What can't be asked becomes a note. Call normalise()
/// afterwards.
///
/// Not while another thread calls it. `library` is for tests.
void add_nvlinks(Graph* graph, const std::string& library = "libnvidia-ml.so.1");

}  // namespace hocket::topo
