// SPDX-License-Identifier: Apache-2.0
// What `hocket run` promises: exchanges, exit statuses, signals, and nothing left behind.
//
// This program is launcher and rank, too: with "run …" it is `hocket run`, with "rank WHAT" it is a program that was
// started.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/format.hpp"
#include "base/os/process.hpp"
#include "base/status.hpp"
#include "core/launch.hpp"
#include "tools/run.hpp"

namespace {

using hocket::LaunchedRank;

std::string self() {
  char path[4096];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  return std::string(path, static_cast<std::size_t>(n));
}

// ---- The rank's side ----

hocket::Status exchange_ints(const LaunchedRank& me, int factor, std::size_t count = 1) {
  std::vector<int> mine(count, factor * (me.rank + 1)), all(count * static_cast<std::size_t>(me.size));
  const hocket::Status status = me.exchange(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  if (!status.ok()) return status;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != factor * (static_cast<int>(i / count) + 1))
      return hocket::error(hocket::Code::kInternal, "wrong at {}", i);
  }
  return {};
}

int say(const hocket::Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return status.ok() ? 0 : 3;
}

constexpr std::size_t kFlood = 512 << 10;  // more than pipes and terminals hold, less than the launcher does

int rank_main(std::string_view what) {
  if (what == "sleep") {
    std::printf("%d\n", ::getpid());
    std::fflush(stdout);
    for (;;) ::pause();
  }
  if (what == "stubborn") {
    ::signal(SIGTERM, SIG_IGN);
    for (;;) ::pause();
  }
  if (what == "deaf") {
    for (const int number : {SIGINT, SIGTERM}) ::signal(number, SIG_IGN);
    std::printf("%d\n", ::getpid());
    std::fflush(stdout);
    for (;;) ::pause();
  }
  if (what == "flood") {
    const pid_t pid = ::getpid();
    if (::write(std::atoi(std::getenv("HOCKET_TEST_FD")), &pid, sizeof pid) != sizeof pid) return 8;
    if (std::string_view(std::getenv("HOCKET_RANK")) != "0") ::pause();
    const std::string line(63, 'x');
    for (std::size_t written = 0; written < kFlood; written += line.size()) std::fprintf(stderr, "%s\n", line.c_str());
    return 5;
  }
  hocket::Settings settings;
  if (what == "impatient") settings.start_timeout = std::chrono::milliseconds(1500);
  auto launched = hocket::launched_from_environment(settings);
  if (!launched.ok()) return say(launched.status());
  if (!*launched) return std::fprintf(stderr, "nobody started me\n"), 4;
  const LaunchedRank& me = **launched;
  if (what == "exchange") {
    for (int i = 1; i <= 100; ++i) {
      if (const auto status = exchange_ints(me, i, static_cast<std::size_t>(i * i)); !status.ok()) return say(status);
    }
    // Taken a second time it is the same connection, and goes on.
    auto again = hocket::launched_from_environment();
    if (!again.ok()) return say(again.status());
    if (const auto status = exchange_ints(**again, 7); !status.ok()) return say(status);
    return exchange_ints(me, 8, 200000).ok() ? 0 : 5;
  }
  if (what == "killed") {
    if (const auto status = exchange_ints(me, 1); !status.ok()) return say(status);
    if (me.rank == 1) ::raise(SIGKILL);
    return say(exchange_ints(me, 2));
  }
  if (what == "exits") {
    if (me.rank == 0) return 0;
    return say(exchange_ints(me, 2));
  }
  if (what == "impatient") return say(exchange_ints(me, 1));
  if (what == "uneven") return say(exchange_ints(me, 2, me.rank == 1 ? 2 : 1));
  if (what == "threads") {
    // Every rank equally often, from any thread: the contents are equal, so any pairing is right.
    std::atomic<int> bad{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) bad += !exchange_ints(me, 3).ok();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return bad ? 6 : 0;
  }
  if (what == "forked") {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(exchange_ints(me, 1).code() == hocket::Code::kUnsupported ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) return 7;
    return say(exchange_ints(me, 1));
  }
  if (what == "who") {
    std::printf("rank %d of %d, local %d", me.rank, me.size, me.local_rank);  // no newline at the end
    std::fflush(stdout);
    return 0;
  }
  return 9;
}

