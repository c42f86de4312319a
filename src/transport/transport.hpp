// SPDX-License-Identifier: Apache-2.0
// transport.hpp: the seam between plans and wires. Nothing in here knows of collectives.
//
// Each process has one arena (transport/arena.hpp): the memory that peers may reach. A transport connects two
// processes; the Endpoint is one of them as the other sees it. Where loads and stores reach the peer's arena, base()
// says where, and data moves without any further call. Where they do not, data moves by put() and signal(), which only
// write; a transport that can only send and receive learns by expect() where the data that comes will land.
//
// All offsets count from the start of an arena; both sides check what comes from outside against its size.
// docs/writing-a-transport.md tells how to add a transport.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/os/abort.hpp"
#include "hocket/status.hpp"
#include "transport/network.hpp"

namespace hocket {

/// A number that no other process has, also not on other hosts: 128 random bits, made with the engine.
struct ProcessToken {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend auto operator<=>(const ProcessToken&, const ProcessToken&) = default;
};

/// How a process is reached; travels between ranks as plain bytes, so it is short: worlds of a hundred thousand ranks
/// hold one for each. Checked (check_address) by who receives it.
struct ProcessAddress {
  std::uint32_t magic = 0;  ///< kAddressMagic
  std::uint32_t uid = 0;
  ProcessToken token;
  std::array<std::uint64_t, 2> host{};  ///< 128-bit hash of the boot id or HOCKET_HOST_ID
  std::uint64_t arena_bytes = 0;
  std::uint64_t pid_start_ticks = 0;  ///< names the process for good, together with pid
  std::uint64_t socket_directory =
      0;  ///< names the directory of its socket file, 0: it has none (core/control/meeting_socket.cpp)
  std::int32_t pid = 0;
  std::uint32_t network_namespace = 0;  ///< processes in the same one meet at an abstract socket
  std::array<char, 32> host_name{};     ///< for messages only, never for decisions
  NetworkAddresses network;  ///< where transports between hosts connect to, and what they have to know for it
};
inline constexpr std::uint32_t kAddressMagic = 0x686f6b32;  // "hok2"

/// Names one direction of one channel between two processes; both derive the same number (exec/channel_key.hpp). What
/// is posted under one key keeps its order, what is posted under different keys need not.
enum class ChannelKey : std::uint64_t {};

/// Bytes for the peer's arena.
struct Put {
  ChannelKey channel{};
  const std::byte* source = nullptr;
  std::size_t bytes = 0;
  std::uint64_t offset = 0;     ///< where they go
  std::uint64_t landing = 0;    ///< start of the landing (see expect()) in which that lies; at most `offset`
  const void* owner = nullptr;  ///< for cancel()
};

/// A line for the peer's arena whose last word says that something is there, and whom to wake for it.
struct Signal {
  ChannelKey channel{};
  std::span<const std::byte> line;  ///< 8 to 64 bytes, a multiple of 8
  std::uint64_t offset = 0;         ///< where it goes, a multiple of 8
  std::uint64_t bell = 0;           ///< Doorbell in the peer's arena
  const void* owner = nullptr;      ///< for cancel()
  /// Comes after all that was accepted before it, whatever the key: who reads it may free what others' writes went to.
  bool after_all = false;
};

/// One peer process, reached by one transport. Made by the engine, shared by all communicators, lives as long as any
/// needs it. Any thread may call anything at any time; what one thread posts under one key is taken in that order.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  /// "local", "shm", "tcp", "faulty(shm)" …
  virtual std::string_view transport() const noexcept = 0;

  /// The peer's arena in this process, for loads and stores; null where there is none. Fixed for the endpoint's life.
  virtual std::byte* base() const noexcept = 0;

  /// Accepts a put and returns its ticket. The source may be read later: until completed() has reached the ticket it
  /// must not change. Errors: kPeerLost, kInvalidArgument (outside of the arena; nothing was accepted then).
  virtual Result<std::uint64_t> put(const Put& put) = 0;

  /// Accepts a signal and returns its ticket. The last 8 bytes of the line become visible (release) after the rest of
  /// it and after all earlier puts and signals with this key, or with any (after_all); then the doorbell is rung. The
  /// line is copied before this returns. Errors: as put().
  virtual Result<std::uint64_t> signal(const Signal& signal) = 0;

  /// All puts and signals with tickets up to this one have left: sources were read, and nothing here has to be driven
  /// for them any more. Tickets grow by the order of acceptance. They say nothing about arrival.
  virtual std::uint64_t completed() noexcept = 0;

  /// All that was accepted has left.
  virtual bool idle() const noexcept = 0;

  /// Moves what is under way, out and in. Called often by whoever waits. One thread drives for all: a call that finds
  /// another one at it returns at once. Errors: kPeerLost with the cause.
  virtual Status progress() = 0;

  /// Why the peer can no longer be reached; ok as long as nothing is known.
  virtual Status error() const = 0;

  /// From watch() to unwatch() some thread sleeps until a signal from this peer rings a doorbell here, and nobody may
  /// be calling progress(). Calls nest.
  virtual void watch() noexcept {}
  virtual void unwatch() noexcept {}
  /// False: at the moment something moves in calls of progress() only, so sleeps must be short.
  virtual bool moves_alone() const noexcept { return true; }

  /// On which CPU the peer was when it last sent something, if it is on this host and that is known; else -1.
  virtual int peer_cpu() const noexcept { return -1; }

  /// When this returns no source of this owner's puts is read any more, because they may go away: its call has failed.
  /// What had not left is taken back, and the owner's later signals with it; what the peer gets in its place is
  /// undefined, within the places that were named.
  virtual void cancel(const void* owner) noexcept { (void)owner; }

  /// What comes from the peer on `channel` may land at `offset` of this process's arena from now on, up to `bytes` of
  /// it, once. Called in the order of the channel's transfers and before the peer can learn that it may send (its
  /// credit); but the first landings of a channel, which need no credit, may be told after the peer has sent.
  /// A landing that was told and is still unused is not told twice. One-sided transports need not know.
  virtual Status expect(ChannelKey channel, std::uint64_t offset, std::uint64_t bytes) {
    (void)channel, (void)offset, (void)bytes;
    return {};
  }

  /// Reads from the peer's arena: for the control plane (call boards, live state, meetings), not for data. Words of 8
  /// bytes are read whole, in no order between each other. Waits for the peer's process, not for its ranks: they need
  /// not be in a call. At most kMostGetBytes. Errors: kPeerLost, kTimeout, kAborted, kInvalidArgument (here or there).
  virtual Status get(std::uint64_t offset, std::span<std::byte> to, const os::WaitLimits& limits) = 0;
  static constexpr std::size_t kMostGetBytes = std::size_t{1} << 16;
};

}  // namespace hocket
