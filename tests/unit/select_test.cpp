// SPDX-License-Identifier: Apache-2.0
#include "algorithms/select.hpp"

#include <gtest/gtest.h>

namespace hocket {
namespace {

World world_of(int size, std::string_view algorithms = "", std::string_view protocols = "") {
  World world;
  world.size = size;
  const auto names = algorithm_names();
  const auto protocol_list = protocol_names();
  world.algorithms = *AllowList::parse(algorithms, names, "HOCKET_ALGO");
  world.protocols = *AllowList::parse(protocols, protocol_list, "HOCKET_PROTO");
  return world;
}

TEST(Select, EveryCollectiveHasAChoiceAtEverySizeAndWorld) {
  for (const int n : {1, 2, 3, 4, 8, 16, 64, 65, 1000})
    for (int c = 0; c < kCollectiveCount; ++c)
      for (std::uint64_t bytes = 0; bytes <= std::uint64_t{1} << 40; bytes = bytes == 0 ? 1 : bytes * 8) {
        const auto choice = choose(static_cast<Collective>(c), bytes, DataType::kFloat32, false, world_of(n));
        ASSERT_TRUE(choice.ok()) << choice.status().to_string();
        const Algorithm& a = *choice->algorithm;
        EXPECT_EQ(a.collective, static_cast<Collective>(c));
        EXPECT_TRUE(a.max_world == 0 || n <= a.max_world) << a.name;
        EXPECT_FALSE(a.zero_copy);
        EXPECT_LE(choice->tile_bytes, world_of(n).slot_bytes);
        EXPECT_EQ(choice->tile_bytes % 16, 0u);
        EXPECT_GE(choice->tile_bytes, 16u);
        EXPECT_LT(choice->tiles_per_round, static_cast<int>(world_of(n).slots));
      }
}

TEST(Select, EqualInputsGiveEqualChoices) {
  for (std::uint64_t bytes = 1; bytes < 1 << 28; bytes *= 3) {
    const auto a = choose(Collective::kAllReduce, bytes, DataType::kFloat32, false, world_of(100));
    const auto b = choose(Collective::kAllReduce, bytes, DataType::kFloat32, false, world_of(100));
    EXPECT_EQ(a->algorithm, b->algorithm);
    EXPECT_EQ(a->protocol, b->protocol);
    EXPECT_EQ(a->tile_bytes, b->tile_bytes);
  }
}

TEST(Select, ForcedAlgorithmAndProtocolAreTaken) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != Collective::kAllReduce || algorithm.zero_copy) continue;
    const auto choice = choose(Collective::kAllReduce, 1 << 20, DataType::kFloat32, false, world_of(4, algorithm.name));
    ASSERT_TRUE(choice.ok());
    EXPECT_EQ(choice->algorithm->name, algorithm.name);
  }
  for (const std::string_view protocol : {"bulk", "first_line", "packet"}) {
    const auto choice =
        choose(Collective::kAllReduce, 1 << 20, DataType::kFloat32, false, world_of(4, "ring", protocol));
    ASSERT_TRUE(choice.ok());
    EXPECT_EQ(to_string(choice->protocol), protocol);
    if (protocol == "packet") {
      EXPECT_LE(choice->tile_bytes, 48u + 64 * 56);
    }
  }
}

TEST(Select, WhatIsRuledOutIsSaidWithTheReason) {
  std::vector<Rejected> rejected;
  const auto choice =
      choose(Collective::kAllReduce, 1 << 20, DataType::kFloat32, false, world_of(4, "^two_shot"), &rejected);
  ASSERT_TRUE(choice.ok());
  ASSERT_FALSE(rejected.empty());
  EXPECT_EQ(rejected.front().algorithm, "two_shot");
  EXPECT_NE(rejected.front().reason.find("HOCKET_ALGO"), std::string::npos);
  const auto none = choose(Collective::kAllReduce, 1 << 20, DataType::kFloat32, false, world_of(4, "pairwise"));
  EXPECT_EQ(none.status().code(), Code::kUnsupported);
  EXPECT_NE(none.status().text().find("HOCKET_ALGO=pairwise"), std::string::npos) << none.status().text();
}

TEST(Select, PeersThatOnlyPutsReachGetNoBoardsNoZeroCopyAndNoPackets) {
  World world = world_of(4);
  world.direct = false;
  for (int c = 0; c < kCollectiveCount; ++c)
    for (const std::uint64_t bytes : {8, 200, 4096, 1 << 20}) {
      const auto choice = choose(static_cast<Collective>(c), bytes, DataType::kFloat32, true, world);
      ASSERT_TRUE(choice.ok());
      EXPECT_FALSE(choice->algorithm->boards || choice->algorithm->zero_copy);
      EXPECT_NE(choice->protocol, Protocol::kPacket);
    }
}

TEST(Select, ReproducibleTakesOnlyWhatReducesInRankOrder) {
  for (const int n : {1, 2, 3, 4, 8, 64, 128})
    for (const bool direct : {false, true})
      for (const bool symmetric : {false, true})
        for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce,
                                            Collective::kReduceScatterV, Collective::kAllGather})
          for (std::uint64_t bytes = 8; bytes < 1 << 28; bytes *= 16) {
            World world = world_of(n);
            world.reproducible = true;
            world.direct = direct;
            const auto choice = choose(collective, bytes, DataType::kBfloat16, symmetric, world);
            ASSERT_TRUE(choice.ok()) << choice.status().text();
            EXPECT_TRUE(choice->algorithm->ordered || !reduces(collective)) << choice->algorithm->name;
          }
  World world = world_of(129);
  world.reproducible = true;
  const auto none = choose(Collective::kAllReduce, 1 << 20, DataType::kFloat32, false, world);
  EXPECT_EQ(none.status().code(), Code::kUnsupported);
  EXPECT_NE(none.status().text().find("HOCKET_REPRODUCIBLE=1"), std::string_view::npos) << none.status().text();
  EXPECT_NE(none.status().text().find("up to 128 ranks, not 129"), std::string_view::npos) << none.status().text();
  EXPECT_TRUE(choose(Collective::kAllGather, 1 << 20, DataType::kFloat32, false, world).ok());
  world = world_of(4, "ring");
  world.reproducible = true;
  const auto ruled_out = choose(Collective::kAllReduce, 1 << 20, DataType::kFloat32, false, world);
  EXPECT_NE(ruled_out.status().text().find("ring: it does not reduce in rank order"), std::string_view::npos)
      << ruled_out.status().text();
}

