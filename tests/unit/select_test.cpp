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

TEST(Select, SymmetricMemoryIsUsedDirectly) {
  const auto choice = choose(Collective::kAllReduce, 1 << 20, DataType::kFloat32, true, world_of(4));
  ASSERT_TRUE(choice.ok());
  EXPECT_TRUE(choice->algorithm->zero_copy);
}

}  // namespace
}  // namespace hocket
