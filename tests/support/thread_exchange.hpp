// SPDX-License-Identifier: Apache-2.0
// support/thread_exchange.hpp: how ranks that are threads of one program meet.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include "hocket/communicator.hpp"

namespace hocket::test {

/// An all-gather between threads.
class ThreadExchange {
 public:
  explicit ThreadExchange(int size) : size_(size) {}

  hocket::Exchange of(Rank rank) {  // test::Exchange is the one of processes.hpp
    return [this, rank](std::span<const std::byte> mine, std::span<std::byte> all) -> Status {
      std::unique_lock lock(mutex_);
      if (arrived_ == 0) bytes_.assign(mine.size() * static_cast<std::size_t>(size_), std::byte{});
      if (bytes_.size() != mine.size() * static_cast<std::size_t>(size_))
        return Status(Code::kMismatch, "unequal exchange");
      std::memcpy(bytes_.data() + static_cast<std::size_t>(rank) * mine.size(), mine.data(), mine.size());
      const std::uint64_t generation = generation_;
      if (++arrived_ == size_) {
        arrived_ = 0;
        done_ = bytes_;
        ++generation_;
        changed_.notify_all();
      } else {
        changed_.wait(lock, [&] { return generation_ != generation; });
      }
      std::memcpy(all.data(), done_.data(), done_.size());
      return {};
    };
  }

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte> bytes_, done_;
  int arrived_ = 0;
  std::uint64_t generation_ = 0;
};

}  // namespace hocket::test
