// SPDX-License-Identifier: Apache-2.0
// communicator_stop_test.cpp: a rank is stopped (SIGSTOP); after Settings::warn_after all others say for whom they
// wait, and blame nobody else; when it goes on, so do they.
#include <gtest/gtest.h>

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

class Stop : public testing::TestWithParam<std::tuple<const char*, Moment>> {};

int run_rank(const RankContext& context, Board& board, int victim, Moment moment, const char* algorithm) {
  const int me = context.rank;
  set_log_callback([&board, me](LogLevel level, std::string_view line) {
    if (level == LogLevel::kWarn && !board.warnings[me].is_set()) board.warnings[me].set(line);
  });
  Settings settings;
  settings.warn_after = kWarnAfter;
  settings.algo = std::string("all_reduce:") + algorithm;
  auto engine = Engine::create(settings);
  if (!engine.ok()) return 10;
  auto comm = Communicator::create(me, context.size, test::exchange_of(context), settings, *engine);
  if (!comm.ok()) {
    std::printf("rank %d: %s\n", me, comm.status().to_string().c_str());
    return 11;
  }
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
  const auto [algorithm, moment] = GetParam();
  const int victim = 2;
  Shared<Board> board;
  Processes ranks(kRanks, [&, algorithm = algorithm, moment = moment](const RankContext& context) {
    return run_rank(context, *board, victim, moment, algorithm);
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
    EXPECT_NE(text.find("in all_reduce #"), std::string_view::npos);
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

INSTANTIATE_TEST_SUITE_P(Algorithms, Stop,
                         testing::Combine(testing::Values("ring", "tree", "one_shot", "two_shot", "one_shot_board",
                                                          "two_shot_board"),
                                          testing::Values(Moment::kBeforeTheCall, Moment::kInsideTheCall)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) == Moment::kBeforeTheCall ? "_before" : "_inside");
                         });

}  // namespace
}  // namespace hocket
