// SPDX-License-Identifier: Apache-2.0
// core/agree_layout.hpp: how all ranks of a communicator come to the same layout (algorithms/layout.hpp).
//
// Who shares a host is known from the members; that alone gives ranks of several hosts an order that crosses seldom.
// Where ranks have GPUs, each looks at its own host's graph, which is the same for all ranks of that host, and one more
// all-gather tells the others its own row of the result: its places in rings, its parents in trees, its rail.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "algorithms/layout.hpp"
#include "hocket/communicator.hpp"
#include "topo/graph.hpp"

namespace hocket {

/// What is known before: equal on all ranks, but for `rank` and `graph`.
struct LayoutInputs {
  Rank rank = 0;
  std::vector<std::int32_t> host;            ///< [ranks]: number of the host, by lowest rank
  std::vector<topo::HostLinks> links;        ///< [hosts]: what the host's memory and network are known to do
  std::vector<std::int32_t> gpu;             ///< [ranks]: node in its host's graph; -1: none
  std::shared_ptr<const topo::Graph> graph;  ///< of this rank's host; may be null
  topo::HostLayouts* known = nullptr;        ///< the engine's; null: each call searches anew
};

/// Null where ranks may as well go by rank: one host, no GPUs. Errors: those of the exchange.
Result<std::shared_ptr<const Layout>> agree_layout(const LayoutInputs& inputs, const Exchange& exchange);

}  // namespace hocket
