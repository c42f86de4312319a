// SPDX-License-Identifier: Apache-2.0
// base/os/membarrier.hpp: a fence that one thread executes for all running threads of registered processes, so that
// they need none of their own before a load. Linux 4.16.
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hocket::os {

/// This process takes part. False: the kernel has no such thing, or a sanitizer would not see it.
inline bool register_membarrier() noexcept {
#if defined(__SANITIZE_THREAD__)
  return false;
#else
  static const bool done = ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  return done;
#endif
}

/// Every running thread of every registered process executes a full fence before this returns. Some microseconds.
inline void membarrier() noexcept {
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

}  // namespace hocket::os
