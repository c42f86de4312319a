// SPDX-License-Identifier: Apache-2.0
#include "tools/run/exchanges.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/format.hpp"
#include "base/status.hpp"
#include "core/launch.hpp"

namespace hocket::run {
namespace {

LaunchHeader header_of(const std::vector<std::byte>& request) {
  LaunchHeader header;
  std::memcpy(&header, request.data(), sizeof header);
  return header;
}

}  // namespace

pollfd Exchanges::entry(std::size_t child) const {
  const Peer& peer = peers_[child];
  const short writes = peer.answered < peer.answer.size() ? POLLOUT : 0;
  return {.fd = peer.socket.get(), .events = static_cast<short>(POLLIN | writes), .revents = 0};
}

void Exchanges::handle(std::size_t child, short events) {
  if (events & POLLOUT) send(peers_[child]);
  if (events & (POLLIN | POLLHUP | POLLERR)) receive(child);
}

void Exchanges::leave(std::size_t child) {
  Peer& peer = peers_[child];
  peer.socket.reset();
  peer.request.clear();
  peer.asks = false;
  if (lost_.empty()) lost_ = children_[child].ending() + " before the exchange";
}

// ---- Requests ----

void Exchanges::receive(std::size_t child) {
  Peer& peer = peers_[child];
  std::byte buffer[65536];
  while (peer.socket) {
    const ssize_t n = ::recv(peer.socket.get(), buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n == 0 && peer.asks) return tell_who_is_missing(child);
    if (n <= 0) return peer.socket.reset();  // it ended, or wants no more of us
    if (peer.asks) return refuse(child, "it sent more before it had its answer");
    peer.request.insert(peer.request.end(), buffer, buffer + n);
    const auto whole = launch_request_bytes(peer.request, children_[child].rank);
    if (!whole.ok()) return refuse(child, whole.status().text());
    peer.asks = peer.request.size() == *whole;
  }
}

void Exchanges::refuse(std::size_t child, std::string_view why) {
  const Child& who = children_[child];
  say_(format("the connection of {} (pid {}) was closed: {}", who.name, who.pid, why));
  Peer& peer = peers_[child];
  peer.socket.reset();
  peer.request.clear();
  peer.asks = false;
  if (lost_.empty()) lost_ = format("the launcher closed the connection of {} (pid {}): {}", who.name, who.pid, why);
}

// It asked, and says no more: its time has run out (core/launch/run_descriptor.cpp). It goes on without us, but
// learns who has not come.
void Exchanges::tell_who_is_missing(std::size_t child) {
  std::vector<const Child*> missing;
  for (std::size_t i = 0; i < peers_.size(); ++i)
    if (!peers_[i].asks && !peers_[i].gave_up) missing.push_back(&children_[i]);
  Peer& peer = peers_[child];
  peer.gave_up = true;
  if (missing.empty()) return peer.socket.reset();
  const Child& one = *missing.back();
  const std::string text =
      format("{} {} not come to this exchange; {} (pid {}){}", names_of(missing), missing.size() == 1 ? "has" : "have",
             one.name, one.pid,
             one.ended ? " has ended" : format(" runs: `hocket ps {}` shows what its communicators do", one.pid));
  answer(peer, Code::kTimeout, std::as_bytes(std::span(text)));
  peer.socket.reset();  // the text fits into an empty socket
  if (lost_.empty()) lost_ = format("{} (pid {}) gave up: {}", children_[child].name, children_[child].pid, text);
}

// ---- Answers ----

void Exchanges::answer_if_complete() {
  const auto asks = [](const Peer& peer) { return peer.asks; };
  const auto first = std::find_if(peers_.begin(), peers_.end(), asks);
  if (first == peers_.end()) return;
  if (!std::all_of(peers_.begin(), peers_.end(), asks)) {
    // One that has ended will never ask, and so it is with all exchanges that come.
    if (!lost_.empty()) answer_all(Code::kPeerLost, lost_);
    return;
  }
  // All have asked, so the first one is rank 0 of this host.
  const LaunchHeader expected = header_of(first->request);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const LaunchHeader header = header_of(peers_[i].request);
    if (header.bytes == expected.bytes && header.sequence == expected.sequence) continue;
    return answer_all(
        Code::kMismatch,
        format("rank {} is at exchange {} with {} bytes, rank {} at exchange {} with {}: all ranks must make their "
               "communicators in the same order",
               children_.front().rank, expected.sequence, expected.bytes, children_[i].rank, header.sequence,
               header.bytes));
  }
  if (expected.bytes * peers_.size() > LaunchHeader::kMaxAnswerBytes) {
    return answer_all(Code::kInvalidArgument, format("{} ranks with {} bytes each are more than {} bytes",
                                                     peers_.size(), expected.bytes, LaunchHeader::kMaxAnswerBytes));
  }
  std::vector<std::byte> together;
  together.reserve(expected.bytes * peers_.size());
  for (const Peer& peer : peers_)
    together.insert(together.end(), peer.request.begin() + sizeof(LaunchHeader), peer.request.end());
  answer_all(Code::kOk, together);
}

// Every rank that asks.
void Exchanges::answer_all(Code code, std::span<const std::byte> bytes) {
  for (Peer& peer : peers_)
    if (peer.asks) answer(peer, code, bytes);
}

void Exchanges::answer(Peer& peer, Code code, std::span<const std::byte> bytes) {
  LaunchHeader header = header_of(peer.request);
  header.code = static_cast<std::uint32_t>(code);
  header.bytes = bytes.size();
  peer.answer.resize(sizeof header + bytes.size());
  std::memcpy(peer.answer.data(), &header, sizeof header);
  if (!bytes.empty()) std::memcpy(peer.answer.data() + sizeof header, bytes.data(), bytes.size());
  peer.answered = 0;
  peer.request.clear();
  peer.asks = false;
  send(peer);
}

void Exchanges::send(Peer& peer) {
  while (peer.socket && peer.answered < peer.answer.size()) {
    const ssize_t n =
        ::send(peer.socket.get(), peer.answer.data() + peer.answered, peer.answer.size() - peer.answered, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return peer.socket.reset();
    peer.answered += static_cast<std::size_t>(n);
  }
}

}  // namespace hocket::run
