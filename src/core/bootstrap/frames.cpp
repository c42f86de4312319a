// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/frames.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "base/status.hpp"

namespace hocket {

std::string Frame::text() const {
  std::string text;
  for (const std::byte b : bytes) {
    const char c = static_cast<char>(b);
    text += (c >= ' ' && c <= '~') || c == '\n' || static_cast<unsigned char>(c) >= 0x80 ? c : '?';
  }
  return text;
}

FrameStream::FrameStream(os::UniqueFd fd, const os::Hello& mine, const Secret& secret, os::Deadline deadline)
    : fd_(std::move(fd)), handshake_(std::in_place, os::Handshake::Role::kAccept, mine, secret), deadline_(deadline) {}

FrameStream::FrameStream(os::UniqueFd fd, const os::Hello& peer) : fd_(std::move(fd)), peer_(peer) {}

short FrameStream::events() const noexcept {
  if (!fd_) return 0;
  if (handshake_) return shaking_ == os::Handshake::State::kWriting ? POLLOUT : POLLIN;
  // A peer that is ahead waits until what it sent is used.
  constexpr std::size_t kAhead = 64;
  return static_cast<short>((frames_.size() < kAhead ? POLLIN : 0) | (out_.empty() ? 0 : POLLOUT));
}

void FrameStream::send(FrameKind kind, std::uint32_t detail, std::uint64_t sequence, std::span<const std::byte> bytes) {
  if (!fd_) return;
  const FrameHeader header{static_cast<std::uint32_t>(kind), detail, sequence, bytes.size()};
  std::vector<std::byte> message(sizeof header + bytes.size());
  std::memcpy(message.data(), &header, sizeof header);
  if (!bytes.empty()) std::memcpy(message.data() + sizeof header, bytes.data(), bytes.size());
  if (counters_) {
    ++counters_->messages_sent;
    counters_->bytes_sent += message.size();
  }
  out_.push_back(std::move(message));
  if (!handshake_) flush();
}

void FrameStream::send_error(const Status& status) {
  const std::string_view text = status.text().substr(0, kSmall / 2);
  send(FrameKind::kError, static_cast<std::uint32_t>(status.code()), 0, std::as_bytes(std::span(text)));
}

void FrameStream::turn() {
  if (fd_ && handshake_) {
    auto state = handshake_->step(fd_.get());
    if (!state.ok()) return close(state.status());
    shaking_ = *state;
    if (*state != os::Handshake::State::kDone) return;
    peer_ = handshake_->peer();
    handshake_.reset();
    deadline_ = os::Deadline::never();
  }
  if (fd_) flush();
  if (fd_) receive();
}

std::optional<Frame> FrameStream::take() {
  if (frames_.empty()) return std::nullopt;
  Frame frame = std::move(frames_.front());
  frames_.pop_front();
  return frame;
}

void FrameStream::receive() {
  // At most this much at once: other connections have their turn, too.
  for (int i = 0; i < 16 && (events() & POLLIN); ++i) {
    std::size_t wanted = sizeof(FrameHeader);
    if (in_.size() >= sizeof(FrameHeader)) {
      FrameHeader header;
      std::memcpy(&header, in_.data(), sizeof header);
      wanted = sizeof header + header.bytes;
    }
    constexpr std::size_t kAtOnce = std::size_t{1} << 18;
    const std::size_t before = in_.size(), room = std::min(wanted - before, kAtOnce);
    if (in_.capacity() < before + room) in_.reserve(std::min(wanted, 2 * before + room));
    in_.resize(before + room);
    const ssize_t n = ::recv(fd_.get(), in_.data() + before, room, 0);
    in_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) return close(system_error(Code::kPeerLost, errno, "the connection to {} broke", peer_.name()));
    if (n == 0) return close(error(Code::kPeerLost, "{} hung up", peer_.name()));
    if (in_.size() < sizeof(FrameHeader)) continue;
    FrameHeader header;
    std::memcpy(&header, in_.data(), sizeof header);
    if (header.bytes > limit_) {
      return close(error(Code::kInvalidArgument, "{} announces {} bytes where at most {} are expected", peer_.name(),
                         header.bytes, limit_));
    }
    if (in_.size() < sizeof header + header.bytes) continue;
    if (counters_) {
      ++counters_->messages_received;
      counters_->bytes_received += in_.size();
    }
    Frame frame{header, std::vector<std::byte>(in_.begin() + sizeof header, in_.end())};
    if (frame.kind() == FrameKind::kError) {
      if (!error_) error_ = std::move(frame);
    } else {
      frames_.push_back(std::move(frame));
    }
    in_.clear();
    if (in_.capacity() > kSmall) in_.shrink_to_fit();
  }
}

void FrameStream::flush() {
  while (!out_.empty()) {
    const auto rest = std::span(out_.front()).subspan(sent_);
    const ssize_t n = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) return close(system_error(Code::kPeerLost, errno, "the connection to {} broke", peer_.name()));
    sent_ += static_cast<std::size_t>(n);
    if (sent_ < out_.front().size()) continue;
    out_.pop_front();
    sent_ = 0;
  }
}

void FrameStream::close(Status why) {
  // What the other side said last is worth more than that it hung up: it is read before the end is looked at, unless
  // sending met the end first.
  if (proven() && why.code() == Code::kPeerLost && in_.empty() && !out_.empty()) {
    out_.clear();
    receive();
    if (!closed_.ok()) return;
  }
  closed_ = std::move(why);
  out_.clear();
  fd_.reset();
}

}  // namespace hocket
