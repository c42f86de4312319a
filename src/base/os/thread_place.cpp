// SPDX-License-Identifier: Apache-2.0
#include "base/os/thread_place.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace hocket::os {
namespace {

/// Callers move: cores that nobody has called from for so long are free again.
constexpr unsigned kForgetAfter = 4096;

}  // namespace

void ThreadPlace::settle() noexcept {
  const auto thread = static_cast<pid_t>(::syscall(SYS_gettid));
  if (::sched_getaffinity(thread, sizeof allowed_, &allowed_) != 0) return;  // more cores than a cpu_set_t has
  thread_ = thread;
  set_ = allowed_;
  apply();
}

void ThreadPlace::keep_off(int cpu) noexcept {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return;
  const bool begins = ++calls_ >= kForgetAfter;
  if (begins) {
    CPU_ZERO(&callers_);
    calls_ = 0;
  }
  if (CPU_ISSET(cpu, &callers_)) return;
  CPU_SET(cpu, &callers_);
  if (thread_ != 0) apply();
}

void ThreadPlace::apply() noexcept {
  // Somebody else may have moved the thread: that mask counts from now on.
  cpu_set_t now;
  if (::sched_getaffinity(thread_, sizeof now, &now) != 0) return;
  if (!CPU_EQUAL(&now, &set_)) allowed_ = set_ = now;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed_) && !CPU_ISSET(cpu, &callers_)) CPU_SET(cpu, &wanted);
  if (CPU_COUNT(&wanted) == 0) wanted = allowed_;
  if (!CPU_EQUAL(&wanted, &set_) && ::sched_setaffinity(thread_, sizeof wanted, &wanted) == 0) set_ = wanted;
}

}  // namespace hocket::os
