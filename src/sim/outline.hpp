// SPDX-License-Identifier: Apache-2.0
// sim/outline.hpp: what of a plan decides how it behaves in time: its structure, whom it talks to, where bytes go.
//
// Two ranks with equal structure do the same steps with their respective peers, which are numbered by first use. Chunk
// numbers are left out: chunks differ by 16 bytes at most. Peers of Waits that follow each other, of Signals likewise,
// and of one Move are in one phase: their order (a tree's left and right child) makes no difference. Pure. Next stop:
// sim/fold.hpp.
#pragma once

#include <compare>
#include <cstdint>
#include <tuple>
#include <vector>

#include "algorithms/plan.hpp"
#include "sim/fold.hpp"

namespace hocket::sim {

struct OutlineEnd {
  std::uint16_t channel = 0;
  bool outgoing = false;
  std::int32_t peer = 0;
  std::int32_t phase = 0;  ///< of its first use; no part of what it is
  friend auto operator<=>(const OutlineEnd& a, const OutlineEnd& b) {
    return std::tie(a.channel, a.outgoing, a.peer) <=> std::tie(b.channel, b.outgoing, b.peer);
  }
  friend bool operator==(const OutlineEnd& a, const OutlineEnd& b) { return (a <=> b) == 0; }
};
struct OutlineStream {
  std::int32_t peer = 0;
  StreamKind kind = StreamKind::kPush;
  std::int32_t phase = 0;  ///< likewise
  friend auto operator<=>(const OutlineStream& a, const OutlineStream& b) {
    return std::tie(a.peer, a.kind) <=> std::tie(b.peer, b.kind);
  }
};

struct Outline {
  std::uint64_t structure = 0;
  std::vector<OutlineEnd> ends;        ///< by first use
  std::vector<OutlineStream> streams;  ///< by first use
};

Outline outline_of(const Plan& plan);

/// Lanes that never talk to each other, in any rank's plan: a double tree's halves. Components are told by the channels
/// that lanes use; a plan keeps the lanes of one.
class Components {
 public:
  void add(const Plan& plan);
  int count() const;
  /// Lanes without channels belong to the first one.
  void keep(Plan& plan, int component) const;

 private:
  std::vector<std::uint16_t> channels_of(const Plan& plan, const LaneProgram& lane) const;
  int find(int channel) const;
  int number_of(const Plan& plan, const LaneProgram& lane) const;

  std::vector<int> up_;  // [channel]: union-find
};

/// The outlines of all labels, component after component, and which end sees which.
struct Outlines {
  Components components;
  std::vector<std::uint64_t> structure;  // [label]
  std::vector<std::uint32_t> end_first;  // [label + 1]
  std::vector<OutlineEnd> ends;
  std::vector<std::int32_t> opposite;       // [ends]: place in the peer's list
  std::vector<std::uint32_t> stream_first;  // [label + 1]
  std::vector<OutlineStream> streams;

  /// kUnsupported for more ends than memory is worth; kInternal if plans do not fit each other.
  static Result<Outlines> of(const PlanFamily& family, bool engine);

 private:
  Status pair(std::size_t labels);
};

/// Mixes `value` into a hash.
constexpr std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t x = hash * 0x9e3779b97f4a7c15 + value + 0x632be59bd9b4e019;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace hocket::sim
