// SPDX-License-Identifier: Apache-2.0
// control/links.hpp: peer processes of this host that this one is connected to, until they are lost.
//
// A peer's death shows in its socket, and in its pidfd where one can be had, because a socket that a forked child of
// the peer still holds stays open.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/os/abort.hpp"
#include "base/os/pidfd.hpp"
#include "base/os/socket.hpp"
#include "core/control/event_set.hpp"
#include "core/control/losses.hpp"
#include "transport/shm.hpp"

namespace hocket {

/// Any thread, but for the events, which are the control thread's.
class Links {
 public:
  Links(EventSet& events, Losses& losses) : events_(events), losses_(losses) {}

  struct New {
    ProcessToken peer;
    std::string name;
    os::UnixSocket socket;
    std::shared_ptr<const os::PidFd> process;
    os::Mapping mapping;
    bool initiated;  ///< by this side
  };
  /// A connection that is made. Errors: kOutOfMemory, kSystem.
  Result<std::shared_ptr<ShmEndpoint>> add(New link);
  /// The endpoint of a peer that is connected; null if it is not.
  std::shared_ptr<ShmEndpoint> find(const ProcessToken& peer) const;

  /// Ends the peer's process and waits for that. Errors: kUnsupported, kTimeout, kAborted, kSystem.
  Status fence(const ProcessToken& peer, const os::WaitLimits& limits) const;

  void on_socket(std::uint64_t id);
  void on_process(std::uint64_t id);
  /// Does what is due; when to call again.
  os::Deadline handle_due();

  /// Peers see the end, also if a child of this process holds the same sockets.
  void shutdown();

 private:
  struct Link {
    ProcessToken peer;
    std::string name;
    enum class State { kLive, kEnding, kLost } state = State::kLive;
    std::optional<os::UnixSocket> socket;  // none once it ended
    std::shared_ptr<const os::PidFd> process;
    std::shared_ptr<ShmEndpoint> endpoint;
    bool initiated = false;
    std::string cause;                         // kEnding: what the socket showed
    os::Deadline due = os::Deadline::never();  // kEnding: how long the pidfd has to tell more
  };
  Loss lose_locked(std::uint64_t id, const std::string& cause, bool ended);

  EventSet& events_;
  Losses& losses_;
  mutable std::mutex mutex_;  // guards what follows; taken before that of losses_, never while listeners run
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Link> links_;
};

}  // namespace hocket
