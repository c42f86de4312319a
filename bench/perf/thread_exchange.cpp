// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/thread_exchange.hpp"

#include <cstring>

#include "base/status.hpp"

namespace hocket::perf {

Exchange ThreadExchange::of(int thread) {
  return
      [this, thread](std::span<const std::byte> mine, std::span<std::byte> all) { return exchange(thread, mine, all); };
}

void ThreadExchange::fail(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (failed_.ok()) failed_ = status;
  changed_.notify_all();
}

Status ThreadExchange::exchange(int thread, std::span<const std::byte> mine, std::span<std::byte> all) {
  std::unique_lock lock(mutex_);
  if (!failed_.ok()) return failed_;
  const std::size_t here = mine.size() * static_cast<std::size_t>(threads_);
  const std::size_t everywhere = here * static_cast<std::size_t>(processes_);
  if (all.size() != everywhere)
    return error(Code::kInvalidArgument, "room for {} bytes, not {}", all.size(), everywhere);
  if (arrived_ == 0) from_threads_.resize(here);
  if (from_threads_.size() != here) {
    failed_ = error(Code::kMismatch, "thread {} exchanges {} bytes, others {}", thread, mine.size(),
                    from_threads_.size() / static_cast<std::size_t>(threads_));
    changed_.notify_all();
    return failed_;
  }
  if (!mine.empty()) {
    std::memcpy(from_threads_.data() + static_cast<std::size_t>(thread) * mine.size(), mine.data(), mine.size());
  }
  const std::uint64_t round = round_;
  if (++arrived_ == threads_) {
    from_all_.resize(everywhere);
    if (between_) {
      // With the lock: all others are waiting for this.
      if (const Status status = between_(from_threads_, from_all_); !status.ok() && failed_.ok()) failed_ = status;
    } else {
      from_all_ = from_threads_;
    }
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
  } else {
    changed_.wait(lock, [&] { return round_ != round || !failed_.ok(); });
  }
  if (!failed_.ok()) return failed_;
  if (!all.empty()) std::memcpy(all.data(), from_all_.data(), everywhere);
  return {};
}

}  // namespace hocket::perf
