// SPDX-License-Identifier: Apache-2.0
// arena.hpp: the memory of this process that peers may reach. One sealed memfd, large and sparse: addresses are
// reserved once, memory is taken when committed, so communicators and mem_alloc need no further exchange to be
// reachable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/os/mapping.hpp"
#include "base/os/process.hpp"
#include "base/os/unique_fd.hpp"
#include "hocket/status.hpp"
#include "transport/doorbell.hpp"
#include "transport/transport.hpp"

namespace hocket {

/// Address space of an arena. Sparse: only what was committed costs memory.
inline constexpr std::uint64_t kArenaBytes = std::uint64_t{1} << 36;

/// Any thread. Stays put; must outlive all who use its memory.
class Arena {
 public:
  /// Where a limit of the process leaves no room for `bytes`, half, and so on down to 1 GiB: see bytes().
  /// Errors: kOutOfMemory, kSystem.
  static Result<std::unique_ptr<Arena>> create(const ProcessToken& token, std::uint64_t bytes = kArenaBytes);
  ~Arena();

  std::byte* base() const noexcept { return mapping_.data(); }
  std::uint64_t bytes() const noexcept { return bytes_; }
  int fd() const noexcept { return fd_.get(); }
  ArenaHeader& header() const noexcept { return *reinterpret_cast<ArenaHeader*>(base()); }

  /// Address space at an offset that is a multiple of `align` (a power of two, at least a page is used). No memory yet.
  /// Errors: kOutOfMemory with how much is free.
  Result<std::uint64_t> reserve(std::uint64_t bytes, std::uint64_t align);
  /// Memory for a part of a reserved range: touching it cannot fail afterwards. Repeats are cheap and harmless.
  Status commit(std::uint64_t offset, std::uint64_t bytes);
  /// Gives a whole reserved range back; it reads as zero when reserved again.
  void release(std::uint64_t offset);
  /// Gives its memory up but never its addresses: a peer that was excluded may still write there.
  void abandon(std::uint64_t offset);

  /// For bytes from a wire: whether they may be written to this place. False: it is not (any more) in one range that
  /// somebody has reserved. Errors: kOutOfMemory.
  Result<bool> admit(std::uint64_t offset, std::uint64_t bytes);

  /// True if [pointer, pointer + bytes) lies in one committed range; its offset.
  bool contains(const void* pointer, std::size_t bytes, std::uint64_t* offset) const;

  /// For tests and for `describe`: bytes reserved and committed.
  struct Usage {
    std::uint64_t reserved = 0;
    std::uint64_t committed = 0;
    std::uint64_t ranges = 0;
  };
  Usage usage() const;

 private:
  Arena() = default;
  struct Range {
    std::uint64_t bytes = 0;
    bool abandoned = false;
    std::map<std::uint64_t, std::uint64_t> committed;  ///< begin -> end, disjoint
  };
  os::UniqueFd fd_;
  os::Mapping mapping_;
  std::uint64_t bytes_ = 0;
  os::ForkMark fork_mark_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Range> ranges_;  ///< by offset
};

}  // namespace hocket
