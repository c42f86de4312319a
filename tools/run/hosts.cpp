// SPDX-License-Identifier: Apache-2.0
// Ranks on several hosts: a launcher (ssh, …) for each host here, and on each host the agent that it starts.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/status.hpp"
#include "core/launch.hpp"
#include "hocket/settings.hpp"
#include "hocket/unique_id.hpp"
#include "tools/run.hpp"
#include "tools/run/child.hpp"
#include "tools/run/job.hpp"
#include "tools/run/job_text.hpp"
#include "tools/run/signals.hpp"

extern char** environ;

namespace hocket::run {

Result<std::vector<Host>> parse_hosts(std::string_view text) {
  std::vector<Host> hosts;
  int ranks = 0;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    const std::string entry(text.substr(0, comma));
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
    Host host;
    const std::size_t colon = entry.rfind(':');
    host.name = entry.substr(0, colon);
    if (host.name.empty() || host.name.front() == '-' ||
        (colon != std::string::npos && !to_number(entry.substr(colon + 1), 1, kMaxLaunchedRanks, host.ranks))) {
      return error(Code::kInvalidArgument, "'{}' is no host with a number of ranks, such as node1:4", entry);
    }
    ranks += host.ranks;
    hosts.push_back(std::move(host));
  }
  if (hosts.size() > 1024 || ranks > 1 << 20) {
    return error(Code::kInvalidArgument, "{} hosts with {} ranks are more than can be started", hosts.size(), ranks);
  }
  return hosts;
}

std::string this_program() {
  char path[4096];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  return n <= 0 || n == sizeof path ? std::string("hocket") : std::string(path, static_cast<std::size_t>(n));
}

std::vector<std::string> launcher_words(std::string_view launcher, const std::string& host) {
  std::vector<std::string> result;
  while (!launcher.empty()) {
    std::string word(launcher.substr(0, launcher.find(' ')));
    launcher.remove_prefix(std::min(launcher.size(), word.size() + 1));
    for (std::size_t at = word.find("{host}"); at != std::string::npos; at = word.find("{host}", at + host.size()))
      word.replace(at, 6, host);
    if (!word.empty()) result.push_back(std::move(word));
  }
  return result;
}

Result<int> run_hosts(const Options& options, const HostOptions& hosts) {
  if (options.arguments.empty()) return error(Code::kInvalidArgument, "no program to run");
  // Before the id, whose thread must not take them.
  HOCKET_ASSIGN(const std::unique_ptr<Signals> signals, Signals::block());
  HOCKET_ASSIGN(const Settings settings, Settings::from_environment());
  HOCKET_ASSIGN(const UniqueId id, UniqueId::create(settings));
  const std::string hocket = hosts.hocket.empty() ? this_program() : hosts.hocket;
  std::vector<Spec> specs;
  int first = 0, world = 0;
  for (const Host& host : hosts.hosts) world += host.ranks;
  for (const Host& host : hosts.hosts) {
    Options part = options;
    part.ranks = host.ranks;
    part.first_rank = std::exchange(first, first + host.ranks);
    part.world = world;
    part.unique_id = id.to_string();
    Spec spec;
    spec.rank = -1;
    spec.name = "host " + host.name;
    spec.arguments = launcher_words(hosts.launcher, host.name);
    spec.arguments.insert(spec.arguments.end(), {hocket, "run", "--agent"});
    spec.environment = [](int) {
      std::vector<std::string> all;
      for (char** entry = environ; *entry; ++entry) all.emplace_back(*entry);
      return all;
    };
    spec.input_text = job_text(part);
    specs.push_back(std::move(spec));
  }
  return run_job(options, *signals, specs);
}

Result<int> run_agent(int input) {
  HOCKET_ASSIGN(Options job, read_job(input));
  job.stop_when_closed = input;
  job.whole_lines = true;
  return run_ranks(job);
}

}  // namespace hocket::run