// ---- The test's side ----

struct Outcome {
  int status = -1;   ///< as waitpid gives it
  std::string text;  ///< stdout and stderr
  int exit_code() const { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }
};

struct Started {
  pid_t pid = -1;
  int output = -1;
  std::string text;

  // The next line, without its end.
  std::string line() {
    std::string result;
    char c = 0;
    while (::read(output, &c, 1) == 1 && c != '\n') result += c;
    return result;
  }
  Outcome wait() {
    Outcome outcome;
    char buffer[4096];
    ssize_t n = 0;
    while ((n = ::read(output, buffer, sizeof buffer)) > 0) outcome.text.append(buffer, static_cast<std::size_t>(n));
    ::close(output);
    ::waitpid(pid, &outcome.status, 0);
    return outcome;
  }
};

Started start_program(std::vector<std::string> arguments) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) std::abort();
  std::vector<char*> argv;
  for (std::string& text : arguments) argv.push_back(text.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(fds[1], 1);
    ::dup2(fds[1], 2);
    ::execv(argv[0], argv.data());
    ::_exit(99);
  }
  ::close(fds[1]);
  return {pid, fds[0], {}};
}

Started start(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), self());
  return start_program(std::move(arguments));
}

Outcome run_shell(const std::string& command) {
  return start_program({"/bin/sh", "-c", command}).wait();
}

Outcome run(int ranks, std::vector<std::string> program, std::vector<std::string> flags = {}) {
  std::vector<std::string> arguments = {"run", "--ranks", std::to_string(ranks)};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.insert(arguments.end(), program.begin(), program.end());
  return start(std::move(arguments)).wait();
}

Outcome run_rank(int ranks, const std::string& what, std::vector<std::string> flags = {}) {
  return run(ranks, {self(), "rank", what}, std::move(flags));
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Waits for it: the kernel closes a process's files shortly before it counts as dead.
void expect_gone(pid_t pid) {
  for (;;) {
    const auto stat = hocket::os::process_stat(pid);
    if (!stat.ok() || stat->dead()) return;
    ::sched_yield();
  }
}

TEST(Run, EveryRankGetsWhatAllGaveInRankOrder) {
  for (const int ranks : {1, 2, 3, 8}) {
    const Outcome outcome = run_rank(ranks, "exchange");
    EXPECT_EQ(outcome.exit_code(), 0) << ranks << " ranks: " << outcome.text;
  }
}

TEST(Run, ThreadsOfARankExchangeOneAfterTheOther) {
  const Outcome outcome = run_rank(3, "threads");
  EXPECT_EQ(outcome.exit_code(), 0) << outcome.text;
}

TEST(Run, AKilledRankIsNamedInTheErrorOfTheOthers) {
  const Outcome outcome = run_rank(3, "killed");
  EXPECT_EQ(outcome.exit_code(), 128 + SIGKILL) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "peer lost")) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "rank 1 (pid ")) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "was killed by signal 9")) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "rank 0 (pid ")) << "the end of the others is reported: " << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "exit code 3")) << outcome.text;
}

TEST(Run, ARankThatEndsWellBeforeAnExchangeIsNamedToo) {
  const Outcome outcome = run_rank(2, "exits");
  EXPECT_EQ(outcome.exit_code(), 3) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "ended with exit code 0 before the exchange")) << outcome.text;
}

TEST(Run, DifferentLengthsAreAMismatchOnAllRanks) {
  const Outcome outcome = run_rank(2, "uneven");
  EXPECT_EQ(outcome.exit_code(), 3);
  EXPECT_TRUE(contains(outcome.text, "mismatch")) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "with 4 bytes")) << outcome.text;
}

TEST(Run, AForkedChildOfARankIsRefusedAndTheRankGoesOn) {
  const Outcome outcome = run_rank(2, "forked");
  EXPECT_EQ(outcome.exit_code(), 0) << outcome.text;
}

