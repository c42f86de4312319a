// SPDX-License-Identifier: Apache-2.0
#include "base/os/socket.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/status.hpp"

namespace hocket::os {
namespace {

Code code_of(int number) noexcept {
  switch (number) {
    case EPIPE:
    case ECONNRESET:
    case ECONNREFUSED:
    case ECONNABORTED:
    case ENOTCONN:
    case ETIMEDOUT: return Code::kPeerLost;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case ETOOMANYREFS: return Code::kOutOfMemory;
    default: return Code::kSystem;
  }
}

bool would_block(int number) noexcept {
  return number == EAGAIN || number == EWOULDBLOCK;
}

// What travels before the bytes of a message. Both ends are on one host, so in the host's byte order.
struct Header {
  std::uint32_t bytes;
  std::uint32_t fds;
};

constexpr std::size_t kControlBytes = CMSG_SPACE(UnixSocket::kMaxFds * sizeof(int));

struct SocketName {
  sockaddr_un name{};
  socklen_t length = 0;
};

Result<SocketName> socket_name(const UnixAddress& address) {
  SocketName result;
  result.name.sun_family = AF_UNIX;
  // An abstract name has a zero byte first, a path one last.
  constexpr std::size_t kLongest = sizeof result.name.sun_path - 1;
  if (address.name.empty() || address.name.size() > kLongest || address.name.find('\0') != std::string::npos) {
    return error(Code::kInvalidArgument, "{} is no name for a socket: it needs 1 to {} bytes, none of them zero",
                 to_string(address), kLongest);
  }
  const bool abstract = address.kind == UnixAddress::Kind::kAbstract;
  std::memcpy(result.name.sun_path + (abstract ? 1 : 0), address.name.data(), address.name.size());
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.name.size());
  return result;
}

Result<UniqueFd> new_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error(code_of(errno), errno, "a Unix socket (see ulimit -n)");
  return fd;
}

}  // namespace

Status send_all(int fd, std::span<const std::byte> bytes, const WaitLimits& limits, std::string_view peer) {
  const std::size_t total = bytes.size();
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (would_block(errno)) {
      HOCKET_TRY(poll_for(fd, POLLOUT, limits, format("{} to take {} of {} bytes", peer, bytes.size(), total)));
    } else if (errno != EINTR) {
      return system_error(code_of(errno), errno, "send to {}: {} of {} bytes sent", peer, total - bytes.size(), total);
    }
  }
  return {};
}

Status receive_all(int fd, std::span<std::byte> bytes, const WaitLimits& limits, std::string_view peer) {
  const std::size_t total = bytes.size();
  while (!bytes.empty()) {
    const ssize_t n = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (n == 0) {
      return error(Code::kPeerLost, "{} closed the connection after {} of {} bytes", peer, total - bytes.size(), total);
    } else if (would_block(errno)) {
      HOCKET_TRY(poll_for(fd, POLLIN, limits, format("{} of {} bytes from {}", bytes.size(), total, peer)));
    } else if (errno != EINTR) {
      return system_error(code_of(errno), errno, "receive from {}: {} of {} bytes there", peer, total - bytes.size(),
                          total);
    }
  }
  return {};
}

std::string to_string(const UnixAddress& address) {
  return (address.kind == UnixAddress::Kind::kAbstract ? "unix:@" : "unix:") + address.name;
}

