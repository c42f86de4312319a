// SPDX-License-Identifier: Apache-2.0
// communicator_posted_test.cpp: communicators whose peers are reached by puts only, over connections that are slow,
// lossy or cut: shared memory that hides its addresses, sockets, and a network that only sends and receives.
//
// HOCKET_FAULT_REPEATS: how many slow and how many cut links on each of them (200 in the full run).
// HOCKET_FAULT_SEED: of their delays and moments.
#include <gtest/gtest.h>

#include <random>

#include "core/communicator_state.hpp"
#include "core/engine.hpp"
#include "support/faults.hpp"
#include "support/ranks.hpp"
#include "support/two_sided.hpp"
#include "transport/faulty.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::ThreadExchange;

/// The wrappers of one rank, in the order in which they were made, with whom they reach; the last is rank itself.
class Wires {
 public:
  void add(std::shared_ptr<FaultyEndpoint> endpoint) {
    const std::scoped_lock lock(mutex_);
    made_.push_back(std::move(endpoint));
  }
  void cut() {
    const std::scoped_lock lock(mutex_);
    for (const auto& endpoint : made_) endpoint->cut_now();
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<FaultyEndpoint>> made_;
};

/// What is under the wrapper.
enum class Under { kShm, kTcp, kTwoSided };
std::string name_of(Under under) {
  return under == Under::kShm ? "shm" : under == Under::kTcp ? "tcp" : "two_sided";
}

/// Threads as ranks, each with an engine of its own, whose ways to other ranks are wrapped by what `plan_of(rank)`
/// says.
void run_posted(int size, const std::function<FaultPlan(int)>& plan_of, Settings settings,
                const std::function<void(Communicator&, Wires&)>& body, Under under = Under::kShm) {
  settings.transport = under == Under::kTcp ? "tcp" : "shm";
  ThreadExchange exchange(size);
  test::TwoSidedNetwork network(7);
  std::vector<Wires> wires(static_cast<std::size_t>(size));
  std::vector<std::shared_ptr<EngineCore>> engines;
  for (int r = 0; r < size; ++r) {
    EngineOptions options;
    options.settings = settings;
    options.arena_bytes = std::uint64_t{2} << 30;
    options.wrap = [plan = plan_of(r), &mine = wires[static_cast<std::size_t>(r)], made = std::uint64_t{0}, under,
                    &network](std::shared_ptr<Endpoint> inner, EngineCore& engine,
                              const ProcessAddress& peer) mutable -> std::shared_ptr<Endpoint> {
      if (inner->transport() == "local") return inner;
      if (under == Under::kTwoSided)
        inner = std::make_shared<test::TwoSidedEndpoint>(network, std::move(inner), engine.arena(),
                                                         engine.address().token, peer);
      FaultPlan own = plan;
      own.seed = plan.seed * 101 + ++made;
      auto endpoint = make_faulty(std::move(inner), own);
      mine.add(endpoint);
      return endpoint;
    };
    auto engine = EngineCore::create(std::move(options));
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    engines.push_back(*engine);
  }
  std::vector<std::thread> threads;
  for (Rank r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      auto comm = Communicator::create(r, size, exchange.of(r), settings, engines[static_cast<std::size_t>(r)]);
      if (!comm.ok()) {
        ADD_FAILURE() << "rank " << r << ": " << comm.status().to_string();
        return;
      }
      body(*comm, wires[static_cast<std::size_t>(r)]);
    });
  for (auto& thread : threads) thread.join();
}

struct Weather {
  const char* name;
  FaultPlan plan;
};

class Posted : public testing::TestWithParam<std::tuple<Weather, int>> {};

TEST_P(Posted, AllCollectivesAreRight) {
  const auto& [weather, size] = GetParam();
  run_posted(
      size,
      [&, weather = weather](int r) {
        FaultPlan plan = weather.plan;
        plan.seed = static_cast<std::uint64_t>(r) + 1;
        return plan;
      },
      {},
      [](Communicator& comm, Wires&) {
        std::uint64_t wrong = 0;
        for (std::uint64_t k = 0; k < 48; ++k) EXPECT_OK(test::mixed_call(comm, k, &wrong));
        Stream stream;
        for (std::uint64_t k = 0; k < 24; ++k) EXPECT_OK(test::mixed_call(comm, k, &wrong, 5003, &stream));
        EXPECT_EQ(wrong, 0u);
        EXPECT_FALSE(comm.state()->world.direct);
      });
}

