// SPDX-License-Identifier: Apache-2.0
// thread.hpp: the owner of a helper thread.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/os/process.hpp"
#include "hocket/status.hpp"

namespace hocket::os {

/// A running thread with a name, joined at the end. One thread at a time may use the owner.
///
/// All signals are blocked in it, so the program's handlers run on the program's own threads. Affinity and priority are
/// the caller's. How its body learns that it should end is the business of whoever starts it, before this is destroyed.
class Thread {
 public:
  /// `name` shows in ps and gdb, cut to 15 characters. `body` must not throw: that ends the process.
  /// Errors: kOutOfMemory when no thread can be had.
  static Result<Thread> start(std::string name, std::function<void()> body);

  Thread() noexcept = default;
  Thread(Thread&& other) noexcept = default;
  Thread& operator=(Thread&& other) noexcept;
  ~Thread() { join(); }

  /// Whether the calling thread was started by this class: it must not wait for itself to end.
  static bool is_helper() noexcept;

  bool running() const noexcept { return thread_.joinable(); }
  /// Waits for the body to return. In a forked child, which has no such thread, only forgets it.
  void join() noexcept;
  /// Lets it run to its end, or the process's, with no owner: its body must own all that it uses.
  void detach() noexcept;

 private:
  explicit Thread(std::thread thread) noexcept : thread_(std::move(thread)) {}
  std::thread thread_;
  ForkMark fork_mark_;
};

}  // namespace hocket::os
