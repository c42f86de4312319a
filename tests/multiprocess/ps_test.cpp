// SPDX-License-Identifier: Apache-2.0
// `hocket ps`: shows the ranks of a process and those below a launcher, whether they run, wait or are stopped.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>

namespace {

std::string shell(const std::string& command) {
  std::string text;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "re");
  if (!pipe) return text;
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  ::pclose(pipe);
  return text;
}

std::string tool() {
  return std::string(HOCKET_TOOL_DIR) + "/hocket";
}

// A launcher with ranks that make calls until they are ended.
class Job {
 public:
  Job() {
    pid_ = ::fork();
    if (pid_ == 0) {
      (void)!std::freopen("/dev/null", "w", stdout);
      const std::string hocket = tool();
      ::execl(hocket.c_str(), "hocket", "run", "--ranks", "2", hocket.c_str(), "perf", "all_reduce", "-b", "64K", "-e",
              "64K", "-n", "20000", "-m", "1000", "-c", "0", nullptr);
      ::_exit(127);
    }
  }
  ~Job() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Ps, OfALauncherShowsItsRanksAndHowManyCallsTheyMake) {
  const Job job;
  std::string text;
  // Until both have communicators and have made calls.
  for (int i = 0; i < 200; ++i) {
    text = shell(tool() + " ps " + std::to_string(job.pid()) + " --last 2");
    if (count(text, "calls a second now") == 2) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(count(text, "calls a second now"), 2) << text;
  EXPECT_NE(text.find("rank 0 of 2, communicator"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1 of 2, communicator"), std::string::npos) << text;
  EXPECT_NE(text.find("started by " + std::to_string(job.pid())), std::string::npos) << text;
  EXPECT_NE(text.find("all_reduce #"), std::string::npos) << text;
  EXPECT_NE(text.find("2 of 2 ranks seen: moves"), std::string::npos) << text;

  // One is stopped: it shows, and for whom the other waits.
  const std::size_t at = text.find("process ", text.find("started by") - 30);
  const pid_t first = static_cast<pid_t>(std::stol(text.substr(at + 8)));
  ::kill(first, SIGSTOP);
  for (int i = 0; i < 200; ++i) {
    text = shell(tool() + " ps " + std::to_string(job.pid()) + " --last 1");
    if (text.find(", stopped") != std::string::npos && text.find(" waits ") != std::string::npos) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_NE(text.find("process " + std::to_string(first) + ", stopped"), std::string::npos) << text;
  EXPECT_NE(text.find(" waits "), std::string::npos) << text;
  EXPECT_NE(text.find("no call ended in the last"), std::string::npos) << text;
  EXPECT_NE(text.find("STANDS STILL"), std::string::npos) << text;
  EXPECT_NE(text.find("whose process " + std::to_string(first) + " is stopped"), std::string::npos) << text;
  EXPECT_NE(text.find("kill -CONT " + std::to_string(first)), std::string::npos) << text;
  ::kill(first, SIGCONT);
}

TEST(Ps, OfAProcessWithoutHocketSaysSo) {
  const std::string text = shell(tool() + " ps " + std::to_string(::getpid()));
  EXPECT_NE(text.find("has no communicator"), std::string::npos) << text;
}

TEST(Ps, OfNoProcessIsAnError) {
  EXPECT_NE(shell(tool() + " ps 4194304").find("there is no process 4194304"), std::string::npos);
}

}  // namespace
