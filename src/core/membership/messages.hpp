// SPDX-License-Identifier: Apache-2.0
// membership/messages.hpp: what ranks tell each other while they become a communicator, besides who they are (Member,
// in core/communicator_state.hpp).
//
// Trivially copyable, and of one build: ranks compare versions in the first exchange.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/observe.hpp"
#include "topo/domains.hpp"

namespace hocket::membership {

/// When a rank made this exchange and had ended the one before, on its clock.
struct ExchangeTimes {
  std::int64_t began_ns = 0;
  std::int64_t ended_before_ns = 0;
};

/// What exchanges that follow each other tell of rank 0's clock.
class ExchangeClock {
 public:
  ExchangeTimes begin() {
    began_before_ns_ = mine_.began_ns;
    mine_.began_ns = os::now_ns();
    return mine_;
  }
  /// With what rank 0 sent in it, if that had its times.
  void end(const ExchangeTimes* theirs) {
    mine_.ended_before_ns = os::now_ns();
    if (theirs == nullptr) return;
    bounds_.they_began(theirs->began_ns, mine_.ended_before_ns);
    bounds_.they_ended(theirs->ended_before_ns, began_before_ns_);
  }
  const ClockBounds& bounds() const { return bounds_; }

 private:
  ExchangeTimes mine_;
  std::int64_t began_before_ns_ = 0;
  ClockBounds bounds_;
};

struct PlaceCard {
  topo::Place place;
  ExchangeTimes times;
  std::int32_t gpu = -1;   ///< node in the host's graph
  std::uint32_t code = 0;  ///< not 0: the GPU that this rank was told is not there
};

struct Outcome {
  std::uint32_t code = 0;
  std::uint32_t direct = 0;       ///< the memory of all whom I reached can be loaded and stored
  std::uint64_t cache_bytes = 0;  ///< leaders: the host's last-level cache
  double hop_seconds = 0;         ///< leaders: cost of a message between two ranks of the host, from its graph
  double bytes_per_second = 0;
  double net_hop_seconds = 0;  ///< leaders: cost of a message to another host
  double net_bytes_per_second = 0;
  std::uint64_t graph_offset = 0;  ///< leaders: the host's graph as bytes in my arena
  std::uint64_t graph_bytes = 0;
  std::uint64_t id = 0;  ///< rank 0's becomes the communicator's
  // CPUs that my process may use: enough to tell a host with fewer of them than ranks.
  float quota = 0;             ///< CPUs by a cgroup; 0: no limit
  std::uint32_t cpu_mask = 0;  ///< hash
  std::uint16_t cpu_count = 0, cpu_first = 0, cpu_last = 0;
  std::uint16_t membarrier = 0;  ///< my process can make sleepers' bells seen (exec/waiter.hpp)
  ExchangeTimes times;
};

/// What an error needs. Exchanged only when some rank has one: every rank sees from the round before whether that is
/// so.
struct Words {
  char settings[768] = {};  ///< those that must agree
  char text[512] = {};      ///< what went wrong on this rank
};

template <std::size_t N>
void put_text(char (&to)[N], std::string_view text) {
  const std::size_t n = std::min(text.size(), N - 1);
  std::copy_n(text.data(), n, to);
  to[n] = '\0';
}
template <std::size_t N>
std::string_view get_text(const char (&from)[N]) {
  return {from, ::strnlen(from, N)};
}
template <std::size_t N>
std::string_view get_text(const std::array<char, N>& from) {
  return {from.data(), ::strnlen(from.data(), N)};
}

}  // namespace hocket::membership
