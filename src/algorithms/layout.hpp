// SPDX-License-Identifier: Apache-2.0
// layout.hpp: in which orders plans go through the ranks: rings and trees that follow the links of the hosts and cross
// from host to host as seldom as can be.
//
// A ring visits the hosts one after the other, each from its first rank to its last (topo/host_layout.hpp), so it
// crosses as often as there are hosts, however ranks were dealt. Trees are double binary trees over hosts (Sanders,
// Speck and Traff 2009), with each host's own tree below its leader. Reductions that promise rank order do not look
// here.
//
// A value, equal on all ranks: it is made from what they told each other. Pure. Next stop: ring.cpp, chain.cpp,
// tree.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hocket/status.hpp"
#include "hocket/types.hpp"
#include "topo/host_layout.hpp"

namespace hocket {

struct Layout {
  /// [lanes]: all ranks, each order a ring; lane l follows ring l modulo their number. Empty: rank order.
  std::vector<std::vector<Rank>> rings;
  /// [trees][ranks]: the parent, -1 for the root; each tree carries an equal part. Empty: binary trees by rank.
  std::vector<std::vector<Rank>> trees;
  std::vector<std::int32_t> host;  ///< [ranks]: number of the host, by lowest rank
  std::vector<std::int32_t> rail;  ///< [ranks]: the rail its traffic to other hosts takes; empty: unknown
  int hosts = 1;
  int most_on_host = 1;   ///< ranks
  topo::HostLinks links;  ///< of the poorest host
  int deepest = -1;       ///< what depth() says; -1: not counted yet

  /// The order of a lane; empty: rank order.
  std::span<const Rank> ring(int lane) const {
    return rings.empty() ? std::span<const Rank>() : rings[static_cast<std::size_t>(lane) % rings.size()];
  }
  /// The NIC that each end of a channel between hosts is nearest to, by its number among its host's rails; -1: on one
  /// host, or unknown. Ends of one number stay on their rail, others go through what joins the rails.
  struct RailPair {
    std::int32_t sender = -1, receiver = -1;
  };
  RailPair rails(Rank from, Rank to) const;
  /// How many of a ring's links lead from one host to another.
  int crossings(int lane) const;
  /// Hops from the root to the farthest rank, in the deepest tree; 0 without trees.
  int depth() const;
  /// Equal for equal layouts.
  std::uint64_t digest() const;
  /// "2 rings over 3 hosts, crossing 3 times; 2 trees of depth 5; 4 rails".
  std::string to_text() const;
};

/// Hosts joined. `host` numbers each rank's host from 0 by lowest rank; `layouts` are the hosts' own, whose ranks are
/// numbered in the order of `host`. Errors: kInvalidArgument for a layout that does not fit its host, naming it.
Result<Layout> join_hosts(std::span<const std::int32_t> host, std::span<const topo::HostLayout> layouts);

/// kInvalidArgument if a ring is no order of all ranks or a tree is none.
Status check_layout(const Layout& layout, int ranks);

/// The same edges, hung up at `root`: parents of all ranks.
std::vector<Rank> rooted_at(std::span<const Rank> parents, Rank root);

}  // namespace hocket
