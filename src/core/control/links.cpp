// SPDX-License-Identifier: Apache-2.0
#include "core/control/links.hpp"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/log.hpp"
#include "base/status.hpp"
#include "core/control/process_end.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

// A process closes its sockets a little before its pidfd says that it ended; so long an end of the connection waits for
// that.
constexpr auto kEndingTime = 100ms;

}  // namespace

Result<std::shared_ptr<ShmEndpoint>> Links::add(New fresh) {
  auto endpoint = std::make_shared<ShmEndpoint>(std::move(fresh.mapping));
  std::optional<Loss> replaced;
  {
    const std::scoped_lock lock(mutex_);
    // A process that connects once more has lost the old connection, which we just have not seen yet. One from each
    // side is no such thing: both connected at once.
    for (const auto& [id, link] : links_) {
      if (link.peer == fresh.peer && link.state != Link::State::kLost && link.initiated == fresh.initiated) {
        replaced = lose_locked(id, "made a new connection in place of this one", false);
        break;
      }
    }
  }
  if (replaced) losses_.announce(*replaced);
  const std::scoped_lock lock(mutex_);
  losses_.forget(fresh.peer);
  const std::uint64_t id = next_id_++;
  Link& link = links_[id];
  link.peer = fresh.peer;
  link.name = std::move(fresh.name);
  link.endpoint = endpoint;
  link.initiated = fresh.initiated;
  link.process = std::move(fresh.process);
  link.socket.emplace(std::move(fresh.socket));
  Status status = events_.watch(link.socket->fd(), EPOLLIN | EPOLLRDHUP, EventSet::Kind::kSocket, id);
  if (status.ok() && link.process) status = events_.watch(link.process->fd(), EPOLLIN, EventSet::Kind::kProcess, id);
  if (!status.ok()) {
    events_.unwatch(link.socket->fd());
    links_.erase(id);
    return status;
  }
  HOCKET_LOG(LogLevel::kDebug, "process {} shm connected to {}", ::getpid(), link.name);
  return endpoint;
}

std::shared_ptr<ShmEndpoint> Links::find(const ProcessToken& peer) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, link] : links_)
    if (link.peer == peer && link.state == Link::State::kLive) return link.endpoint;
  return nullptr;
}

Status Links::fence(const ProcessToken& peer, const os::WaitLimits& limits) const {
  std::shared_ptr<const os::PidFd> process;
  std::string name;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, link] : links_) {
      if (link.peer != peer) continue;
      name = link.name;
      if (link.process) process = link.process;
    }
  }
  if (!process) {
    if (losses_.has_ended(peer)) return {};
    return error(
        Code::kUnsupported, "{} cannot be ended from here: {}", name.empty() ? "a process never connected to" : name,
        name.empty()
            ? "it is not known"
            : "there is no pidfd for it (it is this process itself, or not of this host, or the kernel has none)");
  }
  HOCKET_LOG(LogLevel::kWarn, "{} is ended to keep it from memory that is used anew", name);
  const Status sent = process->send_signal(SIGKILL);
  if (!sent.ok() && sent.code() != Code::kPeerLost) return sent;
  return process->wait_exit(limits);
}

void Links::shutdown() {
  const std::scoped_lock lock(mutex_);
  for (auto& [id, link] : links_)
    if (link.socket) link.socket->shutdown();
}

// ---- How links end ----

os::Deadline Links::handle_due() {
  os::Deadline next = os::Deadline::never();
  std::vector<Loss> losses;
  {
    const std::scoped_lock lock(mutex_);
    std::vector<std::uint64_t> ended;
    for (const auto& [id, link] : links_) {
      if (link.state != Link::State::kEnding) continue;
      if (link.due.passed()) {
        ended.push_back(id);
      } else {
        next = std::min(next, link.due);
      }
    }
    for (const std::uint64_t id : ended)
      losses.push_back(lose_locked(id, links_.at(id).cause + " but still runs", false));
  }
  for (const Loss& loss : losses) losses_.announce(loss);
  return next;
}

void Links::on_socket(std::uint64_t id) {
  std::optional<Loss> loss;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = links_.find(id);
    if (found == links_.end() || !found->second.socket) return;
    Link& link = found->second;
    char byte = 0;
    const ssize_t n = ::recv(link.socket->fd(), &byte, 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    // After the handshake nothing is said on this socket.
    link.cause = n > 0 ? "broke the protocol of its connection" : "closed its connection";
    events_.unwatch(link.socket->fd());
    link.socket.reset();
    if (link.process) {
      link.state = Link::State::kEnding;
      link.due = os::Deadline::after(kEndingTime);
    } else {
      loss = lose_locked(id, link.cause, false);
    }
  }
  if (loss) losses_.announce(*loss);
}

void Links::on_process(std::uint64_t id) {
  std::optional<Loss> loss;
  ProcessToken peer;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = links_.find(id);
    if (found == links_.end() || !found->second.process) return;
    Link& link = found->second;
    peer = link.peer;
    if (link.state == Link::State::kLost) {
      // It lived on after its connection was lost, which its listeners know; now nothing can come from it any more.
      losses_.mark_ended(peer);
      events_.unwatch(link.process->fd());
      links_.erase(found);
    } else {
      loss = lose_locked(id, how_it_ended(link.process->pid()), true);
    }
  }
  if (loss) {
    losses_.announce(*loss);
  } else {
    losses_.announce_end(peer);
  }
}

// The link's peer is gone. What is left of it is its pidfd as long as the process runs, for fence().
Loss Links::lose_locked(std::uint64_t id, const std::string& cause, bool ended) {
  Link& link = links_.at(id);
  Loss loss{link.peer, error(Code::kPeerLost, "{} {}", link.name, cause), ended};
  link.endpoint->set_lost(loss.why);
  link.endpoint.reset();
  link.state = Link::State::kLost;
  link.due = os::Deadline::never();
  if (link.socket) {
    events_.unwatch(link.socket->fd());
    link.socket->shutdown();
    link.socket.reset();
  }
  if (link.process && ended) events_.unwatch(link.process->fd());
  if (ended || !link.process) links_.erase(id);
  return loss;
}

}  // namespace hocket
