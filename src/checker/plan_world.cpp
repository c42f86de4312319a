// SPDX-License-Identifier: Apache-2.0
#include "checker/plan_world.hpp"

#include <algorithm>

#include "algorithms/registry.hpp"
#include "base/status.hpp"

namespace hocket {

Result<PlanWorld> PlanWorld::of(std::vector<Plan> plans) {
  if (plans.empty()) return error(Code::kInvalidArgument, "a world of no plans");
  PlanWorld world;
  for (std::size_t r = 0; r < plans.size(); ++r) {
    if (plans[r].header.world != static_cast<int>(plans.size()) || plans[r].header.rank != static_cast<int>(r))
      return error(Code::kInvalidArgument, "plan {} of {} is for rank {} of {}", r, plans.size(), plans[r].header.rank,
                   plans[r].header.world);
    if (Status status = validate(plans[r]); !status.ok()) return error(status.code(), "rank {}: {}", r, status.text());
    auto ends = ends_of(plans[r]);
    if (!ends.ok()) return error(ends.status().code(), "rank {}: {}", r, ends.status().text());
    world.ends_.push_back(std::move(ends).value());
  }
  world.plans_ = std::move(plans);
  HOCKET_TRY(world.summarise());
  return world;
}

Status PlanWorld::replace(Plan plan) {
  const auto rank = static_cast<std::size_t>(plan.header.rank);
  if (rank >= plans_.size() || plan.header.world != size())
    return error(Code::kInvalidArgument, "a plan of another world");
  HOCKET_TRY(validate(plan));
  HOCKET_ASSIGN(ends_[rank], ends_of(plan));
  plans_[rank] = std::move(plan);
  return summarise();
}

Status PlanWorld::summarise() {
  const Plan* first = nullptr;
  channels_ = 0;
  lanes_ = 1;
  packets_ = posted_ = true;
  step_base_.assign(1, 0);
  for (const Plan& plan : plans_) {
    step_base_.push_back(step_base_.back() + plan.steps.size());
    if (plan.lanes.empty()) continue;
    const PlanHeader& h = plan.header;
    if (first == nullptr) {
      first = &plan;
      collective_ = h.collective;
      root_ = h.root;
      pieces_ = h.pieces;
      uses_slots_ = h.uses_slots != 0;
    }
    const bool pair = h.collective == Collective::kSend || h.collective == Collective::kReceive;
    if (!pair && (h.collective != collective_ || h.root != root_))
      return error(Code::kInvalidArgument, "rank {} and rank {} have plans of different calls", first->header.rank,
                   h.rank);
    // A rank that sends only to itself in a group has no slots, whatever others have.
    if (h.collective == Collective::kExchange) uses_slots_ |= h.uses_slots != 0;
    const bool alike = h.collective == Collective::kExchange || (h.uses_slots != 0) == uses_slots_;
    if (h.pieces != pieces_ || !alike)
      return error(Code::kInvalidArgument,
                   "rank {} and rank {} disagree on slots, so they would choose different tiles", first->header.rank,
                   h.rank);
    if (h.uses_slots == 0 && h.work_entries != 0)
      return error(Code::kInvalidArgument, "rank {} has scratch but no slots, so a tile has no limit", h.rank);
    channels_ = std::max(channels_, h.channels);
    lanes_ = std::max(lanes_, static_cast<int>(plan.lanes.size()));
    packets_ = packets_ && qualifies_for_packets(plan).ok();
    posted_ = posted_ && !reach_of(plan).loads;
  }
  if (first == nullptr) return error(Code::kInvalidArgument, "no rank has a lane");
  return {};
}

bool may_be_in_place(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllGatherV:
    case Collective::kReduceScatterV: return true;
    default: return false;
  }
}

}  // namespace hocket
