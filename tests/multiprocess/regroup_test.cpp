// SPDX-License-Identifier: Apache-2.0
// regroup_test.cpp: communicators made of communicators: split, duplicate, grow.
#include <gtest/gtest.h>

#include "hocket/unique_id.hpp"
#include "support/ranks.hpp"

namespace hocket {
namespace {

using test::run_ranks;
using test::Wire;

std::int32_t sum_of_ones(Communicator& comm) {
  std::int32_t one = 1, sum = -1;
  EXPECT_OK(comm.all_reduce(&one, &sum, 1, DataType::kInt32, ReduceOp::kSum));
  return sum;
}

TEST(Regroup, ADuplicateIsAnotherCommunicatorOfTheSameRanks) {
  for (const Wire wire : {Wire::kLocal, Wire::kShm})
    run_ranks(3, wire, {}, [](Communicator& comm) {
      auto copy = comm.duplicate();
      ASSERT_TRUE(copy.ok()) << copy.status().to_string();
      EXPECT_EQ(copy->rank(), comm.rank());
      EXPECT_EQ(copy->size(), comm.size());
      // In another order on each rank's two threads: neither waits for the other.
      std::thread other([&] { EXPECT_EQ(sum_of_ones(*copy), 3); });
      EXPECT_EQ(sum_of_ones(comm), 3);
      other.join();
    });
}

TEST(Regroup, ManyDuplicatesShareConnections) {
  run_ranks(4, Wire::kShm, {}, [](Communicator& comm) {
    std::vector<Communicator> copies;
    for (int i = 0; i < 64; ++i) {
      auto copy = comm.duplicate();
      ASSERT_TRUE(copy.ok()) << copy.status().to_string();
      copies.push_back(std::move(*copy));
    }
    for (Communicator& copy : copies) EXPECT_EQ(sum_of_ones(copy), 4);
  });
}

TEST(Regroup, GroupsOfASplitDoNotWaitForEachOther) {
  run_ranks(5, Wire::kLocal, {}, [](Communicator& comm) {
    // Odd ranks split again while even ones go on.
    auto half = comm.split(comm.rank() % 2, -comm.rank());
    ASSERT_TRUE(half.ok()) << half.status().to_string();
    EXPECT_EQ(half->size(), comm.rank() % 2 == 0 ? 3 : 2);
    EXPECT_EQ(half->rank(), comm.rank() % 2 == 0 ? 2 - comm.rank() / 2 : 1 - comm.rank() / 2) << "by key";
    if (comm.rank() % 2 == 1) {
      auto one = half->split(half->rank(), 0);
      ASSERT_TRUE(one.ok()) << one.status().to_string();
      EXPECT_EQ(sum_of_ones(*one), 1);
    }
    EXPECT_EQ(sum_of_ones(*half), half->size());
    auto none = comm.split(comm.rank() == 0 ? 0 : -1, 0);
    ASSERT_TRUE(none.ok()) << none.status().to_string();
    EXPECT_EQ(none->size(), comm.rank() == 0 ? 1 : 0);
  });
}

TEST(Regroup, NewRanksJoinByAnId) {
  auto id = UniqueId::create();
  ASSERT_TRUE(id.ok()) << id.status().to_string();
  std::vector<std::thread> joining;
  for (Rank r = 3; r < 5; ++r)
    joining.emplace_back([&, r] {
      auto engine = Engine::create();
      ASSERT_TRUE(engine.ok());
      Settings settings;
      settings.transport = "local,shm";  // as the others, see support/ranks.hpp
      auto comm = Communicator::create(*id, r, 5, settings, *engine);
      ASSERT_TRUE(comm.ok()) << comm.status().to_string();
      EXPECT_EQ(sum_of_ones(*comm), 5);
    });
  run_ranks(3, Wire::kShm, {}, [&](Communicator& comm) {
    auto larger = comm.grow(comm.rank() == 0 ? *id : UniqueId(), 5);
    ASSERT_TRUE(larger.ok()) << larger.status().to_string();
    EXPECT_EQ(larger->rank(), comm.rank());
    EXPECT_EQ(sum_of_ones(*larger), 5);
    EXPECT_EQ(sum_of_ones(comm), 3) << "the smaller one goes on";
    EXPECT_EQ(comm.grow({}, 2).status().code(), Code::kInvalidArgument);
  });
  for (std::thread& thread : joining) thread.join();
}

}  // namespace
}  // namespace hocket
