// SPDX-License-Identifier: Apache-2.0
// topo/host_layout.cpp: see host_layout.hpp.
#include "topo/host_layout.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>

#include "base/status.hpp"
#include "topo/cost.hpp"
#include "topo/nics.hpp"
#include "topo/search.hpp"

namespace hocket::topo {
namespace {

std::size_t slot(int index) {
  return static_cast<std::size_t>(index);
}

/// Bytes a second that each of `moves` (from, to) gets when all go on at once; 0 if nothing limits them or some cannot.
double together(const Paths& paths, const std::vector<std::pair<int, int>>& moves) {
  std::vector<int> load(paths.links().size());
  for (const auto& [from, to] : moves) {
    const Path path = paths.between(from, to);
    if (path.type >= PathType::kNet) return 0;
    for (const int link : path.links) ++load[slot(link)];
  }
  double seconds = 0;
  for (std::size_t i = 0; i < load.size(); ++i)
    if (load[i] > 0) seconds = std::max(seconds, load[i] / paths.links()[i].bytes_per_second);
  return seconds > 0 ? 1 / seconds : 0;
}

double direct_rate(const Paths& paths, std::span<const int> gpus) {
  std::vector<std::pair<int, int>> moves;
  for (const int a : gpus)
    for (const int b : gpus)
      if (a != b) moves.emplace_back(a, b);
  return together(paths, moves) * static_cast<double>(gpus.size() - 1);
}

double step_rate(const Paths& paths, std::span<const int> gpus) {
  double least = 0;
  for (std::size_t distance = 1; distance < gpus.size(); distance *= 2) {
    std::vector<std::pair<int, int>> moves;
    for (std::size_t a = 0; a < gpus.size(); ++a)
      if ((a ^ distance) < gpus.size()) moves.emplace_back(gpus[a], gpus[a ^ distance]);
    const double rate = together(paths, moves);
    if (rate > 0) least = least == 0 ? rate : std::min(least, rate);
  }
  return least;
}

/// Where a ring is opened to lead to the next host: both ends near the lane's rail if there is such a place, else at
/// its farthest hop.
void open_ring(const Paths& paths, std::span<const int> gpus, std::span<const int> rail, int wanted,
               std::vector<int>* order) {
  const std::size_t n = order->size();
  std::size_t best = 0;
  int best_score = -1;
  for (std::size_t begin = 0; begin < n; ++begin) {
    const int first = (*order)[begin], last = (*order)[(begin + n - 1) % n];
    const int near = (rail[slot(first)] == wanted) + (rail[slot(last)] == wanted);
    const int far = static_cast<int>(paths.between(gpus[slot(last)], gpus[slot(first)]).type);
    const int score = wanted >= 0 ? near * 100 + far : far;
    if (score > best_score) {
      best_score = score;
      best = begin;
    }
  }
  std::rotate(order->begin(), order->begin() + static_cast<std::ptrdiff_t>(best), order->end());
}

/// Equal orders count as one until all others are in: lanes should differ first.
std::vector<std::vector<int>> spread(const std::vector<std::vector<int>>& all, std::size_t most) {
  std::vector<std::vector<int>> distinct;
  for (const std::vector<int>& one : all)
    if (std::find(distinct.begin(), distinct.end(), one) == distinct.end()) distinct.push_back(one);
  std::vector<std::vector<int>> taken;
  for (std::size_t i = 0; i < std::min(all.size(), most); ++i) taken.push_back(distinct[i % distinct.size()]);
  return taken;
}

double finite(double rate) {
  return std::isfinite(rate) ? rate : 0;
}

}  // namespace

HostLayout plain_layout(int ranks) {
  HostLayout layout;
  std::vector<int> order(slot(ranks));
  std::iota(order.begin(), order.end(), 0);
  layout.rings = {order};
  // Two heaps, the second one upside down: its leaders and inner nodes are the leaves of the first.
  std::vector<int> down(slot(ranks)), up(slot(ranks));
  for (int i = 0; i < ranks; ++i) {
    const int parent = i == 0 ? -1 : (i - 1) / 2;
    down[slot(i)] = parent;
    up[slot(ranks - 1 - i)] = parent < 0 ? -1 : ranks - 1 - parent;
  }
  layout.trees = {down, up};
  layout.rail.assign(slot(ranks), -1);
  return layout;
}

HostLayout host_layout(const Graph& graph, std::span<const int> gpus) {
  HostLayout layout = plain_layout(static_cast<int>(gpus.size()));
  const LinkCost memory = link_cost(graph, LinkKind::kShm);
  const LinkCost network = link_cost(graph, LinkKind::kNet);
  HostLinks& links = layout.links;
  links.hop_seconds = memory.alpha_seconds;
  links.ring_rate = links.tree_rate = links.direct_rate = links.step_rate = memory.beta_bytes_per_second;
  links.net_hop_seconds = network.alpha_seconds;
  links.net_rate = network.beta_bytes_per_second;
  if (std::none_of(gpus.begin(), gpus.end(), [](int gpu) { return gpu >= 0; })) return layout;

  std::vector<int> sorted(gpus.begin(), gpus.end());
  std::sort(sorted.begin(), sorted.end());
  if (sorted.front() < 0) {
    layout.why_plain = "some ranks have a GPU and some have none";
    return layout;
  }
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    layout.why_plain = "two ranks have the same GPU";
    return layout;
  }
  const auto is_gpu = [&graph](int node) {
    return slot(node) < graph.nodes.size() && graph.nodes[slot(node)].kind == NodeKind::kGpu;
  };
  if (!std::all_of(gpus.begin(), gpus.end(), is_gpu)) {
    layout.why_plain = "a rank's GPU is not in the topology";
    return layout;
  }

