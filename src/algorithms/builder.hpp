// SPDX-License-Identifier: Apache-2.0
// builder.hpp: the vocabulary in which algorithms are written. Helpers carry the field's names, so that an algorithm
// file reads like the paper it cites; each one expands to Wait, Move and Signal and nothing else.
//
//   send(ch, to, e, src)              Wait credit(free); Move(src -> slot at to); Signal data
//   recv(ch, from, e, dst…)           Wait data; Move(slot -> dst…); Signal credit
//   recv_reduce(…, with, dst)         the same with sources slot and `with`
//   recv_send, recv_copy_send, recv_reduce_send, recv_reduce_copy_send      both at once, in one Move
//
// Sources are reduced in the order listed. A builder is used by one thread; finish() gives the plan.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "algorithms/plan.hpp"

namespace hocket {

/// A number that does not depend on loops.
constexpr Index constant(std::int32_t value) {
  return {.base = value};
}
/// (base + step * i) mod n: a walk around a ring of n in the repeat variable i.
constexpr Index around(std::int32_t base, std::int32_t step, std::int32_t n) {
  return {.base = base, .s0 = step, .mod = n};
}

using CutId = std::uint8_t;

/// One end of a data path: the channel id and who is at the other end.
struct Link {
  std::uint16_t channel = 0;
  PeerIndex peer;
};
constexpr Link link(int channel, std::int32_t peer) {
  return {static_cast<std::uint16_t>(channel), {constant(peer), 0}};
}
constexpr Link link(int channel, Index peer) {
  return {static_cast<std::uint16_t>(channel), {peer, 0}};
}

/// Move flags.
enum class Finish : std::uint8_t { kNo = 0, kYes = 1 };

class PlanBuilder {
 public:
  /// `root` is -1 where the collective has none.
  PlanBuilder(Collective collective, std::string_view algorithm, int world, Rank rank, Rank root = -1);

  CutId cut(CutKind kind, int chunks);
  /// A list of ranks that peers may index; the id for PeerIndex::group.
  std::uint32_t group(std::span<const std::int32_t> ranks);
  /// Slots hold `pieces` tiles; scratch has `entries` tiles.
  void pieces(int pieces);
  void work(int entries);

  /// Steps added by `body` form a lane over part `part` of `parts` of every chunk.
  void lane(int part, int parts, const std::function<void()>& body);

  // Extents.
  Extent chunk(CutId cut, Index index) const { return {ExtentKind::kChunk, cut, index}; }
  Extent longest(CutId cut) const { return {ExtentKind::kLongest, cut, {}}; }
  Extent always() const { return {}; }

  // Spans.
  SpanRef input(CutId cut, Index index) const { return {SpanKind::kInput, cut, 0, index, {}}; }
  SpanRef output(CutId cut, Index index) const { return {SpanKind::kOutput, cut, 0, index, {}}; }
  SpanRef peer_input(CutId cut, Index index, Link from) const {
    return {SpanKind::kPeerInput, cut, from.channel, index, from.peer};
  }
  SpanRef peer_output(CutId cut, Index index, Link to) const {
    return {SpanKind::kPeerOutput, cut, to.channel, index, to.peer};
  }
  SpanRef work_entry(Index index) const { return {SpanKind::kWork, 0, 0, index, {}}; }
  SpanRef slot_of(Link from, Index piece = {}) const { return {SpanKind::kSlotIn, 0, from.channel, piece, from.peer}; }
  SpanRef slot_at(Link to, Index piece = {}) const { return {SpanKind::kSlotOut, 0, to.channel, piece, to.peer}; }
  SpanRef board(Link any_reader, Index piece = {}) const {
    return {SpanKind::kBoardOut, 0, any_reader.channel, piece, any_reader.peer};
  }
  SpanRef board_of(Link from, Index piece = {}) const {
    return {SpanKind::kBoardIn, 0, from.channel, piece, from.peer};
  }

  // Loops.
  void repeat(int variable, int count, const std::function<void()>& body);  ///< variable 0 = i, 1 = j
  void repeat(int count, const std::function<void()>& body) { repeat(0, count, body); }
  void rounds(std::initializer_list<Extent> extents, const std::function<void()>& body);
  void rounds_by_k(std::initializer_list<Extent> extents, const std::function<void()>& body);
  void tiles(const std::function<void()>& body);

  // Steps.
  void wait_data(Link from, Extent extent, int bound = 1);
  void wait_credit(Link to, Extent extent, int bound = kBoundFree);
  void signal_data(Link to, Extent extent, GrantKind grant = kNoGrant);
  void signal_credit(Link from, Extent extent, GrantKind grant = kNoGrant);
  void move(Extent extent, std::span<const SpanRef> sources, std::span<const SpanRef> destinations,
            Finish finish = Finish::kNo);
  void move(Extent extent, std::initializer_list<SpanRef> sources, std::initializer_list<SpanRef> destinations,
            Finish finish = Finish::kNo);

  // Mailbox transfers.
  void send(Link to, Extent extent, SpanRef source, Finish finish = Finish::kNo);
  void recv(Link from, Extent extent, std::initializer_list<SpanRef> destinations, Finish finish = Finish::kNo);
  void recv_reduce(Link from, Extent extent, SpanRef with, SpanRef destination, Finish finish = Finish::kNo);
  void recv_send(Link from, Link to, Extent extent);
  void recv_copy_send(Link from, Link to, Extent extent, SpanRef destination);
  void recv_reduce_send(Link from, Link to, Extent extent, SpanRef with);
  void recv_reduce_copy_send(Link from, Link to, Extent extent, SpanRef with, SpanRef destination,
                             Finish finish = Finish::kNo);

  Plan finish();

 private:
  void loop(Step step, const std::function<void()>& body);
  Step& add(StepOp op, Extent extent);
  void note(Link link);

  Plan plan_;
  std::uint32_t lane_first_ = 0;
};

}  // namespace hocket
