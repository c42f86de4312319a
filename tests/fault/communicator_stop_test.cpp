// SPDX-License-Identifier: Apache-2.0
// communicator_stop_test.cpp: a rank is stopped (SIGSTOP). After Settings::warn_after all others say for whom they
// wait, and blame nobody else; when it goes on, so do they. After Settings::timeout they give it up by name and go on
// without it.
//
// HOCKET_FAULT_REPEATS: how many ranks are stopped at random moments on each transport (200 in the full run).
// HOCKET_FAULT_SEED: of the moments and the victims.
#include <gtest/gtest.h>

#include <random>

#include "support/faults.hpp"
#include "support/ranks.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::Processes;
using test::RankContext;
using test::Shared;
using test::SharedText;

constexpr int kRanks = 4;
constexpr auto kWarnAfter = 1s;

/// Where the victim is when it is stopped.
enum class Moment { kBeforeTheCall, kInsideTheCall };

struct Board {
  std::atomic<bool> victim_waits;  ///< the victim is where it is to be stopped, or is about to sleep there
  std::atomic<bool> others_go;
  std::atomic<bool> victim_goes;
  std::atomic<std::int64_t> entered_ns[kRanks];
  SharedText warnings[kRanks];  ///< the first of each rank
  std::atomic<std::uint64_t> wrong[kRanks];
};

class Stop : public testing::TestWithParam<std::tuple<const char*, const char*, Moment>> {};

int run_rank(const RankContext& context, Board& board, int victim, Moment moment, const char* transport,
             const char* algorithm) {
  const int me = context.rank;
  set_log_callback([&board, me](LogLevel level, std::string_view line) {
    if (level == LogLevel::kWarn && !board.warnings[me].is_set()) board.warnings[me].set(line);
  });
  Settings settings = test::settings_for(transport);
  settings.warn_after = kWarnAfter;
  settings.algo = std::string("all_reduce:") + algorithm;
  auto engine = Engine::create(settings);
  if (!engine.ok()) return 10;
  auto comm = Communicator::create(me, context.size, test::exchange_of(context), settings, *engine);
  if (!comm.ok()) {
    std::printf("rank %d: %s\n", me, comm.status().to_string().c_str());
    return 11;
  }
  if (!test::all_peers_by(*comm, transport)) return 17;
  std::uint64_t wrong = 0;
  for (std::uint64_t k = 0; k < 8; ++k)
    if (!test::mixed_call(*comm, k, &wrong).ok()) return 12;
  if (me == victim) {
    board.victim_waits = true;
    if (moment == Moment::kBeforeTheCall && !eventually([&] { return board.victim_goes.load(); })) return 13;
  } else if (!eventually([&] { return board.others_go.load(); })) {
    return 14;
  }
  board.entered_ns[me] = os::now_ns();
  for (std::uint64_t k = 8; k < 16; ++k)
    if (const Status status = test::mixed_call(*comm, k, &wrong); !status.ok()) {
      std::printf("rank %d: %s\n", me, status.to_string().c_str());
      return 15;
    }
  board.wrong[me] = wrong;
  set_log_callback({});
  return wrong == 0 ? 0 : 16;
}

TEST_P(Stop, AllOthersNameTheStoppedRankAndNobodyElse) {
  const auto [transport, algorithm, moment] = GetParam();
  const int victim = 2;
  Shared<Board> board;
  Processes ranks(kRanks,
                  [&, transport = transport, algorithm = algorithm, moment = moment](const RankContext& context) {
                    return run_rank(context, *board, victim, moment, transport, algorithm);
                  });
  std::thread server([&] { ranks.serve(); });
  ASSERT_TRUE(eventually([&] { return board->victim_waits.load(); }));
  // Inside: it enters the call at once and then finds nobody there, so a moment later it sleeps in it. (Should it not
  // be there yet, it is stopped before the call, and all that follows must hold just the same.)
  if (moment == Moment::kInsideTheCall) std::this_thread::sleep_for(50ms);
  ranks.stop(victim);
  board->others_go = true;
  const auto warned = [&] {
    int count = 0;
    for (int r = 0; r < kRanks; ++r) count += r != victim && board->warnings[r].is_set();
    return count == kRanks - 1;
  };
  EXPECT_TRUE(eventually(warned));
  double worst = 0;
  for (int r = 0; r < kRanks; ++r) {
    if (r == victim) continue;
    const std::string_view text = board->warnings[r].text;
    SCOPED_TRACE(testing::Message() << "rank " << r << ": " << text);
    EXPECT_TRUE(test::names_only(text, victim, ranks.pid(victim)));
    EXPECT_NE(text.find("its process is stopped"), std::string_view::npos);
    // What it had said before it was stopped, the kernel may still carry over: then the next call is the one that
    // waits.
    const bool said_more = std::string_view(transport) == "tcp" && moment == Moment::kInsideTheCall;
    EXPECT_NE(text.find(said_more ? " #" : "in all_reduce #"), std::string_view::npos);
    EXPECT_NE(text.find("on channel "), std::string_view::npos);
    worst = std::max(worst, static_cast<double>(board->warnings[r].at_ns - board->entered_ns[r]) / 1e9);
  }
  std::printf("the last warning came %.2f s after the call; warn_after is 1 s\n", worst);
  EXPECT_LT(worst, 1.0 + 1.0 * test::patience());
  board->victim_goes = true;
  ranks.resume(victim);
  server.join();
  for (int r = 0; r < kRanks; ++r) EXPECT_EQ(ranks.join(r), 0) << "rank " << r;
}

std::string name_of(const testing::TestParamInfo<Stop::ParamType>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param) +
         (std::get<2>(info.param) == Moment::kBeforeTheCall ? "_before" : "_inside");
}