TEST(Select, UnevenFormsAreChosenByWorldAndTypeAlone) {
  for (const Collective collective :
       {Collective::kAllGatherV, Collective::kReduceScatterV, Collective::kAllToAllV, Collective::kExchange})
    for (const int n : {1, 2, 5, 64, 65, 1000})
      for (const bool direct : {false, true}) {
        World world = world_of(n);
        world.direct = direct;
        const auto first = choose(collective, 0, DataType::kFloat32, false, world);
        ASSERT_TRUE(first.ok()) << first.status().text();
        for (std::uint64_t bytes = 1; bytes < std::uint64_t{1} << 40; bytes *= 9) {
          const auto other = choose(collective, bytes, DataType::kFloat32, false, world);
          EXPECT_EQ(first->algorithm, other->algorithm);
          EXPECT_EQ(first->protocol, other->protocol);
          EXPECT_EQ(first->tile_bytes, other->tile_bytes);
          EXPECT_EQ(first->tiles_per_round, other->tiles_per_round);
        }
      }
}

TEST(Select, LargerWorldsGetLogarithmicFormsForSmallAndInBetween) {
  World world = world_of(48);
  world.hosts = 6;
  world.direct = false;
  world.hop_seconds = 20e-6;
  world.seconds_per_byte = 1e-9;
  const auto name = [&](Collective collective, std::uint64_t bytes) {
    return choose(collective, bytes, DataType::kFloat32, false, world)->algorithm->name;
  };
  EXPECT_EQ(name(Collective::kAllToAll, 16), "bruck");
  EXPECT_EQ(name(Collective::kAllToAll, 1 << 20), "direct");
  EXPECT_EQ(name(Collective::kAllGather, 64), "log_step");
  EXPECT_EQ(name(Collective::kReduceScatter, 64), "log_step");
  EXPECT_EQ(name(Collective::kGather, 64), "binomial");
  EXPECT_EQ(name(Collective::kScatter, 64), "binomial");
  world = world_of(256);
  world.hosts = 32;
  world.direct = false;
  world.hop_seconds = 20e-6;
  world.seconds_per_byte = 1e-9;
  EXPECT_EQ(name(Collective::kAllReduce, 64 << 10), "halving_doubling");
  EXPECT_EQ(name(Collective::kAllReduce, 1 << 30), "ring");
}

TEST(Select, SlotsOfSeveralTilesHaveRoomForThem) {
  for (const std::string_view algorithm : {"halving_doubling", "log_step", "bruck", "binomial", "two_shot_board"})
    for (int c = 0; c < kCollectiveCount; ++c) {
      const auto* found = find_algorithm(static_cast<Collective>(c), algorithm);
      if (found == nullptr) continue;
      for (const int n : {2, 3, 8, 100}) {
        const auto choice = choose(found->collective, 1 << 20, DataType::kFloat32, false, world_of(n, algorithm));
        ASSERT_TRUE(choice.ok()) << choice.status().text();
        EXPECT_LE(choice->tile_bytes * static_cast<std::uint64_t>(pieces_of(*found, n)), world_of(n).slot_bytes);
        if (pieces_of(*found, n) > 1) {
          EXPECT_NE(choice->protocol, Protocol::kPacket);
        }
      }
      World world = world_of(20'000, algorithm);
      if (found->max_world != 0) continue;
      const auto none = choose(found->collective, 8, DataType::kFloat32, false, world);
      EXPECT_NE(none.status().text().find("does not hold"), std::string_view::npos) << none.status().text();
    }
}

TEST(Select, SymmetricMemoryIsUsedDirectly) {
  const auto choice = choose(Collective::kAllReduce, 1 << 20, DataType::kFloat32, true, world_of(4));
  ASSERT_TRUE(choice.ok());
  EXPECT_TRUE(choice->algorithm->zero_copy);
}

TEST(Choose, AListForAllLeavesCollectivesAloneThatHaveNoneOfItsNames) {
  const auto names = algorithm_names();
  AllowList ring = AllowList::parse("ring", names, "HOCKET_ALGO").value();
  ASSERT_TRUE(fit_algorithms(&ring).ok());
  World world;
  world.size = 4;
  world.algorithms = ring;
  EXPECT_EQ(choose(Collective::kAllReduce, 8, DataType::kFloat32, false, world)->algorithm->name, "ring");
  EXPECT_TRUE(choose(Collective::kBarrier, 0, DataType::kFloat32, false, world).ok());
  EXPECT_TRUE(choose(Collective::kGather, 8, DataType::kFloat32, false, world).ok());

  AllowList wrong = AllowList::parse("broadcast:ring", names, "HOCKET_ALGO").value();
  const Status status = fit_algorithms(&wrong);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.text().find("chain"), std::string_view::npos) << status.text();
}

}  // namespace
}  // namespace hocket
