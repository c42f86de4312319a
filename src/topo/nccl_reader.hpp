// SPDX-License-Identifier: Apache-2.0
// topo/nccl_reader.hpp: a machine from the topology XML of NCCL (NCCL_TOPO_DUMP_FILE, or written by hand) or RCCL.
//
// What the dialects leave open is settled here, with a note in the Graph where something had to be assumed:
// - A <cpu> is a NUMA domain. Files of several hosts (host_hash) give a host each.
// - A <pci> with children is a switch; without, its class, <gpu> or <nic> tells; else it is a device of unknown kind.
// - NVLinks to NVSwitches, visible or hidden, end at NVSwitch nodes; links to oneself or to nowhere are left out.
// - A <net> that is repeated under several <cpu> elements is one NIC, near to none.
// Next stop: topo/paths.hpp.
#pragma once

#include <string>
#include <string_view>

#include "topo/graph.hpp"

namespace hocket::topo {

/// kInvalidArgument with file, line and element if the text is no such XML, is cut off, names no <cpu>, or has more
/// devices than any machine. `name` is what errors and the Graph's source call it. Any thread.
Result<Graph> graph_from_nccl_text(std::string text, const std::string& name);

/// The same from a file; kSystem if it can't be read.
Result<Graph> graph_from_nccl_xml(const std::string& path);

/// The Graph in NCCL's dialect (RCCL's if its GPUs say so), for NCCL_TOPO_FILE. Reading it back gives an equal Graph if
/// this one came from such a file; of others, CPUs finer than NUMA domains and host bridges are left out.
std::string to_nccl_xml(const Graph& graph);

}  // namespace hocket::topo
