// SPDX-License-Identifier: Apache-2.0
// tools/run.hpp: starts ranks as child processes of this one and serves their exchanges until the last has ended.
//
// Other side: src/core/launch.hpp. `hocket run` is this with flags; `hocket perf --ranks` starts itself through it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "hocket/status.hpp"

namespace hocket::run {

struct Options {
  int ranks = 1;
  /// Ranks may end as they like; none is stopped because another failed.
  bool keep_going = false;
  /// Every line of a rank's stdout and stderr begins with "[rank] ".
  bool tag = false;
  /// What the others have to end by themselves after a rank failed, before SIGTERM; half of it later comes SIGKILL.
  std::chrono::milliseconds grace = std::chrono::seconds(10);
  /// How messages on stderr begin.
  std::string name = "hocket run";
  /// What is executed; empty: arguments[0], looked for in PATH.
  std::string executable;
  std::vector<std::string> arguments;
};

/// Runs to the end and returns the exit status: 0, or that of the first rank that failed (128 + the signal's number).
///
/// Each rank has HOCKET_RANK, HOCKET_SIZE, HOCKET_LOCAL_RANK and HOCKET_RUN_FD, and a process group of its own, of
/// which nothing is left afterwards (but with keep_going). Ranks die with the thread that calls. SIGINT, SIGTERM and
/// SIGHUP are handed on to all. Stdin goes to rank 0 if it is no terminal. Call it before there are other threads: it
/// forks, and blocks signals. Errors, when nothing could be started: kInvalidArgument, kOutOfMemory, kSystem; then no
/// rank is left.
Result<int> run_ranks(const Options& options);

}  // namespace hocket::run

/// `hocket run`: argv[0] is "run".
int run_main(int argc, char** argv);
