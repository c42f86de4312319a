// SPDX-License-Identifier: Apache-2.0
// layout.cpp: see layout.hpp.
#include "algorithms/layout.hpp"

#include <algorithm>

#include "base/binary_tree.hpp"
#include "base/status.hpp"
#include "topo/hash.hpp"

namespace hocket {
namespace {

std::size_t slot(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

/// A Move names a rank's children beside its own buffers, and executors hold so many spans on their stacks.
constexpr int kMostChildren = 120;

bool is_order(std::span<const int> order, std::size_t n) {
  std::vector<bool> seen(n);
  for (const int r : order) {
    if (r < 0 || slot(r) >= n || seen[slot(r)]) return false;
    seen[slot(r)] = true;
  }
  return order.size() == n;
}

/// One root, no cycle, not too many children.
bool is_tree(std::span<const int> parents, std::size_t n) {
  if (parents.size() != n || std::count(parents.begin(), parents.end(), -1) != 1) return false;
  std::vector<int> children(n);
  for (const int p : parents) {
    if (p < -1 || p >= static_cast<int>(n)) return false;
    if (p >= 0 && ++children[slot(p)] > kMostChildren) return false;
  }
  // 0: not seen, 1: leads to the root, 2: on the way that is being followed.
  std::vector<char> state(n);
  for (std::size_t r = 0; r < n; ++r) {
    int at = static_cast<int>(r);
    std::vector<int> way;
    while (at >= 0 && state[slot(at)] == 0) {
      state[slot(at)] = 2;
      way.push_back(at);
      at = parents[slot(at)];
    }
    if (at >= 0 && state[slot(at)] == 2) return false;
    for (const int seen : way) state[slot(seen)] = 1;
  }
  return true;
}

int depth_of(std::span<const Rank> parents) {
  std::vector<int> depth(parents.size(), -1);
  int most = 0;
  std::vector<std::size_t> way;
  for (std::size_t r = 0; r < parents.size(); ++r) {
    std::size_t at = r;
    while (depth[at] < 0 && parents[at] >= 0) {
      way.push_back(at);
      at = slot(parents[at]);
    }
    int d = depth[at] = std::max(depth[at], 0);
    for (; !way.empty(); way.pop_back()) depth[way.back()] = ++d;
    most = std::max(most, d);
  }
  return most;
}

double least(double a, double b) {
  return a <= 0 || b <= 0 ? std::max(a, b) : std::min(a, b);
}

/// What holds for all hosts: the slowest one's.
topo::HostLinks poorest(std::span<const topo::HostLayout> layouts) {
  topo::HostLinks all = layouts[0].links;
  for (const topo::HostLayout& one : layouts.subspan(1)) {
    const topo::HostLinks& links = one.links;
    all.hop_seconds = std::max(all.hop_seconds, links.hop_seconds);
    all.net_hop_seconds = std::max(all.net_hop_seconds, links.net_hop_seconds);
    all.ring_rate = least(all.ring_rate, links.ring_rate);
    all.tree_rate = least(all.tree_rate, links.tree_rate);
    all.direct_rate = least(all.direct_rate, links.direct_rate);
    all.step_rate = least(all.step_rate, links.step_rate);
    all.net_rate = least(all.net_rate, links.net_rate);
    all.device = std::min(all.device, links.device);
    all.rails = std::min(all.rails, links.rails);
  }
  return all;
}

}  // namespace

Layout::RailPair Layout::rails(Rank from, Rank to) const {
  if (rail.empty() || host[slot(from)] == host[slot(to)]) return {};
  return {rail[slot(from)], rail[slot(to)]};
}

int Layout::crossings(int lane) const {
  const std::span<const Rank> order = ring(lane);
  const std::size_t n = host.size();
  int count = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t a = order.empty() ? i : slot(order[i]);
    const std::size_t b = order.empty() ? (i + 1) % n : slot(order[(i + 1) % n]);
    count += host[a] != host[b];
  }
  return count;
}

int Layout::depth() const {
  if (deepest >= 0) return deepest;
  int most = 0;
  for (const std::vector<Rank>& tree : trees) most = std::max(most, depth_of(tree));
  return most;
}

std::uint64_t Layout::digest() const {
  std::uint64_t h = topo::hash_bytes("layout");
  const auto add = [&h](std::span<const std::int32_t> values) {
    const std::uint64_t count = values.size();
    h = topo::hash_bytes({reinterpret_cast<const char*>(&count), sizeof count}, h);
    h = topo::hash_bytes({reinterpret_cast<const char*>(values.data()), values.size_bytes()}, h);
  };
  for (const auto& ring : rings) add(ring);
  add({});
  for (const auto& tree : trees) add(tree);
  add(host);
  add(rail);
  const double figures[] = {links.hop_seconds,
                            links.ring_rate,
                            links.tree_rate,
                            links.direct_rate,
                            links.step_rate,
                            links.net_hop_seconds,
                            links.net_rate,
                            static_cast<double>(links.device),
                            static_cast<double>(links.rails)};
  return topo::hash_bytes({reinterpret_cast<const char*>(figures), sizeof figures}, h);
}

std::string Layout::to_text() const {
  const auto some = [](std::size_t n, std::string_view one, std::string_view many) {
    return format("{} {}", n, n == 1 ? one : many);
  };
  std::string text = rings.empty() ? std::string("rings in rank order") : some(rings.size(), "ring", "rings");
  if (hosts > 1) text += format(" over {} hosts, crossing {} times", hosts, crossings(0));
  text += trees.empty() ? std::string("; trees by rank")
                        : format("; {} of depth {}", some(trees.size(), "tree", "trees"), depth());
  if (!rail.empty()) text += format("; {}", some(links.rails, "rail", "rails"));
  return text;
}

Status check_layout(const Layout& layout, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  if (layout.host.size() != n)
    return error(Code::kInvalidArgument, "a layout of {} ranks, not {}", layout.host.size(), n);
  for (std::size_t i = 0; i < layout.rings.size(); ++i)
    if (!is_order(layout.rings[i], n)) return error(Code::kInvalidArgument, "ring {} does not visit each rank once", i);
  for (std::size_t i = 0; i < layout.trees.size(); ++i)
    if (!is_tree(layout.trees[i], n)) return error(Code::kInvalidArgument, "tree {} does not join all ranks", i);
  if (!layout.rail.empty() && layout.rail.size() != n) return error(Code::kInvalidArgument, "rails of other ranks");
  return {};
}

std::vector<Rank> rooted_at(std::span<const Rank> parents, Rank root) {
  std::vector<Rank> turned(parents.begin(), parents.end());
  Rank below = -1;
  for (Rank at = root; at >= 0;) {
    const Rank above = parents[slot(at)];
    turned[slot(at)] = below;
    below = at;
    at = above;
  }
  return turned;
}

Result<Layout> join_hosts(std::span<const std::int32_t> host, std::span<const topo::HostLayout> layouts) {
  if (layouts.empty() || host.empty()) return error(Code::kInvalidArgument, "a layout needs a host and a rank");
  Layout layout;
  layout.host.assign(host.begin(), host.end());
  layout.hosts = static_cast<int>(layouts.size());
  layout.links = poorest(layouts);
  const std::size_t n = host.size();
  std::vector<std::vector<Rank>> ranks(layouts.size());  // [hosts]
  for (std::size_t r = 0; r < n; ++r) {
    if (host[r] < 0 || slot(host[r]) >= layouts.size())
      return error(Code::kInvalidArgument, "rank {} is on host {} of {}", r, host[r], layouts.size());
    ranks[slot(host[r])].push_back(static_cast<Rank>(r));
  }
  std::size_t ring_count = topo::kMostLayoutRings, tree_count = topo::kMostLayoutTrees;
  for (std::size_t h = 0; h < layouts.size(); ++h) {
    const topo::HostLayout& one = layouts[h];
    const std::size_t m = ranks[h].size();
    const auto fits = [m](const auto& lists, const auto& holds) {
      return !lists.empty() && std::all_of(lists.begin(), lists.end(), [&](const auto& l) { return holds(l, m); });
    };
    if (!fits(one.rings, [](const auto& l, std::size_t k) { return is_order(l, k); }) ||
        !fits(one.trees, [](const auto& l, std::size_t k) { return is_tree(l, k); }) || one.rail.size() != m)
      return error(Code::kInvalidArgument, "the layout of host {} does not fit its {} ranks", h, m);
    layout.most_on_host = std::max(layout.most_on_host, static_cast<int>(m));
    ring_count = std::min(ring_count, one.rings.size());
    tree_count = std::min(tree_count, one.trees.size());
  }

  // Of a host with more rings than the poorest, the first ones.
  bool by_rank = true;
  for (std::size_t i = 0; i < ring_count; ++i) {
    std::vector<Rank> order;
    order.reserve(n);
    for (std::size_t h = 0; h < layouts.size(); ++h)
      for (const int place : layouts[h].rings[i]) order.push_back(ranks[h][slot(place)]);
    for (std::size_t p = 0; p < n; ++p) by_rank &= order[p] == static_cast<Rank>(p);
    layout.rings.push_back(std::move(order));
  }
  if (by_rank && ring_count == 1) layout.rings.clear();

  // Over several hosts two trees at least, so that inner hosts of one are leaves of the other.
  const int hosts = layout.hosts;
  if (hosts > 1) tree_count = std::max<std::size_t>(tree_count, 2);
  for (std::size_t t = 0; t < tree_count; ++t) {
    std::vector<Rank> parents(n, -1);
    std::vector<Rank> leaders(layouts.size(), 0);
    for (std::size_t h = 0; h < layouts.size(); ++h) {
      const std::vector<int>& tree = layouts[h].trees[t % layouts[h].trees.size()];
      for (std::size_t place = 0; place < tree.size(); ++place) {
        if (tree[place] < 0) {
          leaders[h] = ranks[h][place];
        } else {
          parents[slot(ranks[h][place])] = ranks[h][slot(tree[place])];
        }
      }
    }
    const auto label_of = [&](int h) { return binary_tree_label(static_cast<int>(t), h, hosts); };
    std::vector<int> host_of_label(layouts.size());
    for (int h = 0; h < hosts; ++h) host_of_label[slot(label_of(h))] = h;
    for (int h = 0; h < hosts; ++h) {
      const int above = binary_tree_parent(label_of(h), hosts);
      if (above >= 0) parents[slot(leaders[slot(h)])] = leaders[slot(host_of_label[slot(above)])];
    }
    layout.trees.push_back(std::move(parents));
  }

  bool any_rail = false;
  std::vector<std::int32_t> rail(n, -1);
  for (std::size_t h = 0; h < layouts.size(); ++h)
    for (std::size_t place = 0; place < ranks[h].size(); ++place) {
      rail[slot(ranks[h][place])] = layouts[h].rail[place];
      any_rail |= layouts[h].rail[place] >= 0;
    }
  if (any_rail) layout.rail = std::move(rail);
  HOCKET_TRY(check_layout(layout, static_cast<int>(n)));
  layout.deepest = layout.depth();
  return layout;
}

}  // namespace hocket
