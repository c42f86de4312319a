// SPDX-License-Identifier: Apache-2.0
// pidfd.hpp: a handle on another process that never comes to mean a different one.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/os/abort.hpp"
#include "base/os/unique_fd.hpp"
#include "hocket/status.hpp"

namespace hocket::os {

/// One process, found while it lived. Any thread may use it.
class PidFd {
 public:
  /// Errors: kPeerLost if there is no such process, kOutOfMemory without descriptors, kUnsupported before Linux 5.3.
  static Result<PidFd> open(pid_t pid);

  /// The same, sure that it is the process that started then (ProcessStat::start_time_ticks) and not a later user of
  /// its number. Errors: also kPeerLost if it is another.
  static Result<PidFd> open(pid_t pid, std::uint64_t start_time_ticks);

  pid_t pid() const noexcept { return pid_; }
  /// Readable once the process has ended, zombie or gone: for poll().
  int fd() const noexcept { return fd_.get(); }

  /// Whether it has ended. No wait.
  bool exited() const noexcept;
  /// Waits for its end. Errors: kTimeout, kAborted.
  Status wait_exit(const WaitLimits& limits) const;
  /// Errors: kPeerLost if it has ended, kSystem if it may not be signalled.
  Status send_signal(int number) const;

 private:
  PidFd(UniqueFd fd, pid_t pid) noexcept : fd_(std::move(fd)), pid_(pid) {}
  UniqueFd fd_;
  pid_t pid_;
};

}  // namespace hocket::os
