// SPDX-License-Identifier: Apache-2.0
// writing_an_algorithm_test.cpp: the worked example of docs/writing-an-algorithm.md is proven, and is what the document
// shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "algorithms/dump.hpp"
#include "base/status.hpp"
#include "checker/worlds.hpp"

// [begin plan]
#include "algorithms/builder.hpp"

namespace hocket {

Plan binomial_broadcast(const PlanArgs& args) {
  const int n = args.world, r = args.rank, root = args.root;
  if (n == 1) return local_copy(Collective::kBroadcast, "binomial", args);
  PlanBuilder b(Collective::kBroadcast, "binomial", n, r, root);
  const CutId own = b.cut(CutKind::kOwn, 1);
  const Extent all = b.chunk(own, constant(0));
  const SpanRef in = b.input(own, constant(0)), out = b.output(own, constant(0));

  const int v = (r - root + n) % n;                         // my distance from the root
  const Link parent = link(0, (root + (v & (v - 1))) % n);  // without its lowest bit
  std::vector<Link> children;                               // with a lower bit than its lowest
  for (int bit = 1; v + bit < n && (v & bit) == 0; bit *= 2) children.push_back(link(0, (root + v + bit) % n));

  b.lane(0, 1, [&] {
    b.rounds({all}, [&] {
      std::vector<SpanRef> destinations{out};
      for (const Link& child : children) destinations.push_back(b.slot_at(child));
      const SpanRef source = v == 0 ? in : b.slot_of(parent);

      if (v != 0) b.wait_data(parent, all);
      for (const Link& child : children) b.wait_credit(child, all);
      b.move(all, {&source, 1}, destinations);
      for (const Link& child : children) b.signal_data(child, all);
      if (v != 0) b.signal_credit(parent, all);
    });
  });
  return b.finish();
}

}  // namespace hocket
// [end plan]

namespace hocket {
namespace {

// [begin entry]
constexpr Algorithm kBinomialBroadcast = {.collective = Collective::kBroadcast,
                                          .name = "binomial",
                                          .build = binomial_broadcast,
                                          .rooted = true,
                                          .roundings = [](int) { return 0; },
                                          .source = "binomial tree"};
// [end entry]

std::string text_of(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// One world, several counts, roots, tiles and places, each call twice and then with other tiles.
Status prove(const PlanWorld& world, Checker& checker) {
  for (const std::uint64_t count : {0u, 1u, 5u, 64u})
    for (const int slots : {2, 3})
      for (const std::uint64_t tiles : {1u, 2u, 7u})
        for (const bool in_place : {false, true})
          for (const bool posted : {false, true}) {
            CheckCall call{.plans = &world, .count = count, .in_place = in_place};
            call.tile = tile_for(world, call, tiles);
            CheckCall other = call;
            other.tile += 1;
            const CheckCall calls[] = {call, call, other};
            HOCKET_TRY(checker.check(calls, {.slots = slots, .posted = posted}).status());
          }
  return {};
}

TEST(WritingAnAlgorithm, TheExampleIsProvenInEveryWorld) {
  Checker checker;
  for (int n = 1; n <= 17; ++n)
    for (const int root : {0, n / 2, n - 1}) {
      auto world = plan_world(kBinomialBroadcast, {.world = n, .root = root});
      ASSERT_TRUE(world.ok()) << world.status().text();
      const Status status = prove(*world, checker);
      ASSERT_TRUE(status.ok()) << status.text();
    }
}

// The mistake that the document shows: a rank tells its children before the Move.
TEST(WritingAnAlgorithm, TheMistakeOfTheDocumentIsFoundAndNamed) {
  auto world = plan_world(kBinomialBroadcast, {.world = 4, .root = 0});
  ASSERT_TRUE(world.ok());
  Plan plan = world->plan(2);
  const auto move =
      std::find_if(plan.steps.begin(), plan.steps.end(), [](const Step& step) { return step.op == StepOp::kMove; });
  ASSERT_EQ(move[1].op, StepOp::kSignalData);
  std::iter_swap(move, move + 1);
  ASSERT_TRUE(world->replace(std::move(plan)).ok());
  Checker checker;
  const CheckCall call{.plans = &*world, .count = 8, .tile = 8};
  const auto report = checker.check({&call, 1}, {});
  ASSERT_FALSE(report.ok());
  const std::string document = text_of(HOCKET_SOURCE_DIR "/docs/writing-an-algorithm.md");
  EXPECT_NE(document.find(report.status().text()), std::string::npos)
      << "docs/writing-an-algorithm.md does not have this sentence:\n"
      << report.status().text();
}

TEST(WritingAnAlgorithm, TheDocumentShowsThisCode) {
  const std::string document = text_of(HOCKET_SOURCE_DIR "/docs/writing-an-algorithm.md");
  const std::string source = text_of(HOCKET_SOURCE_DIR "/tests/property/writing_an_algorithm_test.cpp");
  ASSERT_FALSE(document.empty() || source.empty());
  for (const std::string part : {"plan", "entry"}) {
    const std::string begin = "// [begin " + part + "]\n", end = "// [end " + part + "]";
    const std::size_t from = source.find(begin) + begin.size();
    const std::string code = source.substr(from, source.find(end, from) - from);
    EXPECT_NE(document.find(code), std::string::npos)
        << "docs/writing-an-algorithm.md does not have this text, to the letter:\n"
        << code;
  }
  auto plan = plan_of(kBinomialBroadcast, {.world = 8, .rank = 4});
  ASSERT_TRUE(plan.ok());
  EXPECT_NE(document.find(to_text(*plan)), std::string::npos)
      << "docs/writing-an-algorithm.md does not have the plan that rank 4 of 8 gets:\n"
      << to_text(*plan);
}

}  // namespace
}  // namespace hocket
