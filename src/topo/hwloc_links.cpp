// SPDX-License-Identifier: Apache-2.0
// topo/hwloc_links.cpp: see hwloc_links.hpp.
#include "topo/hwloc_links.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "topo/link_speed.hpp"
#include "topo/words.hpp"

namespace hocket::topo {

namespace {

/// Megabytes a second from one device to another; [rows][columns], 0 where there is no link.
struct LinkMatrix {
  std::vector<int> nodes;  ///< -1: no device of ours
  std::vector<std::vector<hwloc_uint64_t>> values;
  std::vector<hwloc_obj_t> objects;
};

LinkMatrix read_matrix(hwloc_topology_t topology, const char* name, const HwlocNodes& nodes) {
  LinkMatrix matrix;
  hwloc_distances_s* found = nullptr;
  unsigned count = 1;
  if (hwloc_distances_get_by_name(topology, name, &count, &found, 0) != 0 || count == 0 || !found) return matrix;
  const unsigned n = found->nbobjs;
  for (unsigned i = 0; i < n; ++i) {
    const auto known = nodes.find(found->objs[i]);
    matrix.nodes.push_back(known == nodes.end() ? -1 : known->second);
    matrix.objects.push_back(found->objs[i]);
    matrix.values.emplace_back(found->values + std::size_t{i} * n, found->values + std::size_t{i + 1} * n);
  }
  hwloc_distances_release(topology, found);
  return matrix;
}

// What one link carries, in MB/s, if all figures are multiples of it and no device has more links than any has; else 0.
// hwloc knows the generations' nominal figures.
hwloc_uint64_t one_link(const LinkMatrix& matrix) {
  constexpr hwloc_uint64_t kMostLinks = 18;
  for (const hwloc_uint64_t unit : {25000u, 26562u, 26563u, 20000u, 50000u, 53125u}) {
    const bool fits = std::all_of(matrix.values.begin(), matrix.values.end(), [unit](const auto& row) {
      hwloc_uint64_t links = 0;
      for (const hwloc_uint64_t value : row) {
        if (value % unit != 0 || value / unit > kMostLinks) return false;
        links += value / unit;
      }
      return links <= kMostLinks;
    });
    if (fits) return unit;
  }
  return 0;
}

void add_matrix(const LinkMatrix& matrix, const LinkMatrix& hops, const char* name, hwloc_uint64_t unit, bool xgmi,
                Graph* graph) {
  constexpr hwloc_uint64_t kMost = 10'000'000;
  for (std::size_t i = 0; i < matrix.nodes.size(); ++i) {
    for (std::size_t j = 0; j < matrix.nodes.size(); ++j) {
      const int from = matrix.nodes[i];
      const int to = matrix.nodes[j];
      const hwloc_uint64_t megabytes = matrix.values[i][j];
      if (from < 0 || to < 0 || from == to || megabytes == 0) continue;
      if (megabytes > kMost) {
        graph->notes.push_back(format("{} of {} MB/s is no link speed, left out", name, megabytes));
        continue;
      }
      // A pair that others lie between has a bandwidth, too.
      if (hops.objects == matrix.objects && hops.values[i][j] > 1) continue;
      const int links = unit > 0 ? static_cast<int>(megabytes / unit) : 1;
      const Rate rate{static_cast<double>(megabytes) * 1e6, Origin::kReported};
      graph->edges.push_back({EdgeKind::kNvlink, from, to, links, rate, 0});
      if (xgmi) {
        for (const int end : {from, to}) graph->nodes[static_cast<std::size_t>(end)].set("link", "xgmi");
      }
    }
  }
}

// "rsmi1 rsmi2 rsmi3": the devices that one is joined to.
void add_peers(const HwlocNodes& nodes, Graph* graph) {
  std::map<std::string_view, int> by_name;
  for (const auto& [object, node] : nodes) {
    if (object->type == HWLOC_OBJ_OS_DEVICE && object->name) by_name[object->name] = node;
  }
  for (std::size_t i = 0; i < graph->nodes.size(); ++i) {
    const std::string peers(graph->nodes[i].get("XGMIPeers"));
    for (const std::string_view name : words_of(peers)) {
      const auto peer = by_name.find(name);
      const int from = static_cast<int>(i);
      if (peer == by_name.end() || peer->second == from) continue;
      graph->edges.push_back(
          {EdgeKind::kNvlink, from, peer->second, 1, {xgmi_bytes_per_second(""), Origin::kNominal}, 0});
      for (const int end : {from, peer->second}) graph->nodes[static_cast<std::size_t>(end)].set("link", "xgmi");
    }
  }
}

}  // namespace

void add_device_links(hwloc_topology_t topology, const HwlocNodes& nodes, Graph* graph) {
  const LinkMatrix nvlink = read_matrix(topology, "NVLinkBandwidth", nodes);
  add_matrix(nvlink, {}, "NVLinkBandwidth", one_link(nvlink), false, graph);
  const LinkMatrix xgmi = read_matrix(topology, "XGMIBandwidth", nodes);
  if (xgmi.nodes.empty()) {
    add_peers(nodes, graph);
  } else {
    add_matrix(xgmi, read_matrix(topology, "XGMIHops", nodes), "XGMIBandwidth", 0, true, graph);
  }
}

}  // namespace hocket::topo
