// SPDX-License-Identifier: Apache-2.0
// exec/block.hpp: what one rank of a communicator shows to its peers. Plain memory in its process's arena, zero at
// first.
//
//   BlockHeader            who I am, doorbell, error record, live state
//   CallRecord ring x 2    collectives and point-to-point calls: the call board and the flight recorder in one
//   MeetingPage            where survivors of a failure meet (core/shrink.cpp)
//   boards                 per board id: written by me, read by peers
//   closed                 per rank: it is done with this block
//   ErrorRecord            per rank: how the communicator ended, as that rank tells it
//   CreditLine, GrantLine  per (channel id, peer) that I send on: written by the receiver
//   DataLine               per (channel id, peer) that I receive on, S of them: written by the sender
//
// Sizes follow from values that are equal on all ranks, so everybody computes everybody's offsets and nothing is
// exchanged. Only pages that are used cost memory. All counters are 64-bit, only grow and have one writer.
//
// The slots of a channel are a range of their own (PortLayout) which the receiver takes when a plan first needs it, and
// announces in the sender's credit line: so a world of a hundred thousand ranks costs each of them the peers it uses.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hocket/types.hpp"
#include "transport/doorbell.hpp"

namespace hocket {

// Channel ids of a communicator: those of collectives' plans, then the board plans', then point-to-point.
inline constexpr int kMailboxIds = 8;
inline constexpr int kBoardIds = 1;
inline constexpr int kPointToPointId = kMailboxIds + kBoardIds;
inline constexpr int kChannelIds = kPointToPointId + 1;

inline constexpr std::size_t kInlineBytes = 48;    ///< payload that fits beside the counter
inline constexpr std::size_t kPacketPayload = 56;  ///< of one packet line
inline constexpr std::size_t kPacketLines = 64;    ///< of one packet slot
inline constexpr std::size_t kMaxPacketBytes = kInlineBytes + kPacketLines * kPacketPayload;

/// Lines that are on their way between cores lie so far apart: processors fetch them in pairs, and a neighbour that was
/// fetched along has to be taken back before it can be written. Side by side they took twice as long
/// (docs/design.md, "Memory and wires").
inline constexpr std::size_t kLineSpacing = 2 * kCacheLine;

/// Arrival of one transfer. One line, so that a small message costs one cache line between two cores.
struct alignas(kLineSpacing) DataLine {
  std::byte payload[kInlineBytes];   ///< first bytes (first line, packet), or a grant's two offsets
  std::uint64_t hash;                ///< of the call's descriptor
  std::atomic<std::uint64_t> count;  ///< transfers so far, this one included; release, pairs with HostLane::data_ready
};
static_assert(sizeof(DataLine) == kLineSpacing && offsetof(DataLine, count) + sizeof(std::uint64_t) == kCacheLine);

struct alignas(kLineSpacing) CreditLine {
  /// Where the receiver's slots are in its arena; 0: not there yet, and nothing may be sent. Written once (release),
  /// pairs with HostLane::credit_ready.
  std::atomic<std::uint64_t> port;
  std::uint64_t unused[6];
  std::atomic<std::uint64_t> count;  ///< transfers taken so far; release, pairs with HostLane::credit_ready
};
static_assert(sizeof(CreditLine) == kLineSpacing);

/// What a credit in advance grants: where in the receiver's arena the sender may write.
struct alignas(kCacheLine) GrantLine {
  std::uint64_t input_offset;
  std::uint64_t output_offset;
  std::uint64_t unused[4];
  std::uint64_t hash;
  std::atomic<std::uint64_t> count;  ///< the transfer that it is for, plus one
};
static_assert(sizeof(GrantLine) == kCacheLine);

/// 56 bytes and the flag that says they are there. Written in this order, read in the other.
struct alignas(kCacheLine) PacketLine {
  std::byte payload[kPacketPayload];
  std::atomic<std::uint32_t> flag;
  std::uint32_t unused;
};
static_assert(sizeof(PacketLine) == kCacheLine);

/// The flag of transfer q; never 0, which is what a wiped line holds.
constexpr std::uint32_t packet_flag(std::uint64_t q) {
  return static_cast<std::uint32_t>(q % 0xffffffffu) + 1;
}
/// Transfer q's slot will next hold q + slots: must its lines be wiped first, so that no stale flag can look fresh?
constexpr bool packet_wipe(std::uint64_t q, std::uint64_t slots) {
  return (q >> 31) != ((q + slots) >> 31);
}

/// How the communicator ended, as one rank tells another. A block has one for each rank that may write it, so nobody
/// has to claim it and a writer that dies in the middle harms no one. `published` is stored last (release), then
/// `errors` below.
struct alignas(kCacheLine) ErrorRecord {
  std::uint32_t code;
  std::int32_t lost_rank;  ///< the rank that is lost, or -1
  std::uint32_t family;    ///< not 0: communicators that were made of this one end, too
  char text[1004];
  std::atomic<std::uint64_t> published;
};
static_assert(sizeof(ErrorRecord) == 1024);

/// One call, in words of relaxed atomics: readable at any time, also from outside. Valid if `number` was the same
/// before and after reading and not 0.
struct alignas(kCacheLine) CallRecord {
  std::atomic<std::uint64_t> number;  ///< of the call, plus one; 0 while it is being written
  std::atomic<std::uint64_t> hash;
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t>
      what;  ///< collective, type, op, state, algorithm, protocol, lanes (bytes, from the lowest)
  std::atomic<std::uint64_t> root_tile;         ///< root (or peer) in the low half, tile bytes in the high half
  std::atomic<std::uint64_t> operator_name[2];  ///< the first letters of a user's operator
  std::atomic<std::uint64_t> unused;
};
static_assert(sizeof(CallRecord) == kCacheLine);

/// What a rank is doing, for peers that wait for it and for `hocket ps`.
struct alignas(kCacheLine) LiveState {
  std::atomic<std::uint64_t> entered;    ///< collective calls entered
  std::atomic<std::uint64_t> completed;  ///< collective calls ended
  std::atomic<std::uint64_t>
      waiting;  ///< kind (1 data, 2 credit, 3 other) << 56 | channel id << 40 | peer; 0: not waiting
  std::atomic<std::uint64_t> waiting_need;    ///< the counter value that would end it
  std::atomic<std::int64_t> waiting_since;    ///< monotonic ns
  std::atomic<std::int64_t> heartbeat;        ///< monotonic ns; a blocked rank renews it at least every half second
  std::atomic<std::uint64_t> point_to_point;  ///< send and receive calls entered
  std::atomic<std::uint64_t> point_to_point_completed;
};
static_assert(sizeof(LiveState) == kCacheLine);

/// Where survivors agree on who is left and exchange bytes. Each rank writes its own page only.
struct alignas(kCacheLine) MeetingPage {
  static constexpr std::size_t kBytes = 8192;
  static constexpr std::size_t kMaxRanks = 1024;
  std::atomic<std::uint64_t> round;          ///< proposals made so far
  std::atomic<std::uint64_t> exchange;       ///< exchanges written so far
  std::atomic<std::uint64_t> exchange_read;  ///< exchanges read from everybody so far
  std::atomic<std::uint64_t> exchange_bytes;
  std::atomic<std::uint64_t> excluded[kMaxRanks / 64];  ///< who I take for lost
  alignas(kCacheLine) std::byte bytes[kBytes];
};

struct alignas(kLineSpacing) BlockHeader {
  std::uint64_t magic;
  std::uint64_t bytes;  ///< of the block
  std::int32_t rank;
  std::int32_t size;
  std::int32_t pid;
  std::uint32_t slots;
  std::uint64_t slot_bytes;
  std::uint64_t records;
  std::uint64_t communicator;  ///< id, equal on its ranks
  char host_name[64];
  alignas(kLineSpacing) Doorbell doorbell;
  alignas(kLineSpacing) LiveState live;
  alignas(kLineSpacing) std::atomic<std::uint64_t> errors;  ///< not 0: some ErrorRecord was published
  /// Not 0: the rank is in a turn of a call that touches peers' buffers (Executor::turn); in release, pairs with
  /// CommunicatorState::await_peers_turns.
  alignas(kLineSpacing) std::atomic<std::uint32_t> turning;
  alignas(kLineSpacing) std::atomic<std::uint32_t> cpu;  ///< where the rank began its last call, plus one; 0: unknown
};
inline constexpr std::uint64_t kBlockMagic = 0x686f636b626c6b31;  // "hockblk1"

/// Where the parts of a block are. A pure function of its arguments.
struct BlockLayout {
  std::uint64_t size, slots, slot_bytes, records;
  std::uint64_t records_at, point_to_point_at, meeting_at, boards_at, lines_at, closed_at, errors_at, credits_at,
      grants_at, data_at, bytes;

