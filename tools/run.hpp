// SPDX-License-Identifier: Apache-2.0
// tools/run.hpp: starts ranks as child processes of this one and serves their exchanges until the last has ended.
//
// Other side: src/core/launch.hpp. `hocket run` is this with flags (run.cpp); `hocket perf --ranks` starts itself
// through it. Next stops: run/ranks.cpp and run/hosts.cpp say what to start, run/job.hpp runs it.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "hocket/status.hpp"

namespace hocket::run {

struct Options {
  int ranks = 1;
  /// Ranks may end as they like; none is stopped because another failed.
  bool keep_going = false;
  /// Every line of a rank's stdout and stderr begins with "[rank] ".
  bool tag = false;
  /// Lines of a rank's stdout and stderr come out whole, whatever these are: they go through this process. But for a
  /// stdout that is a terminal: a rank's stdio already writes that line by line.
  bool whole_lines = false;
  /// What ranks have to end by themselves after another failed or a signal came to us, before SIGTERM; half of it later
  /// comes SIGKILL.
  std::chrono::milliseconds grace = std::chrono::seconds(10);
  /// How messages on stderr begin.
  std::string name = "hocket run";
  /// What is executed; empty: arguments[0], looked for in PATH.
  std::string executable;
  std::vector<std::string> arguments;

  /// Of a job over several hosts, this one's part: its ranks are first_rank on of `world`, and meet by this id (the
  /// text of a UniqueId) instead of asking this launcher. Empty: all ranks are here.
  std::string unique_id;
  int first_rank = 0;
  int world = 0;
  /// "NAME=value", set for the ranks besides what this process has.
  std::vector<std::string> environment;
  /// When this descriptor ends (at its other side), the ranks are told to end, as by SIGTERM. -1: none.
  int stop_when_closed = -1;
};

/// A host of a job and how many ranks it runs.
struct Host {
  std::string name;
  int ranks = 1;
};
/// "a:4,b:4"; a host without a number runs one rank. Errors: kInvalidArgument.
Result<std::vector<Host>> parse_hosts(std::string_view text);

/// The path of this program; "hocket" if it can't be found out.
std::string this_program();
/// A launcher's words for a host: {host} in `launcher` is its name.
std::vector<std::string> launcher_words(std::string_view launcher, const std::string& host);

struct HostOptions {
  std::vector<Host> hosts;
  /// How a command gets to a host: words, of which {host} is the host's name. The command is added at the end.
  std::string launcher = "ssh -o BatchMode=yes {host}";
  /// The `hocket` of the other hosts; empty: the path of this one.
  std::string hocket;
};
/// Runs options.arguments on several hosts: starts `hocket run --agent` on each, which is told all it needs, the id of
/// the job among it, through its stdin: nothing of it is on a command line. Stdin is no rank's. Returns and errors as
/// run_ranks.
Result<int> run_hosts(const Options& options, const HostOptions& hosts);

/// One host's part of that, told by `input`. Errors: kInvalidArgument if it is no such text.
Result<int> run_agent(int input);

/// Runs to the end and returns the exit status: 0, or that of the first rank that failed (128 + the signal's number).
///
/// Each rank has HOCKET_RANK, HOCKET_SIZE, HOCKET_LOCAL_RANK and HOCKET_RUN_FD, and a process group of its own, of
/// which nothing is left afterwards (but with keep_going). Ranks die with the thread that calls. SIGINT, SIGTERM and
/// SIGHUP are handed on to all, and a second SIGINT or SIGTERM kills them. Stdin goes to rank 0 if it is no terminal.
/// Call it before there are other threads: it forks, and blocks signals. Errors, when nothing could be started:
/// kInvalidArgument, kOutOfMemory, kSystem; then no rank is left.
Result<int> run_ranks(const Options& options);

}  // namespace hocket::run

/// `hocket run`: argv[0] is "run".
int run_main(int argc, char** argv);
