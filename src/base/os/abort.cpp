// SPDX-License-Identifier: Apache-2.0
#include "base/os/abort.hpp"

#include <sys/eventfd.h>

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.hpp"

namespace hocket::os {

Result<AbortFlag> AbortFlag::create() {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return system_error(Code::kOutOfMemory, errno, "eventfd for an abort flag (see ulimit -n)");
  return AbortFlag(std::move(event));
}

void AbortFlag::raise() noexcept {
  raised_.store(true, std::memory_order_release);  // pairs with the acquire in raised()
  const std::uint64_t one = 1;
  // Can only fail when the counter is full, and then it is readable as it should be.
  [[maybe_unused]] const ssize_t n = ::write(event_.get(), &one, sizeof one);
}

Status poll_for(std::span<pollfd> fds, const WaitLimits& limits, std::string_view what) {
  std::array<pollfd, 16> few;
  std::vector<pollfd> many;
  std::span<pollfd> all = few;
  if (fds.size() + 1 > few.size()) {
    many.resize(fds.size() + 1);
    all = many;
  }
  all = all.first(fds.size() + 1);
  std::copy(fds.begin(), fds.end(), all.begin());
  // poll() leaves entries with a negative descriptor out.
  all.back() = {.fd = limits.abort ? limits.abort->fd() : -1, .events = POLLIN, .revents = 0};
  for (;;) {
    if (limits.abort && limits.abort->raised()) return error(Code::kAborted, "aborted while waiting for {}", what);
    const int n = ::poll(all.data(), all.size(), limits.deadline.poll_timeout_ms());
    if (n < 0 && errno != EINTR) return system_error(Code::kSystem, errno, "poll for {}", what);
    bool any = false;
    for (std::size_t i = 0; n > 0 && i < fds.size(); ++i) {
      fds[i].revents = all[i].revents;
      any |= all[i].revents != 0;
    }
    if (any) return {};
    if (n == 0 && limits.deadline.passed()) return error(Code::kTimeout, "time ran out while waiting for {}", what);
  }
}

Status poll_for(int fd, short events, const WaitLimits& limits, std::string_view what) {
  pollfd entry{.fd = fd, .events = events, .revents = 0};
  return poll_for(std::span(&entry, 1), limits, what);
}

Status sleep_until(const WaitLimits& limits) {
  const Status status = poll_for(std::span<pollfd>(), limits, "its time");
  return status.code() == Code::kTimeout ? Status() : status;
}

}  // namespace hocket::os
