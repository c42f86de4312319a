// SPDX-License-Identifier: Apache-2.0
// doorbell.hpp: how a thread that waits for peers sleeps, and how peers wake it. Lies in shared memory.
//
// The waiter: state := kAsleep (seq_cst exchange), polls everything again, futex wait while kAsleep.
// The signaller: stores its counter by a seq_cst exchange, then reads the state (seq_cst), and wakes if it is not
// kAwake. Either the waiter's second poll sees the counter, or the signaller sees the state: no wake-up is lost.
//
// The exchange of the signaller is a fence, and it costs a signal as much as all the rest. Where ranks seldom sleep,
// the waiter pays instead: its exchange is followed by a membarrier, which fences all running signallers, and they
// store their counters plainly (release). All ranks of a communicator do the one or the other.
//
// A thread that waits for many communicators sleeps on one of its engine's bells instead: the state then holds
// kFirstBell + index, and a signaller rings that bell in the same arena.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/os/futex.hpp"

namespace hocket {

inline constexpr std::size_t kCacheLine = 64;
inline constexpr std::uint32_t kBellCount = 62;

/// One waiter at a time. In shared memory, zero at first.
struct alignas(kCacheLine) Doorbell {
  static constexpr std::uint32_t kAwake = 0;
  static constexpr std::uint32_t kAsleep = 1;
  static constexpr std::uint32_t kFirstBell = 2;
  std::atomic<std::uint32_t> state{kAwake};
};
static_assert(sizeof(Doorbell) == kCacheLine);

/// At the start of every arena.
struct ArenaHeader {
  std::uint64_t magic = 0;
  std::uint64_t token_high = 0;
  std::uint64_t token_low = 0;
  /// Each connecting peer proves with words of its own that both see the same memory: see transport/shm.cpp.
  alignas(kCacheLine) std::array<std::atomic<std::uint64_t>, 512> proofs{};
  alignas(kCacheLine) std::array<std::atomic<std::uint32_t>, kBellCount> bells{};
  /// Where this process's rank blocks start (exec/block.hpp), for `hocket ps`; 0: free.
  alignas(kCacheLine) std::array<std::atomic<std::uint64_t>, 512> blocks{};
};
inline constexpr std::uint64_t kArenaMagic = 0x686f636b61726e31;  // "hockarn1"

/// Publish a counter on which somebody may sleep. `fenced`: see above.
inline void publish(std::atomic<std::uint64_t>& counter, std::uint64_t value, bool fenced) noexcept {
  if (fenced) {
    counter.exchange(value, std::memory_order_seq_cst);
  } else {
    counter.store(value, std::memory_order_release);
    std::atomic_signal_fence(
        std::memory_order_seq_cst);  // the compiler keeps the order; the waiter's membarrier the processor
  }
}

/// After publish(): wake whoever sleeps. `header` is of the arena in which `bell` lies.
inline void ring(ArenaHeader& header, Doorbell& bell) noexcept {
  if (bell.state.load(std::memory_order_seq_cst) == Doorbell::kAwake) [[likely]]
    return;
  const std::uint32_t was = bell.state.exchange(Doorbell::kAwake, std::memory_order_seq_cst);
  if (was == Doorbell::kAsleep) {
    os::futex_wake(bell.state);
  } else if (was >= Doorbell::kFirstBell && was - Doorbell::kFirstBell < kBellCount) {
    std::atomic<std::uint32_t>& word = header.bells[was - Doorbell::kFirstBell];
    word.fetch_add(1, std::memory_order_seq_cst);
    os::futex_wake(word);
  }
}

}  // namespace hocket
