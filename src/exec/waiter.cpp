// SPDX-License-Identifier: Apache-2.0
#include "exec/waiter.hpp"

#include <sched.h>

namespace hocket {

namespace {
constexpr std::int64_t kBeforeYield = 2'000;
}

bool Waiter::spin() {
  if (policy_.crowded) {
    if (rounds_++ < 3) {
      ::sched_yield();
      return true;
    }
    return false;
  }
  // The clock is looked at every 64th time: it costs as much as several looks at a cache line.
  constexpr std::uint32_t kLooks = 64;
  relax();
  if (++rounds_ % kLooks != 0) return true;
  const std::int64_t now = os::now_ns();
  if (since_ == 0) since_ = now;
  // The peer may have been put on this very core: let it run.
  if (now - since_ > kBeforeYield) ::sched_yield();
  return now - since_ < policy_.spin_ns;
}

}  // namespace hocket
