// SPDX-License-Identifier: Apache-2.0
#include "sim/placement.hpp"

#include <algorithm>
#include <numeric>

namespace hocket::sim {
namespace {

/// Orders of local ranks, one for each ring of the machine that differs.
std::vector<std::vector<int>> local_orders(const Fabric& fabric, const topo::Paths& paths,
                                           const topo::SearchResult& result) {
  std::vector<int> natural(static_cast<std::size_t>(fabric.ranks_per_host()));
  std::iota(natural.begin(), natural.end(), 0);
  std::vector<std::vector<int>> orders;
  if (fabric.has_gpus() && !result.direct()) {
    for (const topo::Ring& ring : result.machine.rings) {
      std::vector<int> order;
      for (const int gpu : ring.gpus)
        order.push_back(
            static_cast<int>(std::find(paths.gpus().begin(), paths.gpus().end(), gpu) - paths.gpus().begin()));
      if (order.size() == natural.size() && std::find(orders.begin(), orders.end(), order) == orders.end())
        orders.push_back(std::move(order));
    }
  }
  if (orders.empty()) orders.push_back(natural);
  return orders;
}

}  // namespace

Placement plain_placement(const Fabric& fabric) {
  Placement placement(1);
  placement[0].resize(static_cast<std::size_t>(fabric.ranks()));
  std::iota(placement[0].begin(), placement[0].end(), 0);
  return placement;
}

Placement best_placement(const Fabric& fabric, const topo::Paths& paths, const topo::SearchResult& result, int most) {
  const std::vector<std::vector<int>> orders = local_orders(fabric, paths, result);
  const int per_host = fabric.ranks_per_host();
  int copies = static_cast<int>(orders.size());
  if (fabric.hosts() > 1) copies = std::max(copies, std::min(fabric.rails(), per_host));
  copies = std::clamp(copies, 1, std::max(1, most));
  Placement placement;
  for (int c = 0; c < copies; ++c) {
    std::vector<int> order = orders[static_cast<std::size_t>(c) % orders.size()];
    if (fabric.hosts() > 1) {
      // Enters the host by rail c.
      const int rail = c % fabric.rails();
      const auto head = std::find_if(order.begin(), order.end(), [&](int r) { return fabric.rail_of(r) == rail; });
      if (head != order.end()) std::rotate(order.begin(), head, order.end());
    }
    std::vector<int> place;
    place.reserve(static_cast<std::size_t>(fabric.ranks()));
    for (int host = 0; host < fabric.hosts(); ++host)
      for (const int local : order) place.push_back(host * per_host + local);
    placement.push_back(std::move(place));
  }
  return placement;
}

}  // namespace hocket::sim
