// SPDX-License-Identifier: Apache-2.0
#include "base/os/net_socket.hpp"

#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>

#include "base/status.hpp"

namespace hocket::os {
namespace {

using std::chrono_literals::operator""ms;

bool out_of_resources(int number) noexcept {
  return number == EMFILE || number == ENFILE || number == ENOMEM || number == ENOBUFS;
}

Result<UniqueFd> new_socket(int family) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!fd) {
    return system_error(out_of_resources(errno) ? Code::kOutOfMemory : Code::kSystem, errno,
                        "a TCP socket (see ulimit -n)");
  }
  return fd;
}

NetAddress local_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) < 0) return {};
  auto address = from_socket_address(reinterpret_cast<const sockaddr*>(&storage));
  return address.ok() ? *address : NetAddress();
}

void send_at_once(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Binds one socket; the errno if it can't.
int bind_one(int fd, const NetAddress& address) {
  const int on = 1;
  // A port is free again at once after the listener ended, also while old connections linger.
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // IPv4 has sockets of its own.
  if (!address.is_ipv4()) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  const SocketAddress name = to_socket_address(address);
  return ::bind(fd, name.get(), name.length) < 0 ? errno : 0;
}

}  // namespace

// ---- Listening ----

Result<NetListener> NetListener::listen(std::span<const NetAddress> addresses, PortRange ports, int backlog) {
  if (addresses.empty()) return error(Code::kInvalidArgument, "there is no address to listen on");
  // With the kernel's choice the first address decides, and another process may have that port on a later one.
  constexpr int kTries = 64;
  const int tries = ports.any() ? kTries : ports.last - ports.first + 1;
  std::string absent;
  std::string taken;
  for (int i = 0; i < tries; ++i) {
    NetListener listener;
    auto port = static_cast<std::uint16_t>(ports.any() ? 0 : ports.first + i);
    bool next = false;
    absent.clear();
    for (const NetAddress& address : addresses) {
      auto fd = new_socket(address.is_ipv4() ? AF_INET : AF_INET6);
      if (!fd.ok() && fd.status().code() == Code::kOutOfMemory) return fd.status();
      if (!fd.ok()) {  // a host without IPv6
        absent += format("\n  {}: {}", to_string(address), fd.status().text());
        continue;
      }
      int problem = bind_one(fd->get(), address.with_port(port));
      if (problem == 0 && ::listen(fd->get(), backlog) < 0) problem = errno;
      if (problem == EADDRINUSE || problem == EACCES) {
        taken = system_error(Code::kSystem, problem, "{}", to_string(address.with_port(port))).text();
        next = true;
        break;
      }
      if (problem != 0) {
        absent += format("\n  {}", system_error(Code::kSystem, problem, "{}", to_string(address)).text());
        continue;
      }
      if (port == 0) port = local_address(fd->get()).port;
      listener.fds_.push_back(std::move(*fd));
      listener.addresses_.push_back(address.with_port(port));
    }
    if (next) continue;
    if (listener.fds_.empty()) return error(Code::kInvalidArgument, "no address can be listened on:{}", absent);
    return listener;
  }
  if (ports.any()) return error(Code::kSystem, "no port is free on all addresses after {} tries: {}", kTries, taken);
  return error(Code::kSystem, "all ports from {} to {} (HOCKET_PORTS) are taken; the last: {}", ports.first, ports.last,
               taken);
}

std::vector<int> NetListener::fds() const {
  std::vector<int> numbers;
  for (const UniqueFd& fd : fds_) numbers.push_back(fd.get());
  return numbers;
}

