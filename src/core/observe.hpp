// SPDX-License-Identifier: Apache-2.0
// core/observe.hpp: what HOCKET_TRACE and HOCKET_METRICS see of calls, and who writes it to files.
//
// A communicator that is observed has an Observer, others have none: that is one branch where a call begins and one
// where it ends. The engine's Observation owns the files and a thread that writes them: what was traced every second,
// metrics every five, both when a call fails, at finalize, and when the program or the engine ends.
// Next stop: core/trace.hpp, core/metrics.hpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/os/clock.hpp"
#include "base/os/process.hpp"
#include "base/os/thread.hpp"
#include "core/call.hpp"
#include "core/metrics.hpp"
#include "core/trace.hpp"
#include "exec/block.hpp"
#include "hocket/settings.hpp"

namespace hocket {

class Observation;

/// "trace.json" of rank 3 is "trace.3.json"; "{rank}" and "{pid}" in the name are replaced instead.
std::string file_of_rank(const std::string& name, Rank rank);

/// How far this host's clock is ahead of rank 0's, from times that travelled with exchanges that were made anyway: what
/// was sent before an exchange was sent before anybody ended it. Values of CLOCK_MONOTONIC, ns.
class ClockBounds {
 public:
  /// Rank 0 began an exchange at `theirs` on its clock; here it had ended at `mine`.
  void they_began(std::int64_t theirs, std::int64_t mine) {
    if (possible(theirs)) most_ = std::min(most_, mine - theirs);
  }
  /// Here an exchange began at `mine`; on rank 0 it had ended at `theirs`.
  void they_ended(std::int64_t theirs, std::int64_t mine) {
    if (possible(theirs)) least_ = std::max(least_, mine - theirs);
  }
  /// The middle of what is possible, and how far off it may be; 0 and -1 if nothing is known.
  std::int64_t ahead_ns() const { return known() ? least_ + (most_ - least_) / 2 : 0; }
  std::int64_t error_ns() const { return known() ? (most_ - least_) / 2 : -1; }

 private:
  static constexpr std::int64_t kFar = INT64_MAX / 4;
  bool known() const { return least_ > -kFar && most_ < kFar && least_ <= most_; }
  static bool possible(std::int64_t from_a_wire) { return from_a_wire > 0 && from_a_wire < kFar; }
  std::int64_t least_ = -kFar;
  std::int64_t most_ = kFar;
};

/// Of one rank of one communicator. Called by the holder of its turn, but where said.
class Observer {
 public:
  /// A wait that is shorter is not shown.
  static constexpr std::int64_t kShownWait_ns = 10'000;

  void begin(const ReadyCall& call) noexcept {
    if (call.record_what != what_ || call.key.count != count_) [[unlikely]]
      look_up(call);
    if (always_timed_ || ++small_calls_ % CallMetrics::kSampled == 0) [[unlikely]]
      begin_ns_ = os::now_ns();
  }
  void end(const ReadyCall& call, std::uint64_t number, bool done) noexcept {
    if (begin_ns_ == 0 && done) [[likely]] {
      counters_->count(bytes_);
    } else {
      end_in_full(call, number, done);
    }
  }
  /// Nothing moves, and this is what the call waits for.
  void still(const WaitingOn& waiting) noexcept {
    wait_ns_ = os::now_ns();
    waiting_ = waiting;
  }
  bool is_still() const noexcept { return wait_ns_ != 0 || !track_; }
  /// The wait is over.
  void moved(std::uint64_t number) noexcept;

  /// Once the communicator is made, before its first call.
  void identify(std::uint64_t id, const LiveState& live, const ClockBounds& clock);
  /// Before its block goes. What was seen stays.
  void close();
  /// All files are written now. Any thread.
  void write();

 private:
  friend class Observation;
  explicit Observer(Observation& owner) : owner_(owner) {}

  void look_up(const ReadyCall& call) noexcept;
  void end_in_full(const ReadyCall& call, std::uint64_t number, bool done) noexcept;

  Observation& owner_;  ///< of the engine, which the communicator holds
  std::unique_ptr<TraceTrack> track_;
  std::unique_ptr<CallMetrics> metrics_;
  // What begin() and end() need of the last call, as calls repeat: a few nanoseconds each are all they may take.
  std::uint64_t what_ = ~std::uint64_t{0};
  std::uint64_t count_ = 0;
  std::uint64_t bytes_ = 0;
  CollectiveMetrics* counters_ = nullptr;
  bool always_timed_ = false;
  std::uint32_t small_calls_ = 0;
  std::int64_t begin_ns_ = 0;  ///< 0: not timed
  std::int64_t wait_ns_ = 0;   ///< 0: not waiting
  WaitingOn waiting_;

  // Guarded by the owner's mutex.
  TraceFile* trace_file_ = nullptr;
  std::string metrics_path_;
  std::string name_;
  int number_ = 0;  ///< of the track
  bool named_ = false;
  std::uint64_t told_dropped_ = 0;
  std::int64_t ahead_ns_ = 0;
  const LiveState* live_ = nullptr;
};

/// One per engine. Any thread.
class Observation {
 public:
  /// `process`: "pid 4711 on node7".
  Observation(std::string process, std::string host, int pid);
  ~Observation();
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

  /// Null if the settings ask for nothing. Files are named after the rank of the first communicator that names them.
  /// Errors: kSystem with the path, kOutOfMemory.
  Result<std::shared_ptr<Observer>> observe(const Settings& settings, Rank rank, int size);

  /// Everything that is known goes to the files.
  void write();
  /// The same, for the last time but for such calls.
  void write_last();
  /// The thread does it soon.
  void nudge() noexcept;

 private:
  friend class Observer;
  /// Ended communicators stay in the metrics, but not more than this.
  static constexpr std::size_t kMostObservers = 256;

  void run();
  void write_locked(bool metrics_too);

  const std::string process_;
  const std::string host_;
  const int pid_;
  os::ForkMark fork_mark_;
  std::atomic<std::uint32_t> nudges_{0};  ///< futex word
  std::atomic<bool> stop_{false};
  std::mutex mutex_;                                               // guards what follows
  std::map<std::string, std::unique_ptr<TraceFile>> trace_files_;  ///< by name as set
  std::map<std::string, std::string> metrics_paths_;               ///< likewise
  std::vector<std::shared_ptr<Observer>> observers_;
  int tracks_ = 0;
  bool told_problem_ = false;
  bool over_ = false;  ///< the program ends: the thread writes nothing any more
  bool started_ = false;
  os::Thread thread_;
};

}  // namespace hocket
