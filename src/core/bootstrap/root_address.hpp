// SPDX-License-Identifier: Apache-2.0
// root_address.hpp: what the 128 bytes of a UniqueId are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/os/net_address.hpp"
#include "base/secret.hpp"
#include "hocket/unique_id.hpp"

namespace hocket {

/// As it lies in a UniqueId; little-endian.
struct RootAddress {
  static constexpr std::uint32_t kMagic = 0x31496b68;  ///< "hkI1": changes when the layout does
  static constexpr int kMaxAddresses = 4;

  std::uint32_t magic = kMagic;
  std::uint16_t port = 0;
  std::uint8_t address_count = 0;
  std::uint8_t reserved = 0;
  std::uint64_t network = 0;  ///< os::network_identity() of the root
  std::array<std::byte, Secret::kBytes> secret{};
  std::array<std::array<std::uint8_t, 16>, kMaxAddresses> addresses{};  ///< best first
  std::uint64_t unused = 0;
  std::uint64_t checksum = 0;  ///< of all before it: finds what was cut or typed wrongly

  /// Errors: kInvalidArgument: it is no id, or one of another version.
  static Result<RootAddress> of(const UniqueId& id);
  UniqueId to_id() const;

  std::vector<os::NetAddress> net_addresses() const;
};
static_assert(sizeof(RootAddress) == sizeof(UniqueId));

}  // namespace hocket
