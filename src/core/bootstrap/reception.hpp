// SPDX-License-Identifier: Apache-2.0
// reception.hpp: a leader's door: who connects has to prove that it knows the secret, and say what it is.
//
// Those who have not may be many, slow or strangers: each costs a descriptor and less than a kilobyte, for ten seconds
// at most, and the oldest go first when there are too many.
#pragma once

#include <poll.h>

#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/os/clock.hpp"
#include "base/os/handshake.hpp"
#include "base/os/net_socket.hpp"
#include "base/os/socket.hpp"
#include "core/bootstrap/frames.hpp"

namespace hocket {

/// One thread.
class Reception {
 public:
  /// `near`: for processes of this host; `far`: for leaders of others, none if that could not be had. `self` is this
  /// process in texts; `counters` are for what newcomers say.
  Reception(os::UnixListener near, std::optional<os::NetListener> far, const os::Hello& hello, const Secret& secret,
            std::string self, FrameCounters* counters)
      : near_(std::move(near)),
        far_(std::move(far)),
        hello_(hello),
        secret_(secret),
        self_(std::move(self)),
        counters_(counters) {}

  /// Where leaders of other hosts reach this one.
  const os::NetListener& far() const noexcept { return *far_; }

  void listen(std::vector<pollfd>& fds, os::Deadline& wake_at) const;
  void add_streams(std::vector<FrameStream*>& streams);

  /// Lets in who waits. Errors: kSystem.
  Status accept();

  /// One that has proven itself.
  struct Arrival {
    FrameStream stream;
    std::optional<std::uint32_t> round;  ///< another host's leader, and what it connects for; none: of this host
  };
  /// The next one. Those that do not come through the door are dropped meanwhile.
  std::optional<Arrival> take();

 private:
  struct Newcomer {
    FrameStream stream;
    bool local;  // over the Unix socket
  };

  bool make_room();
  bool make_room_or_wait(const Status& why);
  Status add(os::UniqueFd fd, bool local);

  os::UnixListener near_;
  std::optional<os::NetListener> far_;
  const os::Hello hello_;
  const Secret secret_;
  const std::string self_;
  FrameCounters* const counters_;
  std::list<Newcomer> newcomers_;
  os::Deadline accept_after_ = os::Deadline::at_ns(0);  // descriptors ran out: wait for some to be free
};

}  // namespace hocket
