// SPDX-License-Identifier: Apache-2.0
// wires_test.cpp: one suite of communicators that has to pass over every transport: all collectives, several
// communicators that share an endpoint from several threads, streams, large and empty counts.
#include <gtest/gtest.h>

#include <ostream>

#include "core/communicator_state.hpp"
#include "core/engine.hpp"
#include "support/faults.hpp"
#include "support/ranks.hpp"
#include "support/two_sided.hpp"
#include "transport/faulty.hpp"

namespace hocket {
namespace {

using test::ThreadExchange;

struct Kind {
  const char* name;
  const char* transport;
  enum { kPlain, kFaulty, kTwoSided } wrapper = kPlain;
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) {
  return out << kind.name;
}

/// What a test's ranks have for the length of it.
struct World {
  World(const Kind& kind, int size, Settings settings = {}) : exchange(size), other_exchange(size), network(7) {
    settings.transport = kind.transport;
    settings.tcp_streams = 2;
    this->settings = settings;
    for (int r = 0; r < size; ++r) {
      if (std::string_view(kind.transport) == "local" && r > 0) {
        engines.push_back(engines[0]);
        continue;
      }
      EngineOptions options;
      options.settings = settings;
      options.arena_bytes = std::uint64_t{2} << 30;
      if (kind.wrapper == Kind::kFaulty) {
        options.wrap = [r, made = std::uint64_t{0}](std::shared_ptr<Endpoint> inner, EngineCore&,
                                                    const ProcessAddress&) mutable -> std::shared_ptr<Endpoint> {
          if (inner->transport() == "local") return inner;
          FaultPlan plan;
          plan.seed = static_cast<std::uint64_t>(r) * 101 + ++made;
          plan.most_delay = std::chrono::microseconds(30);
          return make_faulty(std::move(inner), plan);
        };
      } else if (kind.wrapper == Kind::kTwoSided) {
        options.wrap = [this](std::shared_ptr<Endpoint> inner, EngineCore& engine,
                              const ProcessAddress& peer) -> std::shared_ptr<Endpoint> {
          if (inner->transport() == "local") return inner;
          return std::make_shared<test::TwoSidedEndpoint>(network, std::move(inner), engine.arena(),
                                                          engine.address().token, peer);
        };
      }
      auto engine = EngineCore::create(std::move(options));
      EXPECT_TRUE(engine.ok()) << engine.status().to_string();
      engines.push_back(*engine);
    }
  }

  void run(const std::function<void(Communicator&, Rank)>& body) {
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < engines.size(); ++r)
      threads.emplace_back([&, r] {
        const auto rank = static_cast<Rank>(r);
        auto comm =
            Communicator::create(rank, static_cast<int>(engines.size()), exchange.of(rank), settings, engines[r]);
        if (!comm.ok()) {
          ADD_FAILURE() << "rank " << rank << ": " << comm.status().to_string();
          return;
        }
        body(*comm, rank);
      });
    for (auto& thread : threads) thread.join();
  }

  Settings settings;
  ThreadExchange exchange, other_exchange;
  test::TwoSidedNetwork network;
  std::vector<std::shared_ptr<EngineCore>> engines;
};

class Wires : public testing::TestWithParam<std::tuple<Kind, int>> {};

TEST_P(Wires, AllCollectivesAreRight) {
  const auto& [kind, size] = GetParam();
  World world(kind, size);
  world.run([&, transport = std::string_view(kind.transport)](Communicator& comm, Rank) {
    std::uint64_t wrong = 0;
    for (std::uint64_t k = 0; k < 48; ++k) EXPECT_OK(test::mixed_call(comm, k, &wrong));
    Stream stream;
    for (std::uint64_t k = 0; k < 16; ++k) EXPECT_OK(test::mixed_call(comm, k, &wrong, 5003, &stream));
    EXPECT_EQ(wrong, 0u);
    if (comm.size() > 1) {
      EXPECT_EQ(comm.state()->world.direct, kind.wrapper == Kind::kPlain && transport.find("tcp") == transport.npos);
    }
  });
}

TEST_P(Wires, LargeAndEmptyCountsAreRight) {
  const auto& [kind, size] = GetParam();
  World world(kind, size);
  world.run([](Communicator& comm, Rank rank) {
    const auto n = static_cast<std::size_t>(comm.size());
    for (const std::size_t count : {std::size_t{0}, std::size_t{1'000'003}, std::size_t{0}, std::size_t{3}}) {
      std::vector<std::int32_t> in(count), out(count), all(count * n);
      for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<std::int32_t>(i % 997) + rank;
      EXPECT_OK(comm.all_reduce(in.data(), out.data(), count, DataType::kInt32, ReduceOp::kSum));
      EXPECT_OK(comm.all_gather(in.data(), all.data(), count, DataType::kInt32));
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < count; ++i)
        wrong += out[i] != static_cast<std::int32_t>((i % 997) * n + n * (n - 1) / 2);
      for (std::size_t i = 0; i < count * n; ++i)
        wrong += all[i] != static_cast<std::int32_t>(i % count % 997 + i / count);
      EXPECT_EQ(wrong, 0u) << count;
    }
  });
}

