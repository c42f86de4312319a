// SPDX-License-Identifier: Apache-2.0
#include "tools/sim_measure.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <vector>

#include "base/status.hpp"

extern char** environ;

namespace {

using hocket::Code;
using hocket::error;
using hocket::Status;

struct Run {
  std::string_view collective, algorithm;
};
constexpr std::array kRuns = {Run{"all_reduce", "ring"},     Run{"all_reduce", "tree"},
                              Run{"all_reduce", "two_shot"}, Run{"all_reduce", "one_shot"},
                              Run{"all_gather", "ring"},     Run{"reduce_scatter", "direct"}};

/// This program again, with one variable more and its output thrown away.
Status run_self(const std::vector<std::string>& arguments, const std::string& variable) {
  std::vector<char*> argv, environment;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!std::string_view(*entry).starts_with("HOCKET_")) environment.push_back(*entry);
  environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return hocket::system_error(Code::kSystem, failed, "starting hocket perf");
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return hocket::system_error(Code::kSystem, errno, "waiting for hocket perf");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return error(Code::kSystem, "hocket perf with {} ended with status {}; what it says is above", variable,
                 WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  return {};
}

}  // namespace

Status sim_measure(const std::string& file) {
  std::ofstream all(file, std::ios::trunc);
  const std::string part = file + ".part";
  bool first = true;
  for (const Run& run : kRuns) {
    HOCKET_TRY(run_self({"hocket", "perf", std::string(run.collective), "--ranks", "2", "--pin", "-b", "1K", "-e",
                         "64M", "-f", "4", "--csv", part},
                        hocket::format("HOCKET_ALGO={}", run.algorithm)));
    std::ifstream rows(part);
    bool header = true;
    for (std::string line; std::getline(rows, line); header = false)
      if (!header || first) all << line << '\n';
    first = false;
  }
  std::remove(part.c_str());
  all.flush();
  if (!all) return error(Code::kSystem, "{} can't be written", file);
  return {};
}
