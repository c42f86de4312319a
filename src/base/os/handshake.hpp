// SPDX-License-Identifier: Apache-2.0
// handshake.hpp: two processes prove to each other that they know a secret, before anything else of theirs is read.
//
// Who connects sends a hello: 128 bytes, magic and version first. Who accepted looks at these, answers with a hello of
// its own and its proof, and gets the other's proof: HMAC-SHA-256 under the secret of who proves and both hellos, which
// have 32 random bytes each. So a proof is good for one connection and one direction. What follows on the connection is
// neither encrypted nor signed: it is safe from strangers, not from those who can change packets on the way.
//
// With another version the proof is never reached: both sides name both versions and hosts. A stranger learns no more
// than that hocket listens.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/os/abort.hpp"
#include "base/secret.hpp"
#include "hocket/status.hpp"

namespace hocket::os {

/// What a side says of itself, and a connection is for. The other side may believe it once the handshake is done.
struct Hello {
  static constexpr std::uint64_t kMagic = 0x0a0d74656b636f68;  ///< "hocket\r\n"
  static constexpr std::uint32_t kVersion = 1;

  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t purpose = 0;    ///< must be the same on both sides: the protocol that follows
  std::uint64_t token = 0;      ///< who this is, for protocols that check it
  std::int32_t rank = -1;       ///< of this side, -1 if it has none; for texts
  std::uint32_t pid = 0;        ///< for texts
  std::array<char, 64> host{};  ///< name of this host, for texts; ends by a zero
  std::array<std::byte, 32> nonce{};

  /// "rank 3 (pid 1234 on host7)"; harmless whatever the bytes are.
  std::string name() const;
};
static_assert(sizeof(Hello) == 128);

/// With this process's pid and host name, and a new nonce. Errors: kSystem.
Result<Hello> make_hello(std::uint32_t purpose, std::uint64_t token, std::int32_t rank);

/// One side of a handshake on a non-blocking stream of any kind. One thread at a time.
class Handshake {
 public:
  enum class Role { kConnect, kAccept };
  enum class State { kReading, kWriting, kDone };

  Handshake(Role role, const Hello& mine, const Secret& secret) : role_(role), mine_(mine), secret_(secret) { begin(); }

  /// Goes on as far as it can without waiting. Errors, after which the connection is of no use: kInvalidArgument (a
  /// stranger, or another secret), kMismatch (another version; both are in the text), kPeerLost, kSystem.
  Result<State> step(int fd);
  /// The other side; believable when done.
  const Hello& peer() const noexcept { return peer_; }

 private:
  void begin();
  Status advance();
  Status check_peer() const;
  Digest proof(Role of) const noexcept;

  Role role_;
  Hello mine_;
  Hello peer_;
  Secret secret_;
  int phase_ = 0;
  bool refuse_ = false;  // the last thing to send is our hello, so that the other side can name both versions
  std::array<std::byte, sizeof(Hello) + sizeof(Digest)> buffer_;
  std::size_t wanted_ = 0, have_ = 0;
  bool writing_ = false;
};

/// The whole handshake, waiting where it has to. Errors: those, kTimeout, kAborted.
Result<Hello> shake_hands(int fd, Handshake::Role role, const Hello& mine, const Secret& secret,
                          const WaitLimits& limits);

}  // namespace hocket::os
