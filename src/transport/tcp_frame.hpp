// SPDX-License-Identifier: Apache-2.0
// tcp_frame.hpp: what travels on the streams of a tcp connection: frames of a header and a body, one after the other.
//
// A connection has up to kMostStreams streams. A put is cut into pieces, which go over all of them; a signal says how
// many frames of each stream were sent before it, and takes effect when so many have been received. So the order is
// that of sending, whatever the streams do. Little-endian, as memory is; the handshake notices other hosts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "hocket/status.hpp"
#include "transport/doorbell.hpp"
#include "transport/transport.hpp"

namespace hocket::tcp {

inline constexpr std::size_t kMostStreams = 8;
/// Puts are cut so, to keep all streams busy and a small message from waiting long behind a large one.
inline constexpr std::uint32_t kPieceBytes = 256 << 10;

enum class FrameKind : std::uint16_t {
  kPut = 1,       ///< body: bytes for `offset`
  kSignal = 2,    ///< body: a line for `offset`; then the bell at `place` is rung
  kGet = 3,       ///< no body: asks for `length` bytes at `offset`, under the number `place`
  kGot = 4,       ///< body: those, or with `length` 1 the reason why not, under the number `place`
  kStart = 5,     ///< no body: the connection counts from here on (transport/tcp.hpp)
  kCancelled = 6  ///< no body: stood for something that its sender took back
};

struct FrameHeader {
  std::uint16_t kind = 0;
  std::uint16_t cpu = 0;    ///< 1 + the CPU on which the sender ran; 0: not known
  std::uint32_t bytes = 0;  ///< of the body
  std::uint64_t offset = 0;
  std::uint64_t place = 0;
  std::uint64_t length = 0;
  std::array<std::uint32_t, kMostStreams> after{};  ///< signals: frames sent before on each stream, modulo 2^32
};
static_assert(sizeof(FrameHeader) == 64);

/// First words of a stream, from who connected, once both have proven to know the secret.
struct StreamHello {
  static constexpr std::uint32_t kMagic = 0x74637031;  // "tcp1"
  std::uint32_t magic = kMagic;
  std::uint16_t stream = 0;
  std::uint16_t streams = 0;
  ProcessToken from;
  ProcessToken to;
  std::uint64_t connection = 0;   ///< equal on all streams of one connection, random
  std::uint64_t arena_bytes = 0;  ///< of who connected
  std::int32_t pid = 0;           ///< of who connected; for texts
  std::uint32_t unused = 0;
  std::array<char, 32> host{};  ///< the same
};
static_assert(sizeof(StreamHello) == 96);

/// Whether what connected to `self` may be a stream of a peer's connection. Errors: kInvalidArgument. Pure.
Status check_hello(const StreamHello& hello, const ProcessToken& self);

/// `a` was reached by a counter that stands at `b`.
constexpr bool reached(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(b - a) >= 0;
}

}  // namespace hocket::tcp
