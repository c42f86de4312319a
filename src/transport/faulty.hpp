// SPDX-License-Identifier: Apache-2.0
// faulty.hpp: wraps any other endpoint and makes it slow, lossy or dead, for tests and for `hocket doctor`.
//
// It hides base(), so that all traffic is posted, as over a network: put() and signal() only enter a queue, and a put's
// source is read when progress() comes to it, not before. An executor that forgets to wait for completion is caught
// red-handed.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "transport/transport.hpp"

namespace hocket {

/// What goes wrong. Operations (puts and signals) are counted from 1, each kind for itself for the drops; 0 is never.
struct FaultPlan {
  std::uint64_t seed = 1;  ///< of the delays: equal seeds, equal delays
  std::chrono::nanoseconds least_delay{0};
  std::chrono::nanoseconds most_delay{0};  ///< each operation waits a random time between the two; equal: a fixed time
  std::uint64_t bytes_per_second = 0;      ///< pace of puts and signals; 0: as fast as it goes
  std::uint64_t drop_put = 0;              ///< this put vanishes (its source counts as read)
  std::uint64_t drop_signal = 0;           ///< this signal vanishes
  std::uint64_t drop_line = 0;             ///< of the signals that are a whole line, as those of data are, this one
  std::uint64_t cut_at = 0;                ///< from this operation on the connection is dead
};

/// Operations take effect in their order, in calls of progress() only. A test may cut what another thread drives.
class FaultyEndpoint final : public Endpoint {
 public:
  FaultyEndpoint(std::shared_ptr<Endpoint> inner, const FaultPlan& plan);

  std::string_view transport() const noexcept override { return name_; }
  std::byte* base() const noexcept override { return nullptr; }
  Result<std::uint64_t> put(const Put& put) override;
  Result<std::uint64_t> signal(const Signal& signal) override;
  std::uint64_t completed() noexcept override;
  bool idle() const noexcept override;
  Status progress() override;
  Status error() const override;
  void watch() noexcept override { inner_->watch(); }
  void unwatch() noexcept override { inner_->unwatch(); }
  bool moves_alone() const noexcept override;
  void cancel(const void* owner) noexcept override;
  Status expect(ChannelKey channel, std::uint64_t offset, std::uint64_t bytes) override;
  Status get(std::uint64_t offset, std::span<std::byte> to, const os::WaitLimits& limits) override;

  /// The connection is dead from now on; what is queued is lost, and its sources are not read any more.
  void cut_now();

  /// Operations accepted so far.
  std::uint64_t operations() const;

 private:
  struct Operation {
    std::int64_t due_ns;
    Put put;
    Signal signal;                   // its line is `line`
    std::array<std::byte, 64> line;  // of a signal
    std::size_t bytes;               // of the put or the line
    bool is_put;
    bool dropped;
  };
  Result<std::uint64_t> accept_locked(Operation operation);
  void cut_locked(Status why);

  const std::shared_ptr<Endpoint> inner_;
  const FaultPlan plan_;
  const std::string name_;
  mutable std::mutex mutex_;  // guards everything below
  std::mt19937_64 random_;
  std::deque<Operation> queue_;
  std::int64_t last_due_ns_ = 0;
  std::uint64_t operations_ = 0;
  std::uint64_t puts_ = 0;
  std::uint64_t lines_ = 0;
  std::uint64_t signals_ = 0;
  std::uint64_t accepted_ = 0;  // ticket of the last operation accepted
  std::uint64_t left_ = 0;      // ticket of the last operation that was handed over or dropped
  std::deque<std::uint64_t>
      inner_left_;  // of the last so many of those the inner ticket, as long as it is not complete
  Status error_;
};

std::shared_ptr<FaultyEndpoint> make_faulty(std::shared_ptr<Endpoint> inner, const FaultPlan& plan = {});

}  // namespace hocket
