// SPDX-License-Identifier: Apache-2.0
// topo/merge.hpp: the devices of a machine file on the CPUs of the running machine (HOCKET_TOPO_FILE).
#pragma once

#include "topo/graph.hpp"

namespace hocket::topo {

/// `machine` with the switches, GPUs, NICs and links of `file` in place of its own. Devices that the file doesn't name
/// stay where they were found; what the file leaves open of one that it names (a NIC's name and rate, NVLinks, whether
/// a device is a GPU) is taken from the machine. Notes say where the two differ: a NUMA domain's CPUs, a link that one
/// has more than twice as fast as the other.
///
/// Devices hang at the domain with the number that the file gives, or that has the file's CPUs, else at the host.
/// kInvalidArgument if the file has several hosts or none of the kinds above. Pure.
Result<Graph> with_devices_of(const Graph& machine, const Graph& file);

}  // namespace hocket::topo
