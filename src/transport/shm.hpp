// SPDX-License-Identifier: Apache-2.0
// shm.hpp: the transport between processes of one host: each maps the other's arena.
//
// The two meet at a Unix socket and exchange their arenas' descriptors. That the descriptor came is not enough: each
// side proves by reading and answering a random number in the mapping that both see the same memory, and only when both
// proofs held do both use it. After that the memfds are closed; the socket stays open to show when the peer is gone.
//
//     initiator                                    acceptor
//     hello: who, arena's memfd, nonce and where  ->
//                                                  maps, reads the nonce, writes the answer beside it
//                                            <-    reply: the same of the acceptor
//     maps, reads the nonce, writes the answer; checks the answer in its own arena
//     verdict                                ->
//                                                  checks the answer in its own arena
//                                            <-    final
//
// Whoever finds a fault says so in its next message, so both know the reason.
// Next stop: core/control/handshakes.cpp drives the acceptor's side, core/engine.cpp the initiator's.
#pragma once

#include <sys/types.h>

#include <array>
#include <bitset>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/os/mapping.hpp"
#include "base/os/process.hpp"
#include "base/os/unique_fd.hpp"
#include "transport/arena.hpp"
#include "transport/mapped.hpp"

namespace hocket {

/// Why an arena's length may not be believed; ok if it may. For lengths from a wire.
Status check_arena_bytes(std::uint64_t bytes);

/// "process 1234 on host x"; `host` may come from a wire.
std::string process_name(pid_t pid, std::string_view host);

class ShmEndpoint final : public MappedEndpoint {
 public:
  explicit ShmEndpoint(os::Mapping mapping)
      : MappedEndpoint(mapping.data(), mapping.bytes()), mapping_(std::move(mapping)) {}
  ~ShmEndpoint() override;
  std::string_view transport() const noexcept override { return "shm"; }

 private:
  os::Mapping mapping_;
  os::ForkMark fork_mark_;
};

/// Deals out the words of an arena's header in which proofs are made: one nonce and one answer each. Any thread.
class ProofWords {
 public:
  explicit ProofWords(ArenaHeader& header) : header_(header) {}

  /// One pair of words, its nonce set and its answer cleared; given back at the end.
  class Lease {
   public:
    Lease(Lease&& other) noexcept
        : words_(std::exchange(other.words_, nullptr)), index_(other.index_), nonce_(other.nonce_) {}
    ~Lease();
    std::uint32_t index() const noexcept { return index_; }
    std::uint64_t nonce() const noexcept { return nonce_; }
    /// Whether the process `peer` has answered.
    bool answered_by(const ProcessToken& peer) const noexcept;

   private:
    friend class ProofWords;
    Lease(ProofWords& words, std::uint32_t index, std::uint64_t nonce) : words_(&words), index_(index), nonce_(nonce) {}
    ProofWords* words_;
    std::uint32_t index_;
    std::uint64_t nonce_;
  };
  /// Errors: kOutOfMemory when too many handshakes are under way, kSystem.
  Result<Lease> lease();

 private:
  static constexpr std::size_t kPairs = std::tuple_size_v<decltype(ArenaHeader::proofs)> / 2;
  ArenaHeader& header_;
  std::mutex mutex_;
  std::bitset<kPairs> taken_;
};

/// What this process brings to a handshake; borrowed for the handshake's life.
struct ShmSelf {
  const ProcessAddress& address;
  Arena& arena;
  ProofWords& proofs;
  bool refuse;  ///< tests: behave as if the nonce could not be read
};

/// All messages have this form. Both ends are on one host, so in the host's byte order.
struct ShmMessage {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t kind;
  ProcessToken from;
  ProcessToken to;
  std::uint64_t arena_bytes;
  std::uint64_t nonce;
  std::uint64_t start_ticks;
  std::uint32_t proof;
  std::int32_t pid;
  std::uint32_t failed;  ///< a Code; 0 if all is well so far
  std::uint32_t unused;
  std::array<char, 32> host_name;
  std::array<char, 312> reason;
};
inline constexpr std::uint64_t kShmMagic = 0x686f636b73686d31;  // "hockshm1"
inline constexpr std::uint32_t kShmVersion = 1;
enum class ShmKind : std::uint32_t {
  kHello = 1,
  kReply = 2,
  kVerdict = 3,
  kFinal = 4,
};

/// One side of a handshake, without waiting: bytes in, bytes out. One thread at a time.
class ShmHandshake {
 public:
  enum class Role { kInitiator, kAcceptor };
  enum class Step {
    kWantsRead,   ///< wait until the socket is readable, then advance() again
    kWantsWrite,  ///< the same for writable
    kDone,        ///< see outcome()
  };

  /// `to` is whom the initiator means to reach; the acceptor learns it.
  ShmHandshake(const ShmSelf& self, Role role, int socket, const ProcessToken& to = {});

  /// As far as it goes. Errors: kPeerLost if the connection ended, kInvalidArgument if the peer does not speak this
  /// protocol, kSystem; the connection is of no more use then.
  Result<Step> advance();

  /// After kDone: ok, or why shared memory cannot be used, in this side's words; equal verdicts on both sides.
  const Status& outcome() const noexcept { return outcome_; }
  /// After kDone with success: the peer's arena.
  os::Mapping take_mapping() noexcept { return std::move(mapping_); }

  /// Who the peer is, as it says; empty before its first message came.
  const std::optional<ShmMessage>& peer() const noexcept { return peer_; }

 private:
  enum class Stage { kSend, kReceive, kDone };
  Result<Step> send_some();
  Result<Step> receive_some();
  void prepare(ShmKind kind, const Status& so_far);
  Status take_message();
  Status check_peer_arena();

  const ShmSelf& self_;
  const Role role_;
  const int socket_;
  ProcessToken to_;
  Stage stage_;
  ShmKind next_ = ShmKind::kHello;  // kind of the message that is sent or awaited
  ShmMessage message_{};            // on its way out or in
  std::size_t moved_ = 0;           // bytes of it
  os::UniqueFd received_fd_;
  bool too_many_fds_ = false;
  bool fd_truncated_ = false;
  std::optional<ShmMessage> peer_;
  std::optional<ProofWords::Lease> lease_;
  os::Mapping mapping_;
  Status outcome_;
};

}  // namespace hocket
