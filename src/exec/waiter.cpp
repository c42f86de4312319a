// SPDX-License-Identifier: Apache-2.0
#include "exec/waiter.hpp"

#include <sched.h>

namespace hocket {

Waiter::Next Waiter::spin() {
  if (policy_.crowded) {
    if (rounds_++ < 3) {
      ::sched_yield();
      return Next::kLook;
    }
    return Next::kSleep;
  }
  // The clock costs as much as several looks at a cache line.
  constexpr std::int64_t kBeforeShare = 2'000;
  relax();
  if (++rounds_ % looks_ != 0) return Next::kLook;
  const std::int64_t now = os::now_ns();
  if (since_ == 0) since_ = now;
  if (now - since_ >= policy_.spin_ns) return Next::kSleep;
  return now - since_ > kBeforeShare ? Next::kShare : Next::kLook;
}

}  // namespace hocket
