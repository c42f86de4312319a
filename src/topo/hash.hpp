// SPDX-License-Identifier: Apache-2.0
// topo/hash.hpp: a 64-bit digest that is the same on every machine and in every release of the standard library.
//
// Not cryptographic: it finds differing topologies and damaged bytes, not forged ones.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace hocket::topo {

/// FNV-1a over the bytes, then a finalizer so that every input bit reaches every output bit.
inline std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed = 0) {
  std::uint64_t h = 0xcbf29ce484222325u ^ seed;
  for (const char c : bytes) {
    h ^= static_cast<unsigned char>(c);
    h *= 0x100000001b3u;
  }
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdu;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53u;
  h ^= h >> 33;
  return h;
}

/// 128 bits that stand for a host's id wherever ranks compare hosts.
inline std::array<std::uint64_t, 2> hash_of_host(std::string_view host_id) {
  return {hash_bytes(host_id, 0), hash_bytes(host_id, 0x9e3779b97f4a7c15u)};
}

}  // namespace hocket::topo
