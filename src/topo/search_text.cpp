// SPDX-License-Identifier: Apache-2.0
// topo/search_text.cpp: the result of a search, for people; see search.hpp.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/status.hpp"
#include "topo/search.hpp"

namespace hocket::topo {

namespace {

std::string island_text(const Paths& paths, const Island& island) {
  if (island.kind == IslandKind::kSwitched) return format("switch, {} links", island.links);
  if (island.kind == IslandKind::kMixed)
    return format("switch and direct links of {}, {} links", island.gpus.size(), island.links);
  if (island.gpus.size() == 2) return format("pair, {} links", island.links);
  std::set<std::size_t> neighbours;
  for (const int a : island.gpus) {
    neighbours.insert(static_cast<std::size_t>(std::count_if(island.gpus.begin(), island.gpus.end(), [&](int b) {
      return a != b && paths.over_nvlink(a, b).type == PathType::kNvl;
    })));
  }
  std::string peers = format("{}", *neighbours.begin());
  if (neighbours.size() > 1) peers += format("-{}", *neighbours.rbegin());
  return format("mesh of {}, {} links to {} peers", island.gpus.size(), island.links, peers);
}

std::string order_text(const Graph& graph, const std::vector<int>& gpus) {
  std::vector<std::string> labels;
  labels.reserve(gpus.size());
  for (const int gpu : gpus) labels.push_back(gpu_label(graph, gpu));
  return join(labels, " ");
}

std::string rings_text(const Paths& paths, const RingSet& set, std::string_view indent) {
  std::string out;
  // Equal rings are one line.
  std::map<std::vector<int>, std::pair<int, double>> orders;
  for (const Ring& ring : set.rings) {
    auto& [times, rate] = orders[ring.gpus];
    ++times;
    rate = ring.bytes_per_second;
  }
  for (const auto& [gpus, ring] : orders) {
    out += format("{}{}{}  {:.4g} GB/s{}\n", indent, ring.first > 1 ? format("{} x ", ring.first) : "",
                  order_text(paths.graph(), gpus), ring.second / 1e9, ring.first > 1 ? " each" : "");
  }
  double fullest = 0;
  for (std::size_t i = 0; i < set.loads.size(); ++i)
    fullest = std::max(fullest, set.loads[i] / paths.links()[i].bytes_per_second);
  out += format("{}together {:.4g} GB/s, bound {:.4g} GB/s", indent, set.bytes_per_second / 1e9,
                set.bound_bytes_per_second / 1e9);
  if (set.bound_rings > 0) out += format(" ({} rings of {})", set.rings.size(), set.bound_rings);
  out += set.best ? ", no better set exists" : format(", gap {:.1f} %", set.gap() * 100);
  return out + format("; the fullest link carries {:.0f} %\n", fullest * 100);
}

std::string trees_text(const Paths& paths, const TreeSet& set, std::string_view indent) {
  std::string out;
  std::map<std::string, int> seen;
  int deepest = 0;
  for (const Tree& tree : set.trees) {
    deepest = std::max(deepest, depth_of(tree));
    const std::string text = tree_text(paths.graph(), tree);
    if (++seen[text] == 1) out += format("{}{}  {:.4g} GB/s\n", indent, text, tree.bytes_per_second / 1e9);
  }
  out += format("{}together {:.4g} GB/s up and down, bound {:.4g} GB/s", indent, set.bytes_per_second / 1e9,
                set.bound_bytes_per_second / 1e9);
  if (set.bound_trees > 0) out += format(" ({} trees of {})", set.trees.size(), set.bound_trees);
  out += set.gap() < 1e-9 ? std::string(", no better set exists")
                          : format(", gap {:.1f} %{}", set.gap() * 100, set.best ? ", none has more trees" : "");
  return out + format("; {} hops deep\n", deepest);
}

}  // namespace

std::string tree_text(const Graph& graph, const Tree& tree) {
  std::vector<std::string> parts;
  std::vector<int> next;
  for (std::size_t i = 0; i < tree.gpus.size(); ++i)
    if (tree.parent[i] < 0) next.push_back(static_cast<int>(i));
  for (std::size_t at = 0; at < next.size(); ++at) {
    std::vector<int> below;
    for (std::size_t i = 0; i < tree.gpus.size(); ++i) {
      if (tree.parent[i] != next[at]) continue;
      below.push_back(tree.gpus[i]);
      next.push_back(static_cast<int>(i));
    }
    if (below.empty()) continue;
    const std::string above = gpu_label(graph, tree.gpus[static_cast<std::size_t>(next[at])]);
    parts.push_back(format("{} > {}", above, order_text(graph, below)));
  }
  return join(parts, "; ");
}

std::string structure_text(const Paths& paths, const SearchResult& result) {
  if (paths.gpus().empty()) return "no GPU";
  if (paths.gpus().size() == 1) return "one GPU";
  std::vector<std::pair<std::string, int>> parts;  // alike islands together
  int alone = 0;
  for (const Island& island : result.islands) {
    if (island.kind == IslandKind::kAlone) {
      ++alone;
      continue;
    }
    const std::string text = island_text(paths, island);
    if (!parts.empty() && parts.back().first == text) {
      ++parts.back().second;
    } else {
      parts.emplace_back(text, 1);
    }
  }
  std::vector<std::string> texts;
  texts.reserve(parts.size());
  for (const auto& [text, times] : parts) texts.push_back(times > 1 ? format("{} x ({})", times, text) : text);
  if (alone > 0 && !texts.empty()) texts.push_back(format("{} alone", alone));
  PathType farthest = PathType::kLoc;
  for (const int a : paths.gpus()) {
    for (const int b : paths.gpus()) {
      if (a != b && paths.over_nvlink(a, b).type != PathType::kNvl)
        farthest = std::max(farthest, paths.over_pci(a, b).type);
    }
  }
  const Graph& graph = paths.graph();
  const bool told = graph.nodes[0].get("nvlink").empty();
  if (texts.empty()) return format("PCI, farthest {}{}", to_string(farthest), told ? "" : "; NVLinks not told");
  if (result.islands.size() > 1) texts.push_back(format("joined by {}", to_string(farthest)));
  return join(texts, " + ");
}

std::string search_text(const Paths& paths, const SearchResult& result) {
  std::string out = format("structure  {}\n", structure_text(paths, result));
  for (const Island& island : result.islands) {
    if (island.kind == IslandKind::kAlone || result.islands.size() == 1) continue;
    out += format("rings of GPUs {} ({})\n", order_text(paths.graph(), island.gpus), island_text(paths, island));
    out += rings_text(paths, island.rings, "  ");
  }
  if (paths.gpus().size() > 1) {
    out += "rings of all GPUs\n";
    out += result.machine.rings.empty() ? "  none: some GPUs do not reach each other inside the host\n"
                                        : rings_text(paths, result.machine, "  ");
  }
  if (!result.trees.trees.empty()) out += "trees of all GPUs\n" + trees_text(paths, result.trees, "  ");
  if (result.direct()) out += "direct  every GPU reaches every other one in one hop\n";
  for (const std::string& finding : result.findings) out += format("finding  {}\n", finding);
  return out;
}

}  // namespace hocket::topo
