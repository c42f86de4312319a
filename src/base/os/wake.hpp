// SPDX-License-Identifier: Apache-2.0
// wake.hpp: how other threads wake one that sleeps in poll().
#pragma once

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>
#include <string_view>

#include "base/os/unique_fd.hpp"
#include "base/status.hpp"

namespace hocket::os {

/// Readable from a wake() on until clear(). Any thread.
class Wake {
 public:
  /// `what` is for the error ("a start"). Errors: kOutOfMemory when descriptors ran out.
  static Result<Wake> create(std::string_view what) {
    UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fd) return system_error(Code::kOutOfMemory, errno, "eventfd for {} (see ulimit -n)", what);
    return Wake(std::move(fd));
  }

  int fd() const noexcept { return fd_.get(); }
  void wake() const noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(fd_.get(), &one, sizeof one);
  }
  void clear() const noexcept {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(fd_.get(), &count, sizeof count);
  }

 private:
  explicit Wake(UniqueFd fd) noexcept : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace hocket::os
