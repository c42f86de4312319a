// SPDX-License-Identifier: Apache-2.0
#include "core/progress.hpp"

#include <sched.h>

#include <chrono>
#include <thread>

#include "base/os/clock.hpp"
#include "base/os/membarrier.hpp"

namespace hocket {

std::unique_ptr<ProgressThread> ProgressThread::create(ArenaHeader& header) {
  return std::unique_ptr<ProgressThread>(new ProgressThread(header));
}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  if (thread_.running()) wake();
  thread_.join();
}

Status ProgressThread::submit(std::shared_ptr<ProgressTask> task) {
  {
    const std::lock_guard lock(mutex_);
    if (!started_) {
      auto thread = os::Thread::start("hocket-progress", [this] { run(); });
      if (!thread.ok()) return thread.status();
      thread_ = std::move(*thread);
      started_ = true;
    }
    place_.keep_off(::sched_getcpu());
    arrived_.push_back(std::move(task));
  }
  wake();
  return {};
}

void ProgressThread::wake() {
  std::atomic<std::uint32_t>& word = header_.bells[kBell];
  word.fetch_add(1, std::memory_order_seq_cst);
  os::futex_wake(word);
}

void ProgressThread::run() {
  // Turns without a move before sleeping; a peer usually answers within some.
  constexpr int kIdleTurns = 64;
  {
    const std::lock_guard lock(mutex_);
    place_.settle();
  }
  std::vector<std::shared_ptr<ProgressTask>> tasks;
  const std::atomic<std::uint32_t>& word = header_.bells[kBell];
  int idle = 0;
  bool armed = false;
  for (;;) {
    const std::uint32_t seen = word.load(std::memory_order_seq_cst);
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      for (auto& task : arrived_) tasks.push_back(std::move(task));
      arrived_.clear();
    }
    bool moved = false;
    for (std::size_t i = 0; i < tasks.size();) {
      const ProgressTask::Poll result = tasks[i]->poll();
      if (result == ProgressTask::Poll::kDone) {
        if (armed) tasks[i]->set_bell(Doorbell::kAwake);
        tasks.erase(tasks.begin() + static_cast<std::ptrdiff_t>(i));
        moved = true;
        continue;
      }
      moved |= result == ProgressTask::Poll::kMoved;
      ++i;
    }
    if (moved) {
      idle = 0;
      if (armed)
        for (auto& task : tasks) task->set_bell(Doorbell::kAwake);
      armed = false;
      continue;
    }
    if (!tasks.empty() && ++idle < kIdleTurns) {
      std::this_thread::yield();
      continue;
    }
    if (!armed && !tasks.empty()) {
      // Arm, then look once more before sleeping.
      for (auto& task : tasks) task->set_bell(Doorbell::kFirstBell + kBell);
      if (os::register_membarrier()) os::membarrier();
      armed = true;
      continue;
    }
    // Tasks look at the clock (warnings, time-outs, lost peers), so with some the sleep is bounded.
    os::futex_wait(word, seen,
                   tasks.empty() ? os::Deadline::never() : os::Deadline::after(std::chrono::milliseconds(50)));
    if (armed)
      for (auto& task : tasks) task->set_bell(Doorbell::kAwake);
    armed = false;
  }
}

}  // namespace hocket
