// SPDX-License-Identifier: Apache-2.0
// core/control.hpp: the engine's thread for everything that is not data: it accepts peer processes, and notices when
// one dies.
//
// It sleeps in the kernel until something happens. Where it listens: control/meeting_socket.hpp; who comes:
// control/handshakes.hpp; who is connected, and how that ends: control/links.hpp; who wants to know:
// control/losses.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/os/abort.hpp"
#include "base/os/process.hpp"
#include "base/os/thread.hpp"
#include "base/os/wake.hpp"
#include "core/control/event_set.hpp"
#include "core/control/handshakes.hpp"
#include "core/control/links.hpp"
#include "core/control/losses.hpp"
#include "core/control/meeting_socket.hpp"
#include "transport/shm.hpp"

namespace hocket {

class ControlThread {
 public:
  using LossListener = Losses::Listener;

  /// Called from the control thread.
  struct Hooks {
    /// A peer process has ended as a whole: nothing can come from it any more.
    std::function<void(const ProcessToken&)> ended;
    /// Before each sleep; returns when it wants to be called again.
    std::function<os::Deadline()> tidy;
  };
  /// Listens and writes into `address` where. Both are borrowed and outlive it. Errors: kOutOfMemory, kSystem.
  static Result<std::unique_ptr<ControlThread>> create(ProcessAddress& address, Arena& arena, bool refuse_shm,
                                                       Hooks hooks);
  ~ControlThread();
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;

  /// Shared memory with a process of this host; both must call it for each other, one thread at a time for each peer.
  /// The one with the smaller token connects, the other waits to be connected to (which it is whether it waits or not,
  /// so it does not matter in which order a process calls this for several peers). `alone`: this one connects in any
  /// case, because the peer need not call this at all.
  ///
  /// Errors: kUnsupported with the reason, equal on both sides; kPeerLost, kTimeout, kAborted, kOutOfMemory, kSystem.
  Result<std::shared_ptr<ShmEndpoint>> connect(const ProcessAddress& peer, const os::WaitLimits& limits,
                                               bool alone = false);

  /// A transport that this thread does not see has lost a peer.
  void report_loss(const ProcessToken& peer, const Status& why) { losses_.announce({peer, why, false}); }

  /// See EngineCore.
  std::uint64_t subscribe(LossListener listener) { return losses_.subscribe(std::move(listener)); }
  void unsubscribe(std::uint64_t id) { losses_.unsubscribe(id); }
  Status fence(const ProcessToken& peer, const os::WaitLimits& limits) { return links_.fence(peer, limits); }
  /// The thread looks at everything once more.
  void wake();

 private:
  ControlThread(const ProcessAddress& address, Arena& arena, bool refuse_shm, Hooks hooks)
      : proofs_(arena.header()),
        self_{address, arena, proofs_, refuse_shm},
        hooks_(std::move(hooks)),
        losses_(hooks_.ended),
        sockets_(events_),
        links_(events_, losses_),
        handshakes_(events_, sockets_, links_, self_, [this](const auto& peer, const auto& made) { met(peer, made); }) {
  }
  Status open(ProcessAddress& address);
  Result<std::shared_ptr<ShmEndpoint>> connect_first(const ProcessAddress& peer, const os::WaitLimits& limits,
                                                     bool alone);
  Result<std::shared_ptr<ShmEndpoint>> await_connection(const ProcessAddress& peer, const os::WaitLimits& limits);

  // The control thread.
  void run();
  void handle(EventSet::Kind kind, std::uint64_t id);
  void met(const ProcessToken& peer, const Status& made);

  ProofWords proofs_;
  const ShmSelf self_;
  const Hooks hooks_;
  os::ForkMark fork_mark_;
  EventSet events_;
  std::optional<os::Wake> wake_;
  Losses losses_;
  MeetingSockets sockets_;
  Links links_;
  Handshakes handshakes_;  // the control thread's own

  mutable std::mutex mutex_;  // guards what follows
  bool stop_ = false;
  std::map<ProcessToken, Status> refused_;  // handshakes that peers made with us and that failed; taken by connect()
  std::map<ProcessToken, os::AbortFlag*> waiting_;  // threads in await_connection

  os::Thread thread_;  // last: ends before all it uses
};

}  // namespace hocket