  static constexpr std::uint64_t page(std::uint64_t n) { return (n + 4095) & ~std::uint64_t{4095}; }

  constexpr BlockLayout(std::uint64_t size_, std::uint64_t slots_, std::uint64_t slot_bytes_, std::uint64_t records_)
      : size(size_), slots(slots_), slot_bytes(slot_bytes_), records(records_) {
    const std::uint64_t ends = kChannelIds * size;
    records_at = page(sizeof(BlockHeader));
    point_to_point_at = page(records_at + records * sizeof(CallRecord));
    meeting_at = page(point_to_point_at + records * sizeof(CallRecord));
    boards_at = page(meeting_at + sizeof(MeetingPage));
    lines_at = page(boards_at + kBoardIds * slots * slot_bytes);
    // From here on, one part a rank.
    closed_at = lines_at;
    errors_at = page(closed_at + size * sizeof(std::uint64_t));
    credits_at = page(errors_at + size * sizeof(ErrorRecord));
    grants_at = page(credits_at + ends * sizeof(CreditLine));
    data_at = page(grants_at + ends * slots * sizeof(GrantLine));
    bytes = page(data_at + ends * slots * sizeof(DataLine));
  }

  constexpr std::uint64_t end_index(int channel, int peer) const {
    return static_cast<std::uint64_t>(channel) * size + static_cast<std::uint64_t>(peer);
  }
  /// std::atomic<std::uint64_t>, not 0: rank `from` is done with this block and will never touch it again.
  constexpr std::uint64_t closed(int from) const {
    return closed_at + static_cast<std::uint64_t>(from) * sizeof(std::uint64_t);
  }
  constexpr std::uint64_t error(int from) const {
    return errors_at + static_cast<std::uint64_t>(from) * sizeof(ErrorRecord);
  }
  constexpr std::uint64_t credit(int channel, int peer) const {
    return credits_at + end_index(channel, peer) * sizeof(CreditLine);
  }
  constexpr std::uint64_t grant(int channel, int peer) const {
    return grants_at + end_index(channel, peer) * slots * sizeof(GrantLine);
  }
  constexpr std::uint64_t data(int channel, int peer) const {
    return data_at + end_index(channel, peer) * slots * sizeof(DataLine);
  }
  constexpr std::uint64_t board(int board_id) const {
    return boards_at + static_cast<std::uint64_t>(board_id) * slots * slot_bytes;
  }
};

/// Where the S slots of one receiving channel end are, from its port on, and their packet lines.
struct PortLayout {
  std::uint64_t packets_at, slots_at, bytes;

  constexpr explicit PortLayout(const BlockLayout& block) : packets_at(0) {
    slots_at = BlockLayout::page(block.slots * kPacketLines * sizeof(PacketLine));
    bytes = slots_at + BlockLayout::page(block.slots * block.slot_bytes);
  }
};

}  // namespace hocket
