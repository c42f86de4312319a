// SPDX-License-Identifier: Apache-2.0
// large_world_test.cpp: what a rank costs in worlds far larger than this machine: a thousand ranks as threads, and one
// rank of a hundred thousand whose peers are made up.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <chrono>

#include "core/communicator_state.hpp"
#include "core/engine.hpp"
#include "support/ranks.hpp"

namespace hocket {
namespace {

using test::ThreadExchange;
using namespace std::chrono_literals;

// 1,024 threads need address space for their stacks and slots that sanitizers do not leave.
TEST(LargeWorld, AThousandRanksAsThreadsMeetAndReduce) {
  constexpr int kRanks = 1024;
  auto engine = Engine::create();
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  ThreadExchange exchange(kRanks);
  std::atomic<int> right{0}, made{0};
  std::atomic<std::int64_t> start_ns{0};
  const auto since = std::chrono::steady_clock::now();
  std::vector<std::thread> ranks;
  for (Rank r = 0; r < kRanks; ++r)
    ranks.emplace_back([&, r] {
      auto comm = Communicator::create(r, kRanks, exchange.of(r), {}, *engine);
      if (!comm.ok()) {
        ADD_FAILURE() << "rank " << r << ": " << comm.status().to_string();
        return;
      }
      if (++made == kRanks)
        start_ns =
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - since).count();
      std::int64_t value = r, sum = 0;
      const Status reduced = comm->all_reduce(&value, &sum, 1, DataType::kInt64, ReduceOp::kSum);
      std::int64_t root = r == 5 ? 77 : 0;
      const Status sent = comm->broadcast(&root, &root, 1, DataType::kInt64, 5);
      const Status met = comm->barrier();
      if (reduced.ok() && sent.ok() && met.ok() && sum == std::int64_t{kRanks} * (kRanks - 1) / 2 && root == 77)
        ++right;
      else if (!reduced.ok())
        ADD_FAILURE() << reduced.to_string();
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(right, kRanks);
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - since;
  std::printf("%d ranks: communicator in %.2f s; with an all-reduce, a broadcast, a barrier and the end %.2f s\n",
              kRanks, static_cast<double>(start_ns) / 1e9, all.count());
  EXPECT_LT(static_cast<double>(start_ns) / 1e9, 10.0) << "a guard, many times what it takes";
}

TEST(LargeWorld, OneRankOfAHundredThousandFitsInMemory) {
  constexpr int kRanks = 131072;
  constexpr int kPerHost = 8;
  EngineOptions options;
  auto engine = EngineCore::create(std::move(options));
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  // The peers: entries as ranks of other hosts would send them, made from this rank's own.
  const Exchange generator = [](std::span<const std::byte> mine, std::span<std::byte> all) -> Status {
    const std::size_t bytes = mine.size();
    for (std::size_t r = 0; r < kRanks; ++r) {
      std::memcpy(all.data() + r * bytes, mine.data(), bytes);
      if (bytes != sizeof(Member) || r == 0) continue;
      Member member;
      std::memcpy(&member, mine.data(), bytes);
      member.rank = static_cast<std::int32_t>(r);
      if (r >= kPerHost) member.address.host = {r / kPerHost, 1};
      member.address.token = {r, 99};
      member.address.pid += static_cast<std::int32_t>(r % kPerHost);
      std::memcpy(all.data() + r * bytes, &member, bytes);
    }
    return {};
  };
  const struct mallinfo2 before = ::mallinfo2();
  const std::uint64_t arena_before = (*engine)->arena().usage().committed;
  auto comm = Communicator::create(0, kRanks, generator, {}, *engine);
  ASSERT_TRUE(comm.ok()) << comm.status().to_string();
  const struct mallinfo2 after = ::mallinfo2();
  const double heap = static_cast<double>(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd);
  const double arena = static_cast<double>((*engine)->arena().usage().committed - arena_before);
  std::printf("one rank of %d: %.1f MiB of heap, %.2f MiB of the arena; %zu bytes an entry\n", kRanks, heap / (1 << 20),
              arena / (1 << 20), sizeof(Member));
  EXPECT_LE(heap + arena, 32.0 * (1 << 20));
}

}  // namespace
}  // namespace hocket
