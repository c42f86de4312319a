// SPDX-License-Identifier: Apache-2.0
// tools/run/termination.hpp: how children are brought to their end, and what the job's exit status is.
//
//   a rank failed            the others have the grace, then get SIGTERM, and half of it later SIGKILL
//   a signal came to us      it is handed on; then the same
//   a second one             SIGKILL at once
//   who started us has gone  SIGTERM at once, and half of the grace later SIGKILL
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "base/os/clock.hpp"
#include "tools/run.hpp"
#include "tools/run/child.hpp"

namespace hocket::run {

/// One thread.
class Termination {
 public:
  /// `options` and `children` outlive this; `say` gets what a user should know.
  Termination(const Options& options, const std::vector<Child>& children, std::function<void(std::string_view)> say)
      : options_(options), children_(children), say_(std::move(say)) {}

  void on_signal(int number);
  /// A child has ended with this status, which is not 0.
  void on_failure(int exit_status);
  void on_starter_gone();

  /// When to call act().
  os::Deadline next() const noexcept { return std::min(deadline_, notice_); }
  /// Does what is due.
  void act();

  /// 0, or that of the first failure.
  int exit_status() const noexcept { return exit_status_; }

 private:
  std::vector<const Child*> running() const;
  void send(int number) const;
  void start_grace();

  const Options& options_;
  const std::vector<Child>& children_;
  std::function<void(std::string_view)> say_;
  int exit_status_ = 0;
  bool terminated_ = false;  // SIGTERM was sent; what comes next is SIGKILL
  bool asked_ = false;       // by a signal of ours, to end
  os::Deadline same_signal_ = os::Deadline::never();
  os::Deadline notice_ = os::Deadline::never();  // when to say for whom we wait then
  os::Deadline deadline_ = os::Deadline::never();
};

}  // namespace hocket::run
