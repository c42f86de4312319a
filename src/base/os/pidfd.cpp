// SPDX-License-Identifier: Apache-2.0
#include "base/os/pidfd.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/process.hpp"
#include "base/status.hpp"

namespace hocket::os {
namespace {

// By number, because the C library has names for these only since 2.36.
#ifdef SYS_pidfd_open
constexpr long kPidfdOpen = SYS_pidfd_open;
#else
constexpr long kPidfdOpen = 434;
#endif
#ifdef SYS_pidfd_send_signal
constexpr long kPidfdSendSignal = SYS_pidfd_send_signal;
#else
constexpr long kPidfdSendSignal = 424;
#endif

}  // namespace

Result<PidFd> PidFd::open(pid_t pid) {
  UniqueFd fd(static_cast<int>(::syscall(kPidfdOpen, pid, 0)));  // close-on-exec by itself
  if (fd) return PidFd(std::move(fd), pid);
  switch (errno) {
    case ESRCH: return error(Code::kPeerLost, "process {} has ended", pid);
    case ENOSYS: return error(Code::kUnsupported, "this kernel has no pidfd_open (Linux 5.3 does)");
    case EMFILE:
    case ENFILE:
    case ENOMEM: return system_error(Code::kOutOfMemory, errno, "pidfd_open of process {} (see ulimit -n)", pid);
    default: return system_error(Code::kSystem, errno, "pidfd_open of process {}", pid);
  }
}

Result<PidFd> PidFd::open(pid_t pid, std::uint64_t start_time_ticks) {
  HOCKET_ASSIGN(PidFd process, open(pid));
  // The handle is held, so if the number means the right process now, so does the handle.
  HOCKET_ASSIGN(const ProcessStat stat, process_stat(pid));
  if (stat.start_time_ticks != start_time_ticks) {
    return error(Code::kPeerLost, "process {} has ended, and its number belongs to another now", pid);
  }
  return process;
}

bool PidFd::exited() const noexcept {
  pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  int n = 0;
  do n = ::poll(&entry, 1, 0);
  while (n < 0 && errno == EINTR);
  return n > 0;
}

Status PidFd::wait_exit(const WaitLimits& limits) const {
  return poll_for(fd_.get(), POLLIN, limits, format("the end of process {}", pid_));
}

Status PidFd::send_signal(int number) const {
  if (::syscall(kPidfdSendSignal, fd_.get(), number, nullptr, 0) == 0) return {};
  if (errno == ESRCH) return error(Code::kPeerLost, "process {} has ended", pid_);
  return system_error(Code::kSystem, errno, "signal {} to process {}", number, pid_);
}

}  // namespace hocket::os
