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
  std::uint32_t line_bytes = 0;       ///< signals
  const std::byte* source = nullptr;  ///< puts
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  ///< in the peer's arena
  std::uint64_t ticket = 0;  ///< puts
  std::uint64_t bell = 0;    ///< signals: doorbell in the peer's arena
  std::byte line[kCacheLine] = {};
};

/// To one peer.
class ProxyQueue {
 public:
  explicit ProxyQueue(std::shared_ptr<Endpoint> endpoint) : endpoint_(std::move(endpoint)) {}

  // Producer. False: full; drive and try again.
  bool put(const std::byte* source, std::size_t bytes, std::uint64_t offset) {
    ProxyDescriptor* d = next();
    if (d == nullptr) return false;
    d->kind = ProxyDescriptor::Kind::kPut;
    d->source = source;
    d->bytes = bytes;
    d->offset = offset;
    d->ticket = ++ticket_;
    publish();
    return true;
  }
  bool signal(const void* line, std::size_t bytes, std::uint64_t offset, std::uint64_t bell) {
    ProxyDescriptor* d = next();
    if (d == nullptr) return false;
    d->kind = ProxyDescriptor::Kind::kSignal;
    std::memcpy(d->line, line, bytes);
    d->line_bytes = static_cast<std::uint32_t>(bytes);
    d->offset = offset;
    d->bell = bell;
    publish();
    return true;
  }
  bool has_room(std::uint64_t descriptors) const {
    return head_.load(std::memory_order_relaxed) - tail_.load(std::memory_order_acquire) + descriptors <= kCapacity;
  }
  /// The last put's.
  std::uint64_t ticket() const noexcept { return ticket_; }

  // Consumer.
  /// Hand over what is queued and move what is under way.
  Status drive() {
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    const std::uint64_t head = head_.load(std::memory_order_acquire);  // pairs with publish()
    for (; tail != head; ++tail) {
      const ProxyDescriptor& d = ring_[tail % kCapacity];
      Status status = d.kind == ProxyDescriptor::Kind::kPut
                          ? endpoint_->put(d.source, d.bytes, d.offset, d.ticket)
                          : endpoint_->signal(std::span(d.line, d.line_bytes), d.offset, d.bell);
      if (!status.ok()) return status;
      tail_.store(tail + 1, std::memory_order_release);  // pairs with has_room()
    }
    return endpoint_->progress();
  }
  /// Nothing is queued and nothing under way.
  bool idle() const noexcept {
    return tail_.load(std::memory_order_acquire) == head_.load(std::memory_order_acquire) && endpoint_->idle();
  }
  std::uint64_t completed() noexcept { return endpoint_->completed(); }
  Endpoint& endpoint() noexcept { return *endpoint_; }

 private:
  static constexpr std::uint64_t kCapacity = 256;
  ProxyDescriptor* next() { return has_room(1) ? &ring_[head_.load(std::memory_order_relaxed) % kCapacity] : nullptr; }
  void publish() { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  std::shared_ptr<Endpoint> endpoint_;
  std::unique_ptr<ProxyDescriptor[]> ring_ = std::make_unique<ProxyDescriptor[]>(kCapacity);
  alignas(kCacheLine) std::atomic<std::uint64_t> head_{0};  ///< written by the producer
  std::uint64_t ticket_ = 0;
  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};  ///< written by the consumer
};

}  // namespace hocket
