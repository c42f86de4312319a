// SPDX-License-Identifier: Apache-2.0
// core/engine.hpp: the inside of Engine: what communicators of a process share.
//
// Owns the arena, the connections (one Endpoint per peer process and transport), the control thread that notices when a
// peer dies, the progress thread that runs streams (core/progress.hpp), and the machine's graph. Any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/os/abort.hpp"
#include "base/os/process.hpp"
#include "base/settings.hpp"
#include "core/graveyard.hpp"
#include "core/observe.hpp"
#include "hocket/engine.hpp"
#include "topo/graph.hpp"
#include "topo/host_layout.hpp"
#include "transport/arena.hpp"
#include "transport/transport.hpp"

namespace hocket {

class ControlThread;
class ProgressThread;
class EngineCore;
class TcpTransport;

struct EngineOptions {
  Settings settings;
  std::uint64_t arena_bytes = kArenaBytes;
  /// Tests: what every new endpoint is wrapped in (transport/faulty.hpp). Called from the connecting thread, once for
  /// each connection.
  std::function<std::shared_ptr<Endpoint>(std::shared_ptr<Endpoint>, EngineCore&, const ProcessAddress& peer)> wrap;
  /// Tests: pretend that the proof of shared memory failed, to see the next transport taken.
  bool refuse_shm = false;
};

/// One way to a peer process that was tried, and why it was not taken (empty: it was).
struct TransportTrial {
  std::string transport;
  std::string reason;
};

/// Whether an address that came from another process can be used: all texts end, all numbers are possible.
/// Errors: kInvalidArgument.
Status check_address(const ProcessAddress& address);

class EngineCore final : public Engine {
 public:
  static Result<std::shared_ptr<EngineCore>> create(EngineOptions options);
  /// The inside of an Engine; of the process's own if null.
  static Result<std::shared_ptr<EngineCore>> of(const std::shared_ptr<Engine>& engine);
  ~EngineCore() override;

  const EngineOptions& options() const noexcept { return options_; }
  Arena& arena() const noexcept { return *arena_; }
  const ProcessAddress& address() const noexcept { return address_; }
  Graveyard& graveyard() noexcept { return graveyard_; }
  /// Gives the memory of a communicator that ended back as soon as its peers are done with it.
  void bury(Graveyard::Grave grave);
  ProgressThread& progress() const noexcept { return *progress_; }
  Observation& observation() const noexcept { return *observation_; }
  bool forked() const noexcept { return fork_mark_.forked(); }

  /// The machine as hwloc sees it, loaded on first use.
  Result<std::shared_ptr<const topo::Graph>> machine();
  /// What was found for the GPUs of communicators before.
  topo::HostLayouts& host_layouts() noexcept { return host_layouts_; }
  /// Take over what another rank of this host loaded.
  void set_machine(std::shared_ptr<const topo::Graph> graph);

  /// The endpoint for a peer process, made on first use by the first transport in the order local, shm, tcp that
  /// `allowed` has and that works; `trials` gets what was tried. Both processes must call it for each other (the one
  /// with the smaller token connects, the other accepts), unless `alone`: then this one connects in any case. Same
  /// process: local. Errors: kUnsupported with all reasons, kPeerLost, kTimeout, kAborted.
  Result<std::shared_ptr<Endpoint>> connect(const ProcessAddress& peer, const AllowList& allowed,
                                            const os::WaitLimits& limits, std::vector<TransportTrial>* trials,
                                            bool alone = false);

  /// `listener(token, why)` is called from the control thread when a peer process died or its connection broke, and
  /// inside subscribe for each peer to which that had already happened. It must be quick and must not call back, but
  /// may let go of the last holder of a subscription or of the engine. Returns an id for unsubscribe, which returns
  /// only when no call of it is running (in another thread).
  using LossListener = std::function<void(const ProcessToken&, const Status&)>;
  std::uint64_t subscribe(LossListener listener);
  void unsubscribe(std::uint64_t id);

  /// Kill a peer process of this host for good (SIGKILL through its pidfd) and wait for its end. Errors: kUnsupported
  /// (not this host or no pidfd), kTimeout.
  Status fence(const ProcessToken& peer, const os::WaitLimits& limits);

 private:
  explicit EngineCore(EngineOptions options);
  Status listen();

  EngineOptions options_;
  ProcessAddress address_;
  os::ForkMark fork_mark_;
  std::unique_ptr<Arena> arena_;
  topo::HostLayouts host_layouts_;
  Graveyard graveyard_;
  std::unique_ptr<Observation> observation_;
  std::unique_ptr<ControlThread> control_;
  std::unique_ptr<TcpTransport> tcp_;  ///< null: HOCKET_TRANSPORT leaves it out
  std::unique_ptr<ProgressThread> progress_;

  // One way to one peer process, made once: those who come while it is being made wait for it.
  struct Connection;
  Result<std::shared_ptr<Endpoint>> connect_by(std::string_view transport, const ProcessAddress& peer,
                                               const os::WaitLimits& limits, bool alone);
  Result<std::shared_ptr<Endpoint>> make_endpoint(std::string_view transport, const ProcessAddress& peer,
                                                  const os::WaitLimits& limits, bool alone);
  void forget(const ProcessToken& peer);

  std::mutex mutex_;  // guards connections_
  std::map<std::pair<ProcessToken, std::string>, std::shared_ptr<Connection>> connections_;
  std::mutex machine_mutex_;  // guards machine_, also while it is loaded
  std::shared_ptr<const topo::Graph> machine_;
};

}  // namespace hocket
