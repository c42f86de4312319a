// SPDX-License-Identifier: Apache-2.0
// plan_world.hpp: the plans of all ranks for one call, and whether they belong together.
#pragma once

#include <cstddef>
#include <vector>

#include "algorithms/plan.hpp"
#include "exec/ends.hpp"
#include "hocket/status.hpp"

namespace hocket {

/// All ranks' plans for one call, checked for what does not depend on counts. Ranks that take no part have no lanes.
class PlanWorld {
 public:
  /// One plan a rank, in rank order. Errors: a plan that is not valid, ranks that do not belong together, a channel end
  /// that two lanes use.
  static Result<PlanWorld> of(std::vector<Plan> plans);
  /// The same world with another plan for its rank (a mutant).
  Status replace(Plan plan);

  int size() const { return static_cast<int>(plans_.size()); }
  const Plan& plan(int rank) const { return plans_[static_cast<std::size_t>(rank)]; }
  const std::vector<ChannelEnd>& ends(int rank) const { return ends_[static_cast<std::size_t>(rank)]; }
  Collective collective() const { return collective_; }
  int root() const { return root_; }
  int channels() const { return channels_; }
  int lanes() const { return lanes_; }  ///< the most of any rank
  bool uses_slots() const { return uses_slots_; }
  int pieces() const { return pieces_; }
  /// All ranks' plans may run in the packet protocol; and none reads a peer's memory, so that all Moves may be posted.
  bool packets() const { return packets_; }
  bool posted() const { return posted_; }
  /// Where rank's steps lie in a coverage table of all ranks' steps, and how many there are in all.
  std::size_t step_base(int rank) const { return step_base_[static_cast<std::size_t>(rank)]; }
  std::size_t steps() const { return step_base_.back(); }

 private:
  Status summarise();
  Status check_plan(const Plan& plan, int rank) const;

  std::vector<Plan> plans_;
  std::vector<std::vector<ChannelEnd>> ends_;
  std::vector<std::size_t> step_base_;
  Collective collective_ = Collective::kBarrier;
  int root_ = -1;
  int channels_ = 0;
  int lanes_ = 1;
  int pieces_ = 1;
  bool uses_slots_ = false;
  bool packets_ = false;
  bool posted_ = false;
};

/// Whether input and output may overlap: be the same, or one the caller's own chunk of the other (at the root of gather
/// and scatter).
bool may_be_in_place(Collective collective);

}  // namespace hocket
