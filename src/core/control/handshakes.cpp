// SPDX-License-Identifier: Apache-2.0
#include "core/control/handshakes.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/log.hpp"
#include "base/status.hpp"
#include "core/control/process_end.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

// How long a peer may take over a handshake before its place is given to others.
constexpr auto kHandshakeTime = 20s;
// Half of the proof words, so that as many are left to connect to others.
constexpr std::size_t kMostConversations = 128;

}  // namespace

Status Handshakes::open() {
  spare_.reset(::eventfd(0, EFD_CLOEXEC));
  return spare_ ? Status() : system_error(Code::kOutOfMemory, errno, "a spare descriptor (see ulimit -n)");
}

os::Deadline Handshakes::handle_due() {
  os::Deadline next = os::Deadline::never();
  std::vector<std::uint64_t> late;
  for (const auto& [id, conversation] : conversations_) {
    if (conversation.deadline.passed()) {
      late.push_back(id);
    } else {
      next = std::min(next, conversation.deadline);
    }
  }
  for (const std::uint64_t id : late) {
    HOCKET_LOG(LogLevel::kWarn, "process {} connected and did not finish its handshake within {} s, it is dropped",
               conversations_.at(id).credentials.pid, std::chrono::seconds(kHandshakeTime).count());
    end(id);
  }
  if (starved_ || !armed_) {
    arm();
    if (!armed_) next = std::min(next, os::Deadline::after(100ms));
  }
  return next;
}

void Handshakes::accept_all(EventSet::Kind kind) {
  while (!starved_ && conversations_.size() < kMostConversations) {
    auto accepted = sockets_.accept(kind, spare_);
    if (!spare_) starved_ = true;  // the peer hears of it: its handshake ends with that error
    if (!accepted.ok()) {
      if (accepted.status().code() == Code::kTimeout) break;
      HOCKET_LOG(LogLevel::kWarn, "a peer cannot be accepted: {}", accepted.status().text());
      starved_ = true;
      break;
    }
    const auto credentials = accepted->peer();
    const Status same_user = accepted->check_same_user();
    if (!credentials.ok() || !same_user.ok()) {
      HOCKET_LOG(LogLevel::kWarn, "a connection is dropped: {}", same_user.text());
      continue;
    }
    Conversation conversation{.socket = std::move(accepted).value(),
                              .credentials = *credentials,
                              .deadline = os::Deadline::after(kHandshakeTime),
                              .handshake = nullptr};
    conversation.handshake =
        std::make_unique<ShmHandshake>(self_, ShmHandshake::Role::kAcceptor, conversation.socket.fd());
    const std::uint64_t id = next_id_++;
    const Status watched = events_.watch(conversation.socket.fd(), EPOLLIN, EventSet::Kind::kConversation, id);
    if (!watched.ok()) {
      HOCKET_LOG(LogLevel::kWarn, "a connection is dropped: {}", watched.text());
      continue;
    }
    conversations_.emplace(id, std::move(conversation));
  }
  arm();
}

// Listens as long as there is room for one more, else the queue in the kernel holds the others.
void Handshakes::arm() {
  if (starved_ && conversations_.empty()) {
    if (!spare_) spare_.reset(::eventfd(0, EFD_CLOEXEC));
    starved_ = !spare_;
  }
  const bool arm = !starved_ && conversations_.size() < kMostConversations;
  if (arm != armed_ && sockets_.arm(arm).ok()) armed_ = arm;
}

void Handshakes::converse(std::uint64_t id) {
  const auto found = conversations_.find(id);
  if (found == conversations_.end()) return;
  Conversation& conversation = found->second;
  ShmHandshake& handshake = *conversation.handshake;
  const auto step = handshake.advance();
  if (step.ok() && *step != ShmHandshake::Step::kDone) {
    const bool wants_write = *step == ShmHandshake::Step::kWantsWrite;
    if (wants_write == conversation.wants_write) return;
    conversation.wants_write = wants_write;
    const Status watched = events_.watch(conversation.socket.fd(), wants_write ? EPOLLOUT : EPOLLIN,
                                         EventSet::Kind::kConversation, id, true);
    if (watched.ok()) return;
    HOCKET_LOG(LogLevel::kWarn, "process {} is dropped: {}", conversation.credentials.pid, watched.text());
    return end(id);
  }
  if (!step.ok()) {
    // One that goes away, also one that only looked whether somebody is here, is nothing to worry about: its maker gave
    // up, and may come again; whether it died shows elsewhere.
    HOCKET_LOG(step.status().code() == Code::kPeerLost ? LogLevel::kDebug : LogLevel::kWarn,
               "process {} is dropped in its handshake: {}", conversation.credentials.pid, step.status().text());
    return end(id);
  }
  const ProcessToken token = handshake.peer()->from;
  Status made = handshake.outcome();
  if (!made.ok()) {
    HOCKET_LOG(LogLevel::kDebug, "no shared memory with process {}: {}", conversation.credentials.pid, made.text());
  } else {
    made = install(conversation);
  }
  outcome_(token, made);
  end(id);
}

// The socket moves on: it is watched under another name from here.
Status Handshakes::install(Conversation& conversation) {
  ShmHandshake& handshake = *conversation.handshake;
  const ShmMessage& peer = *handshake.peer();
  auto process = open_process(conversation.credentials.pid, peer.start_ticks);
  events_.unwatch(conversation.socket.fd());
  return links_
      .add({.peer = peer.from,
            .name = process_name(peer.pid, peer.host_name),
            .socket = std::move(conversation.socket),
            .process = std::move(process),
            .mapping = handshake.take_mapping(),
            .initiated = false})
      .status();
}

void Handshakes::end(std::uint64_t id) {
  const auto found = conversations_.find(id);
  if (const int fd = found->second.socket.fd(); fd >= 0) events_.unwatch(fd);
  conversations_.erase(found);
  arm();
}

}  // namespace hocket
