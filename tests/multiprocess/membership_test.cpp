// SPDX-License-Identifier: Apache-2.0
// membership_test.cpp: communicators that come and go, what the end of one means for others, and the memory that goes
// with them.
#include <gtest/gtest.h>

#include <barrier>

#include "support/faults.hpp"
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

TEST_P(Membership, AbortEndsWhatWasMadeOfItAlsoInCallsThatWait) {
  std::atomic<int> waiting{0};
  std::atomic<std::int64_t> aborted_ns{0};
  std::barrier together(3);
  run_ranks(3, GetParam(), {}, [&](Communicator& comm) {
    auto child = comm.split(0, comm.rank());
    ASSERT_TRUE(child.ok()) << child.status().to_string();
    auto grandchild = child->duplicate();
    ASSERT_TRUE(grandchild.ok()) << grandchild.status().to_string();
    EXPECT_OK(grandchild->barrier());
    together.arrive_and_wait();
    Status status;
    if (comm.rank() == 2) {  // does not come, but ends it all
      EXPECT_TRUE(test::eventually([&] { return waiting == 2; }));
      std::this_thread::sleep_for(20ms);
      aborted_ns = os::now_ns();
      comm.abort("enough of this");
      status = grandchild->barrier();
    } else if (comm.rank() == 1) {
      Stream stream;
      EXPECT_OK(grandchild->barrier(stream));
      ++waiting;
      status = stream.synchronize();
    } else {
      ++waiting;
      status = grandchild->barrier();
    }
    const double seconds = static_cast<double>(os::now_ns() - aborted_ns) / 1e9;
    EXPECT_EQ(status.code(), Code::kAborted) << status.to_string();
    EXPECT_NE(status.text().find("enough of this"), std::string_view::npos) << status.to_string();
    EXPECT_LT(seconds, 1.0 * test::patience());
    for (const Communicator* one : {&comm, &*child, &*grandchild})
      EXPECT_TRUE(test::eventually([&] { return one->async_error().code() == Code::kAborted; }));
    EXPECT_EQ(child->barrier().code(), Code::kAborted);
  });
}

TEST_P(Membership, AbortReachesRanksThatHaveLetTheParentGo) {
  std::atomic<bool> waiting{false};
  std::barrier together(2);
  run_ranks(2, GetParam(), {}, [&](Communicator& comm) {
    auto child = comm.duplicate();
    ASSERT_TRUE(child.ok()) << child.status().to_string();
    EXPECT_OK(child->barrier());
    if (comm.rank() == 0) {
      { const Communicator gone = std::move(comm); }
      together.arrive_and_wait();
      waiting = true;
      const Status status = child->barrier();
      EXPECT_EQ(status.code(), Code::kAborted) << status.to_string();
      return;
    }
    together.arrive_and_wait();
    EXPECT_TRUE(test::eventually([&] { return waiting.load(); }));
    std::this_thread::sleep_for(20ms);
    comm.abort("enough of this");
    // It makes no call of the child, and yet the child ends on the other.
    EXPECT_TRUE(test::eventually([&] { return child->state()->ended.load(); }));
  });
}

TEST_P(Membership, RevokeEndsOneAndShrinkMakesItAnew) {
  std::barrier together(3);  // out of band: nobody ends what others still use
  run_ranks(3, GetParam(), {}, [&](Communicator& comm) {
    auto child = comm.duplicate();
    ASSERT_TRUE(child.ok()) << child.status().to_string();
    EXPECT_OK(child->barrier());
    EXPECT_OK(comm.barrier());
    together.arrive_and_wait();  // a barrier may end on one rank before it ends on another
    Status status;
    if (comm.rank() == 1) {
      comm.revoke("start again");
    } else {
      std::vector<std::int32_t> values(1000, 1);
      status = comm.all_reduce(std::span(values));
      EXPECT_EQ(status.code(), Code::kAborted) << status.to_string();
      EXPECT_NE(status.text().find("start again"), std::string_view::npos) << status.to_string();
    }
    std::uint64_t wrong = 0;
    for (std::uint64_t k = 0; k < 16; ++k) EXPECT_OK(test::mixed_call(*child, k, &wrong, 1000));
    auto again = comm.shrink();
    ASSERT_TRUE(again.ok()) << again.status().to_string();
    EXPECT_EQ(again->size(), 3);
    EXPECT_EQ(again->rank(), comm.rank());
    for (std::uint64_t k = 0; k < 16; ++k) {
      EXPECT_OK(test::mixed_call(*again, k, &wrong, 1000));
      EXPECT_OK(test::mixed_call(*child, k, &wrong, 1000));
    }
    EXPECT_EQ(wrong, 0u);
    // What was made by shrink is no child of the old one, and not the other way round either.
    comm.abort("the old one");
    EXPECT_OK(again->barrier());
    EXPECT_OK(again->async_error());
    together.arrive_and_wait();
    again->abort("the new one");
    EXPECT_TRUE(test::eventually([&] { return again->async_error().code() == Code::kAborted; }));
  });
}

// One connection a pair and one of each thread, whatever the number of communicators.
TEST_P(Membership, ManyCommunicatorsShareConnectionsAndThreads) {
  constexpr int kMany = 64;
  std::barrier together(4);
  test::Footprint before, with_all;
  std::atomic<std::int64_t> began_ns{0}, ended_ns{0};
  run_ranks(4, GetParam(), {}, [&](Communicator& comm) {
    std::vector<Communicator> many;
    std::uint64_t wrong = 0;
    Stream stream;  // its thread is there before
    for (std::uint64_t k = 0; k < 8; ++k) EXPECT_OK(test::mixed_call(comm, k, &wrong, 1000, &stream));
    together.arrive_and_wait();
    if (comm.rank() == 0) {
      before = test::Footprint::now();
      began_ns = os::now_ns();
    }
    together.arrive_and_wait();
    for (int i = 0; i < kMany; ++i) {
      auto one = i % 2 == 0 ? comm.duplicate() : comm.split(0, -comm.rank());
      ASSERT_TRUE(one.ok()) << one.status().to_string();
      many.push_back(std::move(*one));
    }
    together.arrive_and_wait();
    if (comm.rank() == 0) ended_ns = os::now_ns();
    // In turn, so that calls of several are under way at once.
    for (std::uint64_t k = 0; k < 4; ++k)
      for (Communicator& one : many) EXPECT_OK(test::mixed_call(one, k, &wrong, 1000, &stream));
    together.arrive_and_wait();
    if (comm.rank() == 0) with_all = test::Footprint::now();
    together.arrive_and_wait();
    EXPECT_EQ(wrong, 0u);
  });
  EXPECT_EQ(with_all, before);
  std::printf("%d communicators of 4 ranks in %.2f s\n", kMany, static_cast<double>(ended_ns - began_ns) / 1e9);
}

INSTANTIATE_TEST_SUITE_P(Wires, Membership, testing::ValuesIn(test::kWires),
                         [](const auto& info) { return test::name_of(info.param); });

}  // namespace
}  // namespace hocket
