// SPDX-License-Identifier: Apache-2.0
// futex.hpp: sleep on a 32-bit word that may lie in memory shared between processes.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/os/clock.hpp"

namespace hocket::os {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

enum class FutexWait {
  kWoken,     ///< woken, interrupted or for no reason: look at the word again
  kChanged,   ///< the word was not `expected` when the kernel looked
  kTimedOut,  ///< the deadline passed
};

/// Sleeps while `word` is `expected`, until a wake or the deadline. Not the private kind: the waker may be another
/// process.
///
/// Orders nothing: the caller reads the word (or what it announces) again with acquire. There is no abort flag here;
/// who aborts changes the word and wakes.
inline FutexWait futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                            Deadline deadline) noexcept {
  // FUTEX_WAIT_BITSET takes an absolute time of the monotonic clock, so repeats after a signal do not stretch the wait.
  const std::int64_t ns = deadline.ns() < 0 ? 0 : deadline.ns();
  const timespec until{.tv_sec = static_cast<time_t>(ns / 1'000'000'000),
                       .tv_nsec = static_cast<long>(ns % 1'000'000'000)};
  const long rc = ::syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAIT_BITSET, expected,
                            deadline.is_never() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
  if (rc == 0) return FutexWait::kWoken;
  if (errno == EAGAIN) return FutexWait::kChanged;
  return errno == ETIMEDOUT ? FutexWait::kTimedOut : FutexWait::kWoken;
}

/// Wakes up to `count` sleepers on `word`; returns how many.
inline int futex_wake(const std::atomic<std::uint32_t>& word, int count = 1) noexcept {
  const long n = ::syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAKE, count);
  return n < 0 ? 0 : static_cast<int>(n);
}

}  // namespace hocket::os
