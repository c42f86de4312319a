// SPDX-License-Identifier: Apache-2.0
#include "transport/mapped.hpp"

#include <cstring>

#include "base/status.hpp"
#include "transport/landing.hpp"

namespace hocket {

Result<std::uint64_t> MappedEndpoint::put(const Put& put) {
  HOCKET_TRY(error());
  HOCKET_TRY(check_put(put, bytes_));
  if (put.bytes > 0) std::memcpy(base_ + put.offset, put.source, put.bytes);
  return 0;
}

Result<std::uint64_t> MappedEndpoint::signal(const Signal& signal) {
  HOCKET_TRY(error());
  HOCKET_TRY(check_signal(signal, bytes_));
  apply_signal(base_, signal.line, signal.offset, signal.bell);
  return 0;
}

Status MappedEndpoint::get(std::uint64_t offset, std::span<std::byte> to, const os::WaitLimits&) {
  HOCKET_TRY(error());
  HOCKET_TRY(check_get(offset, to.size(), bytes_));
  copy_words(to.data(), base_ + offset, to.size());
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
