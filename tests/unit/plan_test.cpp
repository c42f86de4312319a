// SPDX-License-Identifier: Apache-2.0
// plan_test.cpp: plans as bytes, their validation, their text, and what is derived from them.
#include "algorithms/plan.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "algorithms/builder.hpp"
#include "algorithms/dump.hpp"
#include "checker/worlds.hpp"
#include "exec/ends.hpp"

namespace hocket {
namespace {

Plan ring(int n, int rank) {
  return find_algorithm(Collective::kAllReduce, "ring")->build({.world = n, .rank = rank});
}

/// Bytes at an address that is a multiple of 8, as view_of asks.
std::vector<std::uint64_t> aligned(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> words((bytes.size() + 7) / 8);
  if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

TEST(Flatten, GivesBackEveryTableOfEveryAlgorithm) {
  for (const Algorithm& a : algorithms())
    for (const int n : {2, 3, 8}) {
      const Plan plan = a.build({.world = n, .rank = 1, .root = 0});
      const std::vector<std::byte> bytes = flatten(plan);
      const std::vector<std::uint64_t> words = aligned(bytes);
      auto view = view_of(std::as_bytes(std::span(words)));
      ASSERT_TRUE(view.ok()) << view.status().text();
      EXPECT_EQ(*view->header, plan.header);
      ASSERT_EQ(view->lane_count, plan.lanes.size());
      EXPECT_TRUE(std::equal(plan.lanes.begin(), plan.lanes.end(), view->lanes));
      EXPECT_TRUE(std::equal(plan.steps.begin(), plan.steps.end(), view->steps));
      EXPECT_TRUE(std::equal(plan.spans.begin(), plan.spans.end(), view->spans));
      EXPECT_TRUE(std::equal(plan.extents.begin(), plan.extents.end(), view->extents));
      EXPECT_TRUE(std::equal(plan.cuts.begin(), plan.cuts.end(), view->cuts));
    }
}

TEST(Flatten, RingIsAFewKilobytesForAnyWorld) {
  EXPECT_EQ(flatten(ring(8, 3)).size(), flatten(ring(4096, 3)).size());
  EXPECT_LT(flatten(ring(8, 3)).size(), 8192u);
}

TEST(ViewOf, RefusesBytesThatAreNoPlan) {
  const std::vector<std::byte> bytes = flatten(ring(4, 1));
  const auto refused = [](std::span<const std::byte> changed) {
    const std::vector<std::uint64_t> words = aligned(changed);
    return !view_of(std::as_bytes(std::span(words)).first(changed.size())).ok();
  };
  EXPECT_TRUE(refused({}));
  for (std::size_t length = 0; length < bytes.size(); length += 13)
    EXPECT_TRUE(refused(std::span(bytes).first(length)));
  std::vector<std::byte> wrong_magic = bytes;
  wrong_magic[0] ^= std::byte{1};
  EXPECT_TRUE(refused(wrong_magic));
  const std::vector<std::uint64_t> words = aligned(bytes);
  EXPECT_FALSE(view_of(std::as_bytes(std::span(words)).subspan(4)).ok());
}

TEST(ViewOf, SurvivesAnyFlippedBytes) {
  // Whatever it accepts can be followed without leaving the tables: the ends run follows every step, span and index.
  std::mt19937 random(5);
  const std::vector<std::byte> bytes = flatten(ring(4, 1));
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::uint64_t> words = aligned(bytes);
    auto* raw = reinterpret_cast<unsigned char*>(words.data());
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips)
      raw[random() % bytes.size()] ^= static_cast<unsigned char>(1u << (random() % 8));
    auto view = view_of(std::as_bytes(std::span(words)));
    if (!view.ok()) continue;
    ++accepted;
    Plan plan;
    plan.header = *view->header;
    if (plan.header.world > 64 || plan.header.channels > 64) continue;
    plan.lanes.assign(view->lanes, view->lanes + view->lane_count);
    std::uint64_t steps = 0;
    std::uint64_t turns = 1;
    for (const LaneProgram& lane : plan.lanes)
      steps = std::max<std::uint64_t>(steps, std::uint64_t{lane.first} + lane.count);
    plan.steps.assign(view->steps, view->steps + steps);
    for (const Step& step : plan.steps)
      if (step.op == StepOp::kRepeat) turns *= static_cast<std::uint64_t>(std::max(step.count, 1));
    if (turns > 1000) continue;
    std::uint64_t spans = 0;
    std::uint64_t extents = 0;
    for (const Step& step : plan.steps) {
      if (step.op == StepOp::kMove)
        spans = std::max<std::uint64_t>(spans, std::uint64_t{step.first} + step.source_count + step.destination_count);
      if (step.op == StepOp::kRounds)
        extents = std::max<std::uint64_t>(extents, std::uint64_t{step.first} + step.extent_count);
    }
    plan.spans.assign(view->spans, view->spans + spans);
    plan.extents.assign(view->extents, view->extents + extents);
    plan.cuts.assign(view->cuts, view->cuts + 1);
    (void)ends_of(plan);
    EXPECT_FALSE(to_text(plan).empty());
  }
  EXPECT_GT(accepted, 0);
}

struct Fault {
  const char* what;
  void (*make)(Plan&);
};

TEST(Validate, FindsWhatTheStepMachineWouldFollowIntoTheVoid) {
  const Fault faults[] = {
      {"rank outside of the world", [](Plan& p) { p.header.rank = p.header.world; }},
      {"lane outside of the steps", [](Plan& p) { p.lanes[0].count += 1; }},
      {"lane that wraps around", [](Plan& p) { p.lanes[0].first = ~0u; }},
      {"part outside of parts", [](Plan& p) { p.lanes[0].part = 1; }},
      {"jump to elsewhere", [](Plan& p) { p.steps[0].jump -= 1; }},
      {"End of another loop", [](Plan& p) { p.steps.back().jump = 1; }},
      {"End too many", [](Plan& p) { p.steps[1].op = StepOp::kEnd; }},
      {"unknown step", [](Plan& p) { p.steps[2].op = static_cast<StepOp>(99); }},
      {"channel that is not there", [](Plan& p) { p.steps[2].channel = 1; }},
      {"peer outside of the world", [](Plan& p) { p.steps[2].peer.index.base = 4; }},
      {"negative peer", [](Plan& p) { p.steps[2].peer.index.base = -1; }},
      {"unknown group", [](Plan& p) { p.steps[2].peer.group = 1; }},
      {"cut that is not there", [](Plan& p) { p.steps[2].extent.cut = 1; }},
      {"chunk that is not there", [](Plan& p) { p.steps[2].extent.index = constant(4); }},
      {"index that overflows", [](Plan& p) { p.steps[2].extent.index = {.base = 3, .scale = 1 << 30}; }},
      {"negative modulus", [](Plan& p) { p.steps[2].extent.index.mod = -1; }},
      {"spans outside of the table", [](Plan& p) { p.steps[3].first = static_cast<std::uint32_t>(p.spans.size()); }},
      {"spans that wrap around", [](Plan& p) { p.steps[3].first = ~0u; }},
      {"Move of nothing", [](Plan& p) { p.steps[3].source_count = 0; }},
      {"slot of a peer as a source", [](Plan& p) { p.spans[p.steps[3].first].kind = SpanKind::kSlotOut; }},
      {"piece that is not there", [](Plan& p) { p.spans[p.steps[3].first + 1].index = constant(1); }},
      {"extents outside of the table", [](Plan& p) { p.steps[0].extent_count = 9; }},
      {"cut of no chunks", [](Plan& p) { p.cuts[0].chunks = 0; }},
      {"scratch that is not there", [](Plan& p) { p.spans[p.steps[3].first].kind = SpanKind::kWork; }},
      {"unknown completion", [](Plan& p) { p.steps[3].completion = 7; }},
  };
  ASSERT_TRUE(validate(ring(4, 1)).ok());
  for (const Fault& fault : faults) {
    Plan plan = ring(4, 1);
    fault.make(plan);
    const Status status = validate(plan);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << fault.what;
    const std::vector<std::uint64_t> words = aligned(flatten(plan));
    EXPECT_FALSE(view_of(std::as_bytes(std::span(words))).ok()) << fault.what;
  }
}

TEST(Validate, AcceptsWhatNeverRuns) {
  // A ring of two repeats its middle part zero times; its indices name nobody.
  EXPECT_TRUE(validate(ring(2, 0)).ok());
  for (const Algorithm& a : algorithms())
    for (int n = 1; n <= 9; ++n)
      for (int r = 0; r < n; ++r) {
        if ((a.collective == Collective::kSend || a.collective == Collective::kReceive) && n == 1) continue;
        const Status status = validate(a.build({.world = n, .rank = r, .root = n - 1}));
        EXPECT_TRUE(status.ok()) << a.name << ": " << status.text();
      }
}

TEST(Validate, LimitsTheDepthOfLoops) {
  PlanBuilder b(Collective::kBarrier, "deep", 2, 0);
  const auto deep = [&](auto self, int depth) -> void {
    if (depth == 0) {
      b.signal_data(link(0, 1), b.always());
    } else {
      b.tiles([&] { self(self, depth - 1); });
    }
  };
  b.lane(0, 1, [&] { deep(deep, 6); });
  EXPECT_FALSE(validate(b.finish()).ok());
}

TEST(Dump, WritesIndicesAsPeopleDo) {
  EXPECT_EQ(to_text(constant(5)), "5");
  EXPECT_EQ(to_text(constant(0)), "0");
  EXPECT_EQ(to_text(around(3, -1, 8)), "(3 - i) mod 8");
  EXPECT_EQ(to_text(around(0, 1, 8)), "i mod 8");
  EXPECT_EQ(to_text(around(9, 0, 8)), "1");
  EXPECT_EQ(to_text(Index{.base = 1, .s0 = 2, .s1 = -3}), "1 + 2*i - 3*j");
  EXPECT_EQ(to_text(Index{.base = 1, .s0 = 1, .mod = 4, .scale = 2, .offset = 1}), "2*((1 + i) mod 4) + 1");
}

TEST(Dump, HasOneStepALineWithLoopsIndented) {
  const std::string text = to_text(ring(8, 3));
  EXPECT_NE(text.find("all_reduce ring: rank 3 of 8"), std::string::npos);
  EXPECT_NE(text.find("cut a = even 8\n"), std::string::npos);
  EXPECT_NE(text.find("\n   0  rounds of K tiles over longest a\n   1    tiles\n   2      wait credit ch0 from 4 (a "
                      "slot is free), a[2]\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  18      move a[3]: slot ch0 from 2 + input a[3] -> output a[3], slot ch0 at 4, finish\n"),
            std::string::npos)
      << text;
}

TEST(Ends, OfARingAreTheTwoNeighbours) {
  auto ends = ends_of(ring(8, 3));
  ASSERT_TRUE(ends.ok());
  ASSERT_EQ(ends->size(), 2u);
  EXPECT_EQ((*ends)[0].peer, 4);
  EXPECT_TRUE((*ends)[0].outgoing && (*ends)[0].slotted && !(*ends)[0].bare);
  EXPECT_EQ((*ends)[1].peer, 2);
  EXPECT_FALSE((*ends)[1].outgoing);
}

TEST(Ends, BelongToOneLane) {
  PlanBuilder b(Collective::kBarrier, "shared", 2, 0);
  for (int lane = 0; lane < 2; ++lane)
    b.lane(lane, 2, [&] {
      b.wait_credit(link(0, 1), b.always());
      b.signal_data(link(0, 1), b.always());
    });
  EXPECT_FALSE(ends_of(b.finish()).ok());
}

TEST(Reach, IsDerivedFromTheSpans) {
  const auto reach = [](Collective collective, std::string_view name) {
    return reach_of(find_algorithm(collective, name)->build({.world = 4, .rank = 1}));
  };
  EXPECT_FALSE(reach(Collective::kAllReduce, "ring").loads || reach(Collective::kAllReduce, "ring").registered);
  EXPECT_TRUE(reach(Collective::kAllReduce, "one_shot_board").loads);
  EXPECT_TRUE(reach(Collective::kAllReduce, "two_shot_zero_copy").loads);
  EXPECT_TRUE(reach(Collective::kAllGather, "direct_zero_copy").registered);
  EXPECT_FALSE(reach(Collective::kAllGather, "direct_zero_copy").loads);
}

TEST(Packets, AreForPlansWhoseChannelsAreSlottedOrOrderOnly) {
  for (const Algorithm& a : algorithms()) {
    const bool qualifies = qualifies_for_packets(a.build({.world = 4, .rank = 1, .root = 0})).ok();
    EXPECT_EQ(qualifies, !a.boards && !a.zero_copy && pieces_of(a, 4) == 1) << to_string(a.collective) << " " << a.name;
  }
}

}  // namespace
}  // namespace hocket
