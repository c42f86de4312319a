// SPDX-License-Identifier: Apache-2.0
// core/agree_layout.cpp: see agree_layout.hpp.
#include "core/agree_layout.hpp"

#include <algorithm>
#include <array>

#include "base/log.hpp"
#include "base/status.hpp"
#include "topo/host_layout.hpp"

namespace hocket {
namespace {

/// One rank's row of its host's layout.
struct LayoutCard {
  std::array<std::int32_t, topo::kMostLayoutRings> place{};   ///< in each ring
  std::array<std::int32_t, topo::kMostLayoutTrees> parent{};  ///< in each tree
  std::int32_t rail = -1;
  std::uint32_t rings = 0, trees = 0;  ///< 0: no layout of GPUs
  std::uint32_t unused = 0;            ///< no byte goes out that nobody set
  topo::HostLinks links;
};
static_assert(sizeof(LayoutCard) ==
              sizeof(std::int32_t) * (topo::kMostLayoutRings + topo::kMostLayoutTrees + 4) + sizeof(topo::HostLinks));
static_assert(sizeof(topo::HostLinks) == 7 * sizeof(double) + 2 * sizeof(std::uint32_t));

LayoutCard card_of(const topo::HostLayout& layout, int me) {
  LayoutCard card;
  card.rings = static_cast<std::uint32_t>(layout.rings.size());
  card.trees = static_cast<std::uint32_t>(layout.trees.size());
  for (std::size_t i = 0; i < layout.rings.size(); ++i) {
    const std::vector<int>& order = layout.rings[i];
    card.place[i] = static_cast<std::int32_t>(std::find(order.begin(), order.end(), me) - order.begin());
  }
  for (std::size_t i = 0; i < layout.trees.size(); ++i) card.parent[i] = layout.trees[i][static_cast<std::size_t>(me)];
  card.rail = layout.rail[static_cast<std::size_t>(me)];
  card.links = layout.links;
  return card;
}

/// A host's layout from its ranks' rows. Nothing if they do not fit together, which join_hosts would refuse: numbers
/// that came from others.
bool from_cards(std::span<const LayoutCard> cards, topo::HostLayout* layout) {
  const LayoutCard& first = cards.front();
  const std::size_t n = cards.size();
  if (first.rings == 0 || first.rings > topo::kMostLayoutRings || first.trees == 0 ||
      first.trees > topo::kMostLayoutTrees)
    return false;
  layout->rings.assign(first.rings, std::vector<int>(n, -1));
  layout->trees.assign(first.trees, std::vector<int>(n, -1));
  layout->rail.assign(n, -1);
  layout->links = first.links;
  for (std::size_t r = 0; r < n; ++r) {
    const LayoutCard& card = cards[r];
    if (card.rings != first.rings || card.trees != first.trees || !(card.links == first.links)) return false;
    for (std::size_t i = 0; i < layout->rings.size(); ++i) {
      const auto place = static_cast<std::size_t>(card.place[i]);
      if (card.place[i] < 0 || place >= n || layout->rings[i][place] >= 0) return false;
      layout->rings[i][place] = static_cast<int>(r);
    }
    for (std::size_t i = 0; i < layout->trees.size(); ++i) layout->trees[i][r] = card.parent[i];
    layout->rail[r] = card.rail;
  }
  const std::vector<std::int32_t> host(n, 0);
  return join_hosts(host, std::span(layout, 1)).ok();
}

}  // namespace

Result<std::shared_ptr<const Layout>> agree_layout(const LayoutInputs& inputs, const Exchange& exchange) {
  const std::size_t n = inputs.host.size();
  const std::size_t hosts = inputs.links.size();
  const bool gpus = std::any_of(inputs.gpu.begin(), inputs.gpu.end(), [](int gpu) { return gpu >= 0; });
  if (hosts == 1 && !gpus) return std::shared_ptr<const Layout>();
  std::vector<std::vector<Rank>> ranks(hosts);
  for (std::size_t r = 0; r < n; ++r) ranks[static_cast<std::size_t>(inputs.host[r])].push_back(static_cast<Rank>(r));
  std::vector<topo::HostLayout> layouts;
  for (std::size_t h = 0; h < hosts; ++h) {
    layouts.push_back(topo::plain_layout(static_cast<int>(ranks[h].size())));
    layouts.back().links = inputs.links[h];
  }

  if (gpus) {
    const auto me = static_cast<std::size_t>(inputs.rank);
    const std::vector<Rank>& beside = ranks[static_cast<std::size_t>(inputs.host[me])];
    LayoutCard mine;
    if (inputs.graph) {
      std::vector<int> nodes;
      int place = 0;
      for (const Rank r : beside) {
        if (r == inputs.rank) place = static_cast<int>(nodes.size());
        nodes.push_back(inputs.gpu[static_cast<std::size_t>(r)]);
      }
      const topo::HostLayout found =
          inputs.known ? inputs.known->of(*inputs.graph, nodes) : topo::host_layout(*inputs.graph, nodes);
      if (!found.why_plain.empty() && place == 0)
        HOCKET_LOG(LogLevel::kWarn, "rank {}: the ranks of this host go in rank order: {}", inputs.rank,
                   found.why_plain);
      mine = card_of(found, place);
    }
    std::vector<LayoutCard> cards(n);
    if (n == 1) {
      cards[0] = mine;
    } else {
      HOCKET_TRY(exchange(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(cards))));
    }
    for (std::size_t h = 0; h < hosts; ++h) {
      std::vector<LayoutCard> of_host;
      for (const Rank r : ranks[h]) of_host.push_back(cards[static_cast<std::size_t>(r)]);
      topo::HostLayout layout;
      if (from_cards(of_host, &layout)) {
        layouts[h] = std::move(layout);
      } else if (inputs.rank == ranks[h].front() && std::any_of(ranks[h].begin(), ranks[h].end(), [&](Rank r) {
                   return inputs.gpu[static_cast<std::size_t>(r)] >= 0;
                 })) {
        HOCKET_LOG(
            LogLevel::kWarn,
            "rank {}: the ranks of this host go in rank order: some know nothing of its topology, or see another "
            "one than the others (HOCKET_TOPO_FILE)",
            inputs.rank);
      }
    }
  }
  HOCKET_ASSIGN(Layout joined, join_hosts(inputs.host, layouts));
  return std::make_shared<const Layout>(std::move(joined));
}

}  // namespace hocket
