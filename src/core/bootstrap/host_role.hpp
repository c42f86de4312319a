// SPDX-License-Identifier: Apache-2.0
// host_role.hpp: what a process is in a meeting: the leader of its host (host_leader.hpp), or a member
// (host_member.hpp).
//
// Driven by the serving thread (node.hpp), which polls and turns the streams; nothing here waits. An error that is
// returned fails the meeting: it is told to this process's ranks, and by tell() to all whom it is connected with.
#pragma once

#include <poll.h>

#include <vector>

#include "base/os/clock.hpp"
#include "core/bootstrap/frames.hpp"
#include "hocket/status.hpp"

namespace hocket {

class HostRole {
 public:
  virtual ~HostRole() = default;

  /// All connections, in an order that stays until work().
  virtual std::vector<FrameStream*> streams() = 0;
  /// What else to poll for, and when to wake at the latest.
  virtual void listen(std::vector<pollfd>&, os::Deadline&) {}
  /// Takes in who comes; `failure`: what the meeting has failed with, ok if it has not.
  virtual Status admit(const Status& /*failure*/) { return {}; }
  /// Goes on with what the streams have brought and the ranks want, as far as it gets. Not after a failure.
  virtual Status work() = 0;
  virtual void tell(const Status& failure) = 0;
  /// All that was sent is on its way.
  virtual bool flushed() const = 0;

  virtual bool leads() const = 0;
  virtual int hosts() const = 0;
  /// Of all-gathers among leaders, all together.
  virtual int rounds() const { return 0; }
};

}  // namespace hocket
