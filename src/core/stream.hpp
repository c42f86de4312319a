// SPDX-License-Identifier: Apache-2.0
// core/stream.hpp: a stream's queue.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "base/os/process.hpp"
#include "core/communicator_state.hpp"
#include "hocket/communicator.hpp"

namespace hocket {

struct QueuedCall {
  std::shared_ptr<CommunicatorState> communicator;
  CallKey key;
  Reduction reduction = ReduceOp::kSum;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t input_bytes = 0;
  std::size_t output_bytes = 0;
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
Status enqueue(const std::shared_ptr<Stream::State>& stream, QueuedCall call);

}  // namespace hocket
