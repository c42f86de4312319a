// SPDX-License-Identifier: Apache-2.0
// layout_ranks_test.cpp: communicators whose ranks alternate between hosts, or work for GPUs of a machine file: all
// ranks agree on one layout, and collectives that follow it are right.
//
// Hosts are simulated: each rank's engine gets the HOCKET_HOST_ID of its host, so ranks of different hosts meet by tcp.
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "algorithms/layout.hpp"
#include "core/communicator_state.hpp"
#include "support/ranks.hpp"

namespace hocket {
namespace {

/// Threads as ranks, each with the settings that `settings_of` gives it and an engine of its own.
void run_each(int size, const std::function<Settings(Rank)>& settings_of,
              const std::function<void(Rank, Result<Communicator>&)>& body) {
  test::ThreadExchange exchange(size);
  std::vector<std::shared_ptr<Engine>> engines;
  for (Rank r = 0; r < size; ++r) {
    EngineOptions options;
    options.settings = settings_of(r);
    options.arena_bytes = std::uint64_t{2} << 30;
    auto engine = EngineCore::create(std::move(options));
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    engines.push_back(*engine);
  }
  std::vector<std::thread> threads;
  for (Rank r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      auto comm = Communicator::create(r, size, exchange.of(r), settings_of(r), engines[static_cast<std::size_t>(r)]);
      body(r, comm);
    });
  for (std::thread& thread : threads) thread.join();
}

Settings on_host(int host, std::string_view algo = "") {
  Settings settings;
  settings.host_id = "host" + std::to_string(host);
  settings.algo = algo;
  return settings;
}

std::vector<std::int32_t> numbers(std::size_t count, int from) {
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), from);
  return values;
}

/// Every collective that may follow a layout, all roots, checked.
void try_all(Communicator& comm) {
  const int n = comm.size(), me = comm.rank();
  constexpr std::size_t kCount = 1000;
  std::vector<std::int32_t> out(kCount);
  const std::vector<std::int32_t> mine = numbers(kCount, me);
  ASSERT_OK(comm.all_reduce(mine.data(), out.data(), kCount, DataType::kInt32, ReduceOp::kSum));
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(out[i], n * static_cast<int>(i) + n * (n - 1) / 2);

  std::vector<std::int32_t> all(kCount * static_cast<std::size_t>(n));
  ASSERT_OK(comm.all_gather(mine.data(), all.data(), kCount, DataType::kInt32));
  for (int r = 0; r < n; ++r)
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_EQ(all[static_cast<std::size_t>(r) * kCount + i], r + static_cast<int>(i));

  const std::vector<std::int32_t> chunks = numbers(all.size(), me);
  ASSERT_OK(comm.reduce_scatter(chunks.data(), out.data(), kCount, DataType::kInt32, ReduceOp::kSum));
  for (std::size_t i = 0; i < kCount; ++i)
    ASSERT_EQ(out[i], n * (me * static_cast<int>(kCount) + static_cast<int>(i)) + n * (n - 1) / 2);

  for (Rank root = 0; root < n; ++root) {
    out = numbers(kCount, me == root ? 7 : 0);
    ASSERT_OK(comm.broadcast(out.data(), out.data(), kCount, DataType::kInt32, root));
    ASSERT_EQ(out, numbers(kCount, 7));
    ASSERT_OK(comm.reduce(mine.data(), out.data(), kCount, DataType::kInt32, ReduceOp::kSum, root));
    if (me == root) {
      for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(out[i], n * static_cast<int>(i) + n * (n - 1) / 2);
    }
  }
}

TEST(LayoutOfHosts, RanksThatAlternateBetweenHostsCrossOncePerHost) {
  constexpr int kRanks = 6, kHosts = 2;
  std::array<std::uint64_t, kRanks> digests{};
  run_each(
      kRanks, [](Rank r) { return on_host(r % kHosts, "ring"); },
      [&](Rank r, Result<Communicator>& comm) {
        ASSERT_TRUE(comm.ok()) << comm.status().to_string();
        const World& world = comm->state()->world;
        ASSERT_TRUE(world.layout);
        EXPECT_EQ(world.layout->crossings(0), kHosts);
        digests[static_cast<std::size_t>(r)] = world.layout_digest;
        try_all(*comm);
        // The plans that ran: this rank's ring neighbours, as its channels show.
        int far = 0;
        for (const auto& [key, plan] : comm->state()->plans) {
          if (plan->plan.header.collective != Collective::kAllReduce) continue;
          for (Rank peer = 0; peer < kRanks; ++peer) {
            bool sends = false;
            for (const Step& step : plan->plan.steps)
              sends |= step.op == StepOp::kSignalData && plan->plan.view().peer(step.peer, 0, 0) == peer;
            far += sends && peer % kHosts != r % kHosts;
          }
        }
        // Ranks 4 and 5 are the last ones of their hosts.
        EXPECT_EQ(far, r >= 4 ? 1 : 0) << "rank " << r;
        const std::string text = comm->explain(Collective::kAllReduce, 1 << 20, DataType::kFloat32);
        EXPECT_NE(text.find("over 2 hosts, crossing 2 times"), std::string::npos) << text;
      });
  for (const std::uint64_t digest : digests) EXPECT_EQ(digest, digests[0]);
}

