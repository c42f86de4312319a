// SPDX-License-Identifier: Apache-2.0
// abort_test.cpp: communicators that are ended on purpose, are given up while they are made, or cannot be made at all.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <future>

#include "core/engine.hpp"
#include "support/faults.hpp"
#include "support/ranks.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::Footprint;
using test::run_ranks;
using test::ThreadExchange;
using test::Wire;

class Abort : public testing::TestWithParam<Wire> {};

TEST_P(Abort, FromAnotherThreadEndsBlockedCallsOnAllRanks) {
  std::atomic<int> blocked{0};
  run_ranks(3, GetParam(), {}, [&](Communicator& comm) {
    std::thread other;
    if (comm.rank() == 2) {  // never makes the call
      EXPECT_TRUE(eventually([&] { return blocked == 2; }));
      EXPECT_TRUE(eventually([&] { return !comm.async_error().ok(); }));  // told without a call
    } else {
      if (comm.rank() == 0)
        other = std::thread([&] {
          EXPECT_TRUE(eventually([&] { return blocked == 2; }));
          std::this_thread::sleep_for(20ms);
          comm.abort("enough of this");
        });
      std::vector<float> buffer(100, 1);
      ++blocked;
      const Status status = comm.all_reduce(std::span(buffer));
      EXPECT_EQ(status.code(), Code::kAborted) << status.to_string();
      EXPECT_NE(status.text().find("rank 0 aborted: enough of this"), std::string_view::npos) << status.to_string();
      EXPECT_NE(status.text().find("all_reduce #0"), std::string_view::npos) << status.to_string();
    }
    if (other.joinable()) other.join();
    const Status again = comm.barrier();
    EXPECT_EQ(again.code(), Code::kAborted) << again.to_string();
    EXPECT_NE(again.text().find("enough of this"), std::string_view::npos) << again.to_string();
    std::vector<float> buffer(10);
    EXPECT_EQ(comm.all_reduce(std::span(buffer)).code(), Code::kAborted);
    EXPECT_EQ(comm.async_error().code(), Code::kAborted);
    EXPECT_EQ(comm.split(0, 0).status().code(), Code::kAborted);
    EXPECT_EQ(comm.mem_alloc(4096).status().code(), Code::kAborted);
  });
}

TEST_P(Abort, EndsWhatIsQueuedOnStreams) {
  run_ranks(2, GetParam(), {}, [](Communicator& comm) {
    Stream stream;
    std::vector<std::vector<float>> buffers(10, std::vector<float>(1000, 1));
    if (comm.rank() == 0) {
      for (auto& buffer : buffers)
        EXPECT_OK(
            comm.all_reduce(buffer.data(), buffer.data(), buffer.size(), DataType::kFloat32, ReduceOp::kSum, stream));
      EXPECT_FALSE(stream.idle());
      comm.abort();
      EXPECT_EQ(stream.synchronize().code(), Code::kAborted);
      EXPECT_OK(stream.synchronize());  // an error is told once
      EXPECT_TRUE(stream.idle());
    } else {
      EXPECT_TRUE(eventually([&] { return !comm.async_error().ok(); }));
      EXPECT_EQ(comm.async_error().code(), Code::kAborted);
    }
  });
}

