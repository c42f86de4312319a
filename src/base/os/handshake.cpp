// SPDX-License-Identifier: Apache-2.0
#include "base/os/handshake.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/os/random.hpp"
#include "base/status.hpp"

namespace hocket::os {

static_assert(std::endian::native == std::endian::little, "a hello travels as it lies in memory");

std::string Hello::name() const {
  std::string text;
  for (const char c : host) {
    if (c == '\0') break;
    text += c > ' ' && c <= '~' ? c : '?';
  }
  const std::string where = format("pid {} on {}", pid, text.empty() ? "a host without a name" : text);
  return rank < 0 ? format("the process with {}", where) : format("rank {} ({})", rank, where);
}

Result<Hello> make_hello(std::uint32_t purpose, std::uint64_t token, std::int32_t rank) {
  Hello hello;
  hello.purpose = purpose;
  hello.token = token;
  hello.rank = rank;
  hello.pid = static_cast<std::uint32_t>(::getpid());
  if (::gethostname(hello.host.data(), hello.host.size() - 1) < 0) hello.host[0] = '\0';
  hello.host.back() = '\0';
  HOCKET_TRY(random_bytes(hello.nonce));
  return hello;
}

// Phases, seen from who connects: 0 send hello, 1 receive hello and proof, 2 send proof, 3 done. From who accepts: 0
// receive hello, 1 send hello and proof, 2 receive proof, 3 done.
void Handshake::begin() {
  have_ = 0;
  writing_ = (phase_ % 2 == 0) == (role_ == Role::kConnect);
  wanted_ = phase_ == 0 ? sizeof(Hello) : phase_ == 1 ? sizeof(Hello) + sizeof(Digest) : sizeof(Digest);
  if (!writing_) return;
  std::size_t at = 0;
  if (phase_ < 2) {
    std::memcpy(buffer_.data(), &mine_, sizeof mine_);
    at = sizeof mine_;
  }
  if (phase_ == 0) return;
  // Nothing is proven to those whom the hello has shown to be wrong.
  const Digest mine = refuse_ ? Digest{} : proof(role_);
  std::memcpy(buffer_.data() + at, mine.data(), mine.size());
}

Digest Handshake::proof(Role of) const noexcept {
  const std::string_view label = of == Role::kConnect ? "hocket connects" : "hocket accepts";
  const Hello& first = role_ == Role::kConnect ? mine_ : peer_;
  const Hello& second = role_ == Role::kConnect ? peer_ : mine_;
  return hmac_sha256(secret_.bytes(), {std::as_bytes(std::span(label)), std::as_bytes(std::span(&first, 1)),
                                       std::as_bytes(std::span(&second, 1))});
}

Status Handshake::check_peer() const {
  if (peer_.magic != Hello::kMagic) return error(Code::kInvalidArgument, "whoever is there does not speak hocket");
  if (peer_.version != Hello::kVersion) {
    return error(Code::kMismatch, "{} speaks version {} of hocket's start-up, {} version {}: install the same hocket",
                 peer_.name(), peer_.version, mine_.name(), Hello::kVersion);
  }
  if (peer_.purpose != mine_.purpose) {
    return error(Code::kInvalidArgument, "{} wants protocol {}, here is {}", peer_.name(), peer_.purpose,
                 mine_.purpose);
  }
  return {};
}

// What was sent or received is complete: on to the next phase.
Status Handshake::advance() {
  if (!writing_) {
    std::size_t at = 0;
    if (phase_ < 2) {
      std::memcpy(&peer_, buffer_.data(), sizeof peer_);
      at = sizeof peer_;
      const Status right = check_peer();
      // Who accepted still says its own version before it hangs up on another.
      refuse_ = role_ == Role::kAccept && right.code() == Code::kMismatch;
      if (!right.ok() && !refuse_) return right;
    }
    if (phase_ > 0) {
      Digest theirs;
      std::memcpy(theirs.data(), buffer_.data() + at, theirs.size());
      const Role other = role_ == Role::kConnect ? Role::kAccept : Role::kConnect;
      if (!equal_in_constant_time(theirs, proof(other))) {
        return error(Code::kInvalidArgument, "{} does not know the secret of this job", peer_.name());
      }
    }
  } else if (refuse_) {
    return check_peer();
  }
  ++phase_;
  if (phase_ < 3) begin();
  return {};
}

Result<Handshake::State> Handshake::step(int fd) {
  while (phase_ < 3) {
    const std::span<std::byte> rest = std::span(buffer_).subspan(have_, wanted_ - have_);
    // Never more than belongs to the handshake: what follows is somebody else's to read.
    const ssize_t n =
        writing_ ? ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL) : ::recv(fd, rest.data(), rest.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return writing_ ? State::kWriting : State::kReading;
    if (n < 0) return system_error(Code::kPeerLost, errno, "the connection broke before both sides were known");
    if (n == 0) return error(Code::kPeerLost, "the other side hung up before both sides were known");
    have_ += static_cast<std::size_t>(n);
    // A stranger is told by its first bytes, not by whether it sends enough of them.
    if (!writing_ && phase_ < 2 && have_ >= sizeof(std::uint64_t)) {
      std::uint64_t magic = 0;
      std::memcpy(&magic, buffer_.data(), sizeof magic);
      if (magic != Hello::kMagic) return error(Code::kInvalidArgument, "whoever is there does not speak hocket");
    }
    // And another version by its hello, after which it may send no proof, or another one.
    if (!writing_ && phase_ == 1 && have_ >= sizeof(Hello)) {
      std::memcpy(&peer_, buffer_.data(), sizeof peer_);
      HOCKET_TRY(check_peer());
    }
    if (have_ == wanted_) HOCKET_TRY(advance());
  }
  return State::kDone;
}

Result<Hello> shake_hands(int fd, Handshake::Role role, const Hello& mine, const Secret& secret,
                          const WaitLimits& limits) {
  Handshake handshake(role, mine, secret);
  for (;;) {
    HOCKET_ASSIGN(const Handshake::State state, handshake.step(fd));
    if (state == Handshake::State::kDone) return handshake.peer();
    HOCKET_TRY(poll_for(fd, state == Handshake::State::kWriting ? POLLOUT : POLLIN, limits, "the other side's proof"));
  }
}

}  // namespace hocket::os
