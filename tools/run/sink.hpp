// SPDX-License-Identifier: Apache-2.0
// tools/run/sink.hpp: our stdout or our stderr, written by a thread of its own.
//
// A write blocks while a terminal is stopped (^S) or its reader is slow, and no poll() beforehand rules that out where
// others write to the same terminal or pipe. So the thread that serves the ranks only leaves text here. What is held is
// bounded: when it is too much, that thread reads no more from the ranks, which then wait as they would without us.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "base/os/thread.hpp"
#include "hocket/status.hpp"

namespace hocket::run {

/// One thread uses it; its own is inside.
class Sink {
 public:
  /// From here on takes_more() is false.
  static constexpr std::size_t kMostHeld = 1 << 20;

  /// `fd` stays the caller's and open until the process ends: a write that blocks has no other end.
  /// Errors: kOutOfMemory when there is no descriptor or thread.
  static Result<Sink> open(int fd);
  /// Waits a little for what is held, then leaves it.
  ~Sink();
  Sink(Sink&&) noexcept = default;
  Sink& operator=(Sink&&) = delete;

  /// Adds to what is to be written. `from`: whose text it is; what another has begun and not ended stays a line of its
  /// own.
  void put(std::string_view text, const void* from = nullptr);
  /// Whether the last thing put has no line's end yet, and was this one's.
  bool within_line_of(const void* from) const noexcept { return within_ == from; }
  bool takes_more() const;

  /// Whether carriage returns are seen at once.
  bool terminal() const noexcept;

  /// What has happened since the last take().
  struct Event {
    bool gone = false;                   ///< nobody will read it any more; also that is told once
    int error = 0;                       ///< errno of a write that failed: its text is lost
    std::chrono::nanoseconds stopped{};  ///< for so long a terminal took nothing; it goes on now
  };
  /// Readable when there may be an event, or takes_more() became true, or, after expect_drained(), drained().
  int fd() const noexcept;
  Event take();

  void expect_drained();
  /// All is written, or nobody will read it.
  bool drained() const;

 private:
  struct Shared;  // with the thread, which may outlive this
  static void write_on(const std::shared_ptr<Shared>& shared);
  explicit Sink(std::shared_ptr<Shared> shared) noexcept : shared_(std::move(shared)) {}

  std::shared_ptr<Shared> shared_;
  os::Thread thread_;
  const void* within_ = nullptr;  // whose line has been passed on in part
};

}  // namespace hocket::run
