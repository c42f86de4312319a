// SPDX-License-Identifier: Apache-2.0
// membership_test.cpp: communicators that come and go, and the memory that goes with them. Each test began as a
// failure.
#include <gtest/gtest.h>

#include "support/ranks.hpp"

namespace hocket {
namespace {

using test::run_ranks;
using test::Wire;
using namespace std::chrono_literals;

class Membership : public testing::TestWithParam<Wire> {};

// Symptom: a survivor that destroyed the old communicator at once took its meeting page from slower ones: "did not go
// on".
TEST_P(Membership, TheOldCommunicatorMayGoRightAfterShrink) {
  run_ranks(3, GetParam(), {}, [](Communicator& comm) {
    for (int round = 0; round < 20; ++round) {
      auto smaller = comm.shrink({}, 20s);
      ASSERT_TRUE(smaller.ok()) << smaller.status().to_string();
      comm = std::move(*smaller);
      std::vector<std::int32_t> sum(100, comm.rank());
      EXPECT_OK(comm.all_reduce(std::span(sum)));
      EXPECT_EQ(sum, std::vector<std::int32_t>(100, 3));
    }
  });
}

// Symptom: ranks with other lengths of the flight recorder wrote into wrong parts of each other's blocks.
TEST_P(Membership, WhatDecidesTheLayoutOfABlockMustAgree) {
  test::ThreadExchange exchange(2);
  auto engine = Engine::create();
  ASSERT_TRUE(engine.ok());
  std::vector<std::thread> ranks;
  for (Rank r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {
      Settings settings;
      settings.flight_recorder_entries = r == 0 ? 64 : 128;
      auto comm = Communicator::create(r, 2, exchange.of(r), settings, *engine);
      EXPECT_EQ(comm.status().code(), Code::kMismatch);
      EXPECT_NE(comm.status().text().find("HOCKET_FLIGHT_RECORDER"), std::string_view::npos) << comm.status().text();
    });
  for (std::thread& rank : ranks) rank.join();
}

// Symptom: a root's buffer in mem_alloc memory and none on the others was taken for another call.
TEST_P(Membership, ABufferThatARankDoesNotUseDecidesNothing) {
  run_ranks(3, GetParam(), {}, [](Communicator& comm) {
    auto memory = comm.mem_alloc(8192);
    ASSERT_TRUE(memory.ok()) << memory.status().to_string();
    auto* data = static_cast<float*>(*memory);
    for (int i = 0; i < 100; ++i) data[i] = 5;
    EXPECT_OK(comm.broadcast(comm.rank() == 1 ? data : nullptr, data + 200, 100, DataType::kFloat32, 1));
    EXPECT_EQ(data[299], 5);
    EXPECT_OK(comm.reduce(data, comm.rank() == 1 ? data + 400 : nullptr, 100, DataType::kFloat32, ReduceOp::kSum, 1));
    Stream stream;
    EXPECT_OK(comm.rank() == 0 ? comm.all_reduce(data, data, 0, DataType::kFloat32, ReduceOp::kSum)
                               : comm.all_reduce(nullptr, nullptr, 0, DataType::kFloat32, ReduceOp::kSum, stream));
    EXPECT_OK(stream.synchronize());
    EXPECT_OK(comm.mem_free(*memory));
    // Symptom: shrink refused because of memory that had been freed.
    auto smaller = comm.shrink({}, 20s);
    EXPECT_TRUE(smaller.ok()) << smaller.status().to_string();
  });
}

TEST_P(Membership, SizesThatCannotBeAreErrorsOnAllRanksAndLoseNothing) {
  run_ranks(2, GetParam(), {}, [](Communicator& comm) {
    EXPECT_EQ(comm.mem_alloc(~std::size_t{0}).status().code(), Code::kOutOfMemory);
    EXPECT_EQ(comm.mem_alloc(comm.rank() == 0 ? 4096 : 8192).status().code(), Code::kInvalidArgument);
    auto memory = comm.mem_alloc(4096);
    ASSERT_TRUE(memory.ok());
    EXPECT_OK(comm.mem_free(*memory));
  });
}

// Symptom: a rank that timed out named the rank it waited for as lost, though that one only waited itself, and shrink
// left it out.
TEST_P(Membership, RanksThatOnlyWaitAreNotLostByATimeOut) {
  Settings settings;
  settings.timeout = 300ms;
  run_ranks(3, GetParam(), settings, [](Communicator& comm) {
    const int n = comm.size();
    float value = 1;
    EXPECT_FALSE(comm.send(&value, 1, DataType::kFloat32, (comm.rank() + 1) % n).ok());  // a circle
    auto again = comm.shrink({}, 20s);
    ASSERT_TRUE(again.ok()) << again.status().to_string();
    EXPECT_EQ(again->size(), n);
    EXPECT_OK(again->barrier());
  });
}

INSTANTIATE_TEST_SUITE_P(Wires, Membership, testing::Values(Wire::kLocal, Wire::kShm),
                         [](const auto& info) { return info.param == Wire::kLocal ? "Local" : "Shm"; });

}  // namespace
}  // namespace hocket
