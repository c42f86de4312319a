// SPDX-License-Identifier: Apache-2.0
// sim/hierarchical.hpp: a hierarchical all-reduce, as plans. The library does not run it yet: it is here so that its
// price can be compared; the checker proves it (tests/property/sim_hierarchical_test.cpp).
//
// L ranks a host, G hosts, B bytes. Inside a host ranks reduce-scatter directly (each reduces the chunk of its place);
// the ranks of one place, one a host, all-reduce their chunk by a double binary tree over the hosts, which on rails
// never leaves their rail; then the host's ranks all-gather directly. Each half of the data has a lane for each level,
// joined by self channels, so tiles of all levels are under way at once. Out of a rank: 2(L-1)/L * B bytes inside the
// host and at most 2 * B / L between hosts; 2 + 2 log2(G) hops. Worlds of equal hosts only: rank = host * L + place.
// Source: the levels, Thakur, Rabenseifner and Gropp, IJHPCA 2005; the tree, Sanders, Speck and Traff, 2009.
#pragma once

#include "sim/fold.hpp"

namespace hocket::sim {

Plan hierarchical_all_reduce_plan(int ranks_per_host, int hosts, int rank);
PlanFamily hierarchical_all_reduce(int ranks_per_host, int hosts);

}  // namespace hocket::sim
