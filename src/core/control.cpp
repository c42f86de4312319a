// SPDX-License-Identifier: Apache-2.0
#include "core/control.hpp"

#include <poll.h>

#include <algorithm>

#include "base/status.hpp"
#include "core/control/process_end.hpp"

namespace hocket {

Result<std::unique_ptr<ControlThread>> ControlThread::create(ProcessAddress& address, Arena& arena, bool refuse_shm,
                                                             Hooks hooks) {
  std::unique_ptr<ControlThread> control(new ControlThread(address, arena, refuse_shm, std::move(hooks)));
  HOCKET_TRY(control->open(address));
  HOCKET_ASSIGN(control->thread_, os::Thread::start("hocket control", [c = control.get()] { c->run(); }));
  return control;
}

Status ControlThread::open(ProcessAddress& address) {
  HOCKET_TRY(events_.create());
  HOCKET_ASSIGN(os::Wake wake, os::Wake::create("the control thread"));
  wake_.emplace(std::move(wake));
  HOCKET_TRY(handshakes_.open());
  HOCKET_TRY(sockets_.open(address));
  return events_.watch(wake_->fd(), EPOLLIN, EventSet::Kind::kWake, 0);
}

void ControlThread::wake() {
  if (!fork_mark_.forked()) wake_->wake();
}

ControlThread::~ControlThread() {
  // In a child the descriptors are still the parent's: nothing may be written to them.
  if (!fork_mark_.forked() && thread_.running()) {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    wake();
  }
  thread_.join();
  if (!fork_mark_.forked()) links_.shutdown();
}

// ---- Connecting ----

Result<std::shared_ptr<ShmEndpoint>> ControlThread::connect(const ProcessAddress& peer, const os::WaitLimits& limits,
                                                            bool alone) {
  if (peer.uid != self_.address.uid) {
    return error(Code::kUnsupported, "{} belongs to user {}, this process to user {}",
                 process_name(peer.pid, peer.host_name), peer.uid, self_.address.uid);
  }
  if (auto endpoint = links_.find(peer.token)) return endpoint;
  return alone || self_.address.token < peer.token ? connect_first(peer, limits, alone)
                                                   : await_connection(peer, limits);
}

Result<std::shared_ptr<ShmEndpoint>> ControlThread::connect_first(const ProcessAddress& peer,
                                                                  const os::WaitLimits& limits, bool alone) {
  const std::string name = process_name(peer.pid, peer.host_name);
  HOCKET_ASSIGN(const Way way, way_between(self_.address, peer, peer));
  // The peer makes its file only when it comes to connect to us, too.
  const auto if_absent =
      way == Way::kPath && !alone ? os::UnixSocket::IfAbsent::kRetry : os::UnixSocket::IfAbsent::kFail;
  auto connected = os::UnixSocket::connect(address_on(way, peer), if_absent, limits);
  if (!connected.ok()) {
    return error(connected.status().code(), "{} cannot be reached: {}", name, connected.status().text());
  }
  os::UnixSocket socket = std::move(connected).value();
  socket.set_peer_name(name);
  HOCKET_TRY(socket.check_same_user());
  HOCKET_ASSIGN(const os::PeerCredentials credentials, socket.peer());
  auto process = open_process(credentials.pid, peer.pid_start_ticks);

  ShmHandshake handshake(self_, ShmHandshake::Role::kInitiator, socket.fd(), peer.token);
  for (;;) {
    auto step = handshake.advance();
    if (!step.ok()) return error(step.status().code(), "{}: {}", name, step.status().text());
    if (*step == ShmHandshake::Step::kDone) break;
    // A child of the peer may hold the listening socket, so that alone does not show that the peer died.
    pollfd fds[2] = {{socket.fd(), static_cast<short>(*step == ShmHandshake::Step::kWantsRead ? POLLIN : POLLOUT), 0},
                     {process ? process->fd() : -1, POLLIN, 0}};
    HOCKET_TRY(os::poll_for(fds, limits, format("the handshake with {}", name)));
    if (fds[0].revents == 0) return error(Code::kPeerLost, "{} {}", name, how_it_ended(process->pid()));
  }
  HOCKET_TRY(handshake.outcome());
  return links_.add({.peer = peer.token,
                     .name = name,
                     .socket = std::move(socket),
                     .process = std::move(process),
                     .mapping = handshake.take_mapping(),
                     .initiated = true});
}

Result<std::shared_ptr<ShmEndpoint>> ControlThread::await_connection(const ProcessAddress& peer,
                                                                     const os::WaitLimits& limits) {
  const std::string name = process_name(peer.pid, peer.host_name);
  HOCKET_ASSIGN(os::AbortFlag arrived, os::AbortFlag::create());
  HOCKET_ASSIGN(const Way way, way_between(self_.address, peer, self_.address));

  // Taken back at every way out.
  struct Presence {
    ControlThread& control;
    const ProcessToken token;
    const bool path;
    ~Presence() {
      if (path) control.sockets_.close_path();
      const std::scoped_lock lock(control.mutex_);
      control.waiting_.erase(token);
    }
  };
  if (way == Way::kPath) HOCKET_TRY(sockets_.open_path(self_.address));
  const Presence presence{*this, peer.token, way == Way::kPath};
  {
    const std::scoped_lock lock(mutex_);
    waiting_[peer.token] = &arrived;
  }

  std::shared_ptr<const os::PidFd> process;
  bool first = true;
  for (;;) {
    // Before the look at the links: what it announces is there by then, or is gone again.
    const bool announced = arrived.raised();
    if (auto endpoint = links_.find(peer.token)) return endpoint;
    {
      const std::scoped_lock lock(mutex_);
      if (const auto refused = refused_.find(peer.token); refused != refused_.end()) {
        const Status why = refused->second;
        refused_.erase(refused);
        return why;
      }
    }
    if (announced) return error(Code::kPeerLost, "{} connected and was lost at once", name);
    if (process && process->exited()) return error(Code::kPeerLost, "{} {}", name, how_it_ended(process->pid()));
    if (first && way == Way::kAbstract) {
      // Is it there at all? Also to learn its number in this process's view.
      auto probe = os::UnixSocket::connect(address_on(way, peer), os::UnixSocket::IfAbsent::kFail, limits);
      if (!probe.ok()) return error(probe.status().code(), "{} cannot be reached: {}", name, probe.status().text());
      if (const auto credentials = probe->peer(); credentials.ok()) {
        process = open_process(credentials->pid, peer.pid_start_ticks);
      }
      first = false;
      continue;  // it may have connected meanwhile
    }
    pollfd fds[2] = {{arrived.fd(), POLLIN, 0}, {process ? process->fd() : -1, POLLIN, 0}};
    HOCKET_TRY(os::poll_for(fds, limits, format("{} to connect", name)));
  }
}

// ---- The thread ----

// Who waits for this peer is woken: it is connected, or why it is not is known.
void ControlThread::met(const ProcessToken& peer, const Status& made) {
  const std::scoped_lock lock(mutex_);
  if (made.ok()) {
    refused_.erase(peer);
  } else {
    refused_.insert_or_assign(peer, made);
  }
  if (const auto waiting = waiting_.find(peer); waiting != waiting_.end()) waiting->second->raise();
}

void ControlThread::run() {
  for (;;) {
    const os::Deadline due = std::min({hooks_.tidy(), handshakes_.handle_due(), links_.handle_due()});
    events_.wait(due, [this](EventSet::Kind kind, std::uint64_t id) { handle(kind, id); });
    const std::scoped_lock lock(mutex_);
    if (stop_) return;
  }
}

void ControlThread::handle(EventSet::Kind kind, std::uint64_t id) {
  switch (kind) {
    case EventSet::Kind::kWake: return wake_->clear();
    case EventSet::Kind::kAbstract:
    case EventSet::Kind::kPath: return handshakes_.accept_all(kind);
    case EventSet::Kind::kConversation: return handshakes_.converse(id);
    case EventSet::Kind::kSocket: return links_.on_socket(id);
    case EventSet::Kind::kProcess: return links_.on_process(id);
  }
}

}  // namespace hocket