TEST_P(Abort, OfOneCommunicatorLeavesAnotherThatWasMadeOfTheSameAlone) {
  run_ranks(3, GetParam(), {}, [](Communicator& comm) {
    auto one = comm.split(0, comm.rank());
    auto twin = comm.duplicate();
    ASSERT_TRUE(one.ok() && twin.ok());
    EXPECT_OK(comm.barrier());
    if (comm.rank() == 1) one->abort("only this one");
    std::uint64_t wrong = 0;
    for (std::uint64_t k = 0; k < 16; ++k) {
      EXPECT_OK(test::mixed_call(*twin, k, &wrong));
      EXPECT_OK(test::mixed_call(comm, k, &wrong));
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_TRUE(eventually([&] { return one->async_error().code() == Code::kAborted; }));
    EXPECT_OK(twin->async_error());
    EXPECT_OK(comm.async_error());
    EXPECT_OK(comm.barrier());
  });
}

// Ranks that are threads of one process read and write each other's buffers where they lie.
TEST_P(Abort, BuffersMayBeGoneAsSoonAsTheCallHasFailed) {
  constexpr std::size_t kBytes = std::size_t{6} << 20, kCount = kBytes / sizeof(float);
  for (unsigned round = 0; round < 12; ++round) {
    std::atomic<int> running{0}, left{0};
    run_ranks(3, GetParam(), {}, [&](Communicator& comm) {
      // Whoever touches them afterwards ends the test.
      void* const memory = ::mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      ASSERT_NE(memory, MAP_FAILED);
      auto* const input = static_cast<float*>(memory);
      float* const output = input + kCount;
      std::thread other;
      if (comm.rank() == 0)
        other = std::thread([&] {
          EXPECT_TRUE(eventually([&] { return running == 3; }));
          std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
          comm.abort();
        });
      Stream stream;
      Status status;
      for (unsigned k = 0; status.ok(); ++k) {
        if (k == 1) ++running;
        switch ((round + k) % 6) {
          case 0: status = comm.all_reduce(input, output, kCount, DataType::kFloat32, ReduceOp::kSum); break;
          case 1: status = comm.all_gather(input, output, kCount / 3, DataType::kFloat32); break;
          case 2: status = comm.reduce_scatter(input, output, kCount / 3, DataType::kFloat32, ReduceOp::kSum); break;
          case 3: status = comm.all_to_all(input, output, kCount / 3, DataType::kFloat32); break;
          case 4: status = comm.broadcast(input, output, kCount, DataType::kFloat32, 1); break;
          case 5:
            status = comm.all_reduce(input, output, kCount, DataType::kFloat32, ReduceOp::kMax, stream);
            if (status.ok()) status = stream.synchronize();
        }
      }
      ::mprotect(memory, 2 * kBytes, PROT_NONE);
      EXPECT_EQ(status.code(), Code::kAborted) << status.to_string();
      if (other.joinable()) other.join();
      // Until all have left: what is mapped here next would hide it.
      ++left;
      EXPECT_TRUE(eventually([&] { return left == 3; }));
      ::munmap(memory, 2 * kBytes);
    });
  }
}

TEST_P(Abort, OfACommunicatorThatIsGoneOnOneRankIsToldToTheRest) {
  std::atomic<bool> gone{false};
  run_ranks(2, GetParam(), {}, [&](Communicator& comm) {
    EXPECT_OK(comm.barrier());
    if (comm.rank() == 0) {
      { const Communicator ended = std::move(comm); }  // destroyed while the peer goes on to use it
      gone = true;
      return;
    }
    EXPECT_TRUE(eventually([&] { return gone.load(); }));
    std::thread([&] {
      std::this_thread::sleep_for(100ms);
      comm.abort("nobody is left");
    }).join();
    EXPECT_EQ(comm.barrier().code(), Code::kAborted);
  });
}

TEST_P(Abort, DestructionWhileAPeerIsInACallThatNeedsItIsToldToAll) {
  run_ranks(3, GetParam(), {}, [&](Communicator& comm) {
    std::vector<float> buffer(20000, 1);
    EXPECT_OK(comm.broadcast(std::span(buffer), 0));
    if (comm.rank() == 0) {
      const Communicator ended = std::move(comm);
      return;
    }
    if (comm.rank() == 1) {
      EXPECT_TRUE(eventually([&] { return comm.async_error().code() == Code::kPeerLost; }));
    } else {
      const Status status = comm.all_reduce(std::span(buffer));
      EXPECT_EQ(status.code(), Code::kPeerLost) << status.to_string();
    }
    EXPECT_NE(comm.async_error().text().find("has left the communicator"), std::string_view::npos)
        << comm.async_error().to_string();
  });
}

TEST_P(Abort, AfterFinalizeCallsAreRefusedAndPeersAreNotDisturbed) {
  run_ranks(2, GetParam(), {}, [](Communicator& comm) {
    std::uint64_t wrong = 0;
    for (std::uint64_t k = 0; k < 16; ++k) EXPECT_OK(test::mixed_call(comm, k, &wrong));
    Stream stream;
    std::vector<float> buffer(1000, 1);
    EXPECT_OK(comm.all_reduce(buffer.data(), buffer.data(), buffer.size(), DataType::kFloat32, ReduceOp::kSum, stream));
    EXPECT_OK(comm.finalize());
    EXPECT_TRUE(stream.synchronize().ok());
    EXPECT_EQ(buffer, std::vector<float>(1000, 2));
    EXPECT_EQ(comm.barrier().code(), Code::kInvalidArgument);
    EXPECT_EQ(comm.finalize().code(), Code::kInvalidArgument);
    EXPECT_EQ(wrong, 0u);
  });
}

INSTANTIATE_TEST_SUITE_P(Wires, Abort, testing::ValuesIn(test::kWires),
                         [](const auto& info) { return test::name_of(info.param); });

TEST(MovedFrom, CommunicatorsAndStreamsSaySo) {
  auto comm = Communicator::create(0, 1, {});
  ASSERT_TRUE(comm.ok()) << comm.status().to_string();
  Communicator taken = std::move(*comm);
  EXPECT_OK(taken.barrier());
  EXPECT_EQ(comm->barrier().code(), Code::kInvalidArgument);
  EXPECT_EQ(comm->async_error().code(), Code::kInvalidArgument);
  EXPECT_EQ(comm->shrink().status().code(), Code::kInvalidArgument);
  comm->abort();  // of nothing
  EXPECT_OK(taken.barrier());
}

// ---- While they are made ----

std::shared_ptr<Engine> new_engine(EngineOptions options = {}) {
  auto engine = EngineCore::create(std::move(options));
  EXPECT_TRUE(engine.ok()) << engine.status().to_string();
  return engine.ok() ? *engine : nullptr;
}

TEST(Pending, GetsTheSameCommunicatorAsCreate) {
  ThreadExchange exchange(2);
  auto engine = new_engine();
  auto first = Communicator::create_pending(0, 2, exchange.of(0), {}, engine);
  EXPECT_FALSE(first.ready());
  auto second = Communicator::create_pending(1, 2, exchange.of(1), {}, engine);
  auto a = first.wait(), b = second.wait();
  ASSERT_TRUE(a.ok() && b.ok()) << a.status().to_string() << b.status().to_string();
  EXPECT_TRUE(first.ready());
  EXPECT_EQ(first.wait().status().code(), Code::kInvalidArgument);
  std::thread peer([&] { EXPECT_OK(b->barrier()); });
  EXPECT_OK(a->barrier());
  peer.join();
}

TEST(Pending, AbortedWhileARankNeverComesIsOverAtOnce) {
  auto engine = new_engine();
  std::promise<void> never;
  const auto release = never.get_future().share();
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  {
    auto pending = Communicator::create_pending(
        0, 2,
        [release, ended](std::span<const std::byte>, std::span<std::byte>) -> Status {
          release.wait();
          *ended = true;
          return Status(Code::kSystem, "the others are gone");
        },
        {}, engine);
    std::thread other([&] {
      std::this_thread::sleep_for(20ms);
      pending.abort();
    });
    const auto result = pending.wait();  // while the exchange still blocks
    EXPECT_FALSE(*ended);
    EXPECT_EQ(result.status().code(), Code::kAborted) << result.status().to_string();
    other.join();
  }
  never.set_value();
  EXPECT_TRUE(eventually([&] { return ended->load(); }));
}

TEST(Pending, AbortedInTheMiddleLeavesNothing) {
  const auto keep = new_engine();  // so that what is made once and kept is there before
  const auto before = Footprint::now();
  {
    auto a = new_engine(), b = new_engine();
    // Held by both: an aborted creation leaves its exchange to end by itself.
    const auto exchange = std::make_shared<ThreadExchange>(2);
    const auto held = [exchange](Rank rank) {
      return [exchange, of_rank = exchange->of(rank)](std::span<const std::byte> mine, std::span<std::byte> all) {
        return of_rank(mine, all);
      };
    };
    auto first = Communicator::create_pending(0, 2, held(0), {}, a);
    // This rank gives its address and then comes no further until the other one has given up.
    std::promise<void> go_on;
    const auto goes_on = go_on.get_future().share();
    const auto inner = held(1);
    Settings impatient;
    impatient.start_timeout = 500ms;
    auto second = Communicator::create_pending(
        1, 2,
        [inner, goes_on](std::span<const std::byte> mine, std::span<std::byte> all) -> Status {
          const Status status = inner(mine, all);
          goes_on.wait();
          return status;
        },
        impatient, b);
    std::this_thread::sleep_for(50ms);
    first.abort();
    EXPECT_EQ(first.wait().status().code(), Code::kAborted);
    go_on.set_value();
    // The first one's thread was in connect and told that it was aborted, or was past that: then its rank has left at
    // once.
    auto other = second.wait();
    const Status status = other.ok() ? other->barrier() : other.status();
    EXPECT_TRUE(status.code() == Code::kPeerLost || status.code() == Code::kAborted) << status.to_string();
  }
  EXPECT_TRUE(eventually([&] { return Footprint::now() == before; }))
      << "before: " << before << "\nafter: " << Footprint::now();
}

// ---- That cannot be made ----

/// Each rank's own settings and engine; the status of each.
std::vector<Status> create_each(const std::vector<Settings>& settings,
                                const std::vector<std::shared_ptr<Engine>>& engines) {
  const int n = static_cast<int>(settings.size());
  ThreadExchange exchange(n);
  std::vector<Status> statuses(settings.size());
  std::vector<std::thread> threads;
  for (Rank r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      const auto i = static_cast<std::size_t>(r);
      auto comm = Communicator::create(r, n, exchange.of(r), settings[i], engines[i % engines.size()]);
      statuses[i] = comm.status();
    });
  for (auto& thread : threads) thread.join();
  return statuses;
}

