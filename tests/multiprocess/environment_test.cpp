// SPDX-License-Identifier: Apache-2.0
// environment_test.cpp: places that are small: few descriptors, a tiny /dev/shm, far more ranks than cores, neighbours
// that take the CPU; and an idle communicator takes none.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include "support/faults.hpp"
#include "support/ranks.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;
using test::Processes;
using test::RankContext;
using test::Shared;
using test::SharedText;

int say(const RankContext& context, int code, const Status& status) {
  std::printf("rank %d: %s\n", context.rank, status.to_string().c_str());
  return code;
}

/// A communicator of all processes and some checked calls.
int create_and_call(const RankContext& context, std::uint64_t calls, std::size_t largest = 5003) {
  auto comm = Communicator::create(context.rank, context.size, test::exchange_of(context));
  if (!comm.ok()) return say(context, 10, comm.status());
  std::uint64_t wrong = 0;
  for (std::uint64_t k = 0; k < calls; ++k)
    if (const Status status = test::mixed_call(*comm, k, &wrong, largest); !status.ok())
      return say(context, 11, status);
  return wrong == 0 ? 0 : 12;
}

TEST(Environment, With64DescriptorsSixteenRanksPassOrGetAClearError) {
  constexpr int kRanks = 16;
  struct Board {
    SharedText errors[kRanks];
  };
  Shared<Board> board;
  const auto codes = test::run_processes(kRanks, [&](const RankContext& context) {
    const rlimit limit{64, 64};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 20;
    auto comm = Communicator::create(context.rank, context.size, test::exchange_of(context));
    if (!comm.ok()) {
      board->errors[context.rank].set(comm.status().text(), comm.status().code());
      return 1;
    }
    std::uint64_t wrong = 0;
    for (std::uint64_t k = 0; k < 16; ++k)
      if (const Status status = test::mixed_call(*comm, k, &wrong, 1000); !status.ok()) return say(context, 11, status);
    return wrong == 0 ? 0 : 12;
  });
  for (const int code : codes) EXPECT_EQ(code, codes[0]);  // all or none
  EXPECT_TRUE(codes[0] == 0 || codes[0] == 1) << codes[0];
  std::printf("with 64 descriptors: %s\n", codes[0] == 0 ? "passes" : board->errors[0].text);
  if (codes[0] == 1)
    for (const SharedText& error : board->errors) {
      EXPECT_NE(static_cast<Code>(error.code), Code::kInternal) << error.text;
      EXPECT_NE(std::string_view(error.text).find("descriptor"), std::string_view::npos) << error.text;
    }
}

TEST(Environment, ATinyDevShmIsEnoughForEightRanks) {
  constexpr int kNotPermitted = 77;
  const auto codes = test::run_processes(8, [](const RankContext& context) {
    // A mount namespace of its own for each rank.
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return kNotPermitted;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kNotPermitted;
    if (::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") != 0) return kNotPermitted;
    return create_and_call(context, 64, 100000);
  });
  if (std::count(codes.begin(), codes.end(), kNotPermitted) > 0)
    GTEST_SKIP() << "no mount namespace with a /dev/shm of its own may be made here (needs root or user namespaces)";
  EXPECT_EQ(codes, std::vector<int>(8, 0));
}

TEST(Environment, SixteenRanksFinishWhateverCoresThereAre) {
  EXPECT_EQ(test::run_processes(16, [](const RankContext& context) { return create_and_call(context, 200); }),
            std::vector<int>(16, 0));
}

TEST(Environment, SixteenRanksFinishBesideBusyProcesses) {
  std::vector<pid_t> busy;
  for (int i = 0; i < 2; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (volatile std::uint64_t turns = 0;;) turns = turns + 1;
    }
    busy.push_back(pid);
  }
  const auto codes = test::run_processes(16, [](const RankContext& context) { return create_and_call(context, 200); });
  for (const pid_t pid : busy) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  EXPECT_EQ(codes, std::vector<int>(16, 0));
}

TEST(Environment, AnIdleCommunicatorTakesNoCpu) {
  constexpr int kRanks = 4;
  struct Board {
    std::atomic<std::int64_t> used_us[kRanks];
  };
  Shared<Board> board;
  const auto codes = test::run_processes(kRanks, [&](const RankContext& context) {
    auto comm = Communicator::create(context.rank, context.size, test::exchange_of(context));
    if (!comm.ok()) return say(context, 10, comm.status());
    std::uint64_t wrong = 0;
    Stream stream;
    for (std::uint64_t k = 0; k < 64; ++k)
      if (const Status status = test::mixed_call(*comm, k, &wrong, 5003, k % 2 ? &stream : nullptr); !status.ok())
        return say(context, 11, status);
    if (!context.barrier()) return 12;
    const auto used = [] {
      rusage usage{};
      ::getrusage(RUSAGE_SELF, &usage);
      return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * std::int64_t{1000000} + usage.ru_utime.tv_usec +
             usage.ru_stime.tv_usec;
    };
    const std::int64_t before = used();
    std::this_thread::sleep_for(1s);
    board->used_us[context.rank] = used() - before;
    // It still works.
    return comm->barrier().ok() && wrong == 0 ? 0 : 13;
  });
  EXPECT_EQ(codes, std::vector<int>(kRanks, 0));
  for (int r = 0; r < kRanks; ++r) {
    const std::int64_t used = board->used_us[r];
    std::printf("rank %d: %.3f ms of CPU in an idle second\n", r, static_cast<double>(used) / 1e3);
    EXPECT_LT(used, 10000) << "rank " << r << " uses a percent of a CPU or more";
  }
}

}  // namespace
}  // namespace hocket
