// SPDX-License-Identifier: Apache-2.0
// transport.hpp: the seam between plans and wires. Nothing in here knows of collectives.
//
// Each process has one arena (transport/arena.hpp): the memory that peers may reach. A transport connects two
// processes; the Endpoint is one of them as the other sees it. Where loads and stores reach the peer's arena, base()
// says where, and data moves without any further call. Where they do not, data moves by put() and signal(), which only
// write.
//
// All offsets count from the start of the peer's arena; both sides check what comes from outside against its size.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "hocket/status.hpp"

namespace hocket {

/// A number that no other process has, also not on other hosts: 128 random bits, made with the engine.
struct ProcessToken {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend auto operator<=>(const ProcessToken&, const ProcessToken&) = default;
};

/// How a process is reached; travels between ranks as plain bytes. Checked (terminated strings, sizes) by who receives
/// it.
struct ProcessAddress {
  std::uint64_t magic = 0;  ///< kAddressMagic
  ProcessToken token;
  std::uint64_t arena_bytes = 0;
  std::int32_t pid = 0;
  std::uint32_t uid = 0;
  std::uint64_t pid_start_ticks = 0;    ///< names the process for good, together with pid
  std::array<char, 64> host_id{};       ///< boot id or HOCKET_HOST_ID
  std::array<char, 64> host_name{};     ///< for messages only, never for decisions
  std::array<char, 64> socket_name{};   ///< abstract Unix socket of the engine's control thread
  std::array<char, 108> socket_path{};  ///< the same in the file system, for other network namespaces
};
inline constexpr std::uint64_t kAddressMagic = 0x686f636b65743031;  // "hocket01"

/// One peer process, reached by one transport. Made by the engine, shared by all communicators, lives as long as any
/// needs it.
///
/// base(), transport() and error(): any thread. put, signal, completed and progress: one thread at a time (the owner of
/// a proxy queue holds the endpoint's turn).
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  /// "local", "shm", "faulty(shm)" …
  virtual std::string_view transport() const noexcept = 0;

  /// The peer's arena in this process, for loads and stores; null where there is none. Fixed for the endpoint's life.
  virtual std::byte* base() const noexcept = 0;

  /// Write `bytes` from `source` to the peer's arena. May return before the source was read: until completed() has
  /// reached `ticket` the source must not change. Tickets of an endpoint grow. Errors: kPeerLost, kInvalidArgument
  /// (outside of the arena).
  virtual Status put(const std::byte* source, std::size_t bytes, std::uint64_t offset, std::uint64_t ticket) = 0;

  /// Write a line (8 to 64 bytes, a multiple of 8; offset likewise) whose last 8 bytes become visible after the rest of
  /// it and after all earlier puts to this peer (release), then ring the doorbell at `bell` in the peer's arena. The
  /// line is copied.
  virtual Status signal(std::span<const std::byte> line, std::uint64_t offset, std::uint64_t bell) = 0;

  /// All puts with tickets up to this have read their sources.
  virtual std::uint64_t completed() noexcept = 0;

  /// Nothing accepted is still under way on this side: puts are read and signals handed over.
  virtual bool idle() const noexcept = 0;

  /// Move what is under way. Called often by whoever waits. Errors: kPeerLost with the cause.
  virtual Status progress() = 0;

  /// Why the peer can no longer be reached; ok as long as nothing is known.
  virtual Status error() const = 0;
};

}  // namespace hocket
