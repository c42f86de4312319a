// SPDX-License-Identifier: Apache-2.0
// exec/waiter.hpp: how a blocking call waits between turns.
//
// With a core for each rank of the host: spin for a moment, then sleep on the doorbell; a third party's
// thread is not let in, as it would keep the core for milliseconds. With more ranks than cores spinning
// keeps an awaited peer of this core from running, so: yield at once; for a peer of another core look
// around for as long as a yield takes, then yield; after three yields the doorbell.
#pragma once

#include <cstdint>

#include "base/os/clock.hpp"
#include "base/os/futex.hpp"
#include "base/os/membarrier.hpp"
#include "transport/doorbell.hpp"

namespace hocket {

/// Over a network to sleep and to be woken costs two more threads' wakes and several system calls, about as much as
/// this spin: with a quarter of it, 4 MiB between two processes took a third longer.
inline constexpr std::int64_t kNetworkSpinNs = 200'000;

struct WaitPolicy {
  bool crowded = false;  ///< more ranks than cores on this host
  std::uint32_t linger_looks =
      0;               ///< crowded: so many looks before a yield, for a peer of another core that may be running
  bool fenced = true;  ///< signals are fenced; else whoever goes to sleep fences for all (transport/doorbell.hpp)
  std::int64_t spin_ns = 50'000;
};

/// One wait of one call: from the first turn that did nothing to the next that does something.
class Waiter {
 public:
  /// `costly`: each look is a system call or more, so that a few of them take as long as many at a cache line.
  Waiter(const WaitPolicy& policy, Doorbell& bell, bool costly = false)
      : policy_(policy), bell_(bell), looks_(costly ? 4 : 64) {}

  /// Something moved: the next wait starts anew.
  void reset() {
    rounds_ = 0;
    looks_left_ = lingered_ = 0;
    since_ = 0;
  }

  enum class Next {
    kLook,   ///< again, at once
    kShare,  ///< again, but first let the awaited rank run if it was put on this very core (shares_core)
    kYield,  ///< again, but first yield, unless the awaited rank is on another core and linger() says so
    kSleep,  ///< the caller should arm() and look once more, then sleep()
  };
  Next spin();
  /// Before a kYield towards a peer of another core: true where it pays to look a few times more instead.
  bool linger() {
    if (policy_.linger_looks == 0 || lingered_ == rounds_) return false;
    lingered_ = rounds_;
    looks_left_ = policy_.linger_looks;
    --rounds_;
    return true;
  }

  /// From now on signals ring. Look at everything once more before sleep().
  void arm() {
    bell_.state.exchange(Doorbell::kAsleep, std::memory_order_seq_cst);
    if (!policy_.fenced) os::membarrier();
  }
  /// Until rung or `until`.
  void sleep(os::Deadline until) { os::futex_wait(bell_.state, Doorbell::kAsleep, until); }
  void disarm() { bell_.state.store(Doorbell::kAwake, std::memory_order_release); }

 private:
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  const WaitPolicy& policy_;
  Doorbell& bell_;
  const std::uint32_t looks_;  ///< for each one at the clock
  std::uint32_t rounds_ = 0;
  std::uint32_t looks_left_ = 0;  // of linger()
  std::uint32_t lingered_ = 0;    // before which yield
  std::int64_t since_ = 0;
};

}  // namespace hocket
