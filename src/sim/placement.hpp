// SPDX-License-Identifier: Apache-2.0
// sim/placement.hpp: which rank runs which label of which copy of a plan.
//
// hocket's plans know ranks, not links: ring r goes to r + 1. On a machine whose links carry several rings, or with
// several rails, copies of a plan run side by side, each on a part of the buffer and with an order of its own: the
// rings that topo/search.hpp finds, started at another rail for each copy. Pure. Next stop: sim/fold.hpp.
#pragma once

#include "sim/fabric.hpp"
#include "sim/fold.hpp"
#include "topo/search.hpp"

namespace hocket::sim {

/// One copy, label r on rank r: what the library runs today.
Placement plain_placement(const Fabric& fabric);
/// As many copies as the machine has rings of its own (one on a switch), or rails where there are several hosts, but at
/// most `most`. `result` is of the machine's Graph.
Placement best_placement(const Fabric& fabric, const topo::Paths& paths, const topo::SearchResult& result, int most);

}  // namespace hocket::sim
