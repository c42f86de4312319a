// SPDX-License-Identifier: Apache-2.0
#include "transport/faulty.hpp"

#include <algorithm>
#include <cstring>

#include "base/os/clock.hpp"
#include "base/status.hpp"
#include "transport/doorbell.hpp"

namespace hocket {

FaultyEndpoint::FaultyEndpoint(std::shared_ptr<Endpoint> inner, const FaultPlan& plan)
    : inner_(std::move(inner)), plan_(plan), name_(format("faulty({})", inner_->transport())), random_(plan.seed) {}

std::shared_ptr<FaultyEndpoint> make_faulty(std::shared_ptr<Endpoint> inner, const FaultPlan& plan) {
  return std::make_shared<FaultyEndpoint>(std::move(inner), plan);
}

Result<std::uint64_t> FaultyEndpoint::put(const Put& put) {
  const std::scoped_lock lock(mutex_);
  Operation operation{};
  operation.is_put = true;
  operation.put = put;
  operation.bytes = put.bytes;
  operation.dropped = ++puts_ == plan_.drop_put;
  return accept_locked(operation);
}

Result<std::uint64_t> FaultyEndpoint::signal(const Signal& signal) {
  const std::scoped_lock lock(mutex_);
  Operation operation{};
  if (signal.line.size() > operation.line.size()) {
    return hocket::error(Code::kInvalidArgument, "signal of {} bytes: at most {} are possible", signal.line.size(),
                         operation.line.size());
  }
  operation.signal = signal;
  std::copy(signal.line.begin(), signal.line.end(), operation.line.begin());
  operation.bytes = signal.line.size();
  operation.dropped = ++signals_ == plan_.drop_signal;
  if (signal.line.size() == kCacheLine) operation.dropped |= ++lines_ == plan_.drop_line;
  return accept_locked(operation);
}

Result<std::uint64_t> FaultyEndpoint::accept_locked(Operation operation) {
  HOCKET_TRY(error_);
  HOCKET_TRY(inner_->error());
  if (++operations_ == plan_.cut_at) {
    cut_locked(hocket::error(Code::kPeerLost, "the connection was cut at operation {} (a planned fault)", operations_));
    return error_;
  }
  const std::int64_t least = plan_.least_delay.count();
  const std::int64_t most = std::max(least, plan_.most_delay.count());
  std::int64_t due =
      os::now_ns() + (most > least ? std::uniform_int_distribution<std::int64_t>(least, most)(random_) : least);
  due = std::max(due, last_due_ns_);  // in order, whatever the delays
  if (plan_.bytes_per_second > 0) {
    due += static_cast<std::int64_t>(1e9 * static_cast<double>(operation.bytes) /
                                     static_cast<double>(plan_.bytes_per_second));
  }
  operation.due_ns = last_due_ns_ = due;
  queue_.push_back(operation);
  return ++accepted_;
}

void FaultyEndpoint::cut_locked(Status why) {
  if (error_.ok()) error_ = std::move(why);
  queue_.clear();
}

std::uint64_t FaultyEndpoint::completed() noexcept {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t inner = inner_->completed();
  while (!inner_left_.empty() && inner_left_.front() <= inner) inner_left_.pop_front();
  return left_ - inner_left_.size();
}

bool FaultyEndpoint::idle() const noexcept {
  const std::scoped_lock lock(mutex_);
  return queue_.empty() && (!error_.ok() || inner_->idle());
}

Status FaultyEndpoint::progress() {
  const std::scoped_lock lock(mutex_);
  HOCKET_TRY(error_);
  Status status;
  while (status.ok() && !queue_.empty() && queue_.front().due_ns <= os::now_ns()) {
    const Operation operation = queue_.front();
    queue_.pop_front();
    std::uint64_t ticket = 0;  // a dropped one was never seen by the inner endpoint: complete when those before it are
    if (!operation.dropped) {
      Signal signal = operation.signal;
      signal.line = std::span(operation.line).first(operation.bytes);
      auto taken = operation.is_put ? inner_->put(operation.put) : inner_->signal(signal);
      if (taken.ok()) {
        ticket = *taken;
      } else {
        status = taken.status();
      }
    }
    ++left_;
    inner_left_.push_back(ticket);
  }
  if (status.ok()) status = inner_->progress();
  // Posted operations report late; after one has failed nothing behind it may take effect.
  if (!status.ok()) cut_locked(status);
  return status;
}

Status FaultyEndpoint::error() const {
  const std::scoped_lock lock(mutex_);
  return error_.ok() ? inner_->error() : error_;
}

bool FaultyEndpoint::moves_alone() const noexcept {
  const std::scoped_lock lock(mutex_);
  return queue_.empty() && inner_->moves_alone();
}

void FaultyEndpoint::cancel(const void* owner) noexcept {
  const std::scoped_lock lock(mutex_);
  for (Operation& operation : queue_)
    operation.dropped |= (operation.is_put ? operation.put.owner : operation.signal.owner) == owner;
  inner_->cancel(owner);
}

Status FaultyEndpoint::expect(ChannelKey channel, std::uint64_t offset, std::uint64_t bytes) {
  return inner_->expect(channel, offset, bytes);
}

Status FaultyEndpoint::get(std::uint64_t offset, std::span<std::byte> to, const os::WaitLimits& limits) {
  HOCKET_TRY(error());
  return inner_->get(offset, to, limits);
}

void FaultyEndpoint::cut_now() {
  const std::scoped_lock lock(mutex_);
  cut_locked(
      hocket::error(Code::kPeerLost, "the connection was cut after {} operations (a planned fault)", operations_));
}

std::uint64_t FaultyEndpoint::operations() const {
  const std::scoped_lock lock(mutex_);
  return operations_;
}

}  // namespace hocket