TEST(Create, WithDifferentSettingsNamesTheSettingBothValuesAndTheRanks) {
  std::vector<Settings> settings(3);
  settings[2].slot_bytes = 128 << 10;
  for (const Status& status : create_each(settings, {new_engine()})) {
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
    for (const char* part : {"slot_bytes", "131072", "rank 0", "rank 2"})
      EXPECT_NE(status.to_string().find(part), std::string::npos) << part << " in: " << status.to_string();
  }
  settings = std::vector<Settings>(3);
  settings[1].algo = "ring";
  settings[0].algo = "tree,ring";
  for (const Status& status : create_each(settings, {new_engine()})) {
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
    for (const char* part : {"tree,ring", "rank 0", "rank 1"})
      EXPECT_NE(status.to_string().find(part), std::string::npos) << part << " in: " << status.to_string();
  }
}

TEST(Create, WithABadSettingOnOneRankFailsOnAllWithIt) {
  std::vector<Settings> settings(3);
  settings[1].algo = "rnig";
  for (const Status& status : create_each(settings, {new_engine()})) {
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.text().find("rnig"), std::string_view::npos) << status.to_string();
  }
}

TEST(Create, WhereNoTransportIsAllowedSaysSoOnAllRanks) {
  std::vector<Settings> settings(3);
  for (Settings& each : settings) each.transport = "local";
  const auto engines = {new_engine(), new_engine(), new_engine()};
  for (const Status& status : create_each(settings, engines)) {
    EXPECT_EQ(status.code(), Code::kUnsupported) << status.to_string();
    for (const char* part : {"cannot reach rank ", "'local' leaves it out"})
      EXPECT_NE(status.text().find(part), std::string_view::npos) << part << " in: " << status.to_string();
  }
  settings[0].transport = settings[2].transport = "";  // only one rank rules out what the others want
  for (const Status& status : create_each(settings, engines)) {
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
    for (const char* part : {"HOCKET_TRANSPORT", "'local'", "rank 0", "rank 1"})
      EXPECT_NE(status.text().find(part), std::string_view::npos) << part << " in: " << status.to_string();
  }
}

TEST(Create, WhereSharedMemoryIsNotProvenHasTheReasonOnAllRanks) {
  EngineOptions refusing;
  refusing.refuse_shm = true;
  Settings settings;
  settings.transport = "^tcp";  // which would do
  for (const Status& status :
       create_each(std::vector<Settings>(3, settings), {new_engine(), new_engine(refusing), new_engine()})) {
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.text().find("does not see the memory"), std::string_view::npos) << status.to_string();
  }
}

TEST(Create, BadArgumentsAreRefusedByThemselves) {
  EXPECT_EQ(Communicator::create(0, 0, {}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Communicator::create(2, 2, {}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Communicator::create(0, 2, {}).status().code(), Code::kInvalidArgument);
  const auto throws = [](std::span<const std::byte>, std::span<std::byte>) -> Status {
    throw std::runtime_error("no network");
  };
  const auto thrown = Communicator::create(0, 2, throws);
  EXPECT_FALSE(thrown.ok());
  EXPECT_NE(thrown.status().text().find("no network"), std::string_view::npos) << thrown.status().to_string();
}

}  // namespace
}  // namespace hocket
