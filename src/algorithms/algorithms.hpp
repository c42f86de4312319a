// SPDX-License-Identifier: Apache-2.0
// algorithms.hpp: one builder function per algorithm; registry.cpp makes the table of them. Each has a file of its own.
#pragma once

#include "algorithms/registry.hpp"

namespace hocket {

/// World of one: input to output. Every algorithm answers with it when there is nobody to talk to.
Plan local_copy(Collective collective, std::string_view algorithm, const PlanArgs& args);

// ring.cpp, halving_doubling.cpp, log_step.cpp
Plan ring_all_reduce(const PlanArgs& args);
Plan ring_reduce_scatter(const PlanArgs& args);
Plan ring_all_gather(const PlanArgs& args);
Plan ring_reduce_scatter_v(const PlanArgs& args);
Plan ring_all_gather_v(const PlanArgs& args);
Plan halving_doubling_all_reduce(const PlanArgs& args);
Plan log_step_all_gather(const PlanArgs& args);
Plan log_step_reduce_scatter(const PlanArgs& args);

// one_shot.cpp: everything to everybody, one exchange
Plan one_shot_all_reduce(const PlanArgs& args);
Plan one_shot_board_all_reduce(const PlanArgs& args);
Plan one_shot_reduce(const PlanArgs& args);

// two_shot.cpp: direct reduce-scatter, then direct all-gather
Plan two_shot_all_reduce(const PlanArgs& args);
Plan two_shot_board_all_reduce(const PlanArgs& args);
Plan two_shot_zero_copy_all_reduce(const PlanArgs& args);

// direct.cpp: each chunk goes straight to who needs it
Plan direct_all_gather(const PlanArgs& args);
Plan direct_zero_copy_all_gather(const PlanArgs& args);
Plan direct_zero_copy_reduce_scatter(const PlanArgs& args);
Plan direct_zero_copy_all_to_all(const PlanArgs& args);
Plan direct_zero_copy_broadcast(const PlanArgs& args);
Plan direct_reduce_scatter(const PlanArgs& args);
Plan direct_broadcast(const PlanArgs& args);
Plan direct_all_to_all(const PlanArgs& args);
Plan direct_all_gather_v(const PlanArgs& args);
Plan direct_reduce_scatter_v(const PlanArgs& args);
Plan direct_all_to_all_v(const PlanArgs& args);

// tree.cpp: double binary tree
Plan tree_all_reduce(const PlanArgs& args);
Plan tree_broadcast(const PlanArgs& args);
Plan tree_reduce(const PlanArgs& args);

// gather.cpp, scatter.cpp
Plan direct_gather(const PlanArgs& args);
Plan binomial_gather(const PlanArgs& args);
Plan direct_scatter(const PlanArgs& args);
Plan binomial_scatter(const PlanArgs& args);
/// The most chunks that travel under one signal in the trees.
int binomial_pieces(int world);

// pairwise.cpp, bruck.cpp, chain.cpp, barrier.cpp, point_to_point.cpp
Plan pairwise_all_to_all(const PlanArgs& args);
Plan pairwise_all_to_all_v(const PlanArgs& args);
Plan bruck_all_to_all(const PlanArgs& args);
Plan chain_broadcast(const PlanArgs& args);
Plan chain_reduce(const PlanArgs& args);
Plan dissemination_barrier(const PlanArgs& args);
Plan send_plan(const PlanArgs& args);
Plan receive_plan(const PlanArgs& args);

// exchange.cpp: a message from everybody to everybody; exchange_plan (exchange.hpp) makes what a group needs
Plan dense_exchange(const PlanArgs& args);

}  // namespace hocket
