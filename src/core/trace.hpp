// SPDX-License-Identifier: Apache-2.0
// core/trace.hpp: HOCKET_TRACE: the calls of a process and its waits inside them, as a trace that Perfetto
// (ui.perfetto.dev) and chrome://tracing show.
//
// Each communicator has a track: a ring of slices, written by the holder of its turn and read by whoever writes the
// file. A ring that is full drops what comes, and the trace says how many: a traced program is not slowed down.
// The file is complete JSON after each write. Times are CLOCK_MONOTONIC, which all ranks of a host share; ranks of
// other hosts subtract how far they are ahead of rank 0 (core/observe.hpp).
// Source: Trace Event Format, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/os/unique_fd.hpp"
#include "core/call.hpp"
#include "hocket/status.hpp"

namespace hocket {

/// One slice: a call, or a wait inside it.
struct TraceSlice {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t number = 0;     ///< of the call
  std::uint64_t count = 0;      ///< elements
  std::uint64_t what = 0;       ///< as in CallRecord; 0 and is_wait for a wait
  std::uint64_t root_tile = 0;  ///< likewise
  std::int32_t peer = -1;       ///< who is waited for
  std::uint16_t channel = 0;
  bool is_wait = false;
  bool for_data = false;  ///< else for credit
  bool failed = false;
};

/// One writer and one reader at a time.
class TraceTrack {
 public:
  static constexpr std::uint64_t kSlices = 1 << 15;  ///< a power of two

  TraceTrack() : slices_(new TraceSlice[kSlices]) {}

  /// False if there was no room. The holder of the communicator's turn.
  bool put(const TraceSlice& slice) noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_.load(std::memory_order_acquire) == kSlices) {  // pairs with take
      dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return false;
    }
    slices_[head % kSlices] = slice;
    head_.store(head + 1, std::memory_order_release);  // pairs with take
    return true;
  }
  /// False if there is none.
  bool take(TraceSlice* slice) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == head_.load(std::memory_order_acquire)) return false;  // pairs with put
    *slice = slices_[tail % kSlices];
    tail_.store(tail + 1, std::memory_order_release);  // pairs with put
    return true;
  }
  /// How many there are to take.
  std::uint64_t size() const noexcept {
    return head_.load(std::memory_order_relaxed) - tail_.load(std::memory_order_relaxed);
  }
  std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

 private:
  std::unique_ptr<TraceSlice[]> slices_;
  std::atomic<std::uint64_t> head_{0};  ///< written by put
  std::atomic<std::uint64_t> tail_{0};  ///< written by take
  std::atomic<std::uint64_t> dropped_{0};
};

/// The file of one process. One thread at a time.
class TraceFile {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{512} << 20;

  /// Makes the file anew. `process`: "rank 3 (pid 4711 on node7)". Errors: kSystem with the path.
  static Result<std::unique_ptr<TraceFile>> create(const std::string& path, int rank, std::string_view process);

  /// Names track `track`, at its first slice. `track` is a number of the caller's.
  void name_track(int track, std::string_view name);
  /// `ahead_ns`: how far this host's clock is ahead of rank 0's.
  void add(int track, const TraceSlice& slice, std::int64_t ahead_ns);
  /// "N slices were dropped", where they are missing.
  void add_dropped(int track, std::uint64_t slices, std::int64_t at_ns);
  /// What was added goes to the file. Errors: kSystem; the file stays as it was after the last write.
  Status write();

 private:
  TraceFile(os::UniqueFd fd, std::string path, int rank) : fd_(std::move(fd)), path_(std::move(path)), rank_(rank) {}
  void append(std::string_view event);

  os::UniqueFd fd_;
  std::string path_;
  int rank_;
  std::string pending_;      ///< events that are not in the file yet
  std::uint64_t bytes_ = 0;  ///< of the file without its closing brackets
  bool first_ = true;
  bool full_ = false;
};

}  // namespace hocket
