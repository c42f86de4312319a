// SPDX-License-Identifier: Apache-2.0
#include "transport/landing.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/status.hpp"
#include "transport/doorbell.hpp"

namespace hocket {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

}  // namespace

Status check_put(const Put& put, std::uint64_t arena_bytes) {
  if (put.offset <= arena_bytes && put.bytes <= arena_bytes - put.offset) [[likely]]
    return {};
  return error(Code::kInvalidArgument, "put of {} bytes at {}: the peer's arena has {} bytes", put.bytes, put.offset,
               arena_bytes);
}

Status check_signal(const Signal& signal, std::uint64_t arena_bytes) {
  const std::size_t bytes = signal.line.size();
  if (bytes < kWord || bytes > kCacheLine || bytes % kWord != 0 || signal.offset % kWord != 0 ||
      signal.offset > arena_bytes || bytes > arena_bytes - signal.offset) {
    return error(Code::kInvalidArgument,
                 "signal of {} bytes at {}: needs 8 to 64 bytes in words of 8 in the {} bytes of the peer's arena",
                 bytes, signal.offset, arena_bytes);
  }
  if (signal.bell % alignof(Doorbell) != 0 || signal.bell > arena_bytes - sizeof(Doorbell)) {
    return error(Code::kInvalidArgument, "doorbell at {}: needs a multiple of {} in the {} bytes of the peer's arena",
                 signal.bell, alignof(Doorbell), arena_bytes);
  }
  return {};
}

Status check_get(std::uint64_t offset, std::uint64_t bytes, std::uint64_t arena_bytes) {
  if (bytes <= Endpoint::kMostGetBytes && offset <= arena_bytes && bytes <= arena_bytes - offset) return {};
  return error(Code::kInvalidArgument, "get of {} bytes at {}: at most {} in the {} bytes of the peer's arena", bytes,
               offset, Endpoint::kMostGetBytes, arena_bytes);
}

void apply_signal(std::byte* base, std::span<const std::byte> line, std::uint64_t offset, std::uint64_t bell) {
  const std::size_t front = line.size() - kWord;
  // Words, since some are read before the last one says that all are there (a credit line's port). Relaxed: see below.
  for (std::size_t at = 0; at < front; at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, line.data() + at, kWord);
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(base + offset + at))
        .store(word, std::memory_order_relaxed);
  }
  std::uint64_t last = 0;
  std::memcpy(&last, line.data() + front, kWord);
  // Release for the line and all puts before; seq_cst because the doorbell's state is read after it, see doorbell.hpp.
  // Pairs with the acquire of whoever waits for this word.
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(base + offset + front))
      .exchange(last, std::memory_order_seq_cst);
  ring(*reinterpret_cast<ArenaHeader*>(base), *reinterpret_cast<Doorbell*>(base + bell));
}

void copy_words(std::byte* to, const std::byte* from, std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t skew = reinterpret_cast<std::uintptr_t>(from) % kWord;
    const std::size_t part = std::min(kWord - skew, bytes);
    // Acquire: who reads a number and then what it stands for reads in that order, over a network too.
    const std::uint64_t word =
        std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(from - skew)))
            .load(std::memory_order_acquire);
    std::memcpy(to, reinterpret_cast<const std::byte*>(&word) + skew, part);
    to += part, from += part, bytes -= part;
  }
}

}  // namespace hocket
