// SPDX-License-Identifier: Apache-2.0
// transport_test.cpp: one suite that every transport has to pass: two ranks, as threads of one engine (local), as
// threads with an engine each, and as processes, by shared memory and by tcp; each also behind `faulty`.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <random>

#include "base/os/futex.hpp"
#include "core/engine.hpp"
#include "support/processes.hpp"
#include "transport/faulty.hpp"

namespace hocket {
namespace {

using test::RankContext;

constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * 1024;
constexpr std::uint64_t kLines = 4096;  // bytes of flags before the data
constexpr std::uint64_t kBlock = 66 * kMiB;
constexpr ChannelKey kKey{7};

os::WaitLimits patient() {
  return {.deadline = os::Deadline::after(std::chrono::seconds(100)), .abort = nullptr};
}

struct Setting {
  const char* name;
  const char* transport;
  bool one_engine;
  bool faulty;
  bool processes;

  bool posted() const { return faulty || std::string_view(transport) == "tcp"; }
};
std::ostream& operator<<(std::ostream& out, const Setting& setting) {
  return out << setting.name;
}

// One rank: an engine, a block of memory that the other may write, and the endpoint to the other.
struct Pair {
  const RankContext& context;
  std::shared_ptr<EngineCore> engine;
  std::shared_ptr<Endpoint> endpoint;
  std::uint64_t own = 0;   // offset of my block in my arena
  std::uint64_t peer = 0;  // of the other's in the other's
  std::uint64_t ticket = 0;

  std::byte* data() const { return engine->arena().base() + own; }
  // Word `i` of line 1 on; line 0 is the doorbell.
  std::uint64_t word_offset(std::uint64_t line, std::uint64_t line_bytes) const {
    return 64 * (1 + line) + line_bytes - 8;
  }

  void put(const void* source, std::size_t bytes, std::uint64_t offset) {
    const auto taken =
        endpoint->put({kKey, static_cast<const std::byte*>(source), bytes, peer + offset, peer + offset});
    ASSERT_TRUE(taken.ok()) << taken.status().to_string();
    ticket = *taken;
  }
  // The last word of line `line` of the peer becomes `value`, the words before it too.
  void signal(std::uint64_t line, std::uint64_t value, std::size_t line_bytes = 8) {
    std::array<std::uint64_t, 8> words;
    words.fill(value);
    const auto taken =
        endpoint->signal({kKey, std::as_bytes(std::span(words)).first(line_bytes), peer + 64 * (1 + line), peer});
    ASSERT_TRUE(taken.ok()) << taken.status().to_string();
  }
  void drive_until_idle() {
    while (!endpoint->idle()) {
      const Status status = endpoint->progress();
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
  }
  void wait_completed() {
    while (endpoint->completed() < ticket) {
      const Status status = endpoint->progress();
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
  }
  std::uint64_t load(std::uint64_t offset) const {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(data() + offset))
        .load(std::memory_order_acquire);
  }
  // Sleeps on the doorbell of my block until the last word of my line is at least `value`.
  void wait(std::uint64_t line, std::uint64_t value, std::size_t line_bytes = 8) {
    auto& bell = *reinterpret_cast<Doorbell*>(data());
    const std::uint64_t offset = word_offset(line, line_bytes);
    const os::Deadline deadline = patient().deadline;
    while (load(offset) < value) {
      ASSERT_FALSE(deadline.passed()) << "line " << line << " is " << load(offset) << ", not " << value;
      const Status status = endpoint->progress();
      ASSERT_TRUE(status.ok()) << status.to_string();
      if (!endpoint->idle() || !endpoint->moves_alone()) continue;
      endpoint->watch();
      bell.state.exchange(Doorbell::kAsleep, std::memory_order_seq_cst);
      if (load(offset) < value) (void)os::futex_wait(bell.state, Doorbell::kAsleep, deadline);
      bell.state.store(Doorbell::kAwake, std::memory_order_seq_cst);
      endpoint->unwatch();
    }
  }
};

class Transport : public testing::TestWithParam<Setting> {
 protected:
  using Body = std::function<void(Pair&)>;

