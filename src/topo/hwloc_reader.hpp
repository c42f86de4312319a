// SPDX-License-Identifier: Apache-2.0
// topo/hwloc_reader.hpp: the running machine, an hwloc XML file or a description, as a Graph.
//
// hwloc's plugins (CUDA, NVML, OpenCL, X11, libpciaccess …) stay off: they start drivers, talk to displays and take
// seconds. Its x86 component stays off too, because it moves the calling thread from CPU to CPU.
// PCIe and port speeds come from sysfs. What can't be read becomes a note in the Graph.
#pragma once

#include <string>

#include "topo/graph.hpp"

namespace hocket::topo {

struct ReaderOptions {
  std::string host_id;  ///< HOCKET_HOST_ID if it is set; else empty, and the kernel's boot id names the host
  std::string root;     ///< put before /sys and /proc paths that hocket itself reads; tests only
};

/// The machine that this process runs on. One rank per host calls it (a few ms to tens of ms) and passes to_bytes() on.
///
/// Never fails for what can't be read: the worst Graph is one host with the online CPUs and notes that say why.
/// Any thread; changes no affinity and no environment, prints nothing.
Graph load_machine(const ReaderOptions& options = {});

/// The machine that `lstopo FILE.xml` saved (hwloc 1.x to 3.0). All its CPUs are allowed if the file doesn't say.
///
/// hwloc imports it in a child process for a few ms, since a damaged file can end the process that imports it.
/// kSystem if the file can't be read, kInvalidArgument if it is no hwloc XML or damaged. With `sysfs_root`, speeds that
/// are found in its sysfs replace those of the file.
Result<Graph> graph_from_hwloc_xml(const std::string& path, const std::string& sysfs_root = "");

/// The machine whose /proc and /sys lie below `root` (hwloc-gather-topology makes such folders). Read in a child
/// process. kInvalidArgument if there is no sys folder in it or hwloc finds no machine.
Result<Graph> graph_from_sysfs_tree(const std::string& root);

/// A made-up machine in hwloc's own words: "package:2 numa:1 l3:2 core:4 pu:1". kInvalidArgument if hwloc rejects it.
Result<Graph> graph_from_synthetic(const std::string& description);

/// What names the running kernel: `override_id` if not empty, else the boot id under `root`; "" and a note if neither.
std::string read_host_id(const std::string& override_id, const std::string& root, std::vector<std::string>* notes);

}  // namespace hocket::topo
