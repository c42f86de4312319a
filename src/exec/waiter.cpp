// SPDX-License-Identifier: Apache-2.0
#include "exec/waiter.hpp"

#include <sched.h>

namespace hocket {

Waiter::Next Waiter::spin() {
  if (policy_.crowded) {
    if (looks_left_ > 0) {
      --looks_left_;
      relax();
      return Next::kLook;
    }
    return ++rounds_ <= 3 ? Next::kYield : Next::kSleep;
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
