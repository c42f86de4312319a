// SPDX-License-Identifier: Apache-2.0
// control/handshakes.hpp: peers that connected to this process, from accept() to the end of their handshake.
//
// Nobody can block it: whoever connects and sends garbage, or nothing, is dropped after a while, and others go on
// meanwhile. When descriptors run out, one more is accepted in place of a spare one, to be able to say so.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/os/socket.hpp"
#include "base/os/unique_fd.hpp"
#include "core/control/event_set.hpp"
#include "core/control/links.hpp"
#include "core/control/meeting_socket.hpp"
#include "transport/shm.hpp"

namespace hocket {

/// The control thread.
class Handshakes {
 public:
  /// What became of a handshake in which the peer said who it is: ok, or why there is no link.
  using Outcome = std::function<void(const ProcessToken&, const Status&)>;

  /// All but `outcome` are borrowed.
  Handshakes(EventSet& events, MeetingSockets& sockets, Links& links, const ShmSelf& self, Outcome outcome)
      : events_(events), sockets_(sockets), links_(links), self_(self), outcome_(std::move(outcome)) {}
  /// Errors: kOutOfMemory.
  Status open();

  void accept_all(EventSet::Kind kind);
  void converse(std::uint64_t id);
  /// Does what is due; when to call again.
  os::Deadline handle_due();

 private:
  struct Conversation {
    os::UnixSocket socket;
    os::PeerCredentials credentials;
    os::Deadline deadline;
    std::unique_ptr<ShmHandshake> handshake;
    bool wants_write = false;
  };

  void arm();
  void end(std::uint64_t id);
  Status install(Conversation& conversation);

  EventSet& events_;
  MeetingSockets& sockets_;
  Links& links_;
  const ShmSelf& self_;
  const Outcome outcome_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Conversation> conversations_;
  os::UniqueFd spare_;
  bool starved_ = false;
  bool armed_ = true;
};

}  // namespace hocket
