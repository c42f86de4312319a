// SPDX-License-Identifier: Apache-2.0
// The last stop: from here on it is the processors' caches.
#include "transport/shm.hpp"

#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "base/os/memfd.hpp"
#include "base/os/random.hpp"
#include "base/status.hpp"

namespace hocket {
namespace {

// What the peer has to write: shows that it has read the nonce there, and who it is.
std::uint64_t answer_to(std::uint64_t nonce, const ProcessToken& peer) {
  std::uint64_t x = nonce ^ (peer.high * 0x9e3779b97f4a7c15u) ^ (peer.low * 0xc2b2ae3d27d4eb4fu);
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
  x ^= x >> 29;
  return x == 0 ? 1 : x;  // 0 is "no answer yet"
}

template <std::size_t n>
std::string_view text_of(const std::array<char, n>& field) {
  return {field.data(), ::strnlen(field.data(), n)};
}

// What comes from a peer goes into messages and logs: printable and short.
std::string printable(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return result;
}

template <std::size_t n>
void set_text(std::array<char, n>& field, std::string_view text) {
  field = {};
  std::copy_n(text.data(), std::min(text.size(), n - 1), field.data());
}

}  // namespace

Status check_arena_bytes(std::uint64_t bytes) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 44;
  if (bytes >= sizeof(ArenaHeader) && bytes <= kMost && bytes % os::page_bytes() == 0) return {};
  return error(Code::kInvalidArgument, "an arena of {} bytes is not possible", bytes);
}

std::string process_name(pid_t pid, std::string_view host) {
  return format("process {} on host {}", pid, printable(host));
}

ShmEndpoint::~ShmEndpoint() {
  // As in Arena: a child never had this mapping.
  if (fork_mark_.forked()) (void)mapping_.release();
}

Result<ProofWords::Lease> ProofWords::lease() {
  HOCKET_ASSIGN(const os::Token random, os::random_token());
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < kPairs; ++i) {
    if (taken_[i]) continue;
    taken_.set(i);
    const auto index = static_cast<std::uint32_t>(2 * i);
    header_.proofs[index + 1].store(0, std::memory_order_relaxed);
    header_.proofs[index].store(random.low, std::memory_order_release);  // pairs with the acquire in check_peer_arena
    return Lease(*this, index, random.low);
  }
  return error(Code::kOutOfMemory, "more than {} connections are being made at once", kPairs);
}

ProofWords::Lease::~Lease() {
  if (words_ == nullptr) return;
  const std::scoped_lock lock(words_->mutex_);
  words_->taken_.reset(index_ / 2);
}

bool ProofWords::Lease::answered_by(const ProcessToken& peer) const noexcept {
  // Acquire; pairs with the release in check_peer_arena.
  return words_->header_.proofs[index_ + 1].load(std::memory_order_acquire) == answer_to(nonce_, peer);
}

ShmHandshake::ShmHandshake(const ShmSelf& self, Role role, int socket, const ProcessToken& to)
    : self_(self),
      role_(role),
      socket_(socket),
      to_(to),
      stage_(role == Role::kAcceptor ? Stage::kReceive : Stage::kSend) {
  if (role == Role::kInitiator) prepare(ShmKind::kHello, {});
}

Result<ShmHandshake::Step> ShmHandshake::advance() {
  for (;;) {
    switch (stage_) {
      case Stage::kDone: return Step::kDone;
      case Stage::kSend: {
        HOCKET_ASSIGN(const Step step, send_some());
        if (step != Step::kDone) return step;
        moved_ = 0;
        stage_ = Stage::kReceive;
        if (!outcome_.ok() || next_ == ShmKind::kFinal) {
          stage_ = Stage::kDone;
        } else {
          next_ = next_ == ShmKind::kHello   ? ShmKind::kReply
                  : next_ == ShmKind::kReply ? ShmKind::kVerdict
                                             : ShmKind::kFinal;
        }
        break;
      }
      case Stage::kReceive: {
        HOCKET_ASSIGN(const Step step, receive_some());
        if (step != Step::kDone) return step;
        moved_ = 0;
        HOCKET_TRY(take_message());
        break;
      }
    }
  }
}

