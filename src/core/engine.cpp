// SPDX-License-Identifier: Apache-2.0
// engine.cpp: makes and holds what the communicators of a process share.
// Next stop: core/control.cpp (peers of this host), transport/shm.cpp (their memory).
#include "core/engine.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "base/log.hpp"
#include "base/os/random.hpp"
#include "base/status.hpp"
#include "core/control.hpp"
#include "core/progress.hpp"
#include "core/resolve_settings.hpp"
#include "topo/hash.hpp"
#include "topo/nccl_graph.hpp"
#include "transport/local.hpp"
#include "transport/tcp.hpp"

namespace hocket {
namespace {

// In the order in which they are tried.
constexpr std::array<std::string_view, 3> kTransports = {"local", "shm", "tcp"};

template <std::size_t n>
bool ends(const std::array<char, n>& field) {
  return std::find(field.begin(), field.end(), '\0') != field.end();
}

template <std::size_t n>
std::string_view text_of(const std::array<char, n>& field) {
  return {field.data(), ::strnlen(field.data(), n)};
}

template <std::size_t n>
void set_text(std::array<char, n>& field, std::string_view text) {
  field = {};
  std::copy_n(text.data(), std::min(text.size(), n - 1), field.data());
}

// What names the host: HOCKET_HOST_ID, or the kernel's boot id.
Result<std::string> host_id_for(const Settings& settings, const ProcessToken& token) {
  if (settings.host_id.empty()) {
    auto id = os::boot_id();
    if (id.ok()) return id;
    // Where there is one that just cannot be read now, going on would cut this process off from its neighbours.
    if (::access("/proc/sys/kernel/random/boot_id", R_OK) == 0) return id.status();
    HOCKET_LOG(LogLevel::kWarn,
               "no boot id can be read, so no other process counts as being on this host: set HOCKET_HOST_ID");
    return format("process {:016x}{:016x}", token.high, token.low);
  }
  return settings.host_id;
}

bool allows(const AllowList& list, std::string_view transport) {
  for (int c = 0; c < kCollectiveCount; ++c) {
    if (list.allows(static_cast<Collective>(c), transport)) return true;
  }
  return false;
}

}  // namespace

Status check_address(const ProcessAddress& address) {
  if (address.magic != kAddressMagic)
    return error(Code::kInvalidArgument, "these bytes are no address of a hocket process");
  if (!ends(address.host_name) || address.pid <= 0) {
    return error(Code::kInvalidArgument, "the address of process {} is damaged", address.pid);
  }
  return check_arena_bytes(address.arena_bytes);
}

// ---- Life ----

EngineCore::EngineCore(EngineOptions options) : options_(std::move(options)) {}

Result<std::shared_ptr<EngineCore>> EngineCore::create(EngineOptions options) {
  HOCKET_TRY(validate(options.settings));
  // The last to let go may be one of the engine's own threads, which cannot wait for themselves.
  std::shared_ptr<EngineCore> engine(new EngineCore(std::move(options)), [](EngineCore* last) {
    if (!os::Thread::is_helper()) {
      delete last;
      return;
    }
    std::thread([last] { delete last; }).detach();
  });
  HOCKET_ASSIGN(const os::Token token, os::random_token());
  HOCKET_ASSIGN(const os::ProcessStat stat, os::process_stat(::getpid()));
  ProcessAddress& address = engine->address_;
  address.magic = kAddressMagic;
  address.token = {token.high, token.low};
  HOCKET_ASSIGN(engine->arena_, Arena::create(address.token, engine->options_.arena_bytes));
  address.arena_bytes = engine->arena_->bytes();
  address.pid = ::getpid();
  address.uid = ::geteuid();
  address.pid_start_ticks = stat.start_time_ticks;
  HOCKET_ASSIGN(const std::string host_id, host_id_for(engine->options_.settings, address.token));
  address.host = topo::hash_of_host(host_id);
  char host_name[256] = "?";
  (void)::gethostname(host_name, sizeof host_name - 1);
  set_text(address.host_name, host_name);
  HOCKET_ASSIGN(engine->control_,
                ControlThread::create(address, *engine->arena_, engine->options_.refuse_shm,
                                      {.ended = [e = engine.get()](const ProcessToken& t) { e->graveyard_.on_loss(t); },
                                       .tidy = [e = engine.get()] { return e->graveyard_.sweep(*e->arena_); }}));
  engine->control_->subscribe([e = engine.get()](const ProcessToken& lost, const Status&) { e->forget(lost); });
  engine->observation_ = std::make_unique<Observation>(process_name(address.pid, text_of(address.host_name)),
                                                       std::string(text_of(address.host_name)), address.pid);
  HOCKET_TRY(engine->listen());
  engine->progress_ = ProgressThread::create(engine->arena_->header());
  HOCKET_LOG(LogLevel::kDebug, "process {} on host {} has an engine at {}", address.pid, text_of(address.host_name),
             abstract_socket_of(address));
  return engine;
}

// Other hosts' processes come by tcp, so it listens from the start, unless it is ruled out.
Status EngineCore::listen() {
  const Settings& settings = options_.settings;
  HOCKET_ASSIGN(const AllowList allowed, AllowList::parse(settings.transport, kTransports, "HOCKET_TRANSPORT"));
  if (!allows(allowed, "tcp")) return {};
  TcpOptions options;
  HOCKET_ASSIGN(options.interfaces, os::InterfaceFilter::parse(settings.interfaces));
  HOCKET_ASSIGN(options.ports, os::PortRange::parse(settings.ports));
  options.streams = settings.tcp_streams;
  options.link_timeout = settings.link_timeout;
  auto made = TcpTransport::create(address_, *arena_, options, [this](const ProcessToken& peer, const Status& why) {
    control_->report_loss(peer, why);
  });
  if (!made.ok())
    return error(made.status().code(), "{} (HOCKET_TRANSPORT=^tcp goes without a network)", made.status().text());
  tcp_ = std::move(made).value();
  return {};
}

void EngineCore::bury(Graveyard::Grave grave) {
  graveyard_.bury(std::move(grave));
  graveyard_.sweep(*arena_);
  if (graveyard_.size() > 0) control_->wake();
}

EngineCore::~EngineCore() {
  // The thread and the bell that would wake it are the parent's.
  if (forked()) (void)progress_.release();
  progress_.reset();
  tcp_.reset();
  control_.reset();
}

Result<std::shared_ptr<EngineCore>> EngineCore::of(const std::shared_ptr<Engine>& engine) {
  std::shared_ptr<Engine> held = engine;
  if (!held) {
    HOCKET_ASSIGN(held, Engine::default_engine());
  }
  auto core = std::dynamic_pointer_cast<EngineCore>(std::move(held));
  if (!core) return error(Code::kInvalidArgument, "this Engine was not made by Engine::create");
  return core;
}

Result<std::shared_ptr<Engine>> Engine::create(const Settings& settings) {
  EngineOptions options;
  options.settings = settings;
  HOCKET_ASSIGN(std::shared_ptr<EngineCore> engine, EngineCore::create(std::move(options)));
  return std::shared_ptr<Engine>(std::move(engine));
}

Result<std::shared_ptr<Engine>> Engine::default_engine() {
  // Never destroyed: threads and communicators may still use it while the program's statics end, and the kernel takes
  // all back.
  static auto* const mutex = new std::mutex;
  static auto* const engine = new std::shared_ptr<EngineCore>;
  const std::scoped_lock lock(*mutex);
  if (*engine && (*engine)->forked()) {
    // A child starts anew. The parent's engine is only left alone: nothing of it works here.
    new std::shared_ptr<EngineCore>(std::move(*engine));
    engine->reset();
  }
  if (!*engine) {
    EngineOptions options;
    HOCKET_ASSIGN(options.settings, Settings::from_environment());
    HOCKET_ASSIGN(*engine, EngineCore::create(std::move(options)));
  }
  return std::shared_ptr<Engine>(*engine);
}

// ---- The machine ----

Result<std::shared_ptr<const topo::Graph>> EngineCore::machine() {
  const std::scoped_lock lock(machine_mutex_);
  if (!machine_) {
    HOCKET_ASSIGN(topo::Graph machine, machine_by(options_.settings));
    if (!options_.settings.graph_dump_file.empty())
      HOCKET_TRY(topo::dump_nccl_graph(machine, options_.settings.graph_dump_file));
    machine_ = std::make_shared<const topo::Graph>(std::move(machine));
  }
  return machine_;
}

void EngineCore::set_machine(std::shared_ptr<const topo::Graph> graph) {
  const std::scoped_lock lock(machine_mutex_);
  machine_ = std::move(graph);
}

// ---- Connections ----

// Guarded by mutex_.
struct EngineCore::Connection {
  bool finished = false;
  std::vector<os::AbortFlag*> followers;  // threads that wait for another one's attempt; raised when it has finished
  Status why;                             // if it failed
  std::shared_ptr<Endpoint> endpoint;     // if it succeeded
};

Result<std::shared_ptr<Endpoint>> EngineCore::connect(const ProcessAddress& peer, const AllowList& allowed,
                                                      const os::WaitLimits& limits, std::vector<TransportTrial>* trials,
                                                      bool alone) {
  if (forked()) {
    return error(Code::kUnsupported, "this is a forked child: it cannot use the engine of its parent, process {}",
                 address_.pid);
  }
  HOCKET_TRY(check_address(peer));
  const bool same_process = peer.token == address_.token;
  const bool same_host = peer.host == address_.host;
  std::vector<TransportTrial> tried;
  Status worst;  // what is not just a transport that does not fit
  std::shared_ptr<Endpoint> endpoint;
  for (const std::string_view transport : kTransports) {
    std::string reason;
    // Within a process there is nothing to choose: the list is about other ones.
    if (!allows(allowed, transport) && !(same_process && transport == "local")) {
      reason = format("the list of transports '{}' leaves it out", allowed.text());
    } else if (transport == "local" && !same_process) {
      reason = "it is another process";
    } else if (transport == "tcp" && !tcp_) {
      reason = "it was ruled out when this engine was made";
    } else if (transport != "local" && same_process) {
      reason = "it is the same process";
    } else if (transport == "shm" && !same_host) {
      reason = format("it is on another host ({}, id {:016x}; this is {}, id {:016x})", text_of(peer.host_name),
                      peer.host[0], text_of(address_.host_name), address_.host[0]);
    } else {
      auto made = connect_by(transport, peer, limits, alone);
      if (made.ok()) {
        tried.push_back({std::string(transport), ""});
        endpoint = *made;
        break;
      }
      reason = made.status().text();
      const Code code = made.status().code();
      if (code != Code::kUnsupported && code != Code::kInvalidArgument) {
        // It fits and broke: no other one is taken in its place without a word.
        worst = made.status();
        tried.push_back({std::string(transport), reason});
        break;
      }
    }
    tried.push_back({std::string(transport), reason});
  }
  if (trials) trials->insert(trials->end(), tried.begin(), tried.end());
  if (endpoint) return endpoint;
  if (!worst.ok()) return worst;
  std::string all;
  for (const TransportTrial& trial : tried)
    all += format("{}{}: {}", all.empty() ? "" : "; ", trial.transport, trial.reason);
  return error(Code::kUnsupported, "no transport reaches {} ({})", process_name(peer.pid, text_of(peer.host_name)),
               all);
}

Result<std::shared_ptr<Endpoint>> EngineCore::connect_by(std::string_view transport, const ProcessAddress& peer,
                                                         const os::WaitLimits& limits, bool alone) {
  if (transport == "local") {  // nothing to share
    std::shared_ptr<Endpoint> local = std::make_shared<LocalEndpoint>(*arena_);
    return options_.wrap ? options_.wrap(std::move(local), *this, peer) : local;
  }
  const std::pair key(peer.token, std::string(transport));
  for (;;) {
    std::unique_lock lock(mutex_);
    std::shared_ptr<Connection>& entry = connections_[key];
    if (entry && entry->finished) {
      if (entry->endpoint && entry->endpoint->error().ok()) return entry->endpoint;
      entry.reset();  // one that failed or was lost since may be tried again
    }
    if (!entry) {
      const auto connection = entry = std::make_shared<Connection>();
      lock.unlock();
      auto made = make_endpoint(transport, peer, limits, alone);
      if (made.ok() && options_.wrap) made = options_.wrap(std::move(made).value(), *this, peer);
      lock.lock();
      connection->finished = true;
      connection->why = made.status();
      if (made.ok()) connection->endpoint = *made;
      for (os::AbortFlag* follower : connection->followers) follower->raise();
      connection->followers.clear();
      return made;
    }
    const auto connection = entry;
    HOCKET_ASSIGN(os::AbortFlag finished, os::AbortFlag::create());
    connection->followers.push_back(&finished);
    lock.unlock();
    const Status waited =
        os::poll_for(finished.fd(), POLLIN, limits,
                     format("another thread's connection to {}", process_name(peer.pid, text_of(peer.host_name))));
    lock.lock();
    std::erase(connection->followers, &finished);
    if (!connection->finished) return waited;
    if (connection->endpoint) return connection->endpoint;
    // The limits of whoever tried are not ours.
    if (connection->why.code() != Code::kTimeout && connection->why.code() != Code::kAborted) return connection->why;
  }
}

// The mapping of a dead peer keeps its memory: nobody but those who still use it should.
void EngineCore::forget(const ProcessToken& peer) {
  std::vector<std::shared_ptr<Connection>> lost;  // ends after the lock
  const std::scoped_lock lock(mutex_);
  for (auto it = connections_.lower_bound({peer, ""}); it != connections_.end() && it->first.first == peer;) {
    const auto& connection = it->second;
    if (connection->finished && connection->endpoint && !connection->endpoint->error().ok()) {
      lost.push_back(connection);
      it = connections_.erase(it);
    } else {
      ++it;
    }
  }
}

Result<std::shared_ptr<Endpoint>> EngineCore::make_endpoint(std::string_view transport, const ProcessAddress& peer,
                                                            const os::WaitLimits& limits, bool alone) {
  if (transport == "tcp") {
    HOCKET_ASSIGN(std::shared_ptr<tcp::TcpEndpoint> endpoint, tcp_->connect(peer, limits, alone));
    if (peer.host == address_.host) endpoint->set_same_host();
    return std::shared_ptr<Endpoint>(std::move(endpoint));
  }
  HOCKET_ASSIGN(std::shared_ptr<ShmEndpoint> endpoint, control_->connect(peer, limits, alone));
  return std::shared_ptr<Endpoint>(std::move(endpoint));
}

std::uint64_t EngineCore::subscribe(LossListener listener) {
  return control_->subscribe(std::move(listener));
}

void EngineCore::unsubscribe(std::uint64_t id) {
  control_->unsubscribe(id);
}

Status EngineCore::fence(const ProcessToken& peer, const os::WaitLimits& limits) {
  if (peer == address_.token) return error(Code::kUnsupported, "process {} cannot end itself", address_.pid);
  return control_->fence(peer, limits);
}

}  // namespace hocket
