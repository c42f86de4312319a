// SPDX-License-Identifier: Apache-2.0
// micro/overlap.cpp: how much of an all-reduce on a stream is hidden behind work of its caller.
//
// Exposed time is what call and work together take longer than the work alone. Two ways, both with two ranks and two
// cores:
//   a core for it  one thread starts the call for both ranks, works, and waits for both; the thread that runs calls on
//                  streams has the other core. All of the call can be hidden.
//   no core free   two processes, each on a core of its own, which its working thread and the thread for streams share.
//                  Nothing of the call's own work can be hidden, only what it waits for.
// Times are medians of rounds in which call, work and both take turns; the work is a chain of multiplications that
// takes 1.5 times as long as the call. Run it as it is.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "bench/peers/harness.hpp"
#include "hocket/hocket.hpp"

namespace {

using namespace hocket;
using peers::now_us;

constexpr std::size_t kSizes[] = {4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
constexpr std::size_t kMost = 64 << 20;

void check(const Status& status) {
  if (!status.ok()) peers::give_up("hocket: " + status.to_string());
}

void work(std::int64_t steps) {
  double x = 1.0;
  for (std::int64_t i = 0; i < steps; ++i) {
    x = x * 1.0000001 + 1e-9;
    asm volatile("" : "+x"(x));
  }
}

struct RankOf {
  Communicator communicator;
  Stream stream;
  std::vector<float> input, output;

  explicit RankOf(Communicator made) : communicator(std::move(made)), input(kMost / 4, 1.0f), output(kMost / 4) {}
  void start(std::size_t bytes) {
    check(communicator.all_reduce(input.data(), output.data(), bytes / 4, DataType::kFloat32, ReduceOp::kSum, stream));
  }
  void wait() { check(stream.synchronize()); }
};

/// `mine`: the ranks that this thread works for. `most`: the largest of a number of all processes.
template <class Most>
void measure(const char* what, std::vector<RankOf*> mine, peers::Meeting& meeting, bool speaks, const Most& most) {
  const auto timed = [&](const auto& f) {
    meeting.meet();
    const double start = now_us();
    f();
    return most(now_us() - start);
  };
  constexpr std::int64_t kSteps = 100'000;
  double of_steps = 1e9;
  for (int i = 0; i < 5; ++i) of_steps = std::min(of_steps, timed([] { work(kSteps); }));
  for (const std::size_t bytes : kSizes) {
    const auto start = [&] {
      for (RankOf* rank : mine) rank->start(bytes);
    };
    const auto wait = [&] {
      for (RankOf* rank : mine) rank->wait();
    };
    const auto call = [&] { start(), wait(); };
    std::vector<double> calls, works, both;
    for (int i = 0; i < 7; ++i) calls.push_back(timed(call));
    std::sort(calls.begin(), calls.end());
    const double us = calls[3];
    const auto steps = static_cast<std::int64_t>(1.5 * us / of_steps * kSteps);
    calls.clear();
    const int rounds = std::clamp(static_cast<int>(400e3 / (4 * us)), 7, 200);
    for (int i = 0; i < rounds; ++i) {
      calls.push_back(timed(call));
      works.push_back(timed([&] { work(steps); }));
      both.push_back(timed([&] { start(), work(steps), wait(); }));
    }
    const auto median = [](std::vector<double>& v) {
      std::sort(v.begin(), v.end());
      return v[v.size() / 2];
    };
    const double c = median(calls), w = median(works), b = median(both);
    if (speaks)
      std::printf("%-14s %9zu B  call %9.1f us  work %9.1f us  both %9.1f us  exposed %9.1f us (%3.0f%% of the call)\n",
                  what, bytes, c, w, b, b - w, 100 * (b - w) / c);
  }
  std::fflush(stdout);
}

}  // namespace

int main() {
  if (std::thread::hardware_concurrency() < 2) peers::give_up("this takes two cores");
  const std::string segment = "/tmp/hocket-overlap-" + std::to_string(getpid());
  const auto exchange_of = [](peers::Meeting& meeting) -> Exchange {
    return [&meeting](std::span<const std::byte> mine, std::span<std::byte> all) {
      meeting.all_gather(mine.data(), mine.size(), all.data());
      return Status();
    };
  };
  const auto make = [&](int rank, peers::Meeting& meeting) {
    auto settings = Settings::from_environment();
    check(settings.status());
    auto made = Communicator::create(rank, 2, exchange_of(meeting), *settings);
    check(made.status());
    return std::make_unique<RankOf>(std::move(*made));
  };

  const pid_t child = fork();
  if (child == 0) {
    peers::Meeting first(segment + "a", 0, 2), second(segment + "a", 1, 2), alone(segment + "b", 0, 1);
    std::unique_ptr<RankOf> ranks[2];
    std::thread other([&] { ranks[1] = make(1, second); });
    ranks[0] = make(0, first);
    other.join();
    // The thread for streams is made by the first call on one, and may run where its maker may.
    for (auto& rank : ranks) rank->start(4096);
    for (auto& rank : ranks) rank->wait();
    peers::place(0, 1, true);
    measure("a core for it", {ranks[0].get(), ranks[1].get()}, alone, true, [](double us) { return us; });
    std::fflush(stdout);
    std::_Exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  peers::Options options;
  options.ranks = 2;
  const int failed = peers::start_ranks(options, [&](int rank) {
    peers::Meeting meeting(segment + "c", rank, 2);
    peers::place(rank, 2, true);
    auto mine = make(rank, meeting);
    measure("no core free", {mine.get()}, meeting, rank == 0, [&](double us) { return meeting.greatest(us); });
  });
  for (const char* name : {"a", "b", "c"}) unlink((segment + name).c_str());
  return failed != 0 || status != 0;
}
