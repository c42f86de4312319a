// SPDX-License-Identifier: Apache-2.0
// communicator_shrink_test.cpp: survivors of a killed or stopped rank go on without it, and what was excluded cannot
// touch what they use, however late it wakes.
#include <gtest/gtest.h>

#include <barrier>

#include "support/faults.hpp"
#include "support/ranks.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::Processes;
using test::RankContext;
using test::run_ranks;
using test::Shared;
using test::SharedText;
using test::Wire;

constexpr int kRanks = 4;
constexpr int kVictim = 1;

struct Board {
  std::atomic<bool> victim_ready;
  std::atomic<bool> others_go;
  std::atomic<bool> victim_goes;
  std::atomic<bool> in_shrink;
  std::atomic<int> halfway;
  SharedText errors[kRanks];
  SharedText later[kRanks];
};

struct Rank4 {
  std::shared_ptr<Engine> engine;
  std::optional<Communicator> comm;
};

/// A communicator of its own engine, warmed up with some calls.
int start_rank(const RankContext& context, const Settings& settings, Rank4* rank) {
  auto engine = Engine::create(settings);
  if (!engine.ok()) return 10;
  rank->engine = *engine;
  auto comm = Communicator::create(context.rank, context.size, test::exchange_of(context), settings, *engine);
  if (!comm.ok()) return 11;
  rank->comm.emplace(std::move(*comm));
  std::uint64_t wrong = 0;
  for (std::uint64_t k = 0; k < 16; ++k)
    if (!test::mixed_call(*rank->comm, k, &wrong).ok()) return 12;
  if (!context.barrier()) return 13;  // out of band: nobody ends it while others are still in a call
  return wrong == 0 ? 0 : 13;
}

int failed(const RankContext& context, int code, const Status& status) {
  std::printf("rank %d, exit code %d: %s\n", context.rank, code, status.to_string().c_str());
  return code;
}

/// Checked collectives on what is left.
int checked_calls(const RankContext& context, Communicator& comm, std::uint64_t calls,
                  const std::function<void(std::uint64_t)>& each = {}) {
  std::uint64_t wrong = 0;
  for (std::uint64_t k = 0; k < calls; ++k) {
    if (each) each(k);
    if (const Status status = test::mixed_call(comm, k, &wrong, 5003); !status.ok()) return failed(context, 20, status);
    if (wrong != 0)
      return failed(context, 21, Status(Code::kInternal, "call " + std::to_string(k) + " gave wrong elements"));
  }
  return 0;
}

TEST(Shrink, AStoppedRankThatWakesLaterTouchesNothingAndEnds) {
  Shared<Board> board;
  Settings settings;
  settings.timeout = 1s;
  Processes ranks(kRanks, [&](const RankContext& context) {
    Rank4 self;
    if (const int code = start_rank(context, settings, &self); code != 0) return code;
    std::vector<std::int32_t> big(500000, context.rank + 1);
    if (context.rank == kVictim) {
      // It is stopped inside of this call, so that it wakes up with its stores still before it.
      board->victim_ready = true;
      const Status status = self.comm->all_reduce(std::span(big));
      board->errors[context.rank].set(status.to_string(), status.code());
      const Status later = self.comm->barrier();
      board->later[context.rank].set(later.to_string(), later.code());
      return status.ok() || later.ok() ? 30 : 0;
    }
    if (!eventually([&] { return board->others_go.load(); })) return 14;
    const Status status = self.comm->all_reduce(std::span(big));
    board->errors[context.rank].set(status.to_string(), status.code());
    auto rest = self.comm->shrink();
    if (!rest.ok()) return failed(context, 15, rest.status());
    if (rest->size() != kRanks - 1) return 16;
    return checked_calls(context, *rest, 1000, [&](std::uint64_t k) {
      if (k == 400) ++board->halfway;
      // Some calls are to come after it woke, for certain.
      if (k == 600) (void)eventually([&] { return board->later[kVictim].is_set(); });
    });
  });
  std::thread server([&] { ranks.serve(); });
  EXPECT_TRUE(eventually([&] { return board->victim_ready.load(); }));
  std::this_thread::sleep_for(30ms);
  ranks.stop(kVictim);
  board->others_go = true;
  EXPECT_TRUE(eventually([&] { return board->halfway.load() > 0; }));
  ranks.resume(kVictim);
  server.join();
  for (int r = 0; r < kRanks; ++r) {
    SCOPED_TRACE(testing::Message() << "rank " << r << ": " << board->errors[r].text);
    EXPECT_EQ(ranks.join(r), 0);
    EXPECT_EQ(static_cast<Code>(board->errors[r].code), Code::kTimeout);
    // The victim may have been told while it waited for another.
    EXPECT_TRUE(r == kVictim ? test::names(board->errors[r].text, kVictim, ranks.pid(kVictim))
                             : test::names_only(board->errors[r].text, kVictim, ranks.pid(kVictim)));
  }
  EXPECT_EQ(static_cast<Code>(board->later[kVictim].code), Code::kTimeout) << board->later[kVictim].text;
}

