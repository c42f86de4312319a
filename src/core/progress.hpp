// SPDX-License-Identifier: Apache-2.0
// core/progress.hpp: the engine's progress thread. It takes turns over the calls of all streams, and sleeps when none
// can move.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/os/thread.hpp"
#include "base/os/thread_place.hpp"
#include "hocket/status.hpp"
#include "transport/doorbell.hpp"

namespace hocket {

/// Something that the progress thread drives. poll() and set_bell() are called from that thread only.
class ProgressTask {
 public:
  enum class Poll { kDone, kMoved, kIdle };
  virtual ~ProgressTask() = default;
  /// Do what can be done now without waiting. After kDone the task is dropped.
  virtual Poll poll() = 0;
  /// Peers that signal this task must wake the thread: put `state` into the doorbells it waits on; Doorbell::kAwake
  /// ends that.
  virtual void set_bell(std::uint32_t state) = 0;
};

/// One per engine; its thread starts with the first task. submit() and wake(): any thread.
class ProgressThread {
 public:
  /// `header` is of the engine's arena and outlives this.
  static std::unique_ptr<ProgressThread> create(ArenaHeader& header);
  ~ProgressThread();

  Status submit(std::shared_ptr<ProgressTask> task);
  /// Look at all tasks again.
  void wake();

 private:
  explicit ProgressThread(ArenaHeader& header) : header_(header) {}
  void run();

  static constexpr std::uint32_t kBell = 0;
  ArenaHeader& header_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<ProgressTask>> arrived_;
  bool stop_ = false;
  bool started_ = false;
  os::ThreadPlace place_;  // under mutex_
  os::Thread thread_;
};

}  // namespace hocket
