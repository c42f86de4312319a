// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace hocket {
namespace {

class Log : public ::testing::Test {
 protected:
  void TearDown() override {
    set_log_callback({});
    set_log_level(LogLevel::kWarn);
  }
  void collect() {
    set_log_callback([this](LogLevel level, std::string_view line) {
      lines.push_back(std::string(to_string(level)) + ": " + std::string(line));
    });
  }
  std::vector<std::string> lines;
};

TEST_F(Log, CallbackGetsLinesAtOrAboveTheLevel) {
  collect();
  HOCKET_LOG(LogLevel::kError, "rank {} is lost", 3);
  HOCKET_LOG(LogLevel::kInfo, "not wanted");
  set_log_level(LogLevel::kTrace);
  HOCKET_LOG(LogLevel::kTrace, "no arguments");
  EXPECT_EQ(lines, (std::vector<std::string>{"error: rank 3 is lost", "trace: no arguments"}));
}

TEST_F(Log, ArgumentsOfALevelThatIsOffAreNotEvaluated) {
  int evaluated = 0;
  HOCKET_LOG(LogLevel::kDebug, "{}", ++evaluated);
  EXPECT_EQ(evaluated, 0);
}

TEST_F(Log, WithoutCallbackLinesGoToStderrAndNeverToStdout) {
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  HOCKET_LOG(LogLevel::kWarn, "rank {} is late", 1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "hocket: warn: rank 1 is late\n");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

TEST_F(Log, WhatACallbackThrowsEndsInTheLog) {
  set_log_callback([](LogLevel, std::string_view) { throw std::runtime_error("full"); });
  HOCKET_LOG(LogLevel::kWarn, "one");
  collect();
  HOCKET_LOG(LogLevel::kWarn, "two");
  EXPECT_EQ(lines, std::vector<std::string>{"warn: two"});
}

TEST_F(Log, ACallbackMayLogAndReplaceItself) {
  int calls = 0;
  set_log_callback([&](LogLevel, std::string_view) {
    ++calls;
    HOCKET_LOG(LogLevel::kWarn, "from inside");
    collect();
  });
  ::testing::internal::CaptureStderr();
  HOCKET_LOG(LogLevel::kWarn, "one");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "hocket: warn: from inside\n");
  HOCKET_LOG(LogLevel::kWarn, "two");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(lines, std::vector<std::string>{"warn: two"});
}

TEST_F(Log, LinesOfManyThreadsReachTheCallbackOneAtATime) {
  collect();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 100; ++i) HOCKET_LOG(LogLevel::kWarn, "thread {} line {}", t, i);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(lines.size(), 400u);
}

TEST_F(Log, AChildForkedFromInsideACallbackCanLog) {
  pid_t child = -1;
  set_log_callback([&](LogLevel, std::string_view) { child = ::fork(); });
  HOCKET_LOG(LogLevel::kWarn, "fork");  // the parent's mutex is held while the child is made
  if (child == 0) {
    ::close(STDERR_FILENO);
    std::thread([] { HOCKET_LOG(LogLevel::kWarn, "child"); }).join();
    set_log_callback([](LogLevel, std::string_view) { ::_exit(7); });
    HOCKET_LOG(LogLevel::kWarn, "to the child's own callback");
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(LogLevelName, ValueOutOfRangeHasAName) {
  EXPECT_EQ(to_string(static_cast<LogLevel>(99)), "?");
}

}  // namespace
}  // namespace hocket
