// SPDX-License-Identifier: Apache-2.0
// `hocket run`: its flags. Next stops: tools/run/ranks.cpp and tools/run/hosts.cpp.
#include "tools/run.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.hpp"
#include "tools/usage.hpp"

extern char** environ;

int run_main(int argc, char** argv) {
  CLI::App app("Starts a program several times, as the ranks of one job, on this host or on several.", "hocket run");
  hocket::run::Options options;
  options.whole_lines = true;
  hocket::run::HostOptions hosts;
  double grace = 10;
  std::string host_list;
  std::vector<std::string> variables;
  bool agent = false;
  auto* ranks = app.add_option("-n,--ranks", options.ranks, "how many processes to start on this host");
  auto* with_hosts = app.add_option("--hosts", host_list, "start on these hosts instead: node1:4,node2:4");
  ranks->excludes(with_hosts);
  app.add_option("--launcher", hosts.launcher,
                 "how a command gets to a host (default '" + hosts.launcher + "'; {host} is its name)")
      ->needs(with_hosts);
  app.add_option("--hocket", hosts.hocket, "path of this command on the other hosts (default: as here)")
      ->needs(with_hosts);
  app.add_option("--env", variables,
                 "a variable that ranks on other hosts get too (HOCKET_... always), may be repeated")
      ->needs(with_hosts);
  app.add_flag("--keep-going", options.keep_going, "when a rank fails, leave the others alone");
  app.add_flag("--tag", options.tag, "begin each line of output with [rank]");
  app.add_option("--grace", grace, "seconds to end by themselves after another rank failed, or a Ctrl-C (default 10)")
      ->check(CLI::Range(0.0, 1e6));
  app.add_flag("--agent", agent, "the part of --hosts on one host")->group("");
  app.footer(
      "PROGRAM and its own arguments follow the flags. Rank 0 alone gets stdin, and with --hosts no rank does. What a "
      "rank\n"
      "has started and left behind when it ends is killed, unless with --keep-going. With --hosts, hocket must be "
      "installed\n"
      "on each host, and the job's secret goes through the launcher's stdin.\n"
      "Ctrl-C, SIGTERM and SIGHUP go to all ranks. Those that have not ended after the grace get SIGTERM, and half of "
      "it\n"
      "later SIGKILL; a second Ctrl-C or SIGTERM kills them at once.\n"
      "Exit status: 0, that of the first rank that failed (128 + the signal's number), or 2 if nothing could be "
      "started.");
  // Flags end where the program begins: what follows is its own, flags as well.
  int end = 1;
  for (; end < argc; ++end) {
    const std::string_view word = argv[end];
    if (word == "--") break;
    if (!word.starts_with('-')) break;
    for (const std::string_view takes_value :
         {"-n", "--ranks", "--grace", "--hosts", "--launcher", "--hocket", "--env"})
      if (word == takes_value) {
        ++end;
        break;
      }
  }
  end = std::min(end, argc);
  try {
    app.parse(end, argv);
  } catch (const CLI::ParseError& e) {
    return hocket::usage_answer(app, e);
  }
  if (end < argc && std::string_view(argv[end]) == "--") ++end;
  const auto finish = [](const hocket::Result<int>& result) {
    if (result.ok()) return *result;
    hocket::print(stderr, "hocket run: {}\n", result.status().text());
    return 2;
  };
  if (agent) return finish(hocket::run::run_agent(STDIN_FILENO));
  options.arguments.assign(argv + end, argv + argc);
  if (ranks->empty() && with_hosts->empty()) {
    return hocket::usage_error("hocket run", "how many ranks, and where? --ranks N or --hosts a:N,b:N");
  }
  if (options.arguments.empty()) {
    return hocket::usage_error("hocket run", "no program to run: hocket run --ranks N PROGRAM [ARGUMENTS...]");
  }
  options.grace = std::chrono::milliseconds(static_cast<std::int64_t>(grace * 1000));
  if (with_hosts->empty()) return finish(hocket::run::run_ranks(options));
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view view = *entry;
    const std::string_view name = view.substr(0, view.find('='));
    if (view.starts_with("HOCKET_") || std::find(variables.begin(), variables.end(), name) != variables.end())
      options.environment.emplace_back(view);
  }
  auto list = hocket::run::parse_hosts(host_list);
  if (!list.ok()) return finish(list.status());
  hosts.hosts = std::move(*list);
  return finish(hocket::run::run_hosts(options, hosts));
}
