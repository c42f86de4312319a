// SPDX-License-Identifier: Apache-2.0
// tools/run/signals.hpp: while ranks run, a launcher's signals are read from a descriptor, and a reader that went away
// is an error of write().
#pragma once

#include <signal.h>

#include <memory>

#include "base/os/unique_fd.hpp"
#include "hocket/status.hpp"

namespace hocket::run {

/// SIGINT, SIGTERM and SIGHUP are blocked, and SIGPIPE ignored, for the lifetime of this. The thread that made it; one
/// at a time in a process.
class Signals {
 public:
  /// Errors: kSystem, kOutOfMemory.
  static Result<std::unique_ptr<Signals>> block();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Readable when one has come.
  int fd() const noexcept { return fd_.get(); }
  /// The next signal that came, 0 if none.
  int take() noexcept;

  /// As they were: what a rank gets back before it becomes its program.
  const sigset_t& mask_before() const noexcept { return mask_before_; }
  const struct sigaction& pipe_before() const noexcept { return pipe_before_; }

 private:
  Signals() = default;
  os::UniqueFd fd_;
  sigset_t mask_before_{};
  struct sigaction pipe_before_ {};
  bool blocked_ = false;
  bool ignores_pipe_ = false;
};

}  // namespace hocket::run
