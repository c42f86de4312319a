// SPDX-License-Identifier: Apache-2.0
// exec/memory_order.hpp: loads and stores of counters and flags that another rank or device reads, for host and device.
//
// Scope is always the whole system: the partner may be another GPU or the host. Each use names its partner.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/host_device.hpp"

namespace hocket {

/// Everything before the partner's release of the value read is visible after it.
HOCKET_HD inline std::uint64_t load_acquire(const std::uint64_t* from) {
#ifdef __CUDA_ARCH__
  std::uint64_t value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
#else
  return std::atomic_ref<std::uint64_t>(*const_cast<std::uint64_t*>(from)).load(std::memory_order_acquire);
#endif
}

/// On a device it also covers what the block's other threads did before the last block barrier.
HOCKET_HD inline void store_release(std::uint64_t* to, std::uint64_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
#else
  std::atomic_ref<std::uint64_t>(*to).store(value, std::memory_order_release);
#endif
}

HOCKET_HD inline void store_relaxed(std::uint64_t* to, std::uint64_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
#else
  std::atomic_ref<std::uint64_t>(*to).store(value, std::memory_order_relaxed);
#endif
}

/// A word that holds its data and the flag that says the data is there: one access moves both, so on a device no fence
/// is paid. The value stored was computed from everything that its element depends on, and nothing else hangs on the
/// flag (device_lane.hpp says why that is enough). On the host release and acquire cost nothing and the thread
/// sanitizer understands them.
HOCKET_HD inline void store_flagged(std::uint64_t* to, std::uint64_t word) {
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
#else
  std::atomic_ref<std::uint64_t>(*to).store(word, std::memory_order_release);
#endif
}

HOCKET_HD inline std::uint64_t load_flagged(const std::uint64_t* from) {
#ifdef __CUDA_ARCH__
  std::uint64_t word;
  asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  return word;
#else
  return std::atomic_ref<std::uint64_t>(*const_cast<std::uint64_t*>(from)).load(std::memory_order_acquire);
#endif
}

/// Two words at a 16-byte boundary, the second of which is a flag: whoever sees the second sees the first. Orders
/// nothing else on a device.
HOCKET_HD inline void store_flagged_pair(std::uint64_t* to, std::uint64_t first, std::uint64_t flag) {
#ifdef __CUDA_ARCH__
  asm volatile("{\n\t.reg .b128 pair;\n\tmov.b128 pair, {%1, %2};\n\tst.relaxed.sys.b128 [%0], pair;\n\t}" ::"l"(to),
               "l"(first), "l"(flag)
               : "memory");
#else
  store_relaxed(to, first);
  store_release(to + 1, flag);
#endif
}

}  // namespace hocket
