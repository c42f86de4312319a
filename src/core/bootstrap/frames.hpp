// SPDX-License-Identifier: Apache-2.0
// frames.hpp: a connection of the start-up: first a handshake, then frames, and nothing that waits.
//
// Owned by one event loop, which polls fd() for events() and calls turn(). What arrives is kept only as far as it has
// come: a length that is announced costs nothing.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/os/handshake.hpp"
#include "base/os/unique_fd.hpp"

namespace hocket {

enum class FrameKind : std::uint32_t {
  kLeader = 1,   ///< leader to root: LeaderCard
  kJoin = 2,     ///< member to leader, leader to root: RankEntry, one or more
  kWelcome = 3,  ///< root to leader: all have come: WelcomeHead, then the LeaderCard of each round's target
  kReady = 4,    ///< leader to member
  kPart = 5,     ///< member to leader: u64 bytes per rank, then for each rank u64 number and its bytes
  kWhole = 6,    ///< leader to member: the result
  kBlocks = 7,   ///< leader to leader, `detail` is the round: for each block BlockHead and its bytes
  kLink = 8,     ///< leader to leader, first: `detail` is the round that the connection is for
  kTimeout = 9,  ///< to the root: `detail` is a rank whose time ran out, the bytes are a text
  kError = 10,   ///< any direction: `detail` is a Code, the bytes are a text
  kGone = 11,    ///< sub-root to root: the leader on this tag was lost; the bytes are a text
};

struct FrameHeader {
  std::uint32_t kind = 0;
  std::uint32_t detail = 0;
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(FrameHeader) == 24);

struct Frame {
  FrameHeader header;
  std::vector<std::byte> bytes;

  FrameKind kind() const noexcept { return static_cast<FrameKind>(header.kind); }
  std::string text() const;
};

struct FrameCounters {
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
};

class FrameStream {
 public:
  /// The most that one frame may have, until set_limit().
  static constexpr std::uint64_t kSmall = 64 << 10;
  static constexpr std::uint64_t kLarge = std::uint64_t{1} << 31;

  /// An accepted connection that has to prove itself until `deadline`.
  FrameStream(os::UniqueFd fd, const os::Hello& mine, const Secret& secret, os::Deadline deadline);
  /// One that has done so.
  FrameStream(os::UniqueFd fd, const os::Hello& peer);

  int fd() const noexcept { return fd_.get(); }
  short events() const noexcept;
  bool proven() const noexcept { return !handshake_.has_value(); }
  const os::Hello& peer() const noexcept { return peer_; }
  os::Deadline deadline() const noexcept { return deadline_; }
  bool flushed() const noexcept { return out_.empty(); }
  /// Why nothing more will come, once turn() met it; ok until then.
  const Status& closed() const noexcept { return closed_; }
  void set_limit(std::uint64_t bytes) noexcept { limit_ = bytes; }
  void set_counters(FrameCounters* counters) noexcept { counters_ = counters; }

  /// Queued, and sent as far as it goes at once.
  void send(FrameKind kind, std::uint32_t detail, std::uint64_t sequence, std::span<const std::byte> bytes);
  void send_error(const Status& status);
  /// Does what can be done now: handshake, receive, send.
  void turn();
  /// The next complete frame.
  std::optional<Frame> take();
  /// What the other side failed with (kError), as soon as it came: it is not among the frames.
  const std::optional<Frame>& peer_error() const noexcept { return error_; }

 private:
  void receive();
  void flush();
  void close(Status why);

  os::UniqueFd fd_;
  std::optional<os::Handshake> handshake_;
  os::Handshake::State shaking_ = os::Handshake::State::kReading;
  os::Hello peer_;
  os::Deadline deadline_ = os::Deadline::never();
  std::uint64_t limit_ = kSmall;
  FrameCounters* counters_ = nullptr;
  Status closed_;
  std::vector<std::byte> in_;  // the frame that is coming
  std::deque<Frame> frames_;
  std::optional<Frame> error_;
  std::deque<std::vector<std::byte>> out_;
  std::size_t sent_ = 0;  // of the first in out_
};

}  // namespace hocket
