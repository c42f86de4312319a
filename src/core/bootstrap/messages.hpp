// SPDX-License-Identifier: Apache-2.0
// messages.hpp: what roots, leaders and members tell each other in frames, and how they word it.
//
// All fields are checked before use: a peer that knows the secret may still be of another build.
#pragma once

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/os/net_address.hpp"
#include "core/bootstrap/frames.hpp"
#include "hocket/types.hpp"

namespace hocket {

/// Purposes of handshakes.
inline constexpr std::uint32_t kToRoot = 1;
inline constexpr std::uint32_t kToLeader = 2;
inline constexpr std::uint32_t kBetweenLeaders = 3;

/// Most ranks that can meet.
inline constexpr int kMostRanks = 1 << 20;

/// A leader as others reach it.
struct LeaderCard {
  static constexpr std::size_t kMaxAddresses = 8;

  std::uint64_t token = 0;    ///< as in its hellos
  std::uint64_t network = 0;  ///< os::network_identity()
  std::uint16_t port = 0;
  std::uint16_t address_count = 0;
  std::int32_t rank = 0;  ///< one of the host's, for texts
  std::array<std::array<std::uint8_t, 16>, kMaxAddresses> addresses{};
  std::array<char, 64> host{};

  bool valid() const noexcept { return address_count <= kMaxAddresses && port != 0 && host.back() == '\0'; }
  std::vector<os::NetAddress> net_addresses() const {
    std::vector<os::NetAddress> all;
    for (std::size_t i = 0; i < address_count && i < kMaxAddresses; ++i)
      all.push_back({.bytes = addresses[i], .scope = 0, .port = port, .reserved = 0});
    return all;
  }
  /// "host b (rank 4)".
  std::string name() const;
};
static_assert(sizeof(LeaderCard) == 216);

struct RankEntry {
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint32_t pid = 0;
  std::uint32_t reserved = 0;
};

/// Of a rank of this process.
RankEntry entry_of(Rank rank, int size);

struct WelcomeHead {
  std::uint32_t hosts = 0;
  std::uint32_t index = 0;   ///< of the host that is told
  std::uint32_t rounds = 0;  ///< so many cards of hosts to send to follow, then as many of hosts to hear from
  std::uint32_t reserved = 0;
};

struct BlockHead {
  std::uint32_t host = 0;
  std::uint32_t reserved = 0;
  std::uint64_t bytes = 0;
};

/// Rounds of an all-gather among `hosts`: ceil(log2).
constexpr std::uint32_t rounds_of(std::uint32_t hosts) noexcept {
  std::uint32_t rounds = 0;
  while ((std::uint64_t{1} << rounds) < hosts) ++rounds;
  return rounds;
}

/// Reads values from bytes, one after the other.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <class T>
  bool read(T& value) {
    if (rest_.size() < sizeof value) return false;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return true;
  }
  bool read(std::uint64_t count, std::span<const std::byte>& bytes) {
    if (rest_.size() < count) return false;
    bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return true;
  }
  std::size_t left() const noexcept { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
};

template <class T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// "ranks 0-2, 5", "rank 3"; at most 16 stretches, then how many more. `ranks` is sorted.
std::string name_ranks(std::span<const Rank> ranks);

/// Sends them (kJoin), as many in a frame as fit.
void send_joins(FrameStream& to, std::span<const RankEntry> entries);

/// "rank 3 exchanges 8 bytes and rank 5 4: all must be equal".
Status unequal_parts(Rank a, std::uint64_t bytes_a, Rank b, std::uint64_t bytes_b);

/// The error that a frame of kind kError carries.
Status status_of(const Frame& frame);

}  // namespace hocket