TEST(Shrink, TheRestOfAKilledRankGoesOnTwice) {
  Shared<Board> board;
  Processes ranks(kRanks, [&](const RankContext& context) {
    Rank4 self;
    if (const int code = start_rank(context, {}, &self); code != 0) return code;
    if (context.rank == kVictim) ::raise(SIGKILL);
    Status status;
    std::uint64_t wrong = 0;
    for (std::uint64_t k = 0; status.ok(); ++k) status = test::mixed_call(*self.comm, k, &wrong);
    if (status.code() != Code::kPeerLost) return failed(context, 14, status);
    auto rest = self.comm->shrink();
    if (!rest.ok()) return failed(context, 15, rest.status());
    if (rest->size() != 3 || rest->rank() != context.rank - (context.rank > kVictim)) return 16;
    // The old one stays ended, and cannot be shrunk again.
    if (self.comm->barrier().ok()) return 17;
    if (self.comm->shrink().status().code() != Code::kInvalidArgument) return 18;
    if (const int code = checked_calls(context, *rest, 50); code != 0) return code;
    ++board->halfway;
    if (!eventually([&] { return board->halfway == 3; })) return 23;
    self.comm.reset();
    // Now without a failure, and without its last rank, which lives and is not asked.
    if (rest->rank() == 2) return 0;
    const Rank last[] = {2};
    auto two = rest->shrink(last);
    if (!two.ok()) return failed(context, 19, two.status());
    if (two->size() != 2) return 22;
    return checked_calls(context, *two, 50);
  });
  const auto codes = ranks.run();
  for (int r = 0; r < kRanks; ++r)
    EXPECT_EQ(codes[static_cast<std::size_t>(r)], r == kVictim ? -SIGKILL : 0) << "rank " << r;
}

class ShrinkOverBothWires : public testing::TestWithParam<Wire> {};

TEST_P(ShrinkOverBothWires, ALiveRankThatIsExcludedIsToldAndTheOthersGoOn) {
  std::barrier together(kRanks);
  run_ranks(kRanks, GetParam(), {}, [&](Communicator& comm) {
    std::uint64_t wrong = 0;
    for (std::uint64_t k = 0; k < 8; ++k) EXPECT_OK(test::mixed_call(comm, k, &wrong));
    together.arrive_and_wait();
    const Rank out[] = {kVictim};
    if (comm.rank() == kVictim) {
      // Waits for a call that nobody will make.
      const Status status = comm.barrier();
      EXPECT_EQ(status.code(), Code::kAborted) << status.to_string();
      EXPECT_NE(status.text().find("shrinks the communicator"), std::string_view::npos) << status.to_string();
      return;
    }
    auto rest = comm.shrink(out);
    ASSERT_TRUE(rest.ok()) << rest.status().to_string();
    EXPECT_EQ(rest->size(), kRanks - 1);
    EXPECT_EQ(rest->rank(), comm.rank() - (comm.rank() > kVictim));
    for (std::uint64_t k = 0; k < 64; ++k) EXPECT_OK(test::mixed_call(*rest, k, &wrong));
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(comm.barrier().code(), Code::kAborted);
    EXPECT_EQ(comm.shrink(out).status().code(), Code::kInvalidArgument);
  });
}

TEST_P(ShrinkOverBothWires, ARankThatDoesNotComeInTimeIsExcluded) {
  std::atomic<int> done{0};
  run_ranks(kRanks, GetParam(), {}, [&](Communicator& comm) {
    if (comm.rank() == kVictim) {  // alive, but busy elsewhere
      EXPECT_TRUE(eventually([&] { return done == kRanks - 1; }));
      auto late = comm.shrink({}, 200ms);
      EXPECT_FALSE(late.ok()) << "the others went on without it";
      return;
    }
    auto rest = comm.shrink({}, 300ms);
    ++done;
    ASSERT_TRUE(rest.ok()) << rest.status().to_string();
    EXPECT_EQ(rest->size(), kRanks - 1);
    std::uint64_t wrong = 0;
    for (std::uint64_t k = 0; k < 16; ++k) EXPECT_OK(test::mixed_call(*rest, k, &wrong));
    EXPECT_EQ(wrong, 0u);
  });
}