void ShmHandshake::prepare(ShmKind kind, const Status& so_far) {
  next_ = kind;
  stage_ = Stage::kSend;
  moved_ = 0;
  message_ = {};
  outcome_ = so_far;
  if (kind == ShmKind::kHello || kind == ShmKind::kReply) {
    auto lease = self_.proofs.lease();
    if (lease.ok()) {
      lease_.emplace(std::move(lease).value());
      message_.proof = lease_->index();
      message_.nonce = lease_->nonce();
    } else if (outcome_.ok()) {
      outcome_ = lease.status();
    }
  }
  message_.magic = kShmMagic;
  message_.version = kShmVersion;
  message_.kind = static_cast<std::uint32_t>(kind);
  message_.from = self_.address.token;
  message_.to = to_;
  message_.arena_bytes = self_.arena.bytes();
  message_.start_ticks = self_.address.pid_start_ticks;
  message_.pid = self_.address.pid;
  message_.host_name = self_.address.host_name;
  message_.failed = static_cast<std::uint32_t>(outcome_.code());
  set_text(message_.reason, outcome_.text());
}

Result<ShmHandshake::Step> ShmHandshake::send_some() {
  while (moved_ < sizeof message_) {
    iovec part{reinterpret_cast<std::byte*>(&message_) + moved_, sizeof message_ - moved_};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    // The arena's descriptor rides on the first byte.
    if (moved_ == 0 && outcome_.ok() && (next_ == ShmKind::kHello || next_ == ShmKind::kReply)) {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      cmsghdr* head = CMSG_FIRSTHDR(&header);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(sizeof(int));
      const int fd = self_.arena.fd();
      std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    const ssize_t n = ::sendmsg(socket_, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      moved_ += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Step::kWantsWrite;
    } else if (errno == ETOOMANYREFS) {
      return system_error(Code::kOutOfMemory, errno,
                          "too many descriptors are on their way in Unix sockets (see ulimit -n)");
    } else if (errno != EINTR) {
      return system_error(Code::kPeerLost, errno, "the peer closed the connection during the handshake");
    }
  }
  return Step::kDone;
}

Result<ShmHandshake::Step> ShmHandshake::receive_some() {
  while (moved_ < sizeof message_) {
    iovec part{reinterpret_cast<std::byte*>(&message_) + moved_, sizeof message_ - moved_};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t n = ::recvmsg(socket_, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Step::kWantsRead;
    if (n < 0) return system_error(Code::kPeerLost, errno, "the peer closed the connection during the handshake");
    if (n == 0) return error(Code::kPeerLost, "the peer closed the connection during the handshake");
    moved_ += static_cast<std::size_t>(n);
    fd_truncated_ |= (header.msg_flags & MSG_CTRUNC) != 0;
    for (cmsghdr* head = CMSG_FIRSTHDR(&header); head; head = CMSG_NXTHDR(&header, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int raw = -1;
        std::memcpy(&raw, CMSG_DATA(head) + i * sizeof raw, sizeof raw);
        os::UniqueFd fd(raw);  // owned first, wanted or not
        if (received_fd_) {
          too_many_fds_ = true;
        } else {
          received_fd_ = std::move(fd);
        }
      }
    }
  }
  return Step::kDone;
}

Status ShmHandshake::take_message() {
  const ShmMessage& m = message_;
  if (m.magic != kShmMagic) return error(Code::kInvalidArgument, "the peer does not speak hocket's protocol");
  if (m.version != kShmVersion) {
    return error(Code::kInvalidArgument, "the peer speaks version {} of the protocol, this process version {}",
                 m.version, kShmVersion);
  }
  if (m.kind != static_cast<std::uint32_t>(next_)) {
    return error(Code::kInvalidArgument, "the peer sent message {} where {} was due", m.kind,
                 static_cast<std::uint32_t>(next_));
  }
  const bool expected = role_ == Role::kAcceptor ? (!peer_ || m.from == peer_->from) : m.from == to_;
  if (m.to != self_.address.token || !expected || m.from == self_.address.token) {
    return error(Code::kInvalidArgument,
                 "the peer took this process for another one, or is another one than announced");
  }
  if (m.failed > static_cast<std::uint32_t>(Code::kInternal))
    return error(Code::kInvalidArgument, "the peer sent code {}", m.failed);
  const bool first = !peer_;
  if (first) {
    peer_ = m;
    to_ = m.from;
  }
  if (m.failed != 0) {
    outcome_ = Status(
        static_cast<Code>(m.failed),
        format("{} says: {}", process_name(peer_->pid, text_of(peer_->host_name)), printable(text_of(m.reason))));
    stage_ = Stage::kDone;
    return {};
  }
  Status so_far = first ? check_peer_arena() : Status();
  // With its verdict or final word the peer says that it has answered.
  if (so_far.ok() && next_ != ShmKind::kHello && !lease_->answered_by(peer_->from)) {
    so_far = error(Code::kUnsupported, "{} does not see the memory of process {}",
                   process_name(peer_->pid, text_of(peer_->host_name)), self_.address.pid);
  }
  switch (next_) {
    case ShmKind::kHello: prepare(ShmKind::kReply, so_far); break;
    case ShmKind::kReply: prepare(ShmKind::kVerdict, so_far); break;
    case ShmKind::kVerdict: prepare(ShmKind::kFinal, so_far); break;
    case ShmKind::kFinal: stage_ = Stage::kDone; break;
  }
  return {};
}

Status ShmHandshake::check_peer_arena() {
  const ShmMessage& m = *peer_;
  const std::string name = process_name(m.pid, text_of(m.host_name));
  const os::UniqueFd fd = std::move(received_fd_);
  if (!fd) {
    if (fd_truncated_) {
      return error(Code::kOutOfMemory,
                   "process {} on host {} has no descriptor left for the memory of {} (see ulimit -n)",
                   self_.address.pid, text_of(self_.address.host_name), name);
    }
    return error(Code::kInvalidArgument, "{} sent no memory", name);
  }
  if (too_many_fds_) return error(Code::kInvalidArgument, "{} sent more than one descriptor", name);
  HOCKET_TRY(check_arena_bytes(m.arena_bytes));
  HOCKET_TRY(os::check_memfd(fd.get(), m.arena_bytes).status());
  HOCKET_ASSIGN(os::Mapping mapping, os::Mapping::shared(fd.get(), m.arena_bytes));
  if (::madvise(mapping.data(), mapping.bytes(), MADV_DONTFORK) < 0 ||
      ::madvise(mapping.data(), mapping.bytes(), MADV_DONTDUMP) < 0) {
    return system_error(Code::kSystem, errno, "madvise of the memory of {}", name);
  }
  // The header was committed by its owner, but the file may come from anybody: a page that cannot be had would be a
  // SIGBUS.
  HOCKET_TRY(os::reserve(fd.get(), 0, sizeof(ArenaHeader)));
  auto& header = *reinterpret_cast<ArenaHeader*>(mapping.data());
  if (m.proof % 2 != 0 || m.proof + 1 >= header.proofs.size()) {
    return error(Code::kInvalidArgument, "{} names proof word {}, which there is not", name, m.proof);
  }
  // Acquire; pairs with the release in ProofWords::lease.
  const bool seen = header.proofs[m.proof].load(std::memory_order_acquire) == m.nonce && header.magic == kArenaMagic &&
                    header.token_high == m.from.high && header.token_low == m.from.low;
  if (!seen || self_.refuse) {
    return error(Code::kUnsupported, "process {} on host {} does not see the memory of {}{}", self_.address.pid,
                 text_of(self_.address.host_name), name, self_.refuse ? " (refused on purpose, for a test)" : "");
  }
  // Release; pairs with the acquire in answered_by.
  header.proofs[m.proof + 1].store(answer_to(m.nonce, self_.address.token), std::memory_order_release);
  mapping_ = std::move(mapping);
  return {};
}

}  // namespace hocket
