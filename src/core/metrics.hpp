// SPDX-License-Identifier: Apache-2.0
// core/metrics.hpp: HOCKET_METRICS: what a process's communicators did, as text that Prometheus reads.
//
// Counters are words of relaxed atomics with one writer, the holder of the communicator's turn. Every call counts; only
// some of the small ones are timed, as two looks at the clock cost as much as a tenth of the fastest call.
// busbw is as nccl-tests defines it: bytes * factor / time, e.g. 2(n-1)/n for all_reduce.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <span>
#include <string>

#include "core/call.hpp"

namespace hocket {

/// Counts of positive values by size, 8 to an octave: a percentile is right within 6 %. One writer, any reader.
class Histogram {
 public:
  static constexpr int kFirstOctave = 10;
  static constexpr int kOctaves = 34;
  static constexpr int kPerOctave = 8;
  static constexpr int kBuckets = kOctaves * kPerOctave;

  void add(double value) noexcept {
    std::atomic<std::uint32_t>& bucket = buckets_[static_cast<std::size_t>(bucket_of(value))];
    bucket.store(bucket.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// The value below which `share` (0 to 1) of all lie; 0 if there is none.
  double quantile(double share) const noexcept;

  static int bucket_of(double value) noexcept;
  /// The middle of a bucket.
  static double value_of(int bucket) noexcept;

 private:
  std::array<std::atomic<std::uint32_t>, kBuckets> buckets_{};
};

/// Of one collective on one communicator.
struct CollectiveMetrics {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> bytes{0};  ///< as nccl-tests counts them
  std::atomic<std::uint64_t> timed{0};
  std::atomic<std::uint64_t> timed_ns{0};
  Histogram busbw;  ///< bytes a second, of the timed calls

  /// A call that succeeded and was not timed.
  void count(std::uint64_t of_bytes) noexcept {
    calls.store(calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    bytes.store(bytes.load(std::memory_order_relaxed) + of_bytes, std::memory_order_relaxed);
  }
};

/// The bytes of a call by nccl-tests' rule, and what algbw is multiplied with for busbw.
std::uint64_t bytes_of(const CallKey& key, int size);
double bus_factor(Collective collective, int size);

class CallMetrics {
 public:
  /// Calls of at least this many bytes are all timed, of the others one in kSampled: a prime, as programs repeat
  /// themselves.
  static constexpr std::uint64_t kAlwaysTimed = 64 << 10;
  static constexpr std::uint32_t kSampled = 127;

  CallMetrics(int rank, int size) : rank_(rank), size_(size) {}

  bool always_timed(const CallKey& key) const noexcept { return key.count * size_of(key.type) >= kAlwaysTimed; }
  /// `ns`: how long it took, or negative if it was not timed.
  void ended(const CallKey& key, bool done, std::int64_t ns) noexcept;

  void set_id(std::uint64_t id) { id_ = id; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  std::uint64_t id() const { return id_; }
  const CollectiveMetrics& of(Collective collective) const {
    return collectives_[static_cast<std::size_t>(collective)];
  }
  CollectiveMetrics& of(Collective collective) { return collectives_[static_cast<std::size_t>(collective)]; }

 private:
  const int rank_;
  const int size_;
  std::uint64_t id_ = 0;
  std::array<CollectiveMetrics, kCollectiveCount> collectives_{};
};

/// A communicator in the text, with what only a live one knows.
struct MetricsEntry {
  const CallMetrics* metrics = nullptr;
  double waiting_seconds = 0;  ///< 0: it does not wait
  int waiting_for = -1;
};

/// The whole text. `process_labels`: labels that all samples get, "host=\"node7\",pid=\"4711\"".
std::string metrics_text(std::span<const MetricsEntry> entries, const std::string& process_labels);

}  // namespace hocket
