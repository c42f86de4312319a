// SPDX-License-Identifier: Apache-2.0
// worlds.hpp: all ranks' plans of a registered algorithm, as the checker wants them. For tests and `hocket plan`.
#pragma once

#include "algorithms/exchange.hpp"
#include "algorithms/registry.hpp"
#include "checker/checker.hpp"

namespace hocket {

/// Plans with boards have channel ids that no mailbox plan uses; so do send, receive and groups of them. The checker
/// puts them behind these.
inline constexpr int kMailboxChannels = 8;

/// Every rank's plan, with completion waits. For send and receive: rank 0 sends to rank `args.root` (not 0), nobody
/// else takes part. `args.rank` is ignored. Errors: as PlanWorld::of.
Result<PlanWorld> plan_world(const Algorithm& algorithm, const PlanArgs& args);
/// The ranks' plans for a group of sends and receives, by `messages.sends` and `messages.receives`; a rank without any
/// takes no part. It uses the channels of send and receive.
Result<PlanWorld> exchange_world(const UnevenCounts& messages, int lanes,
                                 ExchangeForm form = ExchangeForm::kInterleaved);
/// What plan_world gives for one rank.
Result<Plan> plan_of(const Algorithm& algorithm, PlanArgs args);

}  // namespace hocket