INSTANTIATE_TEST_SUITE_P(Shm, Stop,
                         testing::Combine(testing::Values("shm"),
                                          testing::Values("ring", "tree", "one_shot", "two_shot", "one_shot_board",
                                                          "two_shot_board"),
                                          testing::Values(Moment::kBeforeTheCall, Moment::kInsideTheCall)),
                         name_of);
// Boards need loads.
INSTANTIATE_TEST_SUITE_P(Tcp, Stop,
                         testing::Combine(testing::Values("tcp"),
                                          testing::Values("ring", "tree", "one_shot", "two_shot"),
                                          testing::Values(Moment::kBeforeTheCall, Moment::kInsideTheCall)),
                         name_of);

// ---- Given up ----

constexpr auto kTimeOut = 400ms;

struct EndBoard {
  SharedText errors[kRanks];
  SharedText notes[kRanks];
  std::atomic<bool> others_done;
  std::atomic<int> done;
};

/// A rank: mixed collectives until one fails; the survivors then go on without the victim.
int run_until_a_time_out(const RankContext& context, EndBoard& board, int victim, const char* transport) {
  Settings settings = test::settings_for(transport);
  settings.timeout = kTimeOut;
  auto engine = Engine::create(settings);
  if (!engine.ok()) return 10;
  auto comm = Communicator::create(context.rank, context.size, test::exchange_of(context), settings, *engine);
  if (!comm.ok()) return 11;
  if (!test::all_peers_by(*comm, transport)) return 12;
  if (!context.barrier()) return 13;
  std::uint64_t wrong = 0;
  Status status;
  for (std::uint64_t k = 0; status.ok(); ++k) status = test::mixed_call(*comm, k, &wrong);
  board.errors[context.rank].set(status.text(), status.code());
  if (wrong != 0) return 14;
  if (comm->barrier().code() != status.code()) return 15;
  if (context.rank == victim) {
    // It woke up: the others went on without it. Where they have ended by now it is all that is left.
    auto late = comm->shrink({}, 200ms);
    return late.ok() && late->size() > 1 ? 16 : 0;
  }
  auto rest = comm->shrink();
  if (!rest.ok()) {
    board.notes[context.rank].set(rest.status().to_string());
    return 17;
  }
  if (rest->size() != kRanks - 1) return 18;
  for (std::uint64_t k = 0; k < 24; ++k) {
    if (status = test::mixed_call(*rest, k, &wrong, 5003); !status.ok()) {
      board.notes[context.rank].set(status.to_string());
      return 19;
    }
  }
  // Some of them while the victim runs again.
  ++board.done;
  if (!eventually([&] { return board.others_done.load(); })) return 20;
  for (std::uint64_t k = 0; k < 24; ++k)
    if (!test::mixed_call(*rest, k, &wrong, 5003).ok()) return 21;
  if (!rest->barrier().ok()) return 22;
  return wrong == 0 ? 0 : 23;
}

class GivenUp : public testing::TestWithParam<const char*> {};

TEST_P(GivenUp, AStoppedRankIsNamedByAllAfterTheTimeOutAndTheyGoOnWithoutIt) {
  const char* const transport = GetParam();
  const int times = test::repeats("HOCKET_FAULT_REPEATS", 4);
  const int seed = test::repeats("HOCKET_FAULT_SEED", 20262);
  std::printf("%s: %d stops, seed %d\n", transport, times, seed);
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  double worst = 0;
  for (int i = 0; i < times; ++i) {
    const int victim = static_cast<int>(random() % kRanks);
    const auto moment = std::chrono::microseconds(random() % 40000);
    SCOPED_TRACE(testing::Message() << "stop " << i << " of rank " << victim << " after " << moment.count() << " us");
    Shared<EndBoard> board;
    Processes ranks(
        kRanks, [&](const RankContext& context) { return run_until_a_time_out(context, *board, victim, transport); });
    std::int64_t stopped_ns = 0;
    std::thread stopper;
    const auto codes = ranks.run([&](int exchange) {
      if (exchange != 4) return;
      stopper = std::thread([&] {
        std::this_thread::sleep_for(moment);
        stopped_ns = os::now_ns();
        ranks.stop(victim);
        EXPECT_TRUE(eventually([&] { return board->done == kRanks - 1; }));
        ranks.resume(victim);
        std::this_thread::sleep_for(5ms);
        board->others_done = true;
      });
    });
    if (stopper.joinable()) stopper.join();
    for (int r = 0; r < kRanks; ++r) {
      const SharedText& error = board->errors[r];
      SCOPED_TRACE(testing::Message() << "rank " << r << ": " << error.text);
      EXPECT_EQ(codes[static_cast<std::size_t>(r)], 0) << board->notes[r].text;
      ASSERT_TRUE(error.is_set());
      if (r == victim) continue;
      EXPECT_EQ(static_cast<Code>(error.code), Code::kTimeout);
      EXPECT_TRUE(test::names(error.text, victim, ranks.pid(victim)));
      EXPECT_NE(std::string_view(error.text).find("its process is stopped"), std::string_view::npos);
      worst = std::max(worst, static_cast<double>(error.at_ns.load() - stopped_ns) / 1e9);
    }
    if (HasFatalFailure()) return;
  }
  std::printf("worst time from the stop to an error: %.2f s; the time-out is %.1f s\n", worst,
              std::chrono::duration<double>(kTimeOut).count());
  EXPECT_LT(worst, std::chrono::duration<double>(kTimeOut).count() + 1.0 * test::patience());
}

INSTANTIATE_TEST_SUITE_P(Transports, GivenUp, testing::ValuesIn(test::kProcessTransports),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace hocket