  // Runs `body` as two connected ranks and fails if it fails in either.
  void run(const Body& body, const FaultPlan& plan = {}) {
    const Setting setting = GetParam();
    EngineOptions options;
    options.settings.transport = setting.transport;
    if (setting.faulty) {
      options.wrap = [plan](std::shared_ptr<Endpoint> inner, auto&...) { return make_faulty(std::move(inner), plan); };
    }
    std::shared_ptr<EngineCore> shared;
    if (setting.one_engine) shared = EngineCore::create(options).value();
    const auto rank = [&](const RankContext& context) {
      auto engine = setting.one_engine ? shared : EngineCore::create(options).value();
      struct Card {
        ProcessAddress address;
        std::uint64_t block;
      };
      Pair pair{.context = context, .engine = engine, .endpoint = nullptr};
      pair.own = engine->arena().reserve(kBlock, 4096).value();
      EXPECT_TRUE(engine->arena().commit(pair.own, kBlock).ok());
      const auto cards = context.gather(Card{engine->address(), pair.own});
      if (cards.empty()) return 1;
      const Card& other = cards[static_cast<std::size_t>(1 - context.rank)];
      pair.peer = other.block;
      std::vector<TransportTrial> trials;
      const std::string_view known[] = {"local", "shm", "tcp"};
      const AllowList allowed = AllowList::parse(setting.transport, known).value();
      auto endpoint = engine->connect(other.address, allowed, patient(), &trials);
      EXPECT_TRUE(endpoint.ok()) << endpoint.status().to_string();
      if (!endpoint.ok()) return 1;
      pair.endpoint = *endpoint;
      body(pair);
      context.barrier();  // the other may still use my memory
      pair.endpoint.reset();
      engine->arena().release(pair.own);
      return testing::Test::HasFailure() ? 1 : 0;
    };
    const auto codes = setting.processes ? test::run_processes(2, rank) : test::run_threads(2, rank);
    EXPECT_EQ(codes, (std::vector<int>{0, 0}));
  }
};

TEST_P(Transport, ConnectsAndSaysWhatItIs) {
  run([&](Pair& pair) {
    const Setting setting = GetParam();
    EXPECT_EQ(pair.endpoint->transport(),
              setting.faulty ? "faulty(" + std::string(setting.transport) + ")" : setting.transport);
    EXPECT_EQ(pair.endpoint->base() == nullptr, setting.posted());
    EXPECT_TRUE(pair.endpoint->idle());
    EXPECT_TRUE(pair.endpoint->error().ok());
    EXPECT_TRUE(pair.endpoint->progress().ok());
  });
}

TEST_P(Transport, WhereThereIsABaseStoresArrive) {
  if (GetParam().posted()) GTEST_SKIP() << "there is none";
  run([](Pair& pair) {
    std::byte* const base = pair.endpoint->base() + pair.peer;
    std::memset(base + kLines, 40 + pair.context.rank, kMiB);
    ASSERT_TRUE(pair.context.barrier());
    for (std::uint64_t i = 0; i < kMiB; ++i) ASSERT_EQ(pair.data()[kLines + i], std::byte(41 - pair.context.rank));
    EXPECT_EQ(reinterpret_cast<const ArenaHeader*>(pair.endpoint->base())->magic, kArenaMagic);
  });
}

TEST_P(Transport, ASignalWakesASleeper) {
  run([](Pair& pair) {
    for (std::uint64_t i = 1; i <= 200; ++i) {
      if (pair.context.rank == 0) {
        pair.signal(0, i);
        pair.drive_until_idle();
        pair.wait(0, i);
      } else {
        pair.wait(0, i);
        pair.signal(0, i);
        pair.drive_until_idle();
      }
    }
  });
}

TEST_P(Transport, ASignalRingsTheEnginesBellWhereTheDoorbellSaysSo) {
  run([](Pair& pair) {
    auto& bell = *reinterpret_cast<Doorbell*>(pair.data());
    if (pair.context.rank == 0) {
      ASSERT_TRUE(pair.context.barrier());
      pair.signal(0, 1);
      pair.drive_until_idle();
    } else {
      constexpr std::uint32_t kBell = 17;
      auto& word = pair.engine->arena().header().bells[kBell];
      const std::uint32_t before = word.load();
      bell.state.store(Doorbell::kFirstBell + kBell);
      ASSERT_TRUE(pair.context.barrier());
      while (word.load() == before)
        ASSERT_NE(os::futex_wait(word, before, patient().deadline), os::FutexWait::kTimedOut);
      EXPECT_EQ(pair.load(64), 1u);
      EXPECT_EQ(bell.state.load(), Doorbell::kAwake);
    }
  });
}

TEST_P(Transport, DataIsThereBeforeItsFlagWhateverTheSizes) {
  run([](Pair& pair) {
    constexpr std::uint64_t kRounds = 1500, kSlots = 8, kSlotBytes = 64 * kKiB;
    std::mt19937_64 random(11);  // both ranks draw the same
    std::vector<std::vector<std::byte>> sources(kSlots, std::vector<std::byte>(kSlotBytes));
    std::array<std::uint64_t, kSlots> tickets{};
    for (std::uint64_t q = 1; q <= kRounds; ++q) {
      const std::uint64_t slot = q % kSlots;
      const std::size_t bytes = random() % (q % 3 == 0 ? kSlotBytes : 300);
      const std::size_t offset =
          kLines + slot * kSlotBytes + (bytes < kSlotBytes ? random() % (kSlotBytes - bytes) : 0);
      const std::size_t line_bytes = 8 + 8 * (random() % 8);
      const auto value = static_cast<unsigned char>(q * 31);
      if (pair.context.rank == 0) {
        // Credits come back on line 40; a slot's source may be overwritten when its last put has been read.
        if (q > kSlots) pair.wait(40, q - kSlots);
        while (pair.endpoint->completed() < tickets[slot]) ASSERT_TRUE(pair.endpoint->progress().ok());
        std::memset(sources[slot].data(), value, bytes);
        pair.put(sources[slot].data(), bytes, offset);
        tickets[slot] = pair.ticket;
        pair.signal(slot, q, line_bytes);
      } else {
        pair.wait(slot, q, line_bytes);
        for (std::size_t i = 0; i < line_bytes / 8; ++i)
          ASSERT_EQ(pair.load(64 * (1 + slot) + 8 * i), q) << "word " << i;
        for (std::size_t i = 0; i < bytes; ++i)
          ASSERT_EQ(pair.data()[offset + i], std::byte(value)) << q << " at " << i;
        // Stale words would look like the flag of a later round with a longer line.
        std::memset(pair.data() + 64 * (1 + slot), 0, 64);
        pair.signal(40, q);
      }
      if (testing::Test::HasFatalFailure()) return;
    }
    pair.drive_until_idle();
  });
}

TEST_P(Transport, ASignalAfterAllComesAfterAllKeys) {
  run([](Pair& pair) {
    constexpr std::uint64_t kKeys = 6, kLast = 30, kRounds = 100;
    const std::vector<std::byte> ones(kMiB / 16, std::byte{1});
    for (std::uint64_t q = 1; q <= kRounds; ++q) {
      if (pair.context.rank == 0) {
        std::array<std::uint64_t, 8> words;
        words.fill(q);
        const auto line = std::as_bytes(std::span(words)).first(8);
        const auto send = [&](std::uint64_t key, std::uint64_t at, bool after_all) {
          EXPECT_TRUE(
              pair.endpoint->signal({ChannelKey{key}, line, pair.peer + 64 * (1 + at), pair.peer, nullptr, after_all})
                  .ok());
        };
        for (std::uint64_t k = 0; k < kKeys; ++k) {
          const std::uint64_t to = pair.peer + kLines + k * ones.size();
          const auto put = pair.endpoint->put({ChannelKey{100 + k}, ones.data(), ones.size() >> (q + k) % 8, to, to});
          ASSERT_TRUE(put.ok()) << put.status().to_string();
          pair.ticket = *put;
          send(200 + k, k, false);
        }
        send(300, kLast, true);
        pair.wait(40, q);
      } else {
        pair.wait(kLast, q);
        for (std::uint64_t k = 0; k < kKeys; ++k) {
          const std::uint64_t at = kLines + k * ones.size(), bytes = ones.size() >> (q + k) % 8;
          EXPECT_EQ(pair.load(64 * (1 + k)), q) << "key " << k;
          EXPECT_EQ(pair.data()[at], std::byte{1}) << "key " << k;
          EXPECT_EQ(pair.data()[at + bytes - 1], std::byte{1}) << "key " << k;
          std::memset(pair.data() + at, 0, ones.size());
        }
        pair.signal(40, q);
      }
      if (testing::Test::HasFailure()) return;
    }
    pair.drive_until_idle();
  });
}

TEST_P(Transport, LargePutsArriveWhole) {
  run([](Pair& pair) {
    std::vector<std::uint64_t> source(64 * kMiB / 8);
    std::iota(source.begin(), source.end(), 1);
    std::uint64_t round = 0;
    for (std::uint64_t bytes = 64 * kKiB; bytes <= 64 * kMiB; bytes *= 4) {
      ++round;
      if (pair.context.rank == 0) {
        source[bytes / 8 - 1] = round;
        pair.put(source.data(), bytes, kLines);
        pair.signal(0, round);
        pair.wait_completed();
        source[bytes / 8 - 1] = 0;
        pair.wait(1, round);
      } else {
        pair.wait(0, round);
        const auto* words = reinterpret_cast<const std::uint64_t*>(pair.data() + kLines);
        for (std::uint64_t i = 0; i + 1 < bytes / 8; ++i) {
          if (words[i] != i + 1 && (i + 1) % (16 * kKiB / 8) != 0) FAIL() << "word " << i << " is " << words[i];
        }
        ASSERT_EQ(words[bytes / 8 - 1], round);
        pair.signal(1, round);
        pair.drive_until_idle();
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST_P(Transport, BothDirectionsAtOnce) {
  run([](Pair& pair) {
    constexpr std::size_t kBytes = 100000;
    std::vector<std::byte> source(kBytes);
    for (std::uint64_t i = 1; i <= 100; ++i) {
      // The other is at most one round ahead, in the other half.
      const std::uint64_t offset = kLines + i % 2 * kBytes;
      std::fill(source.begin(), source.end(), std::byte(2 * i + static_cast<std::uint64_t>(pair.context.rank)));
      pair.put(source.data(), kBytes, offset);
      pair.signal(0, i);
      pair.wait(0, i);
      const auto expected = std::byte(2 * i + static_cast<std::uint64_t>(1 - pair.context.rank));
      ASSERT_EQ(pair.data()[offset], expected);
      ASSERT_EQ(pair.data()[offset + kBytes - 1], expected);
      pair.wait_completed();
    }
    pair.drive_until_idle();
  });
}

TEST_P(Transport, WhatLiesOutsideOfTheArenaIsRefused) {
  // Behind `faulty` the error comes when the operation takes effect.
  const auto outcome = [](Pair& pair, auto operation) {
    Status status = operation();
    while (status.ok() && !pair.endpoint->idle()) status = pair.endpoint->progress();
    return status.code();
  };
  const std::uint64_t word = 7;
  const auto line = std::as_bytes(std::span(&word, 1));
  std::vector<std::function<Status(Pair&)>> wrong = {
      [&](Pair& p) {
        return p.endpoint->put({kKey, line.data(), 8, p.engine->arena().bytes() - 7, 0}).status();
      },
      [&](Pair& p) {
        return p.endpoint->put({kKey, line.data(), 8, ~std::uint64_t{0} - 3, 0}).status();
      },
      [&](Pair& p) {
        return p.endpoint->signal({kKey, line, p.engine->arena().bytes(), p.peer}).status();
      },
      [&](Pair& p) {
        return p.endpoint->signal({kKey, line, ~std::uint64_t{7}, p.peer}).status();
      },
      [&](Pair& p) {
        return p.endpoint->signal({kKey, line, p.peer + 68, p.peer}).status();
      },
      [&](Pair& p) {
        return p.endpoint->signal({kKey, line.first(4), p.peer + 64, p.peer}).status();
      },
      [&](Pair& p) {
        return p.endpoint->signal({kKey, {}, p.peer + 64, p.peer}).status();
      },
      [&](Pair& p) {
        return p.endpoint->signal({kKey, line, p.peer + 64, p.peer + 8}).status();
      },
      [&](Pair& p) {
        return p.endpoint->signal({kKey, line, p.peer + 64, p.engine->arena().bytes()}).status();
      },
  };
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    run([&, i](Pair& pair) {
      EXPECT_EQ(outcome(pair, [&] { return wrong[i](pair); }), Code::kInvalidArgument) << "case " << i;
      if (!GetParam().faulty) {
        EXPECT_TRUE(pair.endpoint->error().ok()) << "the endpoint can be used on";
      }
    });
    if (GetParam().processes) break;  // the rest is the same code
  }
}

TEST_P(Transport, TwoConnectsGiveOneConnection) {
  run([](Pair& pair) {
    const auto cards = pair.context.gather(pair.engine->address());
    const ProcessAddress& other = cards[static_cast<std::size_t>(1 - pair.context.rank)];
    const auto before = test::Footprint::now();
    const std::string_view known[] = {"local", "shm", "tcp"};
    const AllowList allowed = AllowList::parse(GetParam().transport, known).value();
    const auto again = pair.engine->connect(other, allowed, patient(), nullptr).value();
    EXPECT_EQ(again->transport(), pair.endpoint->transport());
    EXPECT_EQ(again->base(), pair.endpoint->base());
    if (GetParam().processes) {
      EXPECT_EQ(test::Footprint::now(), before);
    }
  });
}

// ---- What faulty adds ----

class Faulty : public Transport {};

TEST_P(Faulty, ASourceIsReadLateSoAMissingWaitIsCaught) {
  run([](Pair& pair) {
    if (pair.context.rank == 0) {
      std::uint64_t word = 1;
      pair.put(&word, 8, kLines);
      EXPECT_FALSE(pair.endpoint->idle());
      EXPECT_LT(pair.endpoint->completed(), pair.ticket);
      word = 2;  // too early
      pair.wait_completed();
      word = 3;  // in time
      pair.signal(0, 1);
      pair.drive_until_idle();
    } else {
      pair.wait(0, 1);
      EXPECT_EQ(pair.load(kLines), 2u);
    }
  });
}

TEST_P(Faulty, ADroppedSignalNeverArrivesAndTheNextOneDoes) {
  FaultPlan plan;
  plan.drop_signal = 2;
  run(
      [](Pair& pair) {
        if (pair.context.rank == 0) {
          for (std::uint64_t i = 1; i <= 3; ++i) pair.signal(i, i);
          pair.drive_until_idle();
        } else {
          pair.wait(3, 3);
          EXPECT_EQ(pair.load(pair.word_offset(1, 8)), 1u);
          EXPECT_EQ(pair.load(pair.word_offset(2, 8)), 0u);
        }
      },
      plan);
}

TEST_P(Faulty, ADroppedPutCompletesButNeverArrives) {
  FaultPlan plan;
  plan.drop_put = 1;
  run(
      [](Pair& pair) {
        if (pair.context.rank == 0) {
          const std::uint64_t word = 5;
          pair.put(&word, 8, kLines);
          pair.put(&word, 8, kLines + 8);
          pair.signal(0, 1);
          pair.wait_completed();
          pair.drive_until_idle();
        } else {
          pair.wait(0, 1);
          EXPECT_EQ(pair.load(kLines), 0u);
          EXPECT_EQ(pair.load(kLines + 8), 5u);
        }
      },
      plan);
}

TEST_P(Faulty, ACutConnectionIsALostPeer) {
  FaultPlan plan;
  plan.cut_at = 3;
  run(
      [](Pair& pair) {
        if (pair.context.rank != 0) return;
        const std::uint64_t word = 5;
        pair.put(&word, 8, kLines);
        pair.signal(0, 1);
        const auto put = [&] {
          return pair.endpoint->put({kKey, reinterpret_cast<const std::byte*>(&word), 8, pair.peer + kLines, 0})
              .status();
        };
        EXPECT_EQ(put().code(), Code::kPeerLost);
        EXPECT_EQ(put().code(), Code::kPeerLost);
        EXPECT_EQ(pair.endpoint->progress().code(), Code::kPeerLost);
        EXPECT_NE(pair.endpoint->error().text().find("operation 3"), std::string_view::npos);
        EXPECT_TRUE(pair.endpoint->idle()) << "nothing will ever move again";
      },
      plan);
}

TEST_P(Faulty, ATestCanCutWhatAnotherThreadDrives) {
  run([](Pair& pair) {
    if (pair.context.rank != 0) return;
    auto& faulty = dynamic_cast<FaultyEndpoint&>(*pair.endpoint);
    std::atomic<bool> started{false};
    std::thread cutter([&] {
      while (!started.load()) std::this_thread::yield();
      faulty.cut_now();
    });
    const std::uint64_t word = 5;
    Status status;
    for (std::uint64_t i = 1; status.ok(); ++i) {
      status = faulty.put({kKey, reinterpret_cast<const std::byte*>(&word), 8, pair.peer + kLines, 0}).status();
      if (status.ok()) status = faulty.progress();
      if (i == 100) started.store(true);
    }
    EXPECT_EQ(status.code(), Code::kPeerLost);
    cutter.join();
    EXPECT_GE(faulty.operations(), 100u);
  });
}

TEST_P(Faulty, DelaysAndPaceKeepTheOrder) {
  FaultPlan plan;
  plan.seed = 3;
  plan.most_delay = std::chrono::microseconds(500);
  plan.bytes_per_second = 1000 * 1000 * 1000;
  run(
      [](Pair& pair) {
        std::array<std::uint64_t, 64> words;
        for (std::uint64_t i = 1; i <= 50; ++i) {
          if (pair.context.rank == 0) {
            words.fill(i);
            pair.put(words.data(), sizeof words, kLines);
            pair.signal(0, i);
            pair.wait_completed();
            pair.wait(0, i);
          } else {
            pair.wait(0, i);
            for (std::uint64_t w = 0; w < words.size(); ++w) ASSERT_EQ(pair.load(kLines + 8 * w), i);
            pair.signal(0, i);
            pair.drive_until_idle();
          }
          if (testing::Test::HasFatalFailure()) return;
        }
      },
      plan);
}

TEST_P(Faulty, NothingMovesBeforeItIsDue) {
  FaultPlan plan;
  plan.least_delay = plan.most_delay = std::chrono::hours(1);
  run(
      [](Pair& pair) {
        if (pair.context.rank == 0) {
          pair.signal(0, 1);
          for (int i = 0; i < 100; ++i) ASSERT_TRUE(pair.endpoint->progress().ok());
          EXPECT_FALSE(pair.endpoint->idle());
        }
        ASSERT_TRUE(pair.context.barrier());
        EXPECT_EQ(pair.load(pair.word_offset(0, 8)), 0u);
      },
      plan);
}

constexpr Setting kSettings[] = {
    {"local", "local", true, false, false},       {"shm_threads", "shm", false, false, false},
    {"faulty_local", "local", true, true, false}, {"faulty_shm_threads", "shm", false, true, false},
    {"tcp_threads", "tcp", false, false, false},  {"faulty_tcp_threads", "tcp", false, true, false},
#if !HOCKET_TEST_TSAN  // it knows nothing of what other processes do
    {"shm_processes", "shm", false, false, true}, {"faulty_shm_processes", "shm", false, true, true},
    {"tcp_processes", "tcp", false, false, true}, {"faulty_tcp_processes", "tcp", false, true, true},
#endif
};

std::vector<Setting> faulty_settings() {
  std::vector<Setting> result;
  for (const Setting& setting : kSettings) {
    if (setting.faulty) result.push_back(setting);
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(All, Transport, testing::ValuesIn(kSettings),
                         [](const auto& p) { return std::string(p.param.name); });
INSTANTIATE_TEST_SUITE_P(All, Faulty, testing::ValuesIn(faulty_settings()),
                         [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace hocket