const Weather kWeathers[] = {
    {"plain", {}},
    {"delays", {.least_delay = 0us, .most_delay = 300us}},
    {"slow", {.bytes_per_second = 400'000'000}},
};

INSTANTIATE_TEST_SUITE_P(Weathers, Posted, testing::Combine(testing::ValuesIn(kWeathers), testing::Values(2, 3, 4)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

class AtRandom : public testing::TestWithParam<Under> {};

TEST_P(AtRandom, SlowLinksDelayCallsAndNothingElse) {
  const int times = test::repeats("HOCKET_FAULT_REPEATS", 8);
  const int seed = test::repeats("HOCKET_FAULT_SEED", 20264);
  std::printf("%s: %d worlds with slow links, seed %d\n", name_of(GetParam()).c_str(), times, seed);
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  for (int i = 0; i < times; ++i) {
    const int size = static_cast<int>(2 + random() % 3);
    // Some ranks only, so that fast ones get ahead of slow ones.
    std::vector<FaultPlan> plans(static_cast<std::size_t>(size));
    for (FaultPlan& plan : plans) {
      plan.seed = random();
      if (random() % 3 != 0) plan.most_delay = std::chrono::microseconds(1 << random() % 11);
      if (random() % 2 != 0) plan.bytes_per_second = std::uint64_t{4'000'000} << random() % 8;
    }
    const std::uint64_t first = random() % 64;
    SCOPED_TRACE(testing::Message() << "world " << i << " of " << size);
    run_posted(
        size, [&](int r) { return plans[static_cast<std::size_t>(r)]; }, {},
        [&](Communicator& comm, Wires&) {
          std::uint64_t wrong = 0;
          for (std::uint64_t k = first; k < first + 12; ++k) EXPECT_OK(test::mixed_call(comm, k, &wrong, 5003));
          EXPECT_EQ(wrong, 0u);
          EXPECT_OK(comm.async_error());
        },
        GetParam());
  }
}

TEST_P(AtRandom, CutLinksEndAllRanksAndSpoilNothing) {
  const int times = test::repeats("HOCKET_FAULT_REPEATS", 8);
  const int seed = test::repeats("HOCKET_FAULT_SEED", 20265);
  std::printf("%s: %d cut links, seed %d\n", name_of(GetParam()).c_str(), times, seed);
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  for (int i = 0; i < times; ++i) {
    const int size = static_cast<int>(2 + random() % 3);
    const int victim = static_cast<int>(random() % static_cast<std::uint64_t>(size));
    FaultPlan cut;
    cut.seed = random();
    cut.cut_at = 1 + random() % 400;
    if (random() % 2 != 0) cut.most_delay = 100us;
    SCOPED_TRACE(testing::Message() << "cut " << i << " of rank " << victim << " of " << size << " at operation "
                                    << cut.cut_at);
    Settings settings;
    settings.timeout = 1s;  // whom a cut rank cannot tell
    run_posted(
        size, [&](int r) { return r == victim ? cut : FaultPlan{}; }, settings,
        [&](Communicator& comm, Wires&) {
          std::uint64_t wrong = 0;
          Status status;
          for (std::uint64_t k = 0; status.ok(); ++k) status = test::mixed_call(comm, k, &wrong);
          EXPECT_EQ(wrong, 0u);
          EXPECT_TRUE(status.code() == Code::kPeerLost || (comm.rank() != victim && status.code() == Code::kTimeout))
              << status.to_string();
          EXPECT_NE(status.text().find("rank "), std::string_view::npos) << status.to_string();
          EXPECT_FALSE(comm.barrier().ok());
        },
        GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Wires, AtRandom, testing::Values(Under::kShm, Under::kTcp, Under::kTwoSided),
                         [](const auto& info) { return name_of(info.param); });

TEST(PostedWires, EveryAllReduceAlgorithmIsRight) {
  for (const char* algorithm : {"ring", "tree", "one_shot", "two_shot"}) {
    SCOPED_TRACE(algorithm);
    Settings settings;
    settings.algo = std::string("all_reduce:") + algorithm;
    run_posted(
        3, [](int) { return FaultPlan{.least_delay = 0us, .most_delay = 100us}; }, settings,
        [](Communicator& comm, Wires&) {
          std::uint64_t wrong = 0;
          for (std::uint64_t k = 0; k < 72; k += 8) EXPECT_OK(test::mixed_call(comm, k, &wrong, 100000));
          EXPECT_EQ(wrong, 0u);
        });
  }
}

TEST(PostedWires, ACutConnectionIsPeerLostOnAllRanks) {
  for (const std::uint64_t at : {1u, 20u, 77u}) {
    SCOPED_TRACE(at);
    // Rank 1's ways break at its operation `at`: ranks that it can no longer tell see nothing of it any more.
    Settings settings;
    settings.timeout = 3s;
    std::atomic<int> lost{0};
    run_posted(
        3, [&](int r) { return r == 1 ? FaultPlan{.cut_at = at} : FaultPlan{}; }, settings,
        [&](Communicator& comm, Wires&) {
          std::uint64_t wrong = 0;
          Status status;
          for (std::uint64_t k = 0; k < 1000 && status.ok(); ++k) status = test::mixed_call(comm, k, &wrong);
          EXPECT_FALSE(status.ok());
          EXPECT_EQ(wrong, 0u);
          lost += status.code() == Code::kPeerLost;
          if (comm.rank() == 1) {
            EXPECT_EQ(status.code(), Code::kPeerLost) << status.to_string();
          }
          // Who could not be told finds out by its own time-out, and names rank 1 or one that waits for it.
          if (comm.rank() != 1) {
            EXPECT_TRUE(status.code() == Code::kPeerLost || status.code() == Code::kTimeout) << status.to_string();
          }
          EXPECT_NE(status.text().find("rank "), std::string_view::npos) << status.to_string();
          EXPECT_FALSE(comm.barrier().ok());
        });
    EXPECT_GE(lost, 1);
  }
}

TEST(PostedWires, AllWiresCutInTheMiddleEndOnAllRanks) {
  Settings settings;
  settings.timeout = 3s;
  run_posted(
      3, [](int) { return FaultPlan{}; }, settings,
      [&](Communicator& comm, Wires& wires) {
        std::uint64_t wrong = 0;
        Status status;
        for (std::uint64_t k = 0; k < 1000 && status.ok(); ++k) {
          if (k == 30) wires.cut();
          status = test::mixed_call(comm, k, &wrong);
        }
        EXPECT_EQ(wrong, 0u);
        EXPECT_EQ(status.code(), Code::kPeerLost) << status.to_string();
      });
}

TEST(PostedWires, ASignalThatNeverComesEndsInATimeOutThatNamesTheRank) {
  // The first announces slots, the others carry data. (A lost credit would be made good by the next one.)
  for (const FaultPlan& lost : {FaultPlan{.drop_signal = 1}, FaultPlan{.drop_line = 1}, FaultPlan{.drop_line = 11}}) {
    SCOPED_TRACE(testing::Message() << "signal " << lost.drop_signal << ", line " << lost.drop_line);
    Settings settings;
    settings.timeout = 500ms;
    std::atomic<int> named{0};
    run_posted(
        3, [&](int r) { return r == 2 ? lost : FaultPlan{}; }, settings,
        [&](Communicator& comm, Wires&) {
          std::uint64_t wrong = 0;
          Status status;
          for (std::uint64_t k = 0; k < 1000 && status.ok(); ++k) status = test::mixed_call(comm, k, &wrong);
          EXPECT_EQ(status.code(), Code::kTimeout) << status.to_string();
          EXPECT_EQ(wrong, 0u);
          named += status.text().find("HOCKET_TIMEOUT") != std::string_view::npos &&
                   status.text().find(" (pid ") != std::string_view::npos;
        });
    EXPECT_EQ(named, 3);
  }
}

}  // namespace
}  // namespace hocket
