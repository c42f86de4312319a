// SPDX-License-Identifier: Apache-2.0
// core/control.hpp: the engine's thread for everything that is not data: it accepts peer processes, and notices when
// one dies.
//
// It sleeps in the kernel until something happens. A peer's death shows in its socket, and in its pidfd where one can
// be had, because a socket that a forked child of the peer still holds stays open. Nobody can block it: whoever
// connects and sends garbage, or nothing, is dropped after a while, and others go on meanwhile.
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
#include "base/os/pidfd.hpp"
#include "base/os/process.hpp"
#include "base/os/socket.hpp"
#include "base/os/thread.hpp"
#include "base/os/unique_fd.hpp"
#include "transport/shm.hpp"

namespace hocket {

/// Any thread.
/// The abstract Unix socket at which a process listens.
std::string abstract_socket_of(const ProcessAddress& address);

class ControlThread {
 public:
  using LossListener = std::function<void(const ProcessToken&, const Status&)>;

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
  void report_loss(const ProcessToken& peer, const Status& why);

  /// See EngineCore.
  std::uint64_t subscribe(LossListener listener);
  void unsubscribe(std::uint64_t id);
  Status fence(const ProcessToken& peer, const os::WaitLimits& limits);
  /// The thread looks at everything once more.
  void wake();

 private:
  // An accepted socket whose handshake is under way. Only the control thread touches these.
  struct Conversation {
    os::UnixSocket socket;
    os::PeerCredentials credentials;
    os::Deadline deadline;
    std::unique_ptr<ShmHandshake> handshake;
    bool wants_write = false;
  };
  // A peer process that was connected to.
  struct Link {
    ProcessToken peer;
    std::string name;
    enum class State { kLive, kEnding, kLost } state = State::kLive;
    std::optional<os::UnixSocket> socket;  // none once it ended
    std::shared_ptr<const os::PidFd> process;
    std::shared_ptr<ShmEndpoint> endpoint;
    bool initiated = false;                    // by this side
    std::string cause;                         // kEnding: what the socket showed
    os::Deadline due = os::Deadline::never();  // kEnding: how long the pidfd has to tell more
  };
  struct Lost {
    Status why;
    bool ended;  // the whole process, so it writes nothing any more
  };
  struct Loss {
    ProcessToken peer;
    Lost lost;
  };
  enum class Kind : std::uint64_t { kWake, kAbstract, kPath, kConversation, kSocket, kProcess };

  ControlThread(ProcessAddress& address, Arena& arena, bool refuse_shm, Hooks hooks)
      : proofs_(arena.header()), self_{address, arena, proofs_, refuse_shm}, hooks_(std::move(hooks)) {}
  Status listen(ProcessAddress& address);
  Result<std::shared_ptr<ShmEndpoint>> connect_first(const ProcessAddress& peer, const os::WaitLimits& limits,
                                                     bool alone);
  Result<std::shared_ptr<ShmEndpoint>> await_connection(const ProcessAddress& peer, const os::WaitLimits& limits);
  Result<std::shared_ptr<ShmEndpoint>> install(const ProcessToken& peer, std::string name, os::UnixSocket socket,
                                               std::shared_ptr<const os::PidFd> process, os::Mapping mapping,
                                               bool initiated);
  Status open_path_listener();
  void close_path_listener();

  Status watch(int fd, std::uint32_t events, Kind kind, std::uint64_t id, bool again = false);
  void unwatch(int fd);
  void run();
  os::Deadline handle_due();
  void handle(Kind kind, std::uint64_t id);
  void accept_all(Kind kind);
  void arm_listeners();
  void converse(std::uint64_t id);
  void end_conversation(std::uint64_t id);
  void socket_event(std::uint64_t id);
  void process_event(std::uint64_t id);
  std::optional<Loss> lose_locked(std::uint64_t id, const std::string& cause, bool ended);
  void announce(const std::optional<Loss>& loss);

  ProofWords proofs_;
  const ShmSelf self_;
  const Hooks hooks_;
  os::ForkMark fork_mark_;
  os::UniqueFd epoll_;
  os::UniqueFd wake_;
  std::optional<os::UnixListener> abstract_;

  // The control thread's own.
  std::map<std::uint64_t, Conversation> conversations_;
  os::UniqueFd spare_;  // given up to accept one more when descriptors ran out, to be able to say so
  bool starved_ = false;
  bool armed_ = true;

  mutable std::mutex mutex_;  // guards what follows; taken before listeners_mutex_, never after
  bool stop_ = false;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Link> links_;
  std::map<ProcessToken, Status> refused_;  // handshakes that peers made with us and that failed; taken by connect()
  std::map<ProcessToken, os::AbortFlag*> waiting_;  // threads in await_connection
  std::optional<os::UnixListener> path_;
  int path_users_ = 0;

  // Guards what follows; held while listeners run. Recursive, as what a listener lets go of may unsubscribe.
  std::recursive_mutex listeners_mutex_;
  std::map<ProcessToken, Lost> lost_;
  std::map<std::uint64_t, LossListener> listeners_;
  std::uint64_t next_listener_ = 1;

  os::Thread thread_;  // last: ends before all it uses
};

}  // namespace hocket
