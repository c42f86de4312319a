// SPDX-License-Identifier: Apache-2.0
// topo/ring_packer.hpp: rings over links that several hops share (PCI trees, sockets, mixtures with NVLink).
//
// For a rate, rings are added while each of their hops fits on what is left of every link of its path: a ring again,
// the same ring backwards, else a search that goes to the nearest GPU first and backs up where it gets stuck. In a tree
// of switches the nearest first order enters and leaves each branch once, which is the best there is. Rates that are
// tried: each link's, and its halves, thirds and quarters. Where that stays below the bound, the orders of more rings
// are changed together, at random but alike in every run, until no link carries too much. Private to search.cpp.
#pragma once

#include <vector>

#include "topo/paths.hpp"
#include "topo/search.hpp"

namespace hocket::topo {

/// The rings that carry most together; of several such sets one with fewest rings. It ends early at `bound`. Empty if
/// no ring reaches all GPUs.
std::vector<Ring> pack_rings(const Paths& paths, double bound);

}  // namespace hocket::topo
