// SPDX-License-Identifier: Apache-2.0
// communicator_wrap_test.cpp: packet flags are 32 bits of a 64-bit count: channels that start shortly before they wrap,
// over all protocols.
#include <gtest/gtest.h>

#include "core/communicator_state.hpp"
#include "core/engine.hpp"
#include "support/faults.hpp"
#include "support/ranks.hpp"

namespace hocket {
namespace {

class Wrap : public testing::TestWithParam<std::tuple<const char*, std::uint64_t>> {};

TEST_P(Wrap, SmallCallsStayRightWhereFlagsWrap) {
  const auto [protocol, first] = GetParam();
  constexpr int kSize = 3;
  for (const bool own_engines : {false, true}) {
    SCOPED_TRACE(own_engines ? "shm" : "local");
    test::ThreadExchange exchange(kSize);
    std::vector<std::shared_ptr<EngineCore>> engines;
    for (int r = 0; r < (own_engines ? kSize : 1); ++r) {
      auto engine = EngineCore::create({});
      ASSERT_TRUE(engine.ok()) << engine.status().to_string();
      engines.push_back(*engine);
    }
    std::vector<std::thread> threads;
    for (Rank r = 0; r < kSize; ++r)
      threads.emplace_back([&, r, protocol = protocol, first = first] {
        CreateArgs args;
        args.rank = r;
        args.size = kSize;
        args.exchange = exchange.of(r);
        args.settings.proto = protocol;
        args.engine = engines[static_cast<std::size_t>(r) % engines.size()];
        args.first_transfer = first;
        auto made = make_communicator(std::move(args));
        ASSERT_TRUE(made.ok()) << made.status().to_string();
        Communicator comm(std::move(*made));
        std::uint64_t wrong = 0;
        // Counts of 1 to 257: with and without packet lines behind the first.
        for (std::uint64_t k = 0; k < 200; ++k) EXPECT_OK(test::mixed_call(comm, k, &wrong, 257));
        EXPECT_EQ(wrong, 0u);
      });
    for (auto& thread : threads) thread.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Starts, Wrap,
                         testing::Combine(testing::Values("bulk", "first_line", "packet"),
                                          testing::Values(std::uint64_t{0}, (std::uint64_t{1} << 31) - 3,
                                                          (std::uint64_t{1} << 32) - 3, (std::uint64_t{3} << 31) - 3)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace hocket
