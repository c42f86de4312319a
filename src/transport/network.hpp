// SPDX-License-Identifier: Apache-2.0
// network.hpp: how a process is reached from other hosts. Travels between ranks inside of a ProcessAddress.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hocket {

/// Plain bytes; small, as every rank gets every other's. Numbers in the byte order of the host: ranks of one world have
/// the same one (the handshake of each transport notices where not).
struct NetworkAddresses {
  static constexpr std::size_t kMost = 3;
  using Ip = std::array<std::uint8_t, 16>;    ///< IPv6, or IPv4 as ::ffff:a.b.c.d
  std::array<Ip, kMost> ips{};                ///< best first; all zero: none
  std::array<std::uint32_t, kMost> scopes{};  ///< interface index, on the owner's host, of a link-local address; else 0
  std::uint16_t port = 0;                     ///< of all of them; 0: nobody listens
  std::uint16_t unused = 0;
  std::uint64_t identity = 0;  ///< os::network_identity(): equal where one's loopback is the other's
  /// Who connects proves that it knows this, before anything else of what it says is read. Ranks tell it to each other
  /// over their authenticated start-up only.
  std::array<std::uint8_t, 16> secret{};
};
static_assert(sizeof(NetworkAddresses) == 88);

}  // namespace hocket
