// SPDX-License-Identifier: Apache-2.0
// perf/thread_exchange.hpp: the all-gather between ranks that are threads, of one process or of several.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "hocket/communicator.hpp"

namespace hocket::perf {

/// Rank of thread t of process p is p * threads + t. Outlives the exchanges that it gave out.
class ThreadExchange {
 public:
  /// `between` joins the processes; null if there is one.
  ThreadExchange(int threads, int processes, Exchange between)
      : threads_(threads), processes_(processes), between_(std::move(between)) {}

  /// For that thread, and only it.
  Exchange of(int thread);
  /// A thread gives up: exchanges of the others return this, now and later.
  void fail(const Status& status);

 private:
  Status exchange(int thread, std::span<const std::byte> mine, std::span<std::byte> all);

  const int threads_;
  const int processes_;
  const Exchange between_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::byte> from_threads_;
  std::vector<std::byte> from_all_;  // written when all threads have come, so after all have read the last one
  int arrived_ = 0;
  std::uint64_t round_ = 0;
  Status failed_;
};

}  // namespace hocket::perf
