// SPDX-License-Identifier: Apache-2.0
// base/os/thread_place.hpp: where a thread runs that works for others while they compute: not on their cores, as long
// as its affinity mask has another one. The kernel wakes a thread where its waker is, and leaves it behind the waker's
// computation until the next balancing, some milliseconds later.
#pragma once

#include <sched.h>
#include <sys/types.h>

namespace hocket::os {

/// One thread's. Calls must not overlap. Whatever the kernel refuses is left as it was: it is only about time.
class ThreadPlace {
 public:
  /// By the thread itself, before it works.
  void settle() noexcept;
  /// Somebody on this core is about to compute.
  void keep_off(int cpu) noexcept;

 private:
  void apply() noexcept;

  pid_t thread_ = 0;     // 0: not settled
  cpu_set_t allowed_{};  // the mask without what is kept off
  cpu_set_t set_{};      // what apply() set last
  cpu_set_t callers_{};  // cores that somebody computes on
  unsigned calls_ = 0;   // since callers_ was begun
};

}  // namespace hocket::os
