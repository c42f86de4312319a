// SPDX-License-Identifier: Apache-2.0
// protocol.hpp: how a transfer's bytes and its arrival travel together. A property of a call, not of its plan.
#pragma once

#include <cstdint>
#include <string_view>

namespace hocket {

enum class Protocol : std::uint8_t {
  kBulk,       ///< data into the slot, then the counter
  kFirstLine,  ///< the first 48 bytes in the counter's own cache line, the rest in the slot
  kPacket,     ///< likewise, the rest in lines that each carry their own flag
};
inline constexpr int kProtocolCount = 3;

/// "bulk", "first_line", "packet": as HOCKET_PROTO spells them.
constexpr std::string_view to_string(Protocol protocol) noexcept {
  switch (protocol) {
    case Protocol::kBulk: return "bulk";
    case Protocol::kFirstLine: return "first_line";
    case Protocol::kPacket: return "packet";
  }
  return "?";
}

}  // namespace hocket
