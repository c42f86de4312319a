// SPDX-License-Identifier: Apache-2.0
// socket.hpp: Unix sockets between processes of a host: whole messages, descriptors, and who the peer is.
//
// A message is a length and a number of descriptors (8 bytes) and then its bytes. All waits end by a deadline or an
// abort. All descriptors are close-on-exec, and a lost peer is an error, never SIGPIPE.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/os/abort.hpp"
#include "base/os/process.hpp"
#include "base/os/unique_fd.hpp"
#include "hocket/status.hpp"

namespace hocket::os {

/// Sends all of `bytes` on a non-blocking stream socket of any kind (Unix or TCP). `peer` is for the error.
/// Errors: kPeerLost, kTimeout, kAborted, kSystem. After an error the stream may hold a part: close it.
Status send_all(int fd, std::span<const std::byte> bytes, const WaitLimits& limits, std::string_view peer);

/// Receives exactly as many bytes as fit. Errors as for send_all.
Status receive_all(int fd, std::span<std::byte> bytes, const WaitLimits& limits, std::string_view peer);

/// Where a Unix socket listens: a name that vanishes with the listener, or a file.
struct UnixAddress {
  enum class Kind { kAbstract, kPath };
  Kind kind = Kind::kAbstract;
  std::string name;  ///< up to 107 bytes

  /// A name in the network namespace: no file, nothing left behind, not reachable from another container.
  static UnixAddress abstract(std::string name) { return {Kind::kAbstract, std::move(name)}; }
  /// A file; its directory must exist and should be the user's own.
  static UnixAddress path(std::string name) { return {Kind::kPath, std::move(name)}; }
};

/// "unix:@name" or "unix:/path".
std::string to_string(const UnixAddress& address);

/// The peer's process when it connected (or listened), as the kernel vouches for it.
struct PeerCredentials {
  pid_t pid;
  uid_t uid;
  gid_t gid;
};

struct Message {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> fds;
};

/// A connected stream. One thread at a time may send and one receive; shutdown() is for any thread.
class UnixSocket {
 public:
  enum class IfAbsent {
    kFail,   ///< nobody listens: kPeerLost at once
    kRetry,  ///< go on trying until the limits: the listener may start later
  };

  /// Most descriptors that one message may carry.
  static constexpr std::size_t kMaxFds = 64;

  /// Errors: kPeerLost, kTimeout, kAborted, kInvalidArgument (name too long), kOutOfMemory, kSystem.
  static Result<UnixSocket> connect(const UnixAddress& address, IfAbsent if_absent, const WaitLimits& limits);

  /// Two ends of one connection, for a child or a test.
  static Result<std::pair<UnixSocket, UnixSocket>> pair();

  /// Takes an inherited or accepted descriptor; makes it close-on-exec and non-blocking.
  /// Errors: kInvalidArgument if it is no Unix stream socket.
  static Result<UnixSocket> adopt(UniqueFd fd, std::string peer_name);

  /// How errors name the other end ("rank 3"); until set, "the peer".
  void set_peer_name(std::string name) { peer_name_ = std::move(name); }
  const std::string& peer_name() const noexcept { return peer_name_; }

  /// Sends one message; `fds` stay the caller's. Errors: as for send_all, and kInvalidArgument if it is too large
  /// (4 GiB, kMaxFds). After an error the socket is of no more use.
  Status send(std::span<const std::byte> bytes, std::span<const int> fds, const WaitLimits& limits);
  Status send(std::span<const std::byte> bytes, const WaitLimits& limits) { return send(bytes, {}, limits); }

  /// Receives one message. What the peer announces is believed only up to `max_bytes` and `max_fds`: more is
  /// kInvalidArgument, before anything is allocated. Other errors as for send_all; kOutOfMemory if descriptors ran out.
  Result<Message> receive(std::size_t max_bytes, std::size_t max_fds, const WaitLimits& limits);

  /// Errors: kSystem.
  Result<PeerCredentials> peer() const;
  /// OK only if the peer is a process of our own user. Errors: kInvalidArgument with both users.
  Status check_same_user() const;

  /// Ends both directions: waits at either end return kPeerLost.
  void shutdown() noexcept;

  int fd() const noexcept { return fd_.get(); }

 private:
  explicit UnixSocket(UniqueFd fd, std::string peer_name = "the peer")
      : fd_(std::move(fd)), peer_name_(std::move(peer_name)) {}
  UniqueFd fd_;
  std::string peer_name_;
};

/// A listening socket; a path is removed at the end. One thread at a time.
class UnixListener {
 public:
  /// Errors: kInvalidArgument (name too long, or taken), kOutOfMemory, kSystem.
  static Result<UnixListener> listen(UnixAddress address, int backlog = 256);

  /// Errors: kTimeout, kAborted, kOutOfMemory, kSystem.
  Result<UnixSocket> accept(const WaitLimits& limits);

  const UnixAddress& address() const noexcept { return address_; }
  int fd() const noexcept { return fd_.get(); }

  UnixListener(UnixListener&&) noexcept = default;
  UnixListener& operator=(UnixListener&& other) noexcept;
  ~UnixListener() { close(); }

 private:
  UnixListener(UniqueFd fd, UnixAddress address) : fd_(std::move(fd)), address_(std::move(address)) {}
  void close() noexcept;
  UniqueFd fd_;
  UnixAddress address_;
  ForkMark fork_mark_;  // a child that inherits the listener leaves the parent's file alone
};

}  // namespace hocket::os
