// SPDX-License-Identifier: Apache-2.0
// abort.hpp: how another thread ends a wait.
//
// Every wait in the kernel takes WaitLimits: a deadline and the flag of its owner.
#pragma once

#include <poll.h>

#include <atomic>
#include <span>
#include <string_view>

#include "base/os/clock.hpp"
#include "base/os/unique_fd.hpp"
#include "hocket/status.hpp"

namespace hocket::os {

/// A flag that can be polled for: raised once, never lowered. Stays put; outlives the waits that it ends. Any thread.
class AbortFlag {
 public:
  /// Errors: kOutOfMemory when descriptors ran out.
  static Result<AbortFlag> create();

  /// Ends all waits with this flag, now and later. Safe to repeat.
  void raise() noexcept;

  /// An acquire load; pairs with the release in raise(), so what the raiser wrote before is seen.
  bool raised() const noexcept { return raised_.load(std::memory_order_acquire); }

  /// Readable once raised, for ever: for poll().
  int fd() const noexcept { return event_.get(); }

  /// Only before other threads know it.
  AbortFlag(AbortFlag&& other) noexcept
      : event_(std::move(other.event_)), raised_(other.raised_.load(std::memory_order_relaxed)) {}

 private:
  explicit AbortFlag(UniqueFd event) noexcept : event_(std::move(event)) {}
  UniqueFd event_;
  std::atomic<bool> raised_{false};
};

/// What can end a wait besides the thing that is waited for.
struct WaitLimits {
  Deadline deadline = Deadline::never();
  const AbortFlag* abort = nullptr;  ///< borrowed for the time of the wait; may be null
};

/// Waits until one of `fds` has an event (seen in its revents), interrupted or not.
///
/// Errors: kTimeout, kAborted with "…while waiting for {what}", kSystem.
Status poll_for(std::span<pollfd> fds, const WaitLimits& limits, std::string_view what);

/// The same for one descriptor; `events` as in poll(). An error or a hang-up of the descriptor counts as an event.
Status poll_for(int fd, short events, const WaitLimits& limits, std::string_view what);

/// Sleeps until the deadline (OK) or an abort (kAborted).
Status sleep_until(const WaitLimits& limits);

}  // namespace hocket::os