TEST_P(Wires, CommunicatorsShareTheirConnectionsFromSeveralThreads) {
  const auto& [kind, size] = GetParam();
  World world(kind, size);
  world.run([&](Communicator& first, Rank rank) {
    auto second = Communicator::create(rank, size, world.other_exchange.of(rank), world.settings,
                                       world.engines[static_cast<std::size_t>(rank)]);
    ASSERT_TRUE(second.ok()) << second.status().to_string();
    if (size > 1 && std::string_view(kind.transport) != "local") {
      const Rank other = (rank + 1) % size;
      EXPECT_EQ(first.state()->channels->peer(other).endpoint, second->state()->channels->peer(other).endpoint);
    }
    std::uint64_t wrong[2] = {};
    std::thread beside([&] {
      for (std::uint64_t k = 0; k < 60; ++k) EXPECT_OK(test::mixed_call(*second, k * 3 + 1, &wrong[1], 30000));
    });
    for (std::uint64_t k = 0; k < 60; ++k) EXPECT_OK(test::mixed_call(first, k, &wrong[0], 30000));
    beside.join();
    EXPECT_EQ(wrong[0] + wrong[1], 0u);
  });
}

TEST_P(Wires, MemoryThatPeersReachIsPutToDirectly) {
  const auto& [kind, size] = GetParam();
  World world(kind, size);
  world.run([](Communicator& comm, Rank rank) {
    constexpr std::size_t kCount = 50'000;
    const auto n = static_cast<std::size_t>(comm.size());
    auto in = comm.mem_alloc(kCount * 4), all = comm.mem_alloc(kCount * 4 * n);
    ASSERT_TRUE(in.ok() && all.ok());
    auto* const mine = static_cast<std::int32_t*>(*in);
    auto* const gathered = static_cast<std::int32_t*>(*all);
    for (std::int32_t round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < kCount; ++i) mine[i] = static_cast<std::int32_t>(i) + rank * 7 + round;
      EXPECT_OK(comm.all_gather(mine, gathered, kCount, DataType::kInt32));
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < kCount * n; ++i)
        wrong += gathered[i] != static_cast<std::int32_t>(i % kCount + i / kCount * 7) + round;
      EXPECT_EQ(wrong, 0u);
      EXPECT_OK(comm.barrier());
    }
  });
}

TEST_P(Wires, WhoLeavesAtOnceOwesNobodyAnything) {
  const auto& [kind, size] = GetParam();
  if (size == 1) return;
  World world(kind, size);
  world.run([&](Communicator& comm, Rank) {
    constexpr std::size_t kCount = 5003;
    EXPECT_OK(comm.barrier());
    world.network.set_lag(std::chrono::milliseconds(1));
    const auto n = static_cast<std::size_t>(comm.size());
    const std::vector<std::int32_t> in(kCount * n, 1);
    std::vector<std::int32_t> out(kCount);
    for (int k = 0; k < 20; ++k) {
      // The copy ends here, while slower ranks may still wait for what this one sent.
      auto copy = comm.duplicate();
      ASSERT_TRUE(copy.ok()) << copy.status().to_string();
      EXPECT_OK(copy->reduce_scatter(in.data(), out.data(), kCount, DataType::kInt32, ReduceOp::kSum));
      EXPECT_EQ(std::count(out.begin(), out.end(), static_cast<std::int32_t>(n)), std::ptrdiff_t{kCount});
    }
  });
}

TEST_P(Wires, MemoryComesBackWhenAllHaveLeft) {
  const auto& [kind, size] = GetParam();
  if (kind.wrapper == Kind::kTwoSided) GTEST_SKIP() << "that network moves only while somebody waits in a call";
  World world(kind, size);
  world.run([&](Communicator& comm, Rank rank) {
    Arena& arena = world.engines[static_cast<std::size_t>(rank)]->arena();
    std::uint64_t wrong = 0;
    EXPECT_OK(test::mixed_call(comm, 0, &wrong, 5003));
    {
      auto copy = comm.duplicate();
      ASSERT_TRUE(copy.ok()) << copy.status().to_string();
      for (std::uint64_t k = 0; k < 8; ++k) EXPECT_OK(test::mixed_call(*copy, k, &wrong, 100000));
    }
    EXPECT_EQ(wrong, 0u);
    // Nobody makes or ends another one that would notice: the engines do, also for those who were first to leave.
    const os::Deadline deadline = os::Deadline::after(std::chrono::seconds(20));
    while (world.engines[static_cast<std::size_t>(rank)]->graveyard().size() > 0 && !deadline.passed())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(world.engines[static_cast<std::size_t>(rank)]->graveyard().size(), 0u)
        << arena.usage().committed << " bytes";
    EXPECT_OK(comm.barrier());
  });
}

TEST(TwoSided, MostBytesLandByReceivesThatWereExpected) {
  const Kind kind{"two_sided", "local,shm", Kind::kTwoSided};
  Settings settings;
  settings.proto = "bulk";
  World world(kind, 3, settings);
  world.run([](Communicator& comm, Rank) {
    std::uint64_t wrong = 0;
    for (std::uint64_t k = 0; k < 48; ++k) EXPECT_OK(test::mixed_call(comm, k, &wrong));
    EXPECT_EQ(wrong, 0u);
  });
  EXPECT_GT(world.network.direct, 100u);
  EXPECT_LT(world.network.copied, world.network.direct / 10);
}

constexpr Kind kKinds[] = {
    {"local", "local"},
    {"shm", "local,shm"},
    {"faulty_shm", "local,shm", Kind::kFaulty},
    {"tcp", "local,tcp"},
    {"faulty_tcp", "local,tcp", Kind::kFaulty},
    {"two_sided", "local,shm", Kind::kTwoSided},
};
INSTANTIATE_TEST_SUITE_P(All, Wires, testing::Combine(testing::ValuesIn(kKinds), testing::Values(1, 2, 3, 5)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace hocket
