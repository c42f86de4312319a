// SPDX-License-Identifier: Apache-2.0
#include "checker/worlds.hpp"

#include "base/status.hpp"
#include "exec/posted.hpp"

namespace hocket {

Result<Plan> plan_of(const Algorithm& algorithm, PlanArgs args) {
  const bool pair = algorithm.collective == Collective::kSend || algorithm.collective == Collective::kReceive;
  Plan plan;
  if (!pair) {
    plan = algorithm.build(args);
  } else {
    const int receiver = args.root;
    if (args.world < 2 || receiver < 1 || receiver >= args.world)
      return error(Code::kInvalidArgument, "rank 0 sends to a root from 1 to {}, not to {}", args.world - 1, receiver);
    const Algorithm* role = find_algorithm(args.rank == 0 ? Collective::kSend : Collective::kReceive, algorithm.name);
    if (role == nullptr) return error(Code::kUnsupported, "send and receive have no algorithm {}", algorithm.name);
    if (args.rank == 0 || args.rank == receiver) {
      args.root = args.rank == 0 ? receiver : 0;
      plan = role->build(args);
    } else {
      plan.header.world = args.world;
      plan.header.rank = args.rank;
    }
  }
  HOCKET_TRY(derive_completions(plan));
  const int base = algorithm.boards ? kMailboxChannels : pair ? kMailboxChannels + 1 : 0;
  if (base != 0) {
    for (Step& step : plan.steps) step.channel = static_cast<std::uint16_t>(step.channel + base);
    for (SpanRef& span : plan.spans) span.channel = static_cast<std::uint16_t>(span.channel + base);
    plan.header.channels += base;
  }
  return plan;
}

Result<PlanWorld> plan_world(const Algorithm& algorithm, const PlanArgs& args) {
  std::vector<Plan> plans;
  for (int r = 0; r < args.world; ++r) {
    PlanArgs of_rank = args;
    of_rank.rank = r;
    HOCKET_ASSIGN(Plan plan, plan_of(algorithm, of_rank));
    plans.push_back(std::move(plan));
  }
  return PlanWorld::of(std::move(plans));
}

}  // namespace hocket
