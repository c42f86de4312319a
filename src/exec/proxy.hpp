// SPDX-License-Identifier: Apache-2.0
// exec/proxy.hpp: the queue between lanes and a network. A lane that cannot store into a peer's memory posts
// descriptors here; whoever drives the queue (a waiting host thread, the progress thread; later the proxy of a device)
// hands them to the endpoint. It knows no algorithm.
//
// One producer and one consumer. Descriptors are plain memory with two counters, so the producer may be a device.
// Next stop: transport/transport.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "transport/doorbell.hpp"
#include "transport/transport.hpp"

namespace hocket {

struct ProxyDescriptor {
  enum class Kind : std::uint32_t { kPut, kSignal };
  Kind kind = Kind::kPut;
  std::uint16_t line_bytes = 0;  ///< signals
  bool after_all = false;        ///< signals: see Signal
  ChannelKey channel{};
  const std::byte* source = nullptr;  ///< puts
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;   ///< in the peer's arena
  std::uint64_t landing = 0;  ///< puts
  std::uint64_t bell = 0;     ///< signals: doorbell in the peer's arena
  std::byte line[kCacheLine] = {};
};

/// From one communicator to one peer. The endpoint is shared with other communicators.
class ProxyQueue {
 public:
  explicit ProxyQueue(std::shared_ptr<Endpoint> endpoint) : endpoint_(std::move(endpoint)) {}

  // Producer. False: full; drive and try again.
  bool put(const Put& put) {
    ProxyDescriptor* d = next();
    if (d == nullptr) return false;
    d->kind = ProxyDescriptor::Kind::kPut;
    d->channel = put.channel;
    d->source = put.source;
    d->bytes = put.bytes;
    d->offset = put.offset;
    d->landing = put.landing;
    publish();
    return true;
  }
  bool signal(ChannelKey channel, const void* line, std::size_t bytes, std::uint64_t offset, std::uint64_t bell,
              bool after_all = false) {
    ProxyDescriptor* d = next();
    if (d == nullptr) return false;
    d->kind = ProxyDescriptor::Kind::kSignal;
    d->channel = channel;
    std::memcpy(d->line, line, bytes);
    d->line_bytes = static_cast<std::uint16_t>(bytes);
    d->after_all = after_all;
    d->offset = offset;
    d->bell = bell;
    publish();
    return true;
  }
  bool has_room(std::uint64_t descriptors) const {
    return head_.load(std::memory_order_relaxed) - tail_.load(std::memory_order_acquire) + descriptors <= kCapacity;
  }

  // Consumer.
  /// Hand over what is queued and move what is under way.
  Status drive() {
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    const std::uint64_t head = head_.load(std::memory_order_acquire);  // pairs with publish()
    for (; tail != head; ++tail) {
      const ProxyDescriptor& d = ring_[tail % kCapacity];
      const bool is_put = d.kind == ProxyDescriptor::Kind::kPut;
      const auto ticket =
          is_put ? endpoint_->put({d.channel, d.source, d.bytes, d.offset, d.landing, this})
                 : endpoint_->signal({d.channel, std::span(d.line, d.line_bytes), d.offset, d.bell, this, d.after_all});
      if (!ticket.ok()) return ticket.status();
      last_ = *ticket;
      if (is_put) last_put_ = *ticket;
      tail_.store(tail + 1, std::memory_order_release);  // pairs with has_room()
    }
    return endpoint_->progress();
  }
  /// All that was queued has left.
  bool idle() const noexcept { return empty() && endpoint_->completed() >= last_; }
  /// All puts that were queued have read their sources.
  bool puts_read() const noexcept { return empty() && endpoint_->completed() >= last_put_; }
  /// Whether this side of the queue moves only when it is driven.
  bool needs_driving() const noexcept { return !idle() || !endpoint_->moves_alone(); }
  /// Takes everything back that has not left: no source is read any more.
  void cancel() noexcept {
    tail_.store(head_.load(std::memory_order_acquire), std::memory_order_release);
    endpoint_->cancel(this);
  }
  /// For a peer that has left in good order: nothing that it was still to get is owed to it any more.
  void give_up() noexcept {
    cancel();
    last_ = last_put_ = 0;
  }
  /// All was handed over.
  bool empty() const noexcept { return tail_.load(std::memory_order_acquire) == head_.load(std::memory_order_acquire); }
  Endpoint& endpoint() const noexcept { return *endpoint_; }

 private:
  static constexpr std::uint64_t kCapacity = 256;
  ProxyDescriptor* next() { return has_room(1) ? &ring_[head_.load(std::memory_order_relaxed) % kCapacity] : nullptr; }
  void publish() { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  std::shared_ptr<Endpoint> endpoint_;
  std::unique_ptr<ProxyDescriptor[]> ring_ = std::make_unique<ProxyDescriptor[]>(kCapacity);
  alignas(kCacheLine) std::atomic<std::uint64_t> head_{0};  ///< written by the producer
  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};  ///< written by the consumer
  std::uint64_t last_ = 0;      ///< the consumer's: ticket of the last descriptor that was handed over
  std::uint64_t last_put_ = 0;  ///< of the last put
};

}  // namespace hocket
