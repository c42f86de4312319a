// SPDX-License-Identifier: Apache-2.0
// topo/link_speed.hpp: what a link of a known kind can move, in bytes a second and direction.
//
// Two figures are kept apart. A Graph's PCIe edge has the payload rate of the link itself (after line coding); what
// transfers between devices get of it is `usable_pcie`. NVLink and xGMI edges have what transfers get, since nothing
// but the number of links is ever reported for them. Figures of transfers are those that NCCL and RCCL plan with, so
// that a machine's rings can be compared with theirs. Pure.
#pragma once

#include <string_view>

#include "topo/graph.hpp"

namespace hocket::topo {

/// PCIe bytes a second each way for a signalling rate ("16.0 GT/s PCIe", as sysfs writes it) and a number of lanes
/// ("16"). Unknown for values that no PCIe link can have.
Rate pcie_rate(std::string_view speed, std::string_view width);

/// What transfers get of a PCIe link; 12 GB/s (16 lanes of PCIe 3.0) of an unknown one.
double usable_pcie(const Rate& rate);

/// What transfers get of one NVLink of a GPU with this compute capability (70, 80, 90 …); of a common one (20 GB/s)
/// for 0 and below.
double nvlink_bytes_per_second(int compute_capability);

/// The same for one xGMI link, by the architecture's name in RCCL's files ("906", "910", "gfx942").
double xgmi_bytes_per_second(std::string_view architecture);

/// Between two NUMA domains of a host, by CPU. `vendor`, `family` and `model` as in NCCL's files ("GenuineIntel", 6,
/// 143).
double socket_bytes_per_second(std::string_view arch, std::string_view vendor, int family, int model);

}  // namespace hocket::topo
