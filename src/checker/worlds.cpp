// SPDX-License-Identifier: Apache-2.0
#include "checker/worlds.hpp"

#include "algorithms/exchange.hpp"
#include "base/status.hpp"
#include "exec/posted.hpp"

namespace hocket {
namespace {

void move_channels(Plan& plan, int by) {
  for (Step& step : plan.steps) step.channel = static_cast<std::uint16_t>(step.channel + by);
  for (SpanRef& span : plan.spans) span.channel = static_cast<std::uint16_t>(span.channel + by);
  if (by != 0) plan.header.channels += by;
}

}  // namespace

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
  const bool messages = pair || algorithm.collective == Collective::kExchange;
  move_channels(plan, algorithm.boards ? kMailboxChannels : messages ? kMailboxChannels + 1 : 0);
  return plan;
}

Result<PlanWorld> exchange_world(const UnevenCounts& messages, int lanes, ExchangeForm form) {
  const auto ranks_of = [](const std::vector<Message>& list) {
    std::vector<Rank> ranks;
    for (const Message& message : list) ranks.push_back(message.peer);
    return ranks;
  };
  const std::size_t n = messages.sends.size();
  if (messages.receives.size() != n) return error(Code::kInvalidArgument, "sends and receives of different worlds");
  std::vector<Plan> plans(n);
  for (std::size_t r = 0; r < n; ++r) {
    Plan& plan = plans[r];
    plan.header.world = static_cast<int>(n);
    plan.header.rank = static_cast<int>(r);
    if (messages.sends[r].empty() && messages.receives[r].empty()) continue;
    HOCKET_ASSIGN(plan, exchange_plan(plan.header.world, plan.header.rank, ranks_of(messages.sends[r]),
                                      ranks_of(messages.receives[r]), lanes, form));
    HOCKET_TRY(derive_completions(plan));
    move_channels(plan, kMailboxChannels + 1);
  }
  return PlanWorld::of(std::move(plans));
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
