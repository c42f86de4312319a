// SPDX-License-Identifier: Apache-2.0
#include "core/metrics.hpp"

#include <algorithm>
#include <cmath>

#include "base/format.hpp"

namespace hocket {
namespace {

void add(std::atomic<std::uint64_t>& counter, std::uint64_t value) {
  counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);  // one writer
}

constexpr double kQuantiles[] = {0.01, 0.1, 0.5, 0.9, 0.99};

}  // namespace

int Histogram::bucket_of(double value) noexcept {
  if (!(value > 0)) return 0;
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);  // [0.5, 1)
  const int octave = exponent - 1 - kFirstOctave;
  if (octave < 0) return 0;
  if (octave >= kOctaves) return kBuckets - 1;
  return octave * kPerOctave + static_cast<int>((mantissa - 0.5) * 2 * kPerOctave);
}

double Histogram::value_of(int bucket) noexcept {
  const double within = (bucket % kPerOctave + 0.5) / kPerOctave;
  return std::ldexp(1 + within, bucket / kPerOctave + kFirstOctave);
}

double Histogram::quantile(double share) const noexcept {
  // A snapshot: the writer goes on.
  std::array<std::uint32_t, kBuckets> counts;
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] = buckets_[i].load(std::memory_order_relaxed);
    all += counts[i];
  }
  if (all == 0) return 0;
  const auto wanted =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(all))));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    seen += counts[i];
    if (seen >= wanted) return value_of(static_cast<int>(i));
  }
  return value_of(kBuckets - 1);
}

std::uint64_t bytes_of(const CallKey& key, int size) {
  const std::uint64_t bytes = key.count * size_of(key.type);
  switch (key.collective) {
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter: return bytes * static_cast<std::uint64_t>(size);
    case Collective::kBarrier: return 0;
    default: return bytes;
  }
}

double bus_factor(Collective collective, int size) {
  const double n = size;
  switch (collective) {
    case Collective::kAllReduce: return 2 * (n - 1) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter: return (n - 1) / n;
    default: return 1;
  }
}

void CallMetrics::ended(const CallKey& key, bool done, std::int64_t ns) noexcept {
  CollectiveMetrics& m = collectives_[static_cast<std::size_t>(key.collective)];
  add(m.calls, 1);
  if (!done) {
    add(m.failed, 1);
    return;
  }
  const std::uint64_t bytes = bytes_of(key, size_);
  add(m.bytes, bytes);
  if (ns < 0) return;
  add(m.timed, 1);
  add(m.timed_ns, static_cast<std::uint64_t>(ns));
  const double seconds = static_cast<double>(std::max<std::int64_t>(ns, 1)) / 1e9;
  if (bytes != 0) m.busbw.add(static_cast<double>(bytes) * bus_factor(key.collective, size_) / seconds);
}

std::string metrics_text(std::span<const MetricsEntry> entries, const std::string& process_labels) {
  std::string text;
  const auto labels_of = [&](const CallMetrics& m) {
    return format("communicator=\"{:x}\",rank=\"{}\",size=\"{}\",{}", m.id(), m.rank(), m.size(), process_labels);
  };
  const auto family = [&](std::string_view name, std::string_view type, std::string_view help, auto samples) {
    text += format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
    for (const MetricsEntry& entry : entries) {
      for (int c = 0; c < kCollectiveCount; ++c) {
        const CollectiveMetrics& m = entry.metrics->of(static_cast<Collective>(c));
        if (m.calls.load(std::memory_order_relaxed) == 0) continue;
        samples(format("collective=\"{}\",{}", to_string(static_cast<Collective>(c)), labels_of(*entry.metrics)), m);
      }
    }
  };
  const auto counter = [&](std::string_view name, std::string_view help,
                           std::atomic<std::uint64_t> CollectiveMetrics::*value, double unit) {
    family(name, "counter", help, [&](const std::string& labels, const CollectiveMetrics& m) {
      const std::uint64_t n = (m.*value).load(std::memory_order_relaxed);
      text += unit == 1 ? format("{}{{{}}} {}\n", name, labels, n)
                        : format("{}{{{}}} {:.9f}\n", name, labels, static_cast<double>(n) * unit);
    });
  };
  counter("hocket_calls_total", "Calls that ended, the failed ones too.", &CollectiveMetrics::calls, 1);
  counter("hocket_failed_calls_total", "Calls that ended with an error.", &CollectiveMetrics::failed, 1);
  counter("hocket_bytes_total", "Bytes of the calls that succeeded, as nccl-tests counts them.",
          &CollectiveMetrics::bytes, 1);
  counter("hocket_timed_calls_total", "Calls that were timed: all large ones and one in 127 of the small.",
          &CollectiveMetrics::timed, 1);
  counter("hocket_timed_seconds_total", "Time in the calls that were timed.", &CollectiveMetrics::timed_ns, 1e-9);
  family("hocket_busbw_bytes_per_second", "gauge", "Percentiles of the bus bandwidth of the timed calls.",
         [&](const std::string& labels, const CollectiveMetrics& m) {
           if (m.busbw.quantile(0.5) == 0) return;
           for (const double quantile : kQuantiles)
             text += format("hocket_busbw_bytes_per_second{{quantile=\"{}\",{}}} {:.4g}\n", quantile, labels,
                            m.busbw.quantile(quantile));
         });
  text +=
      "# HELP hocket_waiting_seconds How long the running call has waited for one rank; 0: it does not wait.\n"
      "# TYPE hocket_waiting_seconds gauge\n";
  for (const MetricsEntry& entry : entries) {
    text += format("hocket_waiting_seconds{{peer=\"{}\",{}}} {:.3f}\n",
                   entry.waiting_seconds > 0 ? format("{}", entry.waiting_for) : std::string(),
                   labels_of(*entry.metrics), entry.waiting_seconds);
  }
  return text;
}

}  // namespace hocket
