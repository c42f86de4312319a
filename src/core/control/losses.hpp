// SPDX-License-Identifier: Apache-2.0
// control/losses.hpp: peer processes that were lost, and who wants to know.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "hocket/status.hpp"
#include "transport/shm.hpp"

namespace hocket {

struct Loss {
  ProcessToken peer;
  Status why;
  bool ended;  ///< the whole process, so it writes nothing any more
};

/// Any thread. Listeners run one at a time, and may subscribe and unsubscribe.
class Losses {
 public:
  using Listener = std::function<void(const ProcessToken&, const Status&)>;

  /// `ended` is called, before the listeners, when a process has ended as a whole.
  explicit Losses(std::function<void(const ProcessToken&)> ended) : on_ended_(std::move(ended)) {}

  /// Tells the listener of all losses, also of those that were before.
  std::uint64_t subscribe(Listener listener);
  void unsubscribe(std::uint64_t id);

  void announce(const Loss& loss);
  /// One that was lost but still ran has ended, too: what has_ended() says, and then whom it concerns is told.
  void mark_ended(const ProcessToken& peer);
  void announce_end(const ProcessToken& peer) const { on_ended_(peer); }
  /// It is connected anew.
  void forget(const ProcessToken& peer);
  bool has_ended(const ProcessToken& peer) const;

 private:
  struct Lost {
    Status why;
    bool ended;
  };
  const std::function<void(const ProcessToken&)> on_ended_;
  // Guards what follows; held while listeners run. Recursive, as what a listener lets go of may unsubscribe.
  mutable std::recursive_mutex mutex_;
  std::map<ProcessToken, Lost> lost_;
  std::map<std::uint64_t, Listener> listeners_;
  std::uint64_t next_listener_ = 1;
};

}  // namespace hocket
