// SPDX-License-Identifier: Apache-2.0
// posted_test.cpp: completion waits stand where a later step needs them, and nowhere else.
#include "exec/posted.hpp"

#include <gtest/gtest.h>

#include "algorithms/builder.hpp"
#include "checker/worlds.hpp"

namespace hocket {
namespace {

Plan derived(Collective collective, std::string_view name, int n, int rank, int root = 0) {
  Plan plan = find_algorithm(collective, name)->build({.world = n, .rank = rank, .root = root});
  EXPECT_TRUE(derive_completions(plan).ok());
  return plan;
}

int waits(const Plan& plan, StepOp op, std::uint8_t scope) {
  int count = 0;
  for (const Step& step : plan.steps) count += step.op == op && step.completion == scope;
  return count;
}

TEST(Completions, OfAChainStandBeforeTheCreditOfAForwardedSlot) {
  const Plan middle = derived(Collective::kBroadcast, "chain", 4, 1);
  EXPECT_EQ(waits(middle, StepOp::kSignalCredit, kSlotCompletion), 1);
  EXPECT_EQ(waits(middle, StepOp::kMove, kAllCompletion), 0);
  EXPECT_EQ(middle.lanes[0].completion, kNoCompletion) << "the last credit has waited for the last put";
}

TEST(Completions, OfARootStandAtTheEndOfItsLane) {
  const Plan root = derived(Collective::kBroadcast, "chain", 4, 0);
  EXPECT_EQ(waits(root, StepOp::kSignalCredit, kSlotCompletion), 0);
  EXPECT_EQ(root.lanes[0].completion, kAllCompletion);
}

TEST(Completions, AreNotNeededByWhoOnlyReceives) {
  const Plan last = derived(Collective::kBroadcast, "chain", 4, 3);
  EXPECT_EQ(waits(last, StepOp::kSignalCredit, kSlotCompletion), 0);
  EXPECT_EQ(last.lanes[0].completion, kNoCompletion);
}

TEST(Completions, ProtectTheInputThatIsAlsoTheOutput) {
  // In place, one-shot reduces into the very memory that its puts still read.
  const Plan plan = derived(Collective::kAllReduce, "one_shot", 3, 0);
  EXPECT_EQ(waits(plan, StepOp::kMove, kAllCompletion), 1);
}

TEST(Completions, AreNotNeededWithoutPeers) {
  for (const Algorithm& a : algorithms()) {
    if (a.collective == Collective::kSend || a.collective == Collective::kReceive) continue;
    const Plan plan = derived(a.collective, a.name, 1, 0);
    for (const Step& step : plan.steps) EXPECT_EQ(step.completion, kNoCompletion);
    for (const LaneProgram& lane : plan.lanes) EXPECT_EQ(lane.completion, kNoCompletion);
  }
}

TEST(Completions, AreTheSameWhenDerivedAgain) {
  Plan plan = derived(Collective::kAllReduce, "ring", 5, 2);
  const Plan before = plan;
  ASSERT_TRUE(derive_completions(plan).ok());
  EXPECT_EQ(plan, before);
}

TEST(Completions, AreRefusedForAnInvalidPlan) {
  Plan plan = find_algorithm(Collective::kAllReduce, "ring")->build({.world = 4, .rank = 1});
  plan.steps[2].channel = 9;
  EXPECT_EQ(derive_completions(plan).code(), Code::kInvalidArgument);
}

TEST(PostedMode, RejectsAPlanWithoutItsCompletions) {
  std::vector<Plan> plans;
  for (int r = 0; r < 4; ++r)
    plans.push_back(find_algorithm(Collective::kBroadcast, "chain")->build({.world = 4, .rank = r}));
  auto world = PlanWorld::of(std::move(plans));
  ASSERT_TRUE(world.ok());
  const CheckCall call{.plans = &*world, .count = 9, .tile = 2};
  Checker checker;
  EXPECT_TRUE(checker.check({&call, 1}, {}).ok());
  auto report = checker.check({&call, 1}, {.posted = true});
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.status().text().find("posted put"), std::string_view::npos) << report.status().text();
}

TEST(Checker, NamesRankLaneStepChannelAndElement) {
  auto world = plan_world(*find_algorithm(Collective::kAllReduce, "ring"), {.world = 4});
  ASSERT_TRUE(world.ok());
  // Rank 2 forgets its own contribution.
  Plan plan = world->plan(2);
  for (Step& step : plan.steps)
    if (step.op == StepOp::kMove && step.source_count == 2 && step.destination_count == 2) {
      plan.spans[step.first + 1] = plan.spans[step.first];
      ++step.first;
      step.source_count = 1;
    }
  ASSERT_TRUE(world->replace(plan).ok());
  CheckCall call{.plans = &*world, .count = 8, .tile = 2};
  Checker checker;
  auto report = checker.check({&call, 1}, {});
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.status().text().find("of the input of rank 2 is missing"), std::string_view::npos)
      << report.status().text();
  // Rank 1 never signals.
  auto quiet = plan_world(*find_algorithm(Collective::kBroadcast, "chain"), {.world = 3});
  ASSERT_TRUE(quiet.ok());
  PlanBuilder b(Collective::kBroadcast, "chain", 3, 1, 0);
  const CutId own = b.cut(CutKind::kOwn, 1);
  b.lane(0, 1, [&] {
    b.rounds({b.chunk(own, constant(0))},
             [&] { b.recv(link(0, 0), b.chunk(own, constant(0)), {b.output(own, constant(0))}); });
  });
  ASSERT_TRUE(quiet->replace(b.finish()).ok());
  call.plans = &*quiet;
  report = checker.check({&call, 1}, {});
  ASSERT_FALSE(report.ok());
  const std::string_view text = report.status().text();
  EXPECT_NE(text.find("deadlock: call 0 (broadcast chain), rank 2, lane 0, step 1 (wait data ch0 from 1"),
            std::string_view::npos)
      << text;
  EXPECT_NE(text.find("for data 3 of channel 0 from rank 1, which sent 2"), std::string_view::npos) << text;
}

}  // namespace
}  // namespace hocket
