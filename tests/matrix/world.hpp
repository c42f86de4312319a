// SPDX-License-Identifier: Apache-2.0
// matrix/world.hpp: ranks as threads that reach each other by one transport, for thousands of calls on one
// communicator.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/engine.hpp"
#include "hocket/hocket.hpp"
#include "support/thread_exchange.hpp"
#include "support/two_sided.hpp"
#include "transport/faulty.hpp"

namespace hocket::matrix {

enum class Wire { kLocal, kShm, kTcp, kTwoSided, kFaulty };  ///< kFaulty: shm, but posted and late
inline constexpr Wire kWires[] = {Wire::kLocal, Wire::kShm, Wire::kTcp, Wire::kTwoSided};

constexpr std::string_view name_of(Wire wire) {
  switch (wire) {
    case Wire::kLocal: return "local";
    case Wire::kShm: return "shm";
    case Wire::kTcp: return "tcp";
    case Wire::kTwoSided: return "two-sided";
    case Wire::kFaulty: return "faulty";
  }
  return "?";
}

struct WorldOptions {
  Wire wire = Wire::kLocal;
  int ranks = 1;
  Settings settings;
  std::uint64_t seed = 1;          ///< of the order in which the two-sided network completes, and of delays
  std::vector<std::string> hosts;  ///< the host of each rank, by name; empty: all on this one
};

class World {
 public:
  explicit World(const WorldOptions& options) : options_(options), exchange_(options.ranks), network_(options.seed) {}

  /// Runs `body` on every rank at once; the first error of any, which also ends the others' calls.
  Status run(const std::function<Status(Communicator&)>& body) {
    if (const Status status = make_engines(); !status.ok()) return status;
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < options_.ranks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto r = static_cast<std::size_t>(rank);
        auto comm = Communicator::create(rank, options_.ranks, exchange_.of(rank), settings_[r], engines_[r]);
        const Status status = comm.ok() ? body(*comm) : comm.status();
        if (status.ok()) return;
        {
          const std::scoped_lock lock(mutex_);
          if (first_.ok()) first_ = status;
        }
        if (comm.ok()) comm->abort("another rank found a mistake");
      });
    }
    for (std::thread& thread : threads) thread.join();
    return first_;
  }

 private:
  Status make_engines() {
    for (int r = 0; r < options_.ranks; ++r) {
      Settings settings = options_.settings;
      settings.transport = options_.wire == Wire::kLocal ? "local"
                           : options_.wire == Wire::kTcp ? "local,tcp"
                                                         : "local,shm";
      if (!options_.hosts.empty()) settings.host_id = options_.hosts[static_cast<std::size_t>(r)];
      settings_.push_back(settings);
      if (options_.wire == Wire::kLocal && r > 0) {
        engines_.push_back(engines_[0]);
        continue;
      }
      EngineOptions engine_options;
      engine_options.settings = settings;
      engine_options.arena_bytes = std::uint64_t{2} << 30;  // every engine maps every other
      if (options_.wire == Wire::kTwoSided) {
        engine_options.wrap = [this](std::shared_ptr<Endpoint> inner, EngineCore& engine,
                                     const ProcessAddress& peer) -> std::shared_ptr<Endpoint> {
          if (inner->transport() == "local") return inner;
          return std::make_shared<test::TwoSidedEndpoint>(network_, std::move(inner), engine.arena(),
                                                          engine.address().token, peer);
        };
      } else if (options_.wire == Wire::kFaulty) {
        engine_options.wrap = [seed = options_.seed + static_cast<std::uint64_t>(r) * 101, made = std::uint64_t{0}](
                                  std::shared_ptr<Endpoint> inner, EngineCore&,
                                  const ProcessAddress&) mutable -> std::shared_ptr<Endpoint> {
          if (inner->transport() == "local") return inner;
          FaultPlan plan;
          plan.seed = seed + ++made;
          plan.most_delay = std::chrono::microseconds(40);
          return make_faulty(std::move(inner), plan);
        };
      }
      auto engine = EngineCore::create(std::move(engine_options));
      if (!engine.ok()) return engine.status();
      engines_.push_back(*engine);
    }
    return {};
  }

  const WorldOptions options_;
  test::ThreadExchange exchange_;
  test::TwoSidedNetwork network_;
  std::vector<Settings> settings_;
  std::vector<std::shared_ptr<EngineCore>> engines_;
  std::mutex mutex_;  // guards first_
  Status first_;
};

}  // namespace hocket::matrix
