// SPDX-License-Identifier: Apache-2.0
// tools/run/child.hpp: one process that a launcher starts: what it is started with, and what is known of it until it
// has ended.
//
// Next stops: exchanges.hpp and outputs.hpp, which take our ends of its socket, its stdout and its stderr.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/os/pidfd.hpp"
#include "base/os/unique_fd.hpp"
#include "hocket/status.hpp"
#include "hocket/types.hpp"
#include "tools/run/signals.hpp"

namespace hocket::run {

/// What one child is started with.
struct Spec {
  Rank rank = 0;           ///< -1: no rank but a host's launcher, which asks nothing of us
  std::string name;        ///< in texts: "rank 3", "host a"
  std::string executable;  ///< empty: the first argument, looked for in PATH
  std::vector<std::string> arguments;
  /// "NAME=value"; `socket` is the number of its descriptor in the child, -1 if it has none.
  std::function<std::vector<std::string>(int socket)> environment;
  int input = -1;          ///< its stdin; -1: ours
  std::string input_text;  ///< or this, and then nothing until we end
};

/// A child that was started. Its own process group.
struct Child {
  Rank rank = 0;
  std::string name;
  pid_t pid = -1;
  std::optional<os::PidFd> process;  ///< until it has ended
  os::UniqueFd input;                ///< what its stdin is fed by, held open until the end
  bool ended = false;
  int wait_status = 0;

  /// "rank 3 (pid 7) ended with exit code 1". Of one that has ended.
  std::string ending() const;
  /// As a shell says it: 128 + the signal's number for one that was killed.
  int exit_status() const;
};

/// Our ends of what a child is connected with; empty where it has none.
struct ChildEnds {
  os::UniqueFd socket;      ///< non-blocking
  os::UniqueFd outputs[2];  ///< of its stdout and stderr; non-blocking
};

/// What all children of a job have in common.
struct StartOptions {
  bool through[2];    ///< their stdout, their stderr comes to us, and is not ours
  rlimit open_files;  ///< their limit, whatever ours is
  const Signals& signals;
};

/// Starts one; it dies with this thread. `child` and `ends` are filled. Errors: kInvalidArgument if there is no such
/// program or its text is too long, kOutOfMemory, kSystem; then nothing of it is left, unless child.pid says otherwise.
Status start_child(const Spec& spec, const StartOptions& options, Child& child, ChildEnds& ends);

/// "rank 1", "ranks 0, 1, 2 and 12 more", "host a".
std::string names_of(const std::vector<const Child*>& children);

}  // namespace hocket::run
