// SPDX-License-Identifier: Apache-2.0
// core/stream.hpp: a stream's queue.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "base/os/process.hpp"
#include "core/operation.hpp"
#include "hocket/communicator.hpp"

namespace hocket {

struct QueuedCall {
  Operation operation;
  std::uint64_t ticket = 0;
};

struct Stream::State {
  std::mutex mutex;
  std::condition_variable idle;
  std::deque<QueuedCall> queue;
  bool running = false;  ///< a task of the progress thread serves it
  Status error;          ///< the first since the last synchronize
  os::ForkMark fork_mark;
};

/// Queue a checked call. Any thread.
Status enqueue(const std::shared_ptr<Stream::State>& stream, Operation operation);

}  // namespace hocket
