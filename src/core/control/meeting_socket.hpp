// SPDX-License-Identifier: Apache-2.0
// control/meeting_socket.hpp: where two processes of a host meet.
//
// Two processes of one network namespace meet at an abstract socket, others at a file. Its directory is one that both
// see: an address names it by what the file system says it is, not by a path. So both sides know from the addresses
// alone which of the two can work, and come to the same answer. The file is made only when a peer from another
// namespace is expected, and removed when it has connected.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "base/os/socket.hpp"
#include "core/control/event_set.hpp"
#include "transport/shm.hpp"

namespace hocket {

/// The abstract Unix socket at which a process listens.
std::string abstract_socket_of(const ProcessAddress& address);

enum class Way { kAbstract, kPath };
/// Errors: kUnsupported. `listener` is the one of the two that is connected to.
Result<Way> way_between(const ProcessAddress& self, const ProcessAddress& peer, const ProcessAddress& listener);
/// Where `listener` is connected to on this way.
os::UnixAddress address_on(Way way, const ProcessAddress& listener);

/// The sockets at which this process listens. Any thread.
class MeetingSockets {
 public:
  explicit MeetingSockets(EventSet& events) : events_(events) {}

  /// Listens at the abstract one, and writes into `address` where this process can be met. Errors: kInvalidArgument,
  /// kOutOfMemory, kSystem.
  Status open(ProcessAddress& address);
  /// For as long as a user of it is there, listens at the file, too. Errors: kUnsupported (its directory cannot be
  /// used), kOutOfMemory, kSystem.
  Status open_path(const ProcessAddress& self);
  void close_path();

  /// One that waits; `spare` is given up for it when there is no other descriptor. Errors: kTimeout (nobody waits),
  /// kOutOfMemory, kSystem.
  Result<os::UnixSocket> accept(EventSet::Kind kind, os::UniqueFd& spare);
  /// Whether to wake for those who wait. Errors: kSystem.
  Status arm(bool on);

 private:
  EventSet& events_;
  std::mutex mutex_;  // guards what follows
  std::optional<os::UnixListener> abstract_;
  std::optional<os::UnixListener> path_;
  int path_users_ = 0;
};

}  // namespace hocket
