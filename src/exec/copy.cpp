// SPDX-License-Identifier: Apache-2.0
// exec/copy.cpp: ordinary, string-instruction and non-temporal copies.

#include "exec/copy.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

#include "base/os/clock.hpp"

namespace hocket {
namespace {

// memcpy itself switches to non-temporal stores at a size that depends on the C library; pieces of this size stay
// below.
constexpr std::size_t kCachedBytes = 256 * 1024;
// What several destinations are written from: half of the smallest L1 in use.
constexpr std::size_t kBlockBytes = 16 * 1024;

#if defined(__x86_64__)

// CPUID leaf 7: enhanced `rep movsb`. Without it the instruction moves a few bytes a cycle.
bool has_fast_movsb() {
  static const bool fast = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1u << 9)) != 0;
  }();
  return fast;
}

void move_string(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  std::memcpy(to, from, bytes);  // the sanitizers don't see what assembly touches
#else
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#endif
}

/// `rep movsb`, which memcpy uses too, moves 3.5 GB/s instead of 50 to 100 on Zen 3 and 4 where the target lies 1 to 63
/// bytes after the source, modulo pages: it seems to overlap what is still to be read. A user's buffer that is a few
/// bytes off a page, and a slot, are such.
constexpr std::uintptr_t kPage = 4096;
bool seems_to_overlap(const std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::uintptr_t kLine = 64;
  const std::uintptr_t ahead = (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % kPage;
  return ahead != 0 && ahead < kLine && bytes >= kSlotCopyBytes / 4 && has_fast_movsb();
}

/// So by way of a block in L1 that lies half a page away from both: 48 GB/s.
void copy_twice(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kPiece = 8192;
  std::byte room[kPiece + kPage];
  const std::uintptr_t away =
      reinterpret_cast<std::uintptr_t>(from) + kPage / 2 - reinterpret_cast<std::uintptr_t>(room);
  std::byte* const block = room + away % kPage;
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t length = std::min(kPiece, bytes - at);
    move_string(block, from + at, length);
    move_string(to + at, block, length);
  }
}

#else

bool seems_to_overlap(const std::byte*, const std::byte*, std::size_t) {
  return false;
}
void copy_twice(std::byte*, const std::byte*, std::size_t) {}

#endif

void copy_cached(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (seems_to_overlap(to, from, bytes)) return copy_twice(to, from, bytes);
  while (bytes > kCachedBytes) {
    std::memcpy(to, from, kCachedBytes);
    to += kCachedBytes;
    from += kCachedBytes;
    bytes -= kCachedBytes;
  }
  std::memcpy(to, from, bytes);
}

#if defined(__x86_64__)

void copy_stream(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const std::size_t head = std::min(bytes, (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine);
  std::memcpy(to, from, head);
  to += head;
  from += head;
  bytes -= head;
  for (; bytes >= kLine; bytes -= kLine, to += kLine, from += kLine) {
    const __m128i* in = reinterpret_cast<const __m128i*>(from);
    __m128i* out = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  std::memcpy(to, from, bytes);
  _mm_sfence();  // non-temporal stores are ordered by nothing else: the Signal that follows is a plain store
}

/// Whether this thread fills slots around the caches. Where two cores are far from each other (on a virtual machine
/// they may be at one moment and not at the next) it takes ten times as long to take a slot's lines back from the other
/// core as to write past both. Which it is shows in how long a slot takes; it is only about time, the bytes are the
/// same.
class SlotWay {
 public:
  /// Of fills that are worth a look at the clock.
  static constexpr std::size_t kTimedBytes = 16 * 1024;

  bool around(std::int64_t now) const { return around_ && now < next_try_; }
  void filled(std::size_t bytes, std::int64_t ns, bool was_around, std::int64_t now) {
    if (was_around) return;
    constexpr double kSlow = 3.0;  // GB/s; near cores do 8 to 17, far ones 0.7 to 2, streaming 3 to 7
    if (static_cast<double>(bytes) >= kSlow * static_cast<double>(ns)) {
      around_ = false;
      slow_ = 0;
      return;
    }
    // One may have been interrupted.
    constexpr int kMostSlow = 3;
    constexpr std::int64_t kTryEvery = 20'000'000;
    if (!around_ && ++slow_ < kMostSlow) return;
    around_ = true;
    slow_ = 0;
    next_try_ = now + kTryEvery;
  }

 private:
  bool around_ = false;
  int slow_ = 0;
  std::int64_t next_try_ = 0;
};
constinit thread_local SlotWay slot_way;

void fill_slot(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes < kSlotCopyBytes || !has_fast_movsb() || seems_to_overlap(to, from, bytes))
    return copy_cached(to, from, bytes);
  move_string(to, from, bytes);
}

void copy_slot(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes < SlotWay::kTimedBytes) return fill_slot(to, from, bytes);
  const std::int64_t begin = os::now_ns();
  const bool around = slot_way.around(begin);
  around ? copy_stream(to, from, bytes) : fill_slot(to, from, bytes);
  const std::int64_t end = os::now_ns();
  slot_way.filled(bytes, end - begin, around, end);
}

#else

void copy_slot(std::byte* to, const std::byte* from, std::size_t bytes) {
  copy_cached(to, from, bytes);
}
void copy_stream(std::byte* to, const std::byte* from, std::size_t bytes) {
  copy_cached(to, from, bytes);
}

#endif

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes, CopyHint hint) {
  if (to == from || bytes == 0) return;
  switch (hint) {
    case CopyHint::kCached: return copy_cached(to, from, bytes);
    case CopyHint::kSlot: return copy_slot(to, from, bytes);
    case CopyHint::kStream: return copy_stream(to, from, bytes);
  }
}

}  // namespace

void copy(void* destination, const void* source, std::size_t bytes, CopyHint hint) {
  copy_bytes(static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), bytes, hint);
}

void copy(void* const* destinations, const CopyHint* hints, int destination_count, const void* source,
          std::size_t bytes) {
  if (destination_count == 1) return copy(destinations[0], source, bytes, hints[0]);
  const std::byte* from = static_cast<const std::byte*>(source);
  for (std::size_t at = 0; at < bytes; at += kBlockBytes) {
    const std::size_t length = std::min(kBlockBytes, bytes - at);
    for (int d = 0; d < destination_count; ++d) {
      copy_bytes(static_cast<std::byte*>(destinations[d]) + at, from + at, length, hints[d]);
    }
  }
}

}  // namespace hocket
