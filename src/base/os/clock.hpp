// SPDX-License-Identifier: Apache-2.0
// clock.hpp: monotonic time and deadlines.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>
#include <limits>

namespace hocket::os {

/// Nanoseconds of CLOCK_MONOTONIC: the same clock in all processes of the host. About 20 ns, no system call.
inline std::int64_t now_ns() noexcept {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// A point in monotonic time, or never. A value.
class Deadline {
 public:
  static constexpr Deadline never() noexcept { return Deadline(std::numeric_limits<std::int64_t>::max()); }
  static constexpr Deadline at_ns(std::int64_t ns) noexcept { return Deadline(ns); }
  /// `delay` from now; never if that does not fit.
  static Deadline after(std::chrono::nanoseconds delay) noexcept {
    const std::int64_t now = now_ns();
    return delay.count() > std::numeric_limits<std::int64_t>::max() - now ? never() : Deadline(now + delay.count());
  }
  /// As settings are written: 0 is never.
  static Deadline after_or_never(std::chrono::nanoseconds delay) noexcept {
    return delay.count() == 0 ? never() : after(delay);
  }

  constexpr bool is_never() const noexcept { return ns_ == std::numeric_limits<std::int64_t>::max(); }
  constexpr std::int64_t ns() const noexcept { return ns_; }
  bool passed() const noexcept { return !is_never() && now_ns() >= ns_; }

  /// For poll(): -1 for never, else milliseconds rounded up (so that poll does not return just before), at most an
  /// hour.
  int poll_timeout_ms() const noexcept {
    if (is_never()) return -1;
    const std::int64_t left = ns_ - now_ns();
    if (left <= 0) return 0;
    return left > 3'600'000'000'000 ? 3'600'000 : static_cast<int>((left + 999'999) / 1'000'000);
  }

  friend constexpr auto operator<=>(Deadline, Deadline) noexcept = default;

 private:
  constexpr explicit Deadline(std::int64_t ns) noexcept : ns_(ns) {}
  std::int64_t ns_;
};

}  // namespace hocket::os
