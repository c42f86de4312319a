// SPDX-License-Identifier: Apache-2.0
// communicator_kill_test.cpp: a rank is killed at a random moment; every other one learns of it, by name and soon, goes
// on with the rest, and nothing is left behind.
//
// HOCKET_FAULT_REPEATS: how often on each transport (200 in the full run). HOCKET_FAULT_SEED: of the moments and the
// victims.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "support/faults.hpp"
#include "support/ranks.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;
using test::Footprint;
using test::Processes;
using test::RankContext;
using test::Shared;
using test::SharedText;

constexpr int kRanks = 4;

struct Board {
  SharedText errors[kRanks];
  SharedText leaks[kRanks];
  std::atomic<std::uint64_t> calls[kRanks];
  std::atomic<std::int64_t> shrunk_ns[kRanks];  ///< how long shrink took
};

/// Entries of the places where a library of this kind might leave files.
std::size_t files_left() {
  std::size_t found = 0;
  for (const char* folder :
       {"/dev/shm", std::getenv("XDG_RUNTIME_DIR") ? std::getenv("XDG_RUNTIME_DIR") : "/run", "/tmp"}) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename();
      found +=
          name.find("hocket") != std::string::npos && name.find('.') != std::string::npos && entry.is_socket(error);
      found += std::string_view(folder) == "/dev/shm";
    }
  }
  return found;
}

/// A rank: mixed collectives until one fails, then some with those that are left. What it held of the kernel before it
/// holds after.
int run_until_an_error(const RankContext& context, Board& board, bool streamed, const char* transport) {
  const Settings settings = test::settings_for(transport);
  SharedText& leak = board.leaks[context.rank];
  {
    auto warm = Engine::create(settings);  // what is made once and kept is there before
    if (!warm.ok()) return 10;
    auto alone = Communicator::create(0, 1, {}, settings, *warm);
    if (!alone.ok() || !alone->barrier().ok()) return 11;
  }
  const auto before = Footprint::now();
  {
    auto engine = Engine::create(settings);
    if (!engine.ok()) return 12;
    auto comm = Communicator::create(context.rank, context.size, test::exchange_of(context), settings, *engine);
    if (!comm.ok()) return 13;
    if (!test::all_peers_by(*comm, transport)) return 19;
    if (!context.barrier()) return 14;
    std::uint64_t wrong = 0;
    Stream stream;
    for (std::uint64_t k = 0;; ++k) {
      const Status status = test::mixed_call(*comm, k, &wrong, 20000, streamed ? &stream : nullptr);
      if (status.ok()) {
        board.calls[context.rank].store(k + 1, std::memory_order_relaxed);
        continue;
      }
      board.errors[context.rank].set(status.text(), status.code());
      // It stays that way, also outside of calls.
      if (comm->async_error().code() != Code::kPeerLost) return 15;
      if (comm->barrier().code() != Code::kPeerLost) return 16;
      break;
    }
    const std::int64_t before_shrink = os::now_ns();
    auto rest = comm->shrink();
    board.shrunk_ns[context.rank] = os::now_ns() - before_shrink;
    if (!rest.ok()) {
      leak.set(rest.status().to_string());
      return 20;
    }
    if (rest->size() != kRanks - 1) return 21;
    for (std::uint64_t k = 0; k < 24; ++k)
      if (const Status status = test::mixed_call(*rest, k, &wrong, 5003); !status.ok()) {
        leak.set(status.to_string());
        return 22;
      }
    if (wrong != 0) return 17;
    if (const Status status = rest->barrier(); !status.ok()) {
      leak.set(status.to_string());
      return 23;
    }
  }
  if (!test::eventually([&] { return Footprint::now() == before; })) {
    leak.set("before: " + before.to_string() + "; after: " + Footprint::now().to_string());
    return 18;
  }
  return 0;
}

class Kill : public testing::TestWithParam<const char*> {};

TEST_P(Kill, EverySurvivorLearnsByNameAndSoonGoesOnWithTheRestAndNothingIsLeft) {
  const char* const transport = GetParam();
  const int times = test::repeats("HOCKET_FAULT_REPEATS", 12);
  const int seed = test::repeats("HOCKET_FAULT_SEED", 20261);
  std::printf("%s: %d kills, seed %d\n", transport, times, seed);
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  const std::size_t files = files_left();
  std::int64_t worst = 0, worst_shrink = 0;
  std::uint64_t least_calls = UINT64_MAX, most_calls = 0;
  int in_a_call = 0, survivors = 0;
  for (int i = 0; i < times; ++i) {
    const int victim = static_cast<int>(random() % kRanks);
    const auto moment = std::chrono::microseconds(random() % 60000);
    SCOPED_TRACE(testing::Message() << "kill " << i << " of rank " << victim << " after " << moment.count() << " us");
    Shared<Board> board;
    Processes ranks(
        kRanks, [&](const RankContext& context) { return run_until_an_error(context, *board, i % 4 == 3, transport); });
    std::int64_t killed_ns = 0;
    std::thread killer;
    // Three exchanges make the communicator, the fourth starts the calls.
    const auto codes = ranks.run([&](int exchange) {
      if (exchange != 4) return;
      killer = std::thread([&] {
        std::this_thread::sleep_for(moment);
        killed_ns = os::now_ns();
        ranks.kill(victim);
      });
    });
    if (killer.joinable()) killer.join();
    for (int r = 0; r < kRanks; ++r) {
      SCOPED_TRACE(testing::Message() << "rank " << r);
      if (r == victim) {
        EXPECT_EQ(codes[static_cast<std::size_t>(r)], -SIGKILL);
        continue;
      }
      EXPECT_EQ(codes[static_cast<std::size_t>(r)], 0) << board->leaks[r].text << board->errors[r].text;
      const SharedText& error = board->errors[r];
      ASSERT_TRUE(error.is_set());
      EXPECT_EQ(static_cast<Code>(error.code), Code::kPeerLost) << error.text;
      const std::string_view text = error.text;
      EXPECT_TRUE(test::names(text, victim, ranks.pid(victim))) << text;
      // Where this rank met it: the call, its number, and the channel if it was waiting there.
      const bool named_call = text.find("met this in ") != std::string_view::npos ||
                              text.find("met this before ") != std::string_view::npos;
      EXPECT_TRUE(named_call && text.find(" #") != std::string_view::npos) << text;
      ++survivors;
      in_a_call += text.find("on channel ") != std::string_view::npos;
      worst = std::max(worst, error.at_ns.load() - killed_ns);
      worst_shrink = std::max(worst_shrink, board->shrunk_ns[r].load());
      least_calls = std::min(least_calls, board->calls[r].load());
      most_calls = std::max(most_calls, board->calls[r].load());
    }
  }
  std::printf(
      "worst time from the kill to an error: %.1f ms, of shrink: %.1f ms; calls before it: %llu to %llu; with the "
      "channel: %d of %d\n",
      static_cast<double>(worst) / 1e6, static_cast<double>(worst_shrink) / 1e6,
      static_cast<unsigned long long>(least_calls), static_cast<unsigned long long>(most_calls), in_a_call, survivors);
  EXPECT_LT(static_cast<double>(worst) / 1e9, 1.0 * test::patience());
  EXPECT_GT(in_a_call, 0);
  EXPECT_EQ(files_left(), files);
}

INSTANTIATE_TEST_SUITE_P(Transports, Kill, testing::ValuesIn(test::kProcessTransports),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace hocket