TEST(Run, TheFirstExitCodeThatIsNotZeroIsReturned) {
  EXPECT_EQ(run(2, {"/bin/sh", "-c", "exit 0"}).exit_code(), 0);
  EXPECT_EQ(run(3, {"/bin/sh", "-c", "test $HOCKET_RANK != 2 || exit 42"}).exit_code(), 42);
  EXPECT_EQ(run(2, {"/bin/sh", "-c", "test $HOCKET_RANK != 1 || kill -SEGV $$"}).exit_code(), 128 + SIGSEGV);
}

TEST(Run, AProgramThatCantBeStartedIsAnErrorWithItsName) {
  const Outcome outcome = run(2, {"/nonexistent/program"});
  EXPECT_EQ(outcome.exit_code(), 2);
  EXPECT_TRUE(contains(outcome.text, "/nonexistent/program: No such file")) << outcome.text;
}

TEST(Run, OthersAreTerminatedWhenTheyDoNotEndAfterAFailure) {
  const Outcome outcome =
      run(3, {"/bin/sh", "-c", "test $HOCKET_RANK = 1 && exit 5; exec \"$0\" rank sleep", self()}, {"--grace", "0.1"});
  EXPECT_EQ(outcome.exit_code(), 5);
  EXPECT_TRUE(contains(outcome.text, "sending SIGTERM")) << outcome.text;
  EXPECT_FALSE(contains(outcome.text, "sending SIGKILL")) << outcome.text;
}

TEST(Run, OnesThatIgnoreSigtermAreKilled) {
  const Outcome outcome = run(
      2, {"/bin/sh", "-c", "test $HOCKET_RANK = 1 && exit 5; exec \"$0\" rank stubborn", self()}, {"--grace", "0.1"});
  EXPECT_EQ(outcome.exit_code(), 5);
  EXPECT_TRUE(contains(outcome.text, "sending SIGKILL")) << outcome.text;
}

TEST(Run, KeepGoingStopsNobody) {
  // Rank 0 ends only after rank 1 has failed, and well after the grace.
  const Outcome outcome = run(2, {"/bin/sh", "-c", "test $HOCKET_RANK = 1 && exit 5; sleep 0.3; echo went on"},
                              {"--keep-going", "--grace", "0"});
  EXPECT_EQ(outcome.exit_code(), 5);
  EXPECT_TRUE(contains(outcome.text, "went on")) << outcome.text;
}

TEST(Run, SignalsAreHandedOnToAllRanks) {
  for (const int number : {SIGINT, SIGTERM}) {
    Started started = start({"run", "--ranks", "2", self(), "rank", "sleep"});
    const pid_t ranks[2] = {std::stoi(started.line()), std::stoi(started.line())};
    ::kill(started.pid, number);
    EXPECT_EQ(started.wait().exit_code(), 128 + number);
    for (const pid_t pid : ranks) expect_gone(pid);
  }
}

// A rank that catches or ignores what was handed on must not keep the job, nor the one at the terminal.
TEST(Run, RanksThatIgnoreOurSignalAreKilledAfterTheGrace) {
  for (const int number : {SIGINT, SIGTERM}) {
    Started started = start({"run", "--ranks", "2", "--grace", "0.1", self(), "rank", "deaf"});
    const pid_t ranks[2] = {std::stoi(started.line()), std::stoi(started.line())};
    ::kill(started.pid, number);
    const Outcome outcome = started.wait();
    EXPECT_EQ(outcome.exit_code(), 128 + SIGKILL) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "sending SIGKILL")) << outcome.text;
    for (const pid_t pid : ranks) expect_gone(pid);
  }
}

TEST(Run, ASecondSignalKillsAtOnce) {
  for (const int number : {SIGINT, SIGTERM}) {
    Started started = start({"run", "--ranks", "2", "--grace", "1000", self(), "rank", "deaf"});
    const pid_t ranks[2] = {std::stoi(started.line()), std::stoi(started.line())};
    ::kill(started.pid, number);
    EXPECT_EQ(started.line(), "hocket run: waiting for ranks 0, 1 to end; once more kills them");
    ::kill(started.pid, number);
    const Outcome outcome = started.wait();
    EXPECT_EQ(outcome.exit_code(), 128 + SIGKILL) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "killing ranks 0, 1")) << outcome.text;
    for (const pid_t pid : ranks) expect_gone(pid);
  }
}

