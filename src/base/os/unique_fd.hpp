// SPDX-License-Identifier: Apache-2.0
// unique_fd.hpp: the owner of a file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

namespace hocket::os {

/// Owns one descriptor, or none (-1). Closes it at the end.
class UniqueFd {
 public:
  UniqueFd() noexcept = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

  /// Gives the descriptor up to the caller.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

  /// Closes what is held and takes `fd`.
  void reset(int fd = -1) noexcept {
    const int old = std::exchange(fd_, fd);
    // On Linux the descriptor is gone even if close reports an error, so there is nothing to repeat.
    if (old >= 0) ::close(old);
  }

 private:
  int fd_ = -1;
};

}  // namespace hocket::os
