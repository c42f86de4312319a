// SPDX-License-Identifier: Apache-2.0
// process.hpp: facts about processes of this host, and whether this one is a forked child.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "hocket/status.hpp"

namespace hocket::os {

/// The kernel's random id of this boot: equal in all processes (and containers) of one running kernel, 36 characters.
Result<std::string> boot_id();

/// What /proc/PID/stat says.
struct ProcessStat {
  char state;  ///< R running, S or D sleeping, T stopped, t traced, Z zombie, X dead
  pid_t parent;
  std::uint64_t start_time_ticks;  ///< since boot; with the pid it names a process for good

  bool stopped() const noexcept { return state == 'T' || state == 't'; }
  bool dead() const noexcept { return state == 'Z' || state == 'X'; }
};

/// Errors: kPeerLost if there is no such process, kSystem if /proc cannot be read.
Result<ProcessStat> process_stat(pid_t pid);

namespace detail {
// Relaxed everywhere: written only in a child between fork and its first other thread.
extern std::atomic<std::uint32_t> fork_count;
void register_fork_handler() noexcept;
}  // namespace detail

/// Remembers in which process it was made; forked() is true in a child that inherited it. One relaxed load.
///
/// Objects that a child must not use (their threads are gone, their channels are the parent's) hold one and check it at
/// every entry. A child may make new objects of its own: their marks are fresh.
class ForkMark {
 public:
  ForkMark() noexcept : count_((detail::register_fork_handler(), detail::fork_count.load(std::memory_order_relaxed))) {}
  bool forked() const noexcept { return detail::fork_count.load(std::memory_order_relaxed) != count_; }

 private:
  std::uint32_t count_;
};

}  // namespace hocket::os
