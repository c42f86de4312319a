// SPDX-License-Identifier: Apache-2.0
// communicator_cut_test.cpp: connections of the tcp transport are cut at a random moment: closed, or turned into a hole
// in which packets vanish in silence. All ranks learn of it by name and in time, what had succeeded was right, and
// those who can still reach each other go on.
//
// A hole is a socket filter that takes nothing: the kernel then drops all that comes for that socket, acknowledgements
// too, as if the cable were gone.
//
// HOCKET_FAULT_REPEATS: how often for each kind (200 in the full run). HOCKET_FAULT_SEED: of the moments and the ranks.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <sys/socket.h>

#include <random>

#include "support/faults.hpp"
#include "support/ranks.hpp"
#include "transport/tcp_endpoint.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;
using test::Footprint;
using test::Processes;
using test::RankContext;
using test::Shared;
using test::SharedText;

constexpr int kRanks = 4;
constexpr auto kLinkTimeout = 500ms;
constexpr auto kPatience = 700ms;  ///< of shrink

enum class Cut {
  kClosed,    ///< one stream between two ranks is shut down
  kOneWay,    ///< what comes from one rank to another vanishes, acknowledgements too
  kHole,      ///< all packets between two ranks vanish
  kHostHole,  ///< the packets between one rank and all others vanish
};

struct Board {
  SharedText errors[kRanks];
  SharedText notes[kRanks];
  std::atomic<std::int64_t> cut_ns;
  std::atomic<std::uint64_t> calls[kRanks];
  std::atomic<int> left[kRanks];  ///< ranks of the communicator that this one went on with; 0: it was left out
  std::atomic<std::uint64_t> ids[kRanks];
};

struct What {
  Cut cut;
  int a, b;  ///< between whom; done by a
  std::size_t stream;
  std::chrono::microseconds moment;
};

/// Everything that comes for this socket from now on vanishes.
bool make_hole(int fd) {
  sock_filter nothing{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0};
  const sock_fprog program{.len = 1, .filter = &nothing};
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

/// This rank's part of it.
bool cut(const Communicator& comm, const What& what) {
  bool good = true;
  for (Rank p = 0; p < comm.size(); ++p) {
    const bool here = comm.rank() == what.a && (p == what.b || what.cut == Cut::kHostHole);
    const bool there = p == what.a && (comm.rank() == what.b || what.cut == Cut::kHostHole);
    const bool both = what.cut == Cut::kHole || what.cut == Cut::kHostHole;
    if (p == comm.rank() || !(here || (there && both))) continue;
    auto& endpoint = dynamic_cast<tcp::TcpEndpoint&>(*comm.state()->channels->peer(p).endpoint);
    if (what.cut == Cut::kClosed) {
      ::shutdown(endpoint.fd(what.stream % endpoint.stream_count()), SHUT_RDWR);
      continue;
    }
    for (std::size_t s = 0; s < endpoint.stream_count(); ++s) good &= make_hole(endpoint.fd(s));
  }
  return good;
}

int run_rank(const RankContext& context, Board& board, const What& what) {
  Settings settings = test::settings_for("tcp");
  settings.link_timeout = kLinkTimeout;
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
    if (!test::all_peers_by(*comm, "tcp")) return 14;
    if (!context.barrier()) return 15;
    bool was_cut = true;
    std::thread cutter([&] {
      if (context.rank == what.a) {
        std::this_thread::sleep_for(what.moment);
        board.cut_ns = os::now_ns();
      }
      was_cut = test::eventually([&] { return board.cut_ns != 0; }) && cut(*comm, what);
    });
    std::uint64_t wrong = 0;
    Status status;
    for (std::uint64_t k = 0; status.ok(); ++k) status = test::mixed_call(*comm, k, &wrong);
    board.errors[context.rank].set(status.text(), status.code());
    cutter.join();
    if (!was_cut) return 16;
    if (wrong != 0) return 17;
    // Some find each other again. Whoever saw another loss than the rest gives an attempt up.
    auto rest = comm->shrink({}, kPatience);
    for (int i = 0; i < 3 && !rest.ok() && rest.status().text().find("shrink again") != std::string_view::npos; ++i)
      rest = comm->shrink({}, kPatience);
    if (rest.ok()) {
      board.ids[context.rank] = rest->state()->id;
      board.left[context.rank] = rest->size();
      for (std::uint64_t k = 0; k < 24; ++k) {
        if (status = test::mixed_call(*rest, k, &wrong, 5003); !status.ok()) {
          board.notes[context.rank].set(status.to_string());
          return 18;
        }
      }
      if (status = rest->barrier(); !status.ok()) {
        board.notes[context.rank].set(status.to_string());
        return 19;
      }
    } else {
      board.notes[context.rank].set(rest.status().to_string());
    }
    if (wrong != 0) return 20;
  }
  if (!test::eventually([&] { return Footprint::now() == before; })) {
    board.notes[context.rank].set("before: " + before.to_string() + "; after: " + Footprint::now().to_string());
    return 21;
  }
  return 0;
}

