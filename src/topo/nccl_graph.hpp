// SPDX-License-Identifier: Apache-2.0
// topo/nccl_graph.hpp: rings and trees as NCCL writes them (NCCL_GRAPH_DUMP_FILE) and takes them (NCCL_GRAPH_FILE).
#pragma once

#include <string>
#include <vector>

#include "hocket/status.hpp"
#include "topo/nics.hpp"
#include "topo/search.hpp"

namespace hocket::topo {

/// A device of a channel: dev="0x3", or with the host in its top byte.
struct NcclDevice {
  int host = 0;
  int dev = 0;
  bool operator==(const NcclDevice&) const = default;
};

struct NcclChannel {
  std::vector<NcclDevice> nets;  ///< none, or where it enters and where it leaves
  std::vector<NcclDevice> gpus;
};

/// One <graph>.
struct NcclGraph {
  int id = 0;       ///< 0 ring, 1 tree, 2 chain of in-network reduction, 3 NVLS, 4 direct in-network reduction
  int pattern = 0;  ///< 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS, 6 in-network
  double intra_bytes_per_second = 0;  ///< of one channel inside a host
  double inter_bytes_per_second = 0;
  std::string type_intra;
  std::string type_inter;
  std::vector<NcclChannel> channels;
};

/// kInvalidArgument with file, line and element for anything else than such XML.
Result<std::vector<NcclGraph>> parse_nccl_graphs(std::string text, const std::string& name);

/// The rings (graph 0) and trees (graph 1, along the rings) of a machine, for NCCL_GRAPH_FILE and for comparing. With a
/// NIC chosen for each GPU, a channel enters and leaves by the NICs of its ends.
std::string to_nccl_graph_xml(const Paths& paths, const SearchResult& result, const NicPlan& nics);

/// Searches the machine and writes the same into a file (HOCKET_GRAPH_DUMP_FILE); kSystem if it can't be written.
Status dump_nccl_graph(const Graph& machine, const std::string& path);

}  // namespace hocket::topo
