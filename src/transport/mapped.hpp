// SPDX-License-Identifier: Apache-2.0
// mapped.hpp: what `local` and `shm` have in common: the peer's arena is at an address of this process.
//
// Executors use base() and go around everything here; put() and signal() serve those that treat all transports alike.
#pragma once

#include <atomic>
#include <mutex>

#include "transport/transport.hpp"

namespace hocket {

class MappedEndpoint : public Endpoint {
 public:
  std::byte* base() const noexcept final { return base_; }
  /// A copy, complete at return; so all tickets are 0.
  Result<std::uint64_t> put(const Put& put) final;
  Result<std::uint64_t> signal(const Signal& signal) final;
  /// What was accepted has arrived: all there is and will be.
  std::uint64_t completed() noexcept final { return ~std::uint64_t{0}; }
  bool idle() const noexcept final { return true; }
  Status progress() final { return error(); }
  Status error() const final;
  Status get(std::uint64_t offset, std::span<std::byte> to, const os::WaitLimits& limits) final;

  /// The peer is gone, and why; only the first call counts. The mapping stays, so who still writes harms nobody. Any
  /// thread.
  void set_lost(Status why);

 protected:
  /// `base` is borrowed for the endpoint's life and starts with an ArenaHeader.
  MappedEndpoint(std::byte* base, std::uint64_t bytes) : base_(base), bytes_(bytes) {}

 private:
  std::byte* const base_;
  const std::uint64_t bytes_;
  std::atomic<bool> lost_{false};  // release in set_lost, after why_; pairs with the acquire in error()
  mutable std::mutex mutex_;
  Status why_;  // guarded by mutex_
};

}  // namespace hocket