TEST_P(ShrinkOverBothWires, BadArgumentsLoseNothing) {
  run_ranks(2, GetParam(), {}, [](Communicator& comm) {
    const Rank self[] = {comm.rank()}, none[] = {7};
    EXPECT_EQ(comm.shrink(self).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(comm.shrink(none).status().code(), Code::kInvalidArgument);
    EXPECT_OK(comm.barrier());
  });
}

INSTANTIATE_TEST_SUITE_P(Wires, ShrinkOverBothWires, testing::Values(Wire::kLocal, Wire::kShm),
                         [](const auto& info) { return std::string(info.param == Wire::kLocal ? "local" : "shm"); });

/// Ranks with mem_alloc memory, one of them stopped: what shrink says with and without the leave to end it.
void run_fencing(bool fence) {
  Shared<Board> board;
  Settings settings;
  settings.timeout = 500ms;
  settings.fence_excluded = fence;
  Processes ranks(kRanks, [&](const RankContext& context) {
    Rank4 self;
    if (const int code = start_rank(context, settings, &self); code != 0) return code;
    auto memory = self.comm->mem_alloc(1 << 16);
    if (!memory.ok()) return failed(context, 13, memory.status());
    if (context.rank == kVictim) {
      board->victim_ready = true;
      (void)eventually([&] { return board->victim_goes.load(); });
      return self.comm->barrier().ok() ? 30 : 0;
    }
    if (!eventually([&] { return board->others_go.load(); })) return 14;
    if (self.comm->barrier().code() != Code::kTimeout) return 15;
    auto rest = self.comm->shrink({}, 500ms);
    board->errors[context.rank].set(rest.ok() ? "" : rest.status().text(),
                                    rest.ok() ? Code::kOk : rest.status().code());
    if (!fence) return rest.ok() ? 16 : 0;
    if (!rest.ok()) return failed(context, 17, rest.status());
    return checked_calls(context, *rest, 50);
  });
  std::thread server([&] { ranks.serve(); });
  EXPECT_TRUE(eventually([&] { return board->victim_ready.load(); }));
  ranks.stop(kVictim);
  board->others_go = true;
  for (int r = 0; r < kRanks; ++r) {
    if (r == kVictim) continue;
    EXPECT_EQ(ranks.join(r), 0) << "rank " << r << ": " << board->errors[r].text;
    if (fence) continue;
    EXPECT_EQ(static_cast<Code>(board->errors[r].code), Code::kUnsupported) << board->errors[r].text;
    EXPECT_TRUE(test::names(board->errors[r].text, kVictim, ranks.pid(kVictim))) << board->errors[r].text;
    EXPECT_NE(std::string_view(board->errors[r].text).find("HOCKET_FENCE"), std::string_view::npos)
        << board->errors[r].text;
  }
  board->victim_goes = true;
  ranks.resume(kVictim);
  server.join();
  EXPECT_EQ(ranks.join(kVictim), fence ? -SIGKILL : 0);
}

TEST(Shrink, WithMemAllocMemoryAStoppedRankIsARefusalWithTheReason) {
  run_fencing(false);
}
TEST(Shrink, WithMemAllocMemoryAStoppedRankIsEndedWhereAllowed) {
  run_fencing(true);
}

TEST(Shrink, ARankThatDiesMeanwhileIsExcludedOrNamed) {
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    Shared<Board> board;
    Processes ranks(kRanks, [&](const RankContext& context) {
      Rank4 self;
      if (const int code = start_rank(context, {}, &self); code != 0) return code;
      const Rank out[] = {3};
      if (context.rank == 3) return self.comm->barrier().ok() ? 30 : 0;
      if (context.rank == kVictim && round == 0) {  // never comes
        if (!eventually([&] { return board->in_shrink.load(); })) return 31;
        ::raise(SIGKILL);
      }
      if (context.rank == kVictim) {  // dies a moment after it came
        std::thread([round] {
          std::this_thread::sleep_for(std::chrono::microseconds(round == 1 ? 200 : 3000));
          ::raise(SIGKILL);
        }).detach();
      }
      board->in_shrink = true;
      auto rest = self.comm->shrink(out);
      if (context.rank == kVictim) std::this_thread::sleep_for(60s);
      // Either without it, or an error that names it and a second time without it: never a hang. What was made with it
      // ends when it is used.
      if (!rest.ok()) {
        board->errors[context.rank].set(rest.status().text(), rest.status().code());
        if (rest.status().code() != Code::kPeerLost) return failed(context, 14, rest.status());
        rest = self.comm->shrink(out);
        if (!rest.ok()) return failed(context, 15, rest.status());
      }
      std::uint64_t wrong = 0;
      Status status;
      for (std::uint64_t k = 0; k < 200 && status.ok(); ++k) status = test::mixed_call(*rest, k, &wrong);
      if (wrong != 0) return 16;
      if (rest->size() == 2) return status.ok() ? 0 : failed(context, 17, status);
      if (rest->size() == 1) return failed(context, 19, status);  // nobody else was to be lost
      // It may live on for a moment.
      while (status.ok()) status = rest->barrier();
      return status.code() == Code::kPeerLost ? 0 : failed(context, 18, status);
    });
    const auto codes = ranks.run();
    for (int r = 0; r < kRanks; ++r)
      EXPECT_EQ(codes[static_cast<std::size_t>(r)], r == kVictim ? -SIGKILL : 0)
          << "rank " << r << ": " << board->errors[r].text;
  }
}

}  // namespace
}  // namespace hocket
