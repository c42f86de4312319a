// SPDX-License-Identifier: Apache-2.0
// Ranks on this host: what each one finds in its environment and on its stdin.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "base/format.hpp"
#include "base/os/unique_fd.hpp"
#include "base/status.hpp"
#include "core/launch.hpp"
#include "tools/run.hpp"
#include "tools/run/child.hpp"
#include "tools/run/job.hpp"
#include "tools/run/signals.hpp"

extern char** environ;

namespace hocket::run {
namespace {

std::string_view name_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

std::vector<std::string> environment_of(const Options& options, int local_rank, int socket) {
  std::vector<std::string> result;
  constexpr std::string_view kOurs[] = {"HOCKET_RANK",      "HOCKET_SIZE", "HOCKET_LOCAL_RANK", "HOCKET_RUN_FD",
                                        "HOCKET_UNIQUE_ID", "HOCKET_ROOT", "HOCKET_RENDEZVOUS"};
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view view = *entry;
    const auto same = [&](std::string_view other) { return name_of(view) == name_of(other); };
    if (std::none_of(std::begin(kOurs), std::end(kOurs), same) &&
        std::none_of(options.environment.begin(), options.environment.end(), same)) {
      result.emplace_back(view);
    }
  }
  result.insert(result.end(), options.environment.begin(), options.environment.end());
  result.push_back(format("HOCKET_RANK={}", options.first_rank + local_rank));
  result.push_back(format("HOCKET_SIZE={}", options.unique_id.empty() ? options.ranks : options.world));
  result.push_back(format("HOCKET_LOCAL_RANK={}", local_rank));
  if (options.unique_id.empty()) {
    result.push_back(format("HOCKET_RUN_FD={}", socket));
  } else {
    result.push_back("HOCKET_UNIQUE_ID=" + options.unique_id);
  }
  return result;
}

}  // namespace

Result<int> run_ranks(const Options& options) {
  if (options.ranks < 1 || options.ranks > kMaxLaunchedRanks) {
    return error(Code::kInvalidArgument, "{} ranks: 1 to {} can be started", options.ranks, kMaxLaunchedRanks);
  }
  if (options.arguments.empty()) return error(Code::kInvalidArgument, "no program to run");
  HOCKET_ASSIGN(const std::unique_ptr<Signals> signals, Signals::block());
  os::UniqueFd no_input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!no_input) return system_error(Code::kSystem, errno, "open /dev/null");
  std::vector<Spec> specs;
  for (int i = 0; i < options.ranks; ++i) {
    Spec spec;
    spec.rank = options.first_rank + i;
    spec.name = format("rank {}", spec.rank);
    spec.executable = options.executable;
    spec.arguments = options.arguments;
    spec.environment = [&options, i](int socket) { return environment_of(options, i, socket); };
    const bool ours = i == 0 && options.unique_id.empty() && !::isatty(STDIN_FILENO);
    spec.input = ours ? -1 : no_input.get();
    specs.push_back(std::move(spec));
  }
  return run_job(options, *signals, specs);
}

}  // namespace hocket::run
