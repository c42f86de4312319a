// SPDX-License-Identifier: Apache-2.0
// support/ranks.hpp: threads as ranks of one communicator, for tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/engine.hpp"
#include "hocket/hocket.hpp"
#include "support/thread_exchange.hpp"

namespace hocket::test {

/// How the ranks of a test reach each other.
enum class Wire { kLocal, kShm, kTcp };
inline constexpr Wire kWires[] = {Wire::kLocal, Wire::kShm, Wire::kTcp};

inline std::string name_of(Wire wire) {
  return wire == Wire::kLocal ? "local" : wire == Wire::kShm ? "shm" : "tcp";
}

/// Runs `body(communicator)` as `size` threads. Wires but kLocal give each rank an engine of its own, so that they
/// carry what processes would exchange.
inline void run_ranks(int size, Wire wire, Settings settings, const std::function<void(Communicator&)>& body) {
  if (wire == Wire::kShm) settings.transport = "local,shm";
  if (wire == Wire::kTcp) settings.transport = "local,tcp";
  ThreadExchange exchange(size);
  std::vector<std::shared_ptr<Engine>> engines;
  for (int r = 0; r < (wire == Wire::kLocal ? 1 : size); ++r) {
    EngineOptions options;
    options.settings = settings;
    options.arena_bytes = std::uint64_t{2}
                          << 30;  // every engine maps every other: a sanitizer's address space is small
    auto engine = EngineCore::create(std::move(options));
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    engines.push_back(*engine);
  }
  std::vector<std::thread> threads;
  for (Rank r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      const auto& engine = engines[wire == Wire::kLocal ? 0 : static_cast<std::size_t>(r)];
      auto comm = Communicator::create(r, size, exchange.of(r), settings, engine);
      if (!comm.ok()) {
        ADD_FAILURE() << "rank " << r << ": " << comm.status().to_string();
        return;
      }
      body(*comm);
    });
  for (std::thread& thread : threads) thread.join();
}

/// EXPECT that a Status is ok, with its text.
#define EXPECT_OK(expr)                               \
  do {                                                \
    const ::hocket::Status status_ = (expr);          \
    EXPECT_TRUE(status_.ok()) << status_.to_string(); \
  } while (0)

#define ASSERT_OK(expr)                               \
  do {                                                \
    const ::hocket::Status status_ = (expr);          \
    ASSERT_TRUE(status_.ok()) << status_.to_string(); \
  } while (0)

}  // namespace hocket::test