TEST(LayoutOfHosts, TreesAndChainsAreRightWithUnevenHosts) {
  // Three hosts with 3, 2 and 1 ranks.
  constexpr std::array<int, 6> kHost = {0, 1, 0, 2, 1, 0};
  for (const char* algo : {"tree", "ring,chain", ""})
    run_each(
        6, [&](Rank r) { return on_host(kHost[static_cast<std::size_t>(r)], algo); },
        [&](Rank, Result<Communicator>& comm) {
          ASSERT_TRUE(comm.ok()) << comm.status().to_string();
          try_all(*comm);
        });
}

TEST(LayoutOfHosts, ReproducibleReductionsKeepRankOrder) {
  // Floats whose sum depends on the order: by host it would be another.
  const std::array<float, 4> values = {1e8F, 1.0F, -1e8F, 1.0F};
  run_each(
      4,
      [](Rank r) {
        Settings settings = on_host(r % 2);
        settings.reproducible = true;
        return settings;
      },
      [&](Rank r, Result<Communicator>& comm) {
        ASSERT_TRUE(comm.ok()) << comm.status().to_string();
        float expected = 0;
        for (const float value : values) expected += value;
        float sum = -1;
        ASSERT_OK(comm->all_reduce(&values[static_cast<std::size_t>(r)], &sum, 1, DataType::kFloat32, ReduceOp::kSum));
        EXPECT_EQ(sum, expected);
      });
}

TEST(LayoutOfHosts, OneHostWithoutGpusGoesByRank) {
  test::run_ranks(3, test::Wire::kLocal, {}, [](Communicator& comm) {
    EXPECT_FALSE(comm.state()->world.layout);
    EXPECT_EQ(comm.explain(Collective::kAllReduce, 10, DataType::kFloat32).find("layout"), std::string::npos);
  });
}

Settings on_gpu(const std::string& gpu, std::string_view algo, int host = 0) {
  Settings settings = on_host(host, algo);
  settings.topo_file = std::string(HOCKET_SOURCE_DIR) + "/tests/topologies/machines/cube-mesh-renamed.xml";
  settings.gpu = gpu;
  return settings;
}

TEST(LayoutOfGpus, RanksFollowTheRingsOfTheirMachine) {
  std::array<std::uint64_t, 8> digests{};
  for (const char* algo : {"ring,chain", "tree"})
    run_each(
        8, [&](Rank) { return on_gpu("local", algo); },
        [&](Rank r, Result<Communicator>& comm) {
          ASSERT_TRUE(comm.ok()) << comm.status().to_string();
          const World& world = comm->state()->world;
          ASSERT_TRUE(world.layout);
          EXPECT_GT(world.layout->rings.size(), 1u);
          EXPECT_EQ(world.layout->links.device, 1u);
          digests[static_cast<std::size_t>(r)] = world.layout_digest;
          try_all(*comm);
          // A large call has a lane for each ring.
          std::vector<float> data(1 << 20, 1.0F);
          ASSERT_OK(comm->all_reduce(std::span(data)));
          EXPECT_EQ(data[12345], 8.0F);
          // A part of the ranks has the rings of its own GPUs.
          auto half = comm->split(r % 2, 0);
          ASSERT_TRUE(half.ok()) << half.status().to_string();
          ASSERT_TRUE(half->state()->world.layout);
          EXPECT_EQ(half->state()->settings.gpu, std::to_string(r));
          try_all(*half);
        });
  for (const std::uint64_t digest : digests) EXPECT_EQ(digest, digests[0]);
}

TEST(LayoutOfGpus, RanksOfAHostThatMeetOverTcpAgree) {
  run_each(
      4,
      [](Rank) {
        Settings settings = on_gpu("local", "ring,tree");
        settings.transport = "local,tcp";
        return settings;
      },
      [](Rank, Result<Communicator>& comm) {
        ASSERT_TRUE(comm.ok()) << comm.status().to_string();
        EXPECT_EQ(comm->state()->world.layout->links.device, 1u);
        try_all(*comm);
      });
}

TEST(LayoutOfGpus, TwoHostsOfGpusHaveARingPerLaneThatCrossesTwice) {
  run_each(
      8, [](Rank r) { return on_gpu("local", "ring,tree,chain", r % 2); },
      [](Rank, Result<Communicator>& comm) {
        ASSERT_TRUE(comm.ok()) << comm.status().to_string();
        const Layout& layout = *comm->state()->world.layout;
        EXPECT_GT(layout.rings.size(), 1u);
        for (std::size_t lane = 0; lane < layout.rings.size(); ++lane)
          EXPECT_EQ(layout.crossings(static_cast<int>(lane)), 2);
        try_all(*comm);
      });
}

TEST(LayoutOfGpus, AGpuThatIsNotThereIsAnErrorOnAllRanks) {
  run_each(
      3, [](Rank r) { return on_gpu(r == 1 ? "77" : std::to_string(r), ""); },
      [](Rank, Result<Communicator>& comm) {
        ASSERT_FALSE(comm.ok());
        EXPECT_EQ(comm.status().code(), Code::kInvalidArgument);
        EXPECT_NE(comm.status().text().find("rank 1 on"), std::string_view::npos) << comm.status().text();
        EXPECT_NE(comm.status().text().find("HOCKET_GPU='77'"), std::string_view::npos) << comm.status().text();
      });
}

TEST(LayoutOfGpus, ASharedGpuPutsItsHostInRankOrder) {
  run_each(
      3, [](Rank r) { return on_gpu(r == 2 ? "0" : std::to_string(r), "ring"); },
      [](Rank, Result<Communicator>& comm) {
        ASSERT_TRUE(comm.ok()) << comm.status().to_string();
        EXPECT_TRUE(comm->state()->world.layout->rings.empty());
        try_all(*comm);
      });
}

}  // namespace
}  // namespace hocket
