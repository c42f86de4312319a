// SPDX-License-Identifier: Apache-2.0
// arena.cpp: address space is dealt out first-fit, memory comes by fallocate, so that running out of it is an error
// here and not a SIGBUS later.
#include "transport/arena.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <new>
#include <string_view>

#include "base/os/memfd.hpp"
#include "base/status.hpp"

namespace hocket {
namespace {

constexpr std::uint64_t kLeastBytes = std::uint64_t{1} << 30;

// Where the first range may begin.
std::uint64_t header_bytes() {
  return os::round_up_to_pages(sizeof(ArenaHeader));
}

std::uint64_t limit_of(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  return ::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : ~std::uint64_t{0};
}

// A limit that explains why `bytes` could not be had.
std::string limits_text() {
  std::string text;
  if (const auto bytes = limit_of(RLIMIT_AS); bytes != ~std::uint64_t{0}) {
    text += format("; RLIMIT_AS (ulimit -v) is {} bytes", bytes);
  }
  if (const auto bytes = limit_of(RLIMIT_FSIZE); bytes != ~std::uint64_t{0}) {
    text += format("; RLIMIT_FSIZE (ulimit -f) is {} bytes", bytes);
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Arena>> Arena::create(const ProcessToken& token, std::uint64_t bytes) {
  bytes = os::round_up_to_pages(std::max<std::uint64_t>(bytes, header_bytes() + os::page_bytes()));
  const std::uint64_t least = std::min(bytes, kLeastBytes);
  std::unique_ptr<Arena> arena(new Arena);
  for (;; bytes = os::round_up_to_pages(std::max(bytes / 2, least))) {
    Status status;
    // A file that grows beyond RLIMIT_FSIZE ends the process by SIGXFSZ, so that limit is looked at first.
    if (bytes > limit_of(RLIMIT_FSIZE)) {
      status = error(Code::kOutOfMemory, "a file of {} bytes is not allowed", bytes);
    } else {
      HOCKET_ASSIGN(arena->fd_, os::create_memfd("hocket", bytes));
      auto mapping = os::Mapping::shared(arena->fd_.get(), bytes);
      if (mapping.ok()) {
        arena->mapping_ = std::move(mapping).value();
        break;
      }
      status = mapping.status();
    }
    if (status.code() != Code::kOutOfMemory) return status;
    if (bytes <= least) {
      return error(Code::kOutOfMemory, "no address space of at least {} bytes for memory that peers can reach: {}{}",
                   least, status.text(), limits_text());
    }
  }
  arena->bytes_ = bytes;
  // A child must not write into memory that its parent's peers read; and a core file of 64 GiB helps nobody.
  if (::madvise(arena->base(), bytes, MADV_DONTFORK) < 0 || ::madvise(arena->base(), bytes, MADV_DONTDUMP) < 0) {
    return system_error(Code::kSystem, errno, "madvise of {} bytes", bytes);
  }
  HOCKET_TRY(os::reserve(arena->fd(), 0, header_bytes()));
  auto* header = new (arena->base()) ArenaHeader;
  header->token_high = token.high;
  header->token_low = token.low;
  header->magic = kArenaMagic;
  return arena;
}

Arena::~Arena() {
  // A child never had these addresses (MADV_DONTFORK): what is there now is something else, not ours to unmap.
  if (fork_mark_.forked()) (void)mapping_.release();
}

Result<std::uint64_t> Arena::reserve(std::uint64_t bytes, std::uint64_t align) {
  if (bytes == 0 || !std::has_single_bit(align)) {
    return error(Code::kInvalidArgument, "{} bytes at multiples of {} cannot be reserved", bytes, align);
  }
  align = std::max<std::uint64_t>(align, os::page_bytes());
  const std::scoped_lock lock(mutex_);
  std::uint64_t free = 0, largest = 0;
  if (bytes <= bytes_ && align <= bytes_) {
    bytes = os::round_up_to_pages(bytes);
    std::uint64_t begin = header_bytes();
    for (auto next = ranges_.begin();; ++next) {
      const std::uint64_t end = next == ranges_.end() ? bytes_ : next->first;
      const std::uint64_t first = (begin + align - 1) & ~(align - 1);
      if (first <= end && bytes <= end - first) {
        ranges_.emplace_hint(next, first, Range{.bytes = bytes, .abandoned = false, .committed = {}});
        return first;
      }
      free += end - begin;
      largest = std::max(largest, end - begin);
      if (next == ranges_.end()) break;
      begin = next->first + next->second.bytes;
    }
  }
  return error(
      Code::kOutOfMemory,
      "no {} bytes at a multiple of {} in the {} bytes of address space that peers can reach ({} bytes are free, at "
      "most {} in one piece){}",
      bytes, align, bytes_, free, largest, limits_text());
}

namespace {

/// The number after `key` in a small file of the kernel's, in bytes; the largest number if there is none.
std::uint64_t read_bytes(const char* path, std::string_view key, std::uint64_t unit) {
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return ~std::uint64_t{0};
  char line[256];
  std::uint64_t bytes = ~std::uint64_t{0};
  while (std::fgets(line, sizeof line, file) != nullptr) {
    const std::string_view text(line);
    if (!text.starts_with(key)) continue;
    unsigned long long number = 0;
    if (std::sscanf(line + key.size(), "%llu", &number) == 1) bytes = number * unit;
    break;
  }
  std::fclose(file);
  return bytes;
}

/// Memory for files is granted beyond what the machine has, and then the kernel kills somebody: large requests are held
/// against what is left, on the machine and in the process's cgroup (version 2, where it is mounted as its own root).
Status check_available(std::uint64_t bytes) {
  constexpr std::uint64_t kLarge = std::uint64_t{16} << 20;
  if (bytes < kLarge) return {};
  const std::uint64_t machine = read_bytes("/proc/meminfo", "MemAvailable:", 1024);
  const std::uint64_t limit = read_bytes("/sys/fs/cgroup/memory.max", "", 1);
  const std::uint64_t used = read_bytes("/sys/fs/cgroup/memory.current", "", 1);
  const std::uint64_t group = limit == ~std::uint64_t{0} || used > limit ? limit : limit - used;
  const std::uint64_t left = std::min(machine, group);
  if (bytes <= left) return {};
  return error(Code::kOutOfMemory, "{} MiB are asked for, and {} MiB are left on this machine or in its cgroup",
               bytes >> 20, left >> 20);
}

}  // namespace

Status Arena::commit(std::uint64_t offset, std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  auto range = ranges_.upper_bound(offset);
  if (range == ranges_.begin() || (--range, offset - range->first > range->second.bytes) ||
      bytes > range->second.bytes - (offset - range->first) || range->second.abandoned) {
    return error(Code::kInternal, "{} bytes at offset {} are not in one reserved range", bytes, offset);
  }
  if (bytes == 0) return {};
  std::uint64_t begin = offset & ~(std::uint64_t{os::page_bytes()} - 1);
  std::uint64_t end = os::round_up_to_pages(offset + bytes);
  auto& committed = range->second.committed;
  // The first interval that touches [begin, end).
  auto it = committed.upper_bound(begin);
  if (it != committed.begin() && std::prev(it)->second >= begin) --it;
  if (it != committed.end() && it->first <= begin && it->second >= end) return {};
  HOCKET_TRY(check_available(end - begin));
  HOCKET_TRY(os::reserve(fd(), begin, end - begin));
  while (it != committed.end() && it->first <= end) {
    begin = std::min(begin, it->first);
    end = std::max(end, it->second);
    it = committed.erase(it);
  }
  committed.emplace(begin, end);
  return {};
}

Result<bool> Arena::admit(std::uint64_t offset, std::uint64_t bytes) {
  {
    const std::scoped_lock lock(mutex_);
    auto range = ranges_.upper_bound(offset);
    if (range == ranges_.begin() || (--range, offset - range->first > range->second.bytes) ||
        bytes > range->second.bytes - (offset - range->first) || range->second.abandoned) {
      return false;
    }
    const auto& committed = range->second.committed;
    auto it = committed.upper_bound(offset);
    if (it != committed.begin() && std::prev(it)->second >= offset + bytes) return true;
  }
  // Its owner may be about to commit it; a sender with credit may come first.
  HOCKET_TRY(commit(offset, bytes));
  return true;
}

void Arena::release(std::uint64_t offset) {
  const std::scoped_lock lock(mutex_);
  const auto range = ranges_.find(offset);
  if (range == ranges_.end() || range->second.abandoned) return;
  // The whole range, not only what was committed: a peer may have touched the rest of it. Where the hole cannot be made
  // the memory would not read as zero again, so its addresses are not given out again.
  if (os::punch_hole(fd(), offset, range->second.bytes).ok()) {
    ranges_.erase(range);
  } else {
    range->second.abandoned = true;
  }
}

void Arena::abandon(std::uint64_t offset) {
  const std::scoped_lock lock(mutex_);
  const auto range = ranges_.find(offset);
  if (range == ranges_.end()) return;
  // If this fails the memory is kept, which is harmless.
  (void)os::punch_hole(fd(), offset, range->second.bytes);
  range->second.abandoned = true;
  range->second.committed.clear();
}

bool Arena::contains(const void* pointer, std::size_t bytes, std::uint64_t* offset) const {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const auto first = reinterpret_cast<std::uintptr_t>(base());
  if (address < first || address - first >= bytes_ || bytes > bytes_ - (address - first)) return false;
  const std::uint64_t begin = address - first;
  const std::scoped_lock lock(mutex_);
  auto range = ranges_.upper_bound(begin);
  if (range == ranges_.begin()) return false;
  const auto& committed = (--range)->second.committed;
  auto interval = committed.upper_bound(begin);
  if (interval == committed.begin()) return false;
  --interval;
  if (begin >= interval->second || bytes > interval->second - begin) return false;
  *offset = begin;
  return true;
}

Arena::Usage Arena::usage() const {
  const std::scoped_lock lock(mutex_);
  Usage usage;
  for (const auto& [offset, range] : ranges_) {
    ++usage.ranges;
    usage.reserved += range.bytes;
    for (const auto& [begin, end] : range.committed) usage.committed += end - begin;
  }
  return usage;
}

}  // namespace hocket