TEST(Run, WhoWaitsTooLongLearnsWhoHasNotCome) {
  const Outcome outcome =
      run(3, {"/bin/sh", "-c", "test $HOCKET_RANK = 1 && exec \"$0\" rank sleep; exec \"$0\" rank impatient", self()},
          {"--grace", "0.1"});
  EXPECT_EQ(outcome.exit_code(), 3) << outcome.text;
  // Who asks when the other has given up already learns that, and for whom that one waited.
  EXPECT_TRUE(contains(outcome.text, "exchange 0 with the other ranks: after 1.5 s rank 1 has not come"))
      << outcome.text;
  const std::string missing = "rank 1 has not come";
  const std::size_t first = outcome.text.find(missing);
  EXPECT_NE(outcome.text.find(missing, first + 1), std::string::npos) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "HOCKET_START_TIMEOUT")) << outcome.text;
}

TEST(Run, RanksDieWithTheirLauncher) {
  Started started = start({"run", "--ranks", "2", self(), "rank", "sleep"});
  const pid_t ranks[2] = {std::stoi(started.line()), std::stoi(started.line())};
  ::kill(started.pid, SIGKILL);
  started.wait();  // its pipe ends only when both ranks have ended
  for (const pid_t pid : ranks) expect_gone(pid);
}

TEST(Run, WhatARankLeavesBehindIsEnded) {
  // The pipe would stay open with the forgotten process, and wait() never return.
  const Outcome outcome = run(2, {"/bin/sh", "-c", "sleep 1000 & exit 0"});
  EXPECT_EQ(outcome.exit_code(), 0);
}

TEST(Run, TagNamesTheRankOfEachLine) {
  const Outcome outcome = run_rank(2, "who", {"--tag"});
  EXPECT_TRUE(contains(outcome.text, "[0] rank 0 of 2, local 0\n")) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "[1] rank 1 of 2, local 1\n")) << outcome.text;
}

// Ranks that write their lines in pieces, into one file: half a line of one and half of another were glued together.
void expect_whole_lines(const std::vector<std::string>& flags, bool both, bool tag) {
  char path[] = "/tmp/hocket_run_XXXXXX";
  const int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  ::close(fd);
  std::string command = "exec " + self() + " run --ranks 3";
  for (const std::string& flag : flags) command += " " + flag;
  command +=
      " sh -c 'for i in 0 1 2 3 4 5 6 7 8 9; do printf ra >&2; printf \"nk $HOCKET_RANK l\" >&2; printf o; printf "
      "\"ut $HOCKET_RANK\\n\"; printf \"ine $i\\n\" >&2; done; printf \"end $HOCKET_RANK\" >&2' " +
      std::string(both ? ">" : ">/dev/null 2>") + path + (both ? " 2>&1" : "");
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  std::ifstream file(path);
  std::string text;
  std::vector<std::string> lines, expected;
  while (std::getline(file, text)) lines.push_back(text);
  ::unlink(path);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string before = tag ? hocket::format("[{}] ", rank) : "";
    for (int i = 0; i < 10; ++i) {
      expected.push_back(hocket::format("{}rank {} line {}", before, rank, i));
      if (both) expected.push_back(hocket::format("{}out {}", before, rank));
    }
    expected.push_back(hocket::format("{}end {}", before, rank));
  }
  std::sort(lines.begin(), lines.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(lines, expected);
}

TEST(Run, LinesThatRanksWriteInPiecesComeOutWhole) {
  expect_whole_lines({}, false, false);
}
TEST(Run, LinesOfBothStreamsInOneFileComeOutWhole) {
  expect_whole_lines({}, true, false);
}
TEST(Run, TaggedLinesComeOutWholeInAFile) {
  expect_whole_lines({"--tag"}, false, true);
}