Result<UnixSocket> UnixSocket::connect(const UnixAddress& address, IfAbsent if_absent, const WaitLimits& limits) {
  HOCKET_ASSIGN(const SocketName name, socket_name(address));
  HOCKET_ASSIGN(UniqueFd fd, new_socket());
  auto pause = std::chrono::milliseconds(1);
  for (;;) {
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name.name), name.length) == 0) break;
    const int number = errno;
    if (number == EINTR) continue;
    const bool absent = number == ECONNREFUSED || number == ENOENT;
    // A Unix socket never connects in the background: EAGAIN is a full queue at the listener, to be tried again.
    if (!would_block(number) && !(absent && if_absent == IfAbsent::kRetry)) {
      return system_error(absent ? Code::kPeerLost : code_of(number), number, "connect to {}", to_string(address));
    }
    if (limits.deadline.passed()) {
      return system_error(Code::kTimeout, number, "time ran out while connecting to {}", to_string(address));
    }
    // Not poll_for: nothing in the kernel announces that a listener has come or has room.
    const Status slept = sleep_until({std::min(limits.deadline, Deadline::after(pause)), limits.abort});
    if (!slept.ok()) return error(slept.code(), "aborted while connecting to {}", to_string(address));
    pause = std::min(pause * 2, std::chrono::milliseconds(20));
  }
  return UnixSocket(std::move(fd), to_string(address));
}

Result<std::pair<UnixSocket, UnixSocket>> UnixSocket::pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0) {
    return system_error(code_of(errno), errno, "a pair of Unix sockets (see ulimit -n)");
  }
  return std::pair(UnixSocket(UniqueFd(fds[0])), UnixSocket(UniqueFd(fds[1])));
}

Result<UnixSocket> UnixSocket::adopt(UniqueFd fd, std::string peer_name) {
  int domain = 0, type = 0;
  socklen_t length = sizeof domain;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_DOMAIN, &domain, &length) < 0 ||
      (length = sizeof type, ::getsockopt(fd.get(), SOL_SOCKET, SO_TYPE, &type, &length) < 0)) {
    return system_error(Code::kInvalidArgument, errno, "descriptor {} is no socket", fd.get());
  }
  if (domain != AF_UNIX || type != SOCK_STREAM) {
    return error(Code::kInvalidArgument, "descriptor {} is no Unix stream socket (domain {}, type {})", fd.get(),
                 domain, type);
  }
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) < 0 || ::fcntl(fd.get(), F_SETFD, FD_CLOEXEC) < 0) {
    return system_error(Code::kSystem, errno, "fcntl of descriptor {}", fd.get());
  }
  return UnixSocket(std::move(fd), std::move(peer_name));
}

Status UnixSocket::send(std::span<const std::byte> bytes, std::span<const int> fds, const WaitLimits& limits) {
  if (bytes.size() > std::numeric_limits<std::uint32_t>::max() || fds.size() > kMaxFds) {
    return error(Code::kInvalidArgument, "a message of {} bytes and {} descriptors to {} is too large", bytes.size(),
                 fds.size(), peer_name_);
  }
  const Header header{static_cast<std::uint32_t>(bytes.size()), static_cast<std::uint32_t>(fds.size())};
  // Header and bytes in one call, so that a small message is one system call; descriptors ride on the first byte.
  iovec parts[2] = {{const_cast<Header*>(&header), sizeof header},
                    {const_cast<std::byte*>(bytes.data()), bytes.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) std::array<char, kControlBytes> control{};
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
  }
  std::size_t sent = 0;
  for (;;) {
    const ssize_t n = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (n > 0) {
      sent = static_cast<std::size_t>(n);
      break;
    }
    if (would_block(errno)) {
      HOCKET_TRY(poll_for(fd_.get(), POLLOUT, limits, format("{} to take a message", peer_name_)));
    } else if (errno != EINTR) {
      return system_error(code_of(errno), errno, "send of {} bytes and {} descriptors to {}", bytes.size(), fds.size(),
                          peer_name_);
    }
  }
  if (sent < sizeof header) {
    HOCKET_TRY(send_all(fd_.get(), std::as_bytes(std::span(&header, 1)).subspan(sent), limits, peer_name_));
    sent = sizeof header;
  }
  return send_all(fd_.get(), bytes.subspan(sent - sizeof header), limits, peer_name_);
}

