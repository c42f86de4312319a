// SPDX-License-Identifier: Apache-2.0
// topo/smi_reader.hpp: a machine from the text of `nvidia-smi topo -m` or `rocm-smi --showtopo`.
//
// Such a text says how near any two devices are, not what lies between them. The smallest PCI tree that explains it is
// built: devices that are PIX share a switch, PXB a switch above switches, PHB a host bridge, NODE a NUMA domain.
// People paste these texts: colours, lost tabs, wrapped and cut lines, cells that run together. What is missing is
// taken from the other half of the matrix, with a note. Next stop: topo/paths.hpp.
#pragma once

#include <string>
#include <string_view>

#include "topo/graph.hpp"

namespace hocket::topo {

/// Whether the text looks like such a matrix at all.
bool looks_like_smi(std::string_view text);

/// kInvalidArgument with the line for a text with no header of devices or no row of a device.
Result<Graph> graph_from_smi_text(std::string_view text, const std::string& name);

}  // namespace hocket::topo