TEST(Run, TextWithoutAnEndIsPassedOnAsItIs) {
  EXPECT_EQ(run(1, {"/usr/bin/printf", "abc"}).text, "abc");
}

TEST(Run, MoreThanAPipeHoldsComesOutToTheLastByte) {
  const Outcome outcome = run(2, {"/bin/sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo; exit 0"});
  EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), 'x'), 6000000);
}

TEST(Run, ARankWhoseReaderHasGoneEndsAsItWouldAlone) {
  const int status =
      std::system(("timeout 60 sh -c '" + self() + " run --ranks 2 yes 2>/dev/null | head -n 1 >/dev/null'").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Run, ADiskThatIsFullIsSaidAndIsNoSuccess) {
  const int status = std::system((self() + " run --ranks 1 echo x >/dev/full 2>/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

// A launcher whose terminal took nothing blocked in a write to it, and no longer looked after the ranks.
TEST(Run, ATerminalThatTakesNothingDoesNotKeepTheLauncherFromItsRanks) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(::grantpt(terminal), 0);
  ASSERT_EQ(::unlockpt(terminal), 0);
  const int ranks_end = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(ranks_end, 0);
  int pids[2];
  ASSERT_EQ(::pipe(pids), 0);  // inherited
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    ::dup2(ranks_end, 1);
    ::dup2(ranks_end, 2);
    ::setenv("HOCKET_TEST_FD", std::to_string(pids[1]).c_str(), 1);
    ::execl(self().c_str(), self().c_str(), "run", "--ranks", "2", "--grace", "0.1", self().c_str(), "rank", "flood",
            nullptr);
    ::_exit(99);
  }
  ::close(ranks_end);
  for (int i = 0; i < 2; ++i) {
    pid_t rank = 0;
    ASSERT_EQ(::read(pids[0], &rank, sizeof rank), static_cast<ssize_t>(sizeof rank));
    expect_gone(rank);  // rank 0 by itself, all written; rank 1 by the launcher, because rank 0 failed
  }
  int status = 0;
  EXPECT_EQ(::waitpid(launcher, &status, WNOHANG), 0) << "what it holds was not read yet";
  std::string text;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::read(terminal, buffer, sizeof buffer)) > 0) text.append(buffer, static_cast<std::size_t>(n));
  ::waitpid(launcher, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 5);
  EXPECT_GE(static_cast<std::size_t>(std::count(text.begin(), text.end(), 'x')), kFlood);
  EXPECT_TRUE(contains(text, "ended with exit code 5"))
      << text.substr(text.size() - std::min<std::size_t>(text.size(), 500));
  for (const int fd : {terminal, pids[0], pids[1]}) ::close(fd);
}

TEST(Run, TooFewDescriptorsAreSaidWithWhatIsNeeded) {
  const Outcome outcome = run_shell("ulimit -n 40; exec " + self() + " run --ranks 14 true");
  EXPECT_EQ(outcome.exit_code(), 2);
  EXPECT_TRUE(contains(outcome.text, "14 ranks take ")) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "the limit is 40")) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "`ulimit -n ")) << outcome.text;
}

TEST(Run, ASoftLimitOnDescriptorsIsTheRanksButNotTheLaunchers) {
  const Outcome outcome =
      run_shell("ulimit -Sn 24; exec " + self() + " run --ranks 14 sh -c 'echo limit $(ulimit -n)'");
  EXPECT_EQ(outcome.exit_code(), 0) << outcome.text;
  std::size_t count = 0;
  for (std::size_t at = 0; (at = outcome.text.find("limit 24\n", at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 14u) << outcome.text;
}

TEST(Run, FlagsAfterTheProgramAreTheProgramsOwn) {
  const Outcome outcome = run(1, {"/bin/echo", "--ranks", "x"});
  EXPECT_EQ(outcome.text, "--ranks x\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "run") return run_main(argc - 1, argv + 1);
  if (argc > 2 && std::string_view(argv[1]) == "rank") return rank_main(argv[2]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
