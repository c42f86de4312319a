// SPDX-License-Identifier: Apache-2.0
// exec/device_channels.hpp: what a device lane needs besides the plan, as plain structs of pointers in device memory.
//
// The lines, slots and packets are those of exec/block.hpp, at the same offsets, in device memory. In bulk and first
// line a host lane could be the partner; packets differ: words of 4 bytes of data and 4 bytes of flag,
// kDevicePacketBytes a slot. Next stop: exec/device_lane.hpp, the policy that uses them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "algorithms/bind.hpp"
#include "algorithms/plan.hpp"
#include "algorithms/protocol.hpp"
#include "base/host_device.hpp"
#include "exec/block.hpp"

namespace hocket {

/// One packet: data in the low half, packet_flag of its transfer in the high half.
inline constexpr std::uint64_t kPacketDataBytes = 4;
inline constexpr std::uint64_t kDevicePacketWords = kPacketLines * sizeof(PacketLine) / sizeof(std::uint64_t);
/// The most that one transfer of the packet protocol carries, all pieces together.
inline constexpr std::uint64_t kDevicePacketBytes = kDevicePacketWords * kPacketDataBytes;

/// Both directions between one lane of mine and one of a peer. Pointers are good on the device that runs the lane; the
/// cursors stay here from kernel to kernel, so a captured launch can be replayed. One lane at a time, its first thread
/// writes.
struct DeviceChannel {
  // me -> peer
  std::uint64_t sent = 0;
  std::uint64_t credit_seen = 0;
  std::uint64_t filled = 0;        ///< the transfer, plus one, whose data went in packets
  std::byte* data_out = nullptr;   ///< S DataLines at the peer
  std::byte* slots_out = nullptr;  ///< S slots at the peer
  std::uint64_t* packets_out = nullptr;
  const std::byte* credit_in = nullptr;  ///< CreditLine, mine
  const std::byte* grants_in = nullptr;  ///< S GrantLines, mine
  // peer -> me
  std::uint64_t received = 0;
  const std::byte* data_in = nullptr;  ///< S DataLines, mine
  const std::byte* slots_in = nullptr;
  std::uint64_t* packets_in = nullptr;
  std::byte* credit_out = nullptr;  ///< CreditLine at the peer
  std::byte* grants_out = nullptr;
  const std::byte* board_in = nullptr;  ///< the peer's board
  std::byte* arena = nullptr;           ///< what the offsets in the peer's grants count from
};

/// Why a lane stopped, for the host to read after the kernel. All zero: it is done.
struct DeviceFault {
  enum Kind : std::uint32_t { kNone = 0, kMismatch = 1, kAborted = 2, kUnsupported = 3 };
  std::uint32_t kind = kNone;
  std::int32_t peer = -1;
  std::uint32_t channel = 0;
  std::uint32_t waiting_op = 0;  ///< StepOp that it waited in
  std::uint64_t their_hash = 0;
};

/// What lanes on a device reduce with: every type, and the operations from sum to average. Premultiplied sums and
/// users' operators are the host's: such a call ends at once with DeviceFault::kUnsupported.
inline constexpr int kDeviceOpCount = 5;
HOCKET_HD constexpr bool device_can(ReduceOp op) {
  return static_cast<int>(op) < kDeviceOpCount;
}

/// One rank's call: the argument of the kernel, in device memory. Fixed while it runs.
struct DeviceCall {
  PlanView plan;
  const std::byte* flat = nullptr;  ///< the flattened plan that `plan` looks into, and its size; null: do not stage it
  std::uint64_t flat_bytes = 0;
  Shape shape;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* work = nullptr;
  std::byte* board = nullptr;
  DeviceChannel* channels = nullptr;      ///< [id * world + peer]
  DeviceFault* faults = nullptr;          ///< one a lane
  const std::uint64_t* errors = nullptr;  ///< not 0: the communicator ended
  std::uint64_t slot_bytes = 0;
  std::uint64_t hash = 0;  ///< of the descriptor
  std::uint64_t input_offset = 0;
  std::uint64_t output_offset = 0;
  std::int32_t world = 1;
  std::uint32_t element_bytes = 4;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t channel_base = 0;
  Protocol protocol = Protocol::kBulk;
};
static_assert(std::is_trivially_copyable_v<DeviceCall> && std::is_trivially_copyable_v<DeviceChannel>);

/// The same tables after their bytes were copied from `from` to `to`.
HOCKET_HD inline PlanView moved(const PlanView& plan, const std::byte* from, const std::byte* to) {
  PlanView at = plan;
  const auto move = [&](const auto*& table) {
    table = reinterpret_cast<std::remove_reference_t<decltype(table)>>(
        to + (reinterpret_cast<const std::byte*>(table) - from));
  };
  move(at.header);
  move(at.lanes);
  move(at.steps);
  move(at.spans);
  move(at.extents);
  move(at.cuts);
  move(at.groups);
  move(at.group_ranks);
  return at;
}

/// Devices have the slots of all ends behind the block, one port each in the order of the ends.
constexpr std::uint64_t device_port(const BlockLayout& layout, int id, int peer) {
  return layout.bytes + layout.end_index(id, peer) * PortLayout(layout).bytes;
}
constexpr std::uint64_t device_block_bytes(const BlockLayout& layout) {
  return layout.bytes + kChannelIds * layout.size * PortLayout(layout).bytes;
}

/// All channel ends of a rank, in the order that DeviceCall::channels has. `blocks` and `arenas` have one entry a rank,
/// as the device of `rank` sees them; blocks have device_block_bytes() each, are laid out alike and zero but for
/// `first_transfer`, which only tests of wrap-around set: credit lines then hold it too.
inline std::vector<DeviceChannel> device_channels(const BlockLayout& layout, int rank,
                                                  std::span<std::byte* const> blocks,
                                                  std::span<std::byte* const> arenas,
                                                  std::uint64_t first_transfer = 0) {
  std::vector<DeviceChannel> ends(kChannelIds * blocks.size());
  std::byte* const mine = blocks[static_cast<std::size_t>(rank)];
  const PortLayout port(layout);
  for (int id = 0; id < kChannelIds; ++id) {
    for (int peer = 0; peer < static_cast<int>(blocks.size()); ++peer) {
      DeviceChannel& end = ends[layout.end_index(id, peer)];
      std::byte* const theirs = blocks[static_cast<std::size_t>(peer)];
      end.sent = end.received = end.credit_seen = first_transfer;
      end.data_out = theirs + layout.data(id, rank);
      end.slots_out = theirs + device_port(layout, id, rank) + port.slots_at;
      end.packets_out = reinterpret_cast<std::uint64_t*>(theirs + device_port(layout, id, rank) + port.packets_at);
      end.credit_in = mine + layout.credit(id, peer);
      end.grants_in = mine + layout.grant(id, peer);
      end.data_in = mine + layout.data(id, peer);
      end.slots_in = mine + device_port(layout, id, peer) + port.slots_at;
      end.packets_in = reinterpret_cast<std::uint64_t*>(mine + device_port(layout, id, peer) + port.packets_at);
      end.credit_out = theirs + layout.credit(id, rank);
      end.grants_out = theirs + layout.grant(id, rank);
      end.board_in = theirs + layout.board(0);
      end.arena = arenas.empty() ? nullptr : arenas[static_cast<std::size_t>(peer)];
    }
  }
  return ends;
}

}  // namespace hocket
