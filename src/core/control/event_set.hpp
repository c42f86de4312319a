// SPDX-License-Identifier: Apache-2.0
// control/event_set.hpp: the descriptors that the control thread sleeps on, and what each of them is.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "base/os/clock.hpp"
#include "base/os/unique_fd.hpp"
#include "base/status.hpp"

namespace hocket {

/// Any thread may watch and unwatch while one waits.
class EventSet {
 public:
  /// What a descriptor is; the id says which of its kind.
  enum class Kind : std::uint64_t { kWake, kAbstract, kPath, kConversation, kSocket, kProcess };

  /// Errors: kOutOfMemory.
  Status create() {
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    return epoll_ ? Status() : system_error(Code::kOutOfMemory, errno, "an epoll set (see ulimit -n)");
  }

  /// `again`: other events of one that is watched. Errors: kOutOfMemory, kSystem.
  Status watch(int fd, std::uint32_t events, Kind kind, std::uint64_t id, bool again = false) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id << 3 | static_cast<std::uint64_t>(kind);
    if (::epoll_ctl(epoll_.get(), again ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0) return {};
    return system_error(errno == ENOMEM || errno == ENOSPC ? Code::kOutOfMemory : Code::kSystem, errno, "epoll_ctl");
  }
  /// Before every close: a forked child that holds the same open file would keep it, and its events, in the set.
  void unwatch(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

  /// Sleeps until `until`, then calls handle(kind, id) for each descriptor that has something.
  template <class Handle>
  void wait(os::Deadline until, Handle handle) {
    std::array<epoll_event, 32> events;
    const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), until.poll_timeout_ms());
    for (int i = 0; i < n; ++i) {
      const std::uint64_t data = events[static_cast<std::size_t>(i)].data.u64;
      handle(static_cast<Kind>(data & 7), data >> 3);
    }
  }

 private:
  os::UniqueFd epoll_;
};

}  // namespace hocket