Result<Message> UnixSocket::receive(std::size_t max_bytes, std::size_t max_fds, const WaitLimits& limits) {
  Header header{};
  Message result;
  bool truncated = false;
  for (std::size_t have = 0; have < sizeof header;) {
    iovec part{reinterpret_cast<std::byte*>(&header) + have, sizeof header - have};
    alignas(cmsghdr) std::array<char, kControlBytes> control;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = ::recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && would_block(errno)) {
      HOCKET_TRY(poll_for(fd_.get(), POLLIN, limits, format("a message from {}", peer_name_)));
      continue;
    }
    if (n < 0) return system_error(code_of(errno), errno, "receive from {}", peer_name_);
    if (n == 0) {
      return have == 0 ? error(Code::kPeerLost, "{} closed the connection", peer_name_)
                       : error(Code::kPeerLost, "{} closed the connection inside a message", peer_name_);
    }
    have += static_cast<std::size_t>(n);
    truncated |= (message.msg_flags & MSG_CTRUNC) != 0;
    // Every descriptor that arrived is owned before anything is checked, wanted or not.
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
        result.fds.emplace_back(fd);
      }
    }
  }
  if (header.bytes > max_bytes || header.fds > max_fds) {
    return error(Code::kInvalidArgument, "{} announces {} bytes and {} descriptors, at most {} and {} are expected",
                 peer_name_, header.bytes, header.fds, max_bytes, max_fds);
  }
  if (result.fds.size() != header.fds) {
    return error(truncated ? Code::kOutOfMemory : Code::kInvalidArgument, "{} of {} descriptors came from {}{}",
                 result.fds.size(), header.fds, peer_name_, truncated ? " (see ulimit -n)" : "");
  }
  result.bytes.resize(header.bytes);
  HOCKET_TRY(receive_all(fd_.get(), result.bytes, limits, peer_name_));
  return result;
}

Result<PeerCredentials> UnixSocket::peer() const {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0) {
    return system_error(Code::kSystem, errno, "credentials of {}", peer_name_);
  }
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

Status UnixSocket::check_same_user() const {
  HOCKET_ASSIGN(const PeerCredentials credentials, peer());
  if (credentials.uid == ::geteuid()) return {};
  return error(Code::kInvalidArgument, "{} (process {}) belongs to user {}, this process to user {}", peer_name_,
               credentials.pid, credentials.uid, ::geteuid());
}

void UnixSocket::shutdown() noexcept {
  ::shutdown(fd_.get(), SHUT_RDWR);
}

Result<UnixListener> UnixListener::listen(UnixAddress address, int backlog) {
  HOCKET_ASSIGN(const SocketName name, socket_name(address));
  HOCKET_ASSIGN(UniqueFd fd, new_socket());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name.name), name.length) < 0) {
    const Code code = errno == EADDRINUSE ? Code::kInvalidArgument : code_of(errno);
    return system_error(code, errno, "listen at {}", to_string(address));
  }
  UnixListener listener(std::move(fd), std::move(address));  // from here on a file is removed again
  if (::listen(listener.fd(), backlog) < 0) {
    return system_error(code_of(errno), errno, "listen at {}", to_string(listener.address_));
  }
  return listener;
}

Result<UnixSocket> UnixListener::accept(const WaitLimits& limits) {
  for (;;) {
    UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) return UnixSocket::adopt(std::move(fd), "a client of " + to_string(address_));
    if (would_block(errno)) {
      HOCKET_TRY(poll_for(fd_.get(), POLLIN, limits, format("a connection at {}", to_string(address_))));
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return system_error(code_of(errno), errno, "accept at {} (see ulimit -n)", to_string(address_));
    }
  }
}

UnixListener& UnixListener::operator=(UnixListener&& other) noexcept {
  if (this == &other) return *this;
  close();
  fd_ = std::move(other.fd_);
  address_ = std::move(other.address_);
  fork_mark_ = other.fork_mark_;
  return *this;
}

void UnixListener::close() noexcept {
  if (fd_ && address_.kind == UnixAddress::Kind::kPath && !fork_mark_.forked()) ::unlink(address_.name.c_str());
  fd_.reset();
}

}  // namespace hocket::os
