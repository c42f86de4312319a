// SPDX-License-Identifier: Apache-2.0
// unique_id_test.cpp: communicators whose ranks were given an id and nothing else. How they meet is tested in
// bootstrap_test.cpp.
#include <gtest/gtest.h>

#include <thread>

#include "support/ranks.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<Engine> small_engine() {
  EngineOptions options;
  options.arena_bytes = std::uint64_t{2} << 30;
  auto engine = EngineCore::create(std::move(options));
  EXPECT_TRUE(engine.ok()) << engine.status().to_string();
  return *engine;
}

TEST(CommunicatorById, RanksOfSeveralEnginesReduce) {
  constexpr int kSize = 4;
  const UniqueId id = UniqueId::create().value();
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < kSize; ++rank)
    threads.emplace_back([&, rank] {
      auto comm = Communicator::create(id, rank, kSize, {}, small_engine());
      ASSERT_TRUE(comm.ok()) << comm.status().to_string();
      std::vector<std::int32_t> values(1000, rank + 1);
      EXPECT_OK(comm->all_reduce(std::span(values)));
      EXPECT_EQ(values, std::vector<std::int32_t>(1000, kSize * (kSize + 1) / 2));
      EXPECT_NE(comm->describe().find("met by a unique id: 1 host"), std::string::npos) << comm->describe();
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(CommunicatorById, SeveralIdsAreOneMeeting) {
  const std::vector<UniqueId> ids = {UniqueId::create().value(), UniqueId::create().value()};
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      auto comm = Communicator::create(ids, rank, 3, {}, small_engine());
      ASSERT_TRUE(comm.ok()) << comm.status().to_string();
      EXPECT_OK(comm->barrier());
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(CommunicatorById, APendingOneCanBeAborted) {
  const UniqueId id = UniqueId::create().value();
  auto engine = small_engine();
  auto pending = Communicator::create_pending(id, 0, 2, {}, engine);
  EXPECT_FALSE(pending.ready());
  pending.abort();
  EXPECT_EQ(pending.wait().status().code(), Code::kAborted);
  // The other rank hears of it, or, if it was aborted before it had come, that it has not.
  Settings settings;
  settings.start_timeout = 500ms;
  const auto other = Communicator::create(id, 1, 2, settings, engine);
  EXPECT_TRUE(other.status().code() == Code::kAborted || other.status().code() == Code::kTimeout)
      << other.status().to_string();
}

TEST(CommunicatorById, WhatIsNoIdIsRefused) {
  EXPECT_EQ(Communicator::create(UniqueId(), 0, 1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Communicator::create(std::span<const UniqueId>(), 0, 1).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace hocket
