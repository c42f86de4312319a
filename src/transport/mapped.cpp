// SPDX-License-Identifier: Apache-2.0
#include "transport/mapped.hpp"

#include <cstring>

#include "base/status.hpp"
#include "transport/doorbell.hpp"

namespace hocket {

Status MappedEndpoint::put(const std::byte* source, std::size_t bytes, std::uint64_t offset, std::uint64_t) {
  HOCKET_TRY(error());
  if (offset > bytes_ || bytes > bytes_ - offset) {
    return hocket::error(Code::kInvalidArgument, "put of {} bytes at {}: the peer's arena has {} bytes", bytes, offset,
                         bytes_);
  }
  if (bytes > 0) std::memcpy(base_ + offset, source, bytes);
  return {};
}

Status MappedEndpoint::signal(std::span<const std::byte> line, std::uint64_t offset, std::uint64_t bell) {
  HOCKET_TRY(error());
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  if (line.size() < kWord || line.size() > kCacheLine || line.size() % kWord != 0 || offset % kWord != 0 ||
      offset > bytes_ || line.size() > bytes_ - offset) {
    return hocket::error(Code::kInvalidArgument,
                         "signal of {} bytes at {}: needs 8 to 64 bytes in words of 8 in the {} bytes "
                         "of the peer's arena",
                         line.size(), offset, bytes_);
  }
  if (bell % alignof(Doorbell) != 0 || bell > bytes_ - sizeof(Doorbell)) {
    return hocket::error(Code::kInvalidArgument,
                         "doorbell at {}: needs a multiple of {} in the {} bytes of the peer's arena", bell,
                         alignof(Doorbell), bytes_);
  }
  const std::size_t front = line.size() - kWord;
  if (front > 0) std::memcpy(base_ + offset, line.data(), front);
  std::uint64_t last = 0;
  std::memcpy(&last, line.data() + front, kWord);
  // Release for the line and all puts before; seq_cst because the doorbell's state is read after it, see doorbell.hpp.
  // Pairs with the acquire of whoever waits for this word.
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(base_ + offset + front))
      .exchange(last, std::memory_order_seq_cst);
  ring(*reinterpret_cast<ArenaHeader*>(base_), *reinterpret_cast<Doorbell*>(base_ + bell));
  return {};
}

Status MappedEndpoint::error() const {
  if (!lost_.load(std::memory_order_acquire)) [[likely]]
    return {};
  const std::scoped_lock lock(mutex_);
  return why_;
}

void MappedEndpoint::set_lost(Status why) {
  const std::scoped_lock lock(mutex_);
  if (lost_.load(std::memory_order_relaxed)) return;
  why_ = std::move(why);
  lost_.store(true, std::memory_order_release);
}

}  // namespace hocket
