// SPDX-License-Identifier: Apache-2.0
// upstream.hpp: a sub-root's connection to the first root, to which it hands all on that its leaders say.
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "base/os/handshake.hpp"
#include "base/os/wake.hpp"
#include "core/bootstrap/connector.hpp"
#include "core/bootstrap/frames.hpp"
#include "hocket/unique_id.hpp"

namespace hocket {

/// Nothing here waits. One thread, which `wake` wakes when there is a connection.
class Upstream {
 public:
  explicit Upstream(const os::Wake& wake) : connector_(wake) {}

  bool begun() const noexcept { return begun_; }
  /// Errors: kOutOfMemory.
  Status begin(const UniqueId& first, const os::Hello& hello, const std::string& interfaces,
               std::chrono::nanoseconds patience);

  /// A frame of the leader on this tag; kept until there is a connection.
  void send(std::uint64_t tag, const Frame& frame);

  pollfd entry() const;
  /// Goes on with what it can. Errors: what the first root failed with, or that it cannot be reached.
  Status turn();
  /// What the first root says to one of its leaders; the sequence is the tag.
  std::optional<Frame> take();
  /// After the last of these: kPeerLost, once, if the first root has gone. What follows goes nowhere.
  Status check_lost();

 private:
  Connector connector_;
  bool begun_ = false;
  bool lost_ = false;
  std::vector<std::pair<std::uint64_t, Frame>> waiting_;  // until there is a connection
  std::optional<FrameStream> stream_;
};

}  // namespace hocket
