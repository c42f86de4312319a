// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/callers.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/status.hpp"
#include "core/bootstrap/messages.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

// After a rank's time ran out: for the others' word on who is missing.
constexpr auto kForTheReason = 5s;

}  // namespace

// ---- Ranks ----

Callers::Local* Callers::find(Rank rank) {
  for (const auto& local : locals_)
    if (local->rank == rank) return local.get();
  return nullptr;
}

// Not only this rank's trouble: the meeting fails with it.
Status Callers::refuse(Status why) {
  request_ = std::move(why);
  wake_.wake();
  return request_;
}

Status Callers::join(Rank rank, int size, const os::WaitLimits& limits, const std::function<Status()>& start) {
  if (size < 1 || size > kMostRanks || rank < 0 || rank >= size) {
    return error(Code::kInvalidArgument, "rank {} of {}: a communicator has 1 to {} ranks, counted from 0", rank, size,
                 kMostRanks);
  }
  std::unique_lock lock(mutex_);
  if (!failed_.ok()) return failed_;
  if (closed_) {
    return error(Code::kInvalidArgument,
                 "rank {} came with a unique id whose {} ranks have met already: each communicator needs an id of its "
                 "own",
                 rank, size_);
  }
  if (size_ != 0 && size_ != size) {
    return refuse(error(Code::kMismatch, "rank {} wants a communicator of {} ranks, rank {} one of {}, both in pid {}",
                        rank, size, locals_.front()->rank, size_, ::getpid()));
  }
  if (find(rank)) {
    return refuse(
        error(Code::kInvalidArgument, "rank {} came twice, both times from pid {} on {}", rank, ::getpid(), host_));
  }
  if (locals_.empty()) {
    size_ = size;
    first_deadline_ = limits.deadline;
    if (Status started = start(); !started.ok()) return failed_ = std::move(started);
  }
  locals_.push_back(std::make_unique<Local>());
  locals_.back()->rank = rank;
  wake_.wake();
  return wait(lock, nullptr, rank, limits, "the other ranks to come");
}

Status Callers::exchange(Rank rank, std::span<const std::byte> mine, std::span<std::byte> all,
                         const os::WaitLimits& limits) {
  if (all.size() != mine.size() * static_cast<std::size_t>(size_)) {
    return error(Code::kInvalidArgument, "rank {} exchanges {} bytes among {} ranks, but has room for {}", rank,
                 mine.size(), size_, all.size());
  }
  if (all.size() > FrameStream::kLarge / 2) {
    return error(Code::kInvalidArgument, "rank {} exchanges {} bytes, {} in all: at most {} are possible", rank,
                 mine.size(), all.size(), FrameStream::kLarge / 2);
  }
  std::unique_lock lock(mutex_);
  if (!failed_.ok()) return failed_;
  Local* local = find(rank);
  local->mine = mine;
  local->all = all;
  local->waiting = true;
  // The last one wakes the server: until then there is nothing to do.
  if (std::all_of(locals_.begin(), locals_.end(), [](const auto& l) { return l->waiting; })) wake_.wake();
  const Status status = wait(lock, local, rank, limits, "all ranks to take part in the exchange");
  local->waiting = false;
  return status;
}

Status Callers::wait(std::unique_lock<std::mutex>& lock, Local* local, Rank rank, const os::WaitLimits& limits,
                     std::string_view what) {
  const auto begin = os::now_ns();
  const auto done = [&] { return !failed_.ok() || (local ? !local->waiting : ready_); };
  os::Deadline deadline = limits.deadline;
  bool asked = false;
  while (!done()) {
    if (limits.abort && limits.abort->raised())
      return refuse(error(Code::kAborted, "rank {} was aborted while it waited for {}", rank, what));
    // An abort is a descriptor, of which there would be one for each rank to poll: it is looked at instead.
    os::Deadline next = deadline;
    if (limits.abort) next = std::min(next, os::Deadline::after(50ms));
    if (next.is_never()) {
      changed_.wait(lock);
    } else {
      changed_.wait_for(lock, std::chrono::nanoseconds(std::max<std::int64_t>(0, next.ns() - os::now_ns())));
    }
    if (done() || !deadline.passed()) continue;
    const double seconds = static_cast<double>(os::now_ns() - begin) / 1e9;
    if (asked) {
      failed_ = error(Code::kTimeout, "rank {} waited {:.1f} s for {}, and nobody knows why", rank, seconds, what);
      changed_.notify_all();
      break;
    }
    asked = true;
    deadline = os::Deadline::after(kForTheReason);
    if (!timed_out_) {
      timed_out_ = {rank, format("rank {} waited {:.1f} s", rank, seconds)};
      wake_.wake();
    }
  }
  return failed_;
}

BootstrapCounters Callers::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

// ---- The serving thread ----

os::Deadline Callers::first_deadline() const {
  const std::lock_guard lock(mutex_);
  return first_deadline_;
}

std::vector<Rank> Callers::take_new() {
  const std::lock_guard lock(mutex_);
  std::vector<Rank> ranks;
  for (const auto& local : locals_)
    if (!std::exchange(local->announced, true)) ranks.push_back(local->rank);
  return ranks;
}

void Callers::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void Callers::set_ready() {
  const std::lock_guard lock(mutex_);
  ready_ = true;
  changed_.notify_all();
}

std::optional<Callers::TimedOut> Callers::timed_out() const {
  const std::lock_guard lock(mutex_);
  return timed_out_;
}

Status Callers::request() const {
  const std::lock_guard lock(mutex_);
  return request_;
}

bool Callers::any_waits() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(locals_.begin(), locals_.end(), [](const auto& l) { return l->waiting; });
}

std::vector<Rank> Callers::absent() const {
  const std::lock_guard lock(mutex_);
  std::vector<Rank> ranks;
  for (const auto& local : locals_)
    if (!local->waiting) ranks.push_back(local->rank);
  return ranks;
}

Result<bool> Callers::with_parts(const std::function<Status(std::vector<Part>&)>& use) const {
  // Held meanwhile: a rank that gives up takes its memory with it.
  const std::lock_guard lock(mutex_);
  if (!failed_.ok()) return false;
  std::vector<Part> parts;
  for (const auto& local : locals_) {
    if (!local->waiting) return false;
    parts.emplace_back(local->rank, local->mine);
  }
  HOCKET_TRY(use(parts));
  return true;
}

Status Callers::deliver(std::span<const std::byte> whole) {
  const std::lock_guard lock(mutex_);
  ++counters_.exchanges;
  for (const auto& local : locals_) {
    if (local->waiting && local->all.size() != whole.size()) {
      return error(Code::kMismatch, "rank {} has room for {} bytes, {} came", local->rank, local->all.size(),
                   whole.size());
    }
  }
  for (const auto& local : locals_) {
    if (!local->waiting) continue;
    if (!whole.empty()) std::memcpy(local->all.data(), whole.data(), whole.size());
    local->waiting = false;
  }
  changed_.notify_all();
  return {};
}

bool Callers::fail(Status status) {
  const std::lock_guard lock(mutex_);
  if (!failed_.ok()) return false;
  failed_ = std::move(status);
  changed_.notify_all();
  return true;
}

Status Callers::failure() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

void Callers::publish(const FrameCounters& frames, bool leader, int hosts, int rounds) {
  const std::lock_guard lock(mutex_);
  counters_.frames = frames;
  counters_.leader = leader;
  counters_.hosts = hosts;
  counters_.rounds = rounds;
}

void Callers::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
}

bool Callers::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

}  // namespace hocket
