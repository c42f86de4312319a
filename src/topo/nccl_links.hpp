// SPDX-License-Identifier: Apache-2.0
// topo/nccl_links.hpp: what the GPUs of NCCL's topology XML say of their NVLinks and xGMI links, as edges of the Graph.
//
// Each end reports a link, or only one does; a target may be a GPU, an NVSwitch that is in the file or is not, a POWER
// CPU, or nothing that the file knows. Pure. Next stop: topo/paths.hpp.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topo/graph.hpp"

namespace hocket::topo {

/// One <nvlink> or <xgmi>.
struct LinkReport {
  int gpu = 0;         ///< Graph node
  std::string target;  ///< bus id
  std::string tclass;  ///< hex digits; may be empty
  int count = 0;
  bool xgmi = false;
  std::string where;  ///< for notes
};

/// Graph nodes by host and bus id; -1 for a device that was left out.
using BusIds = std::map<std::pair<int, std::string>, int>;

/// domain:bus:device.function in lower case, where a domain may have more than the usual four digits.
bool is_bus_id(std::string_view text);
/// With a domain of four digits at least, and no more than it needs: "1b:00.0" and "00000000:1b:00.0" are
/// "0000:1b:00.0". Anything that is no bus id stays as it is.
std::string usual_bus_id(std::string text);

/// Adds an edge for each pair that is joined, and NVSwitch nodes. What was left out or assumed becomes a note with
/// `name`, the file.
void join_links(const std::string& name, const std::vector<LinkReport>& reports, const BusIds& by_bus, Graph* graph);

}  // namespace hocket::topo