  const Paths paths(graph, gpus);
  const SearchResult found = search(paths);
  links.device = 1;
  const LinkKind kind = found.islands.size() == 1 ? LinkKind::kNvlink : LinkKind::kPcie;
  links.hop_seconds = link_cost(graph, kind).alpha_seconds;
  std::map<int, int> place;  // Graph node: rank
  for (std::size_t i = 0; i < gpus.size(); ++i) place[gpus[i]] = static_cast<int>(i);

  const NicPlan nics = plan_nics(paths);
  double net = 0;
  for (const NicOfGpu& of_gpu : nics.gpus) {
    const auto rail = std::find(nics.rails.begin(), nics.rails.end(), of_gpu.chosen);
    if (of_gpu.chosen >= 0) layout.rail[slot(place[of_gpu.gpu])] = static_cast<int>(rail - nics.rails.begin());
  }
  for (const int nic : nics.rails) {
    double best = 0;  // of the GPUs that use it
    for (const NicOfGpu& of_gpu : nics.gpus)
      if (of_gpu.chosen == nic) best = std::max(best, finite(of_gpu.bytes_per_second));
    net += best;
  }
  links.rails = static_cast<std::uint32_t>(nics.rails.size());
  if (net > 0) links.net_rate = net;
  if (gpus.size() == 1) return layout;

  if (found.machine.rings.empty()) {
    layout.why_plain = "no ring joins the GPUs inside the host";
  } else {
    std::vector<std::vector<int>> orders;
    for (const Ring& ring : found.machine.rings) {
      orders.emplace_back();
      for (const int gpu : ring.gpus) orders.back().push_back(place[gpu]);
    }
    layout.rings = spread(orders, kMostLayoutRings);
    for (std::size_t i = 0; i < orders.size(); ++i)
      if (std::find(layout.rings.begin(), layout.rings.end(), orders[i]) == layout.rings.end()) orders[i].clear();
    links.ring_rate = 0;
    for (std::size_t i = 0; i < orders.size(); ++i)
      if (!orders[i].empty()) links.ring_rate += finite(found.machine.rings[i].bytes_per_second);
    for (std::size_t i = 0; i < layout.rings.size(); ++i)
      open_ring(paths, gpus, layout.rail, links.rails == 0 ? -1 : static_cast<int>(i % links.rails), &layout.rings[i]);
  }
  if (!found.trees.trees.empty()) {
    layout.trees.clear();
    std::vector<std::pair<int, int>> hops;
    for (const Tree& tree : found.trees.trees) {
      if (layout.trees.size() == kMostLayoutTrees) break;
      std::vector<int> parents(gpus.size(), -1);
      for (std::size_t i = 0; i < tree.gpus.size(); ++i) {
        if (tree.parent[i] < 0) continue;
        const int above = tree.gpus[slot(tree.parent[i])];
        parents[slot(place[tree.gpus[i]])] = place[above];
        hops.emplace_back(tree.gpus[i], above);
        hops.emplace_back(above, tree.gpus[i]);
      }
      layout.trees.push_back(std::move(parents));
    }
    // Of many trees only some are taken: these share what links the others would have had.
    links.tree_rate = together(paths, hops) * static_cast<double>(layout.trees.size());
  }
  links.direct_rate = direct_rate(paths, gpus);
  links.step_rate = step_rate(paths, gpus);
  return layout;
}

HostLayout HostLayouts::of(const Graph& graph, std::span<const int> gpus) {
  constexpr std::size_t kMost = 16;
  const std::uint64_t digest = graph.digest();
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& one) {
    return one.graph == digest && std::equal(one.gpus.begin(), one.gpus.end(), gpus.begin(), gpus.end());
  });
  if (known != known_.end()) return known->layout;
  if (known_.size() >= kMost) known_.erase(known_.begin());
  ++searches_;
  known_.push_back({digest, {gpus.begin(), gpus.end()}, host_layout(graph, gpus)});
  return known_.back().layout;
}

int HostLayouts::searches() const {
  const std::lock_guard lock(mutex_);
  return searches_;
}

int find_gpu(const Graph& graph, std::string_view name) {
  const std::vector<int> gpus = graph.of_kind(NodeKind::kGpu);
  int number = 0;
  const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = bad == std::errc() && end == name.data() + name.size();
  const auto lower = [](std::string_view text) {
    std::string out(text);
    for (char& c : out)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
  };
  const std::string wanted = lower(name);
  for (const int gpu : gpus) {
    const Node& node = graph.nodes[slot(gpu)];
    if (is_number) {
      if ((node.os_index >= 0 ? node.os_index : node.index) == number) return gpu;
      continue;
    }
    const std::string bus = lower(node.name);
    if (bus == wanted || (bus.size() > wanted.size() && wanted.find(':') != wanted.npos && bus.ends_with(":" + wanted)))
      return gpu;
  }
  return -1;
}

}  // namespace hocket::topo