class CutLink : public testing::TestWithParam<Cut> {};

TEST_P(CutLink, EndsOnAllRanksByNameAndInTimeAndSomeGoOn) {
  const Cut kind = GetParam();
  const int times = test::repeats("HOCKET_FAULT_REPEATS", 3);
  const int seed = test::repeats("HOCKET_FAULT_SEED", 20263);
  std::printf("%d cuts, seed %d\n", times, seed);
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  double worst = 0;
  int by_size[kRanks + 1] = {};
  for (int i = 0; i < times; ++i) {
    What what{.cut = kind,
              .a = static_cast<int>(random() % kRanks),
              .b = 0,
              .stream = random() % 2,
              .moment = std::chrono::microseconds(random() % 40000)};
    what.b = static_cast<int>((static_cast<std::uint64_t>(what.a) + 1 + random() % (kRanks - 1)) % kRanks);
    SCOPED_TRACE(testing::Message() << "cut " << i << " by rank " << what.a << " towards "
                                    << (kind == Cut::kHostHole ? -1 : what.b) << " after " << what.moment.count()
                                    << " us");
    Shared<Board> board;
    Processes ranks(kRanks, [&](const RankContext& context) { return run_rank(context, *board, what); });
    const auto codes = ranks.run();
    int most = 0;
    for (int r = 0; r < kRanks; ++r) {
      const SharedText& error = board->errors[r];
      SCOPED_TRACE(testing::Message() << "rank " << r << ": " << error.text << "; " << board->notes[r].text);
      EXPECT_EQ(codes[static_cast<std::size_t>(r)], 0);
      ASSERT_TRUE(error.is_set());
      EXPECT_EQ(static_cast<Code>(error.code), Code::kPeerLost);
      const std::string_view text = error.text;
      // Which of the two is at fault nobody can tell; a rank that is cut off takes all others for lost.
      EXPECT_TRUE(test::names(text, what.a, ranks.pid(what.a)) ||
                  (kind == Cut::kHostHole ? r == what.a : test::names(text, what.b, ranks.pid(what.b))));
      worst = std::max(worst, static_cast<double>(error.at_ns.load() - board->cut_ns.load()) / 1e9);
      const int size = board->left[r];
      most = std::max(most, size);
      // Whoever goes on does so with others who have the same communicator.
      int same = 0;
      for (int q = 0; q < kRanks; ++q) same += size > 0 && board->ids[q] == board->ids[r];
      EXPECT_EQ(same, size);
    }
    ++by_size[most];
    EXPECT_GE(most, 2);
    if (kind == Cut::kHostHole) {
      EXPECT_EQ(most, kRanks - 1);
    }
    if (HasFatalFailure()) return;
  }
  std::printf(
      "worst time from the cut to an error: %.2f s (HOCKET_LINK_TIMEOUT %.1f s); went on with 3: %d, with 2: %d\n",
      worst, std::chrono::duration<double>(kLinkTimeout).count(), by_size[3], by_size[2]);
  // Links are looked at four times a second.
  EXPECT_LT(worst, (kind == Cut::kClosed ? 0.0 : std::chrono::duration<double>(kLinkTimeout).count()) +
                       1.0 * test::patience());
}

std::string name_of(const testing::TestParamInfo<Cut>& info) {
  const char* const names[] = {"closed", "one_way", "hole", "host"};
  return names[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Kinds, CutLink, testing::Values(Cut::kClosed, Cut::kOneWay, Cut::kHole, Cut::kHostHole),
                         name_of);

}  // namespace
}  // namespace hocket
