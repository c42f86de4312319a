// SPDX-License-Identifier: Apache-2.0
// connector.hpp: a thread that connects, as connecting waits, and its owner's thread must not.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "base/os/thread.hpp"
#include "base/os/wake.hpp"
#include "core/bootstrap/frames.hpp"

namespace hocket {

/// The thread of its owner, which `wake` wakes when there is something to take().
class Connector {
 public:
  explicit Connector(const os::Wake& wake) : wake_(wake) {}
  /// What `connect` waits for must have been ended.
  ~Connector() { thread_.join(); }
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  /// Calls connect(0), …, connect(count - 1) in a thread of its own, until one fails. The run before has ended: all of
  /// its connections were taken. Errors: kOutOfMemory.
  Status start(std::size_t count, std::function<Result<FrameStream>(std::size_t)> connect);
  /// The next connection, in that order, or why there is none.
  std::optional<Result<FrameStream>> take();
  /// Not all were taken yet.
  bool busy() const noexcept { return left_ > 0; }

 private:
  const os::Wake& wake_;
  std::size_t left_ = 0;  // to be taken
  std::mutex mutex_;      // guards connected_
  std::deque<Result<FrameStream>> connected_;
  os::Thread thread_;
};

}  // namespace hocket