Result<std::optional<NetConnection>> NetListener::accept_now() {
  for (const UniqueFd& listening : fds_) {
    for (;;) {
      sockaddr_storage storage{};
      socklen_t length = sizeof storage;
      UniqueFd fd(
          ::accept4(listening.get(), reinterpret_cast<sockaddr*>(&storage), &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (fd) {
        HOCKET_ASSIGN(const NetAddress peer, from_socket_address(reinterpret_cast<const sockaddr*>(&storage)));
        send_at_once(fd.get());
        NetConnection connection{.fd = std::move(fd), .local = {}, .peer = peer};
        connection.local = local_address(connection.fd.get());
        return std::optional<NetConnection>(std::move(connection));
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      if (out_of_resources(errno)) {
        return system_error(Code::kOutOfMemory, errno, "accept at {} (see ulimit -n)", to_string(addresses_.front()));
      }
      // accept(2): errors of the new connection's network are reported here and concern that connection alone.
      if (errno == EBADF || errno == EINVAL || errno == ENOTSOCK || errno == EFAULT || errno == EOPNOTSUPP) {
        return system_error(Code::kSystem, errno, "accept at {}", to_string(addresses_.front()));
      }
    }
  }
  return std::optional<NetConnection>();
}

Result<NetConnection> NetListener::accept(const WaitLimits& limits) {
  for (;;) {
    HOCKET_ASSIGN(std::optional<NetConnection> connection, accept_now());
    if (connection) return std::move(*connection);
    std::vector<pollfd> all;
    for (const UniqueFd& fd : fds_) all.push_back({.fd = fd.get(), .events = POLLIN, .revents = 0});
    HOCKET_TRY(poll_for(all, limits, format("a connection at {}", to_string(addresses_.front()))));
  }
}

// ---- Connecting ----

std::vector<NetTarget> targets_to(std::span<const NetAddress> addresses, bool same_network,
                                  std::span<const NetCandidate> own) {
  std::vector<NetTarget> targets;
  for (const NetAddress& address : addresses) {
    NetTarget target{.address = address, .interface = {}, .skipped = {}};
    const bool needs_scope = address.is_link_local() && !address.is_ipv4();
    if (same_network && !(needs_scope && address.scope == 0)) {
      targets.push_back(std::move(target));
      continue;
    }
    target.address.scope = 0;  // it was the other host's
    if (address.is_loopback()) {
      target.skipped = "it is loopback, and the peer has another network";
    } else if (std::any_of(own.begin(), own.end(), [&](const NetCandidate& candidate) {
                 return candidate.address.bytes == address.bytes && !address.is_link_local();
               })) {
      target.skipped = "this host has the same address, so it would not lead to the peer";
    } else if (needs_scope) {
      const std::size_t before = targets.size();
      for (const NetCandidate& candidate : own) {
        if (!candidate.usable() || candidate.address.is_ipv4() || !candidate.address.is_link_local()) continue;
        target.address.scope = candidate.address.scope;
        target.interface = candidate.interface;
        targets.push_back(target);
      }
      if (targets.size() > before) continue;
      target.skipped = "it is link-local, and no interface of this host has such an address";
    }
    targets.push_back(std::move(target));
  }
  return targets;
}

namespace {

// One candidate in the race.
struct Runner {
  const NetTarget* target;
  UniqueFd fd;       // while an attempt is under way
  Deadline next;     // when the next attempt begins
  NetAddress local;  // of the last attempt; any where none was chosen
  int attempts = 0;
  std::string last_error;  // of the last attempt

  void fail(std::string why) {
    fd.reset();
    last_error = std::move(why);
    const auto pause = std::min<std::chrono::milliseconds>(500ms, 5ms * (1 << std::min(attempts, 7)));
    next = Deadline::after(pause);
  }
};

std::string errno_text(int number) {
  return std::string(system_error(Code::kSystem, number, "connect").text());
}

// Whether the attempt under way ended well; else the runner knows why not, or it is still under way.
bool finish(Runner& runner) {
  int problem = 0;
  socklen_t length = sizeof problem;
  if (::getsockopt(runner.fd.get(), SOL_SOCKET, SO_ERROR, &problem, &length) < 0) problem = errno;
  if (problem != 0) {
    runner.fail(errno_text(problem));
    return false;
  }
  runner.local = local_address(runner.fd.get());
  if (runner.local == runner.target->address) {
    // The kernel chose the very port that was tried, and the socket met itself (RFC 793's simultaneous open).
    runner.fail("connect: nobody listens there");
    return false;
  }
  return true;
}

// Begins an attempt; true if it succeeded at once.
Result<bool> start(Runner& runner) {
  ++runner.attempts;
  const SocketAddress name = to_socket_address(runner.target->address);
  auto fd = new_socket(name.family());
  if (!fd.ok()) {
    if (fd.status().code() == Code::kOutOfMemory) return fd.status();
    runner.fail(std::string(fd.status().text()));
    return false;
  }
  runner.fd = std::move(*fd);
  send_at_once(runner.fd.get());
  if (::connect(runner.fd.get(), name.get(), name.length) == 0) return finish(runner);
  const int problem = errno;
  if (problem == EINPROGRESS || problem == EINTR) {
    runner.local = local_address(runner.fd.get());
    runner.next = Deadline::never();
    return false;
  }
  runner.fail(errno_text(problem));
  return false;
}

std::string describe(std::span<const Runner> runners, std::span<const NetTarget> targets) {
  const auto interfaces = list_interfaces();
  std::string text;
  for (const NetTarget& target : targets) {
    const auto runner =
        std::find_if(runners.begin(), runners.end(), [&](const Runner& r) { return r.target == &target; });
    if (runner == runners.end()) {
      text += format("\n  to {}: not tried, {}", to_string(target.address), target.skipped);
      continue;
    }
    std::string from = "no address of this host";
    if (!runner->local.is_any()) {
      from = to_string(runner->local.with_port(0));
      std::string name = target.interface;
      for (std::size_t i = 0; interfaces.ok() && i < interfaces->size(); ++i) {
        if ((*interfaces)[i].address.bytes == runner->local.bytes) name = (*interfaces)[i].name;
      }
      if (!name.empty()) from += format(" on {}", name);
    } else if (!target.interface.empty()) {
      from = target.interface;
    }
    text += format("\n  to {} from {}: {} {}, {}", to_string(target.address), from, runner->attempts,
                   runner->attempts == 1 ? "attempt" : "attempts",
                   runner->fd              ? "no answer yet"
                   : runner->attempts == 0 ? "its turn had not come"
                                           : runner->last_error);
  }
  return text;
}

}  // namespace

Result<NetConnection> connect_by_any(std::span<const NetTarget> targets, const NetConnectOptions& options,
                                     const WaitLimits& limits) {
  const std::int64_t begin = now_ns();
  std::vector<Runner> runners;
  for (const NetTarget& target : targets) {
    if (!target.skipped.empty()) continue;
    const auto turn = static_cast<std::int64_t>(runners.size()) * std::chrono::nanoseconds(options.stagger).count();
    runners.push_back(
        {.target = &target, .fd = {}, .next = Deadline::at_ns(begin + turn), .local = {}, .last_error = {}});
  }
  const auto failed = [&](Code code, std::string_view what) {
    return error(code, "{} found no way to {} in {:.1f} s: {}{}", options.self, options.peer,
                 static_cast<double>(now_ns() - begin) / 1e9, what, describe(runners, targets));
  };
  if (runners.empty()) {
    return failed(Code::kInvalidArgument,
                  targets.empty() ? "it has no address" : "none of its addresses is of use here");
  }

  // Takes a connection that stands, if it is the right one.
  std::optional<NetConnection> winner;
  const auto take = [&](Runner& runner) -> Status {
    NetConnection connection{.fd = std::move(runner.fd), .local = runner.local, .peer = runner.target->address};
    const Status right = options.verify ? options.verify(connection) : Status();
    if (right.ok()) {
      winner = std::move(connection);
    } else if (right.code() == Code::kMismatch || right.code() == Code::kAborted) {
      return right;
    } else {
      runner.fail(std::string(right.text()));
    }
    return {};
  };

  for (;;) {
    bool before_all_failed = true;  // of those earlier in the list
    Deadline wake = limits.deadline;
    for (Runner& runner : runners) {
      const bool first = runner.attempts == 0;
      if (!runner.fd && (runner.next.passed() || (first && before_all_failed))) {
        HOCKET_ASSIGN(const bool connected, start(runner));
        if (connected) HOCKET_TRY(take(runner));
        if (winner) return std::move(*winner);
      }
      before_all_failed = before_all_failed && !runner.fd && runner.attempts > 0;
      if (!runner.fd) wake = std::min(wake, runner.next);
    }
    if (before_all_failed && !options.retry) return failed(Code::kPeerLost, "all ways failed");
    std::vector<pollfd> all;
    for (const Runner& runner : runners) all.push_back({.fd = runner.fd.get(), .events = POLLOUT, .revents = 0});
    const Status waited = poll_for(all, {.deadline = wake, .abort = limits.abort}, options.peer);
    if (waited.code() == Code::kAborted) return failed(Code::kAborted, "aborted");
    if (!waited.ok() && waited.code() != Code::kTimeout) return waited;
    if (waited.code() == Code::kTimeout && limits.deadline.passed()) return failed(Code::kTimeout, "time ran out");
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].revents == 0 || !finish(runners[i])) continue;
      HOCKET_TRY(take(runners[i]));
      if (winner) return std::move(*winner);
    }
  }
}

}  // namespace hocket::os
