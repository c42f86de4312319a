// SPDX-License-Identifier: Apache-2.0
// tools/topo_json.cpp: see topo_json.hpp.
#include "tools/topo_json.hpp"

#include <vector>

#include "base/format.hpp"

namespace {

using hocket::format;
using hocket::topo::Graph;
using hocket::topo::json_string;
namespace topo = hocket::topo;

template <class Values, class Text>
std::string list(const Values& values, Text text) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const auto& value : values) texts.push_back(text(value));
  return "[" + hocket::join(texts, ",") + "]";
}

std::string gpus_json(const Graph& graph, const std::vector<int>& gpus) {
  return list(gpus, [&graph](int gpu) { return json_string(topo::gpu_label(graph, gpu)); });
}

std::string rings_json(const Graph& graph, const topo::RingSet& set) {
  const std::string orders = list(set.rings, [&graph](const topo::Ring& ring) {
    return format("{{\"gpus\":{},\"bytes_per_second\":{}}}", gpus_json(graph, ring.gpus), ring.bytes_per_second);
  });
  return format(
      "{{\"orders\":{},\"bytes_per_second\":{},\"bound_bytes_per_second\":{},\"bound_rings\":{},\"best\":{}}}", orders,
      set.bytes_per_second, set.bound_bytes_per_second, set.bound_rings, set.best);
}

std::string trees_json(const Graph& graph, const topo::TreeSet& set) {
  const std::string trees = list(set.trees, [&graph](const topo::Tree& tree) {
    return format("{{\"gpus\":{},\"parents\":{},\"bytes_per_second\":{}}}", gpus_json(graph, tree.gpus),
                  list(tree.parent, [](int parent) { return format("{}", parent); }), tree.bytes_per_second);
  });
  return format("{{\"trees\":{},\"bytes_per_second\":{},\"bound_bytes_per_second\":{},\"bound_trees\":{},\"best\":{}}}",
                trees, set.bytes_per_second, set.bound_bytes_per_second, set.bound_trees, set.best);
}

std::string_view kind_text(topo::IslandKind kind) {
  switch (kind) {
    case topo::IslandKind::kAlone: return "alone";
    case topo::IslandKind::kMesh: return "mesh";
    case topo::IslandKind::kSwitched: return "switch";
    case topo::IslandKind::kMixed: return "mixed";
  }
  return "?";
}

}  // namespace

std::string devices_json(const topo::Paths& paths, const topo::SearchResult& result, const topo::NicPlan& nics) {
  const Graph& graph = paths.graph();
  std::string out = format("{{\"structure\":{},\n\"islands\":", json_string(structure_text(paths, result)));
  out += list(result.islands, [&graph](const topo::Island& island) {
    return format("{{\"kind\":\"{}\",\"gpus\":{},\"links\":{},\"direct\":{},\"rings\":{}}}", kind_text(island.kind),
                  gpus_json(graph, island.gpus), island.links, island.complete, rings_json(graph, island.rings));
  });
  out += format(",\n\"rings\":{},\n\"trees\":{},\n\"nics\":", rings_json(graph, result.machine),
                trees_json(graph, result.trees));
  out += list(nics.gpus, [&graph](const topo::NicOfGpu& of_gpu) {
    const std::string near = list(of_gpu.nearest, [&graph](int nic) { return json_string(nic_name(graph, nic)); });
    return format("{{\"gpu\":{},\"type\":\"{}\",\"nearest\":{},\"uses\":{},\"bytes_per_second\":{}}}",
                  json_string(gpu_label(graph, of_gpu.gpu)), to_string(of_gpu.type), near,
                  of_gpu.chosen < 0 ? "null" : json_string(nic_name(graph, of_gpu.chosen)), of_gpu.bytes_per_second);
  });
  std::vector<topo::NicUse> aside;
  for (const topo::NicUse& use : nics.nics) {
    if (!use.aside.empty()) aside.push_back(use);
  }
  out += ",\n\"aside\":" + list(aside, [](const topo::NicUse& use) {
           return format("{{\"nic\":{},\"why\":{}}}", json_string(use.name), json_string(use.aside));
         });
  return out +
         ",\n\"findings\":" + list(result.findings, [](const std::string& finding) { return json_string(finding); }) +
         "}";
}
