// SPDX-License-Identifier: Apache-2.0
// exec/device_lane.hpp: the step machine's policy for a thread block. Also runs on host threads, which is how it is
// tested.
//
// Every thread of the block runs the same lane with the same control flow. The first thread polls, keeps the cursors
// and signals; what it found is agreed on by a block barrier; Moves are spread over the threads by element. Barriers:
// one a Wait, one a Signal, two a Move (its places are known; its bytes are written). So a Signal always comes after a
// barrier that covers all threads' writes, and the first thread's release store makes them visible to the peer.
//
// Protocols:
//   bulk        data into the slot, then the counter in the transfer's line
//   first line  the first 48 bytes travel in that line, the rest in the slot
//   packet      8-byte words of 4 bytes of data and the transfer's flag; the counter is a hint without a fence
// In packet the counter of a slotted transfer orders nothing, so the flags must: a word's value depends on all that its
// element was made from, and plans in this protocol hand over nothing but slots (qualifies_for_packets), element by
// element. Credits, order-only channels and self channels keep real counters.
// Next stop: exec/cuda_lane.cu, the kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/device_channels.hpp"
#include "exec/device_moves.hpp"
#include "exec/memory_order.hpp"
#include "exec/step_machine.hpp"

namespace hocket {

/// A block: the threads that share a lane. index(), count(), sync(): a barrier; any(flag): a barrier that tells all
/// threads whether any of them had it set; kPolls: looks at a counter or flag before the rest of the machine gets a
/// turn.
struct OneThread {
  static constexpr int kPolls = 1;
  HOCKET_HD std::uint32_t index() const { return 0; }
  HOCKET_HD std::uint32_t count() const { return 1; }
  HOCKET_HD void sync() {}
  HOCKET_HD bool any(bool flag) { return flag; }
};

namespace device_detail {

HOCKET_HD inline std::uint64_t* word_at(std::byte* line, std::size_t offset) {
  return reinterpret_cast<std::uint64_t*>(line + offset);
}
HOCKET_HD inline const std::uint64_t* word_at(const std::byte* line, std::size_t offset) {
  return reinterpret_cast<const std::uint64_t*>(line + offset);
}

// As in exec/block.hpp, where they are for the host alone.
HOCKET_HD constexpr std::uint32_t flag_of(std::uint64_t q) {
  return static_cast<std::uint32_t>(q % 0xffffffffu) + 1;
}
HOCKET_HD constexpr bool wipe_after(std::uint64_t q, std::uint64_t slots) {
  return (q >> 31) != ((q + slots) >> 31);
}

}  // namespace device_detail

/// The policy: one object a thread, all of a block over the same call and shared memory, in lockstep.
template <class Block>
class DeviceLane {
 public:
  HOCKET_HD DeviceLane(const DeviceCall& call, LaneShared& shared, Block block)
      : call_(call), shared_(shared), block_(block), mask_(static_cast<std::uint64_t>(call.shape.slots) - 1) {}

  HOCKET_HD bool data_ready(std::uint16_t channel, std::int32_t peer, std::int32_t bound) {
    bool ready = false;
    if (first()) {
      for (int poll = 0; poll < Block::kPolls && !ready && !faulty(); ++poll) ready = see_data(channel, peer, bound);
    }
    return block_.any(ready);
  }

  HOCKET_HD bool credit_ready(std::uint16_t channel, std::int32_t peer, std::int32_t bound) {
    bool ready = false;
    if (first()) {
      for (int poll = 0; poll < Block::kPolls && !ready && !faulty(); ++poll) ready = see_credit(channel, peer, bound);
    }
    return block_.any(ready);
  }

  HOCKET_HD void signal_data(std::uint16_t channel, std::int32_t peer, const Step& step) {
    using namespace device_detail;
    // All threads' writes are before this: each step ends with a barrier.
    DeviceChannel& end = at(channel, peer);
    if (first()) ++end.sent;
    block_.sync();  // the cursor is settled; the others go on while the first thread's release waits for their writes
    if (!first()) return;
    const std::uint64_t count = end.sent;
    std::byte* line = end.data_out + ((count - 1) & mask_) * sizeof(DataLine);
    const bool packets = call_.protocol == Protocol::kPacket && end.filled == count && peer != call_.plan.header->rank;
    if (packets && step.grant == kNoGrant) {
      store_flagged_pair(word_at(line, offsetof(DataLine, hash)), call_.hash, count);
      return;
    }
    if (step.grant != kNoGrant) {
      store_relaxed(word_at(line, 0), call_.input_offset);
      store_relaxed(word_at(line, 8), call_.output_offset);
    }
    store_relaxed(word_at(line, offsetof(DataLine, hash)), call_.hash);
    store_release(word_at(line, offsetof(DataLine, count)), count);  // pairs with see_data
  }

  HOCKET_HD void signal_credit(std::uint16_t channel, std::int32_t peer, const Step& step) {
    using namespace device_detail;
    DeviceChannel& end = at(channel, peer);
    // Only the first thread knows the cursor: the others may still be here when it moves on.
    if (first()) ++end.received;
    if (block_.any(first() && wipe_after(end.received - 1, mask_ + 1))) {
      const std::uint64_t slot = (end.received - 1) & mask_;
      std::uint64_t* words = end.packets_in + slot * kDevicePacketWords;
      for (std::uint64_t w = block_.index(); w < kDevicePacketWords; w += block_.count()) store_relaxed(words + w, 0);
      block_.sync();
    }
    if (!first()) return;
    const std::uint64_t count = end.received;
    if (step.grant != kNoGrant) {
      std::byte* grant = end.grants_out + ((count - 1) & mask_) * sizeof(GrantLine);
      store_relaxed(word_at(grant, offsetof(GrantLine, input_offset)), call_.input_offset);
      store_relaxed(word_at(grant, offsetof(GrantLine, output_offset)), call_.output_offset);
      store_relaxed(word_at(grant, offsetof(GrantLine, hash)), call_.hash);
      store_release(word_at(grant, offsetof(GrantLine, count)), count);  // pairs with see_credit
    }
    store_release(word_at(end.credit_out, offsetof(CreditLine, count)), count);  // pairs with see_credit
  }

  /// Stores are not posted: a Move is over when it returns.
  HOCKET_HD bool completed(const Step&, std::int32_t) { return true; }
  HOCKET_HD bool drained() { return true; }

  HOCKET_HD void begin_move(std::uint64_t length, const Step& step) {
    length_ = length;
    finish_ = step.finish != 0;
    source_count_ = destination_count_ = 0;
  }
  HOCKET_HD void source(const SpanAt& span) {
    const int n = source_count_++;
    if (length_ != 0 && mine(static_cast<std::uint32_t>(n))) shared_.sources[n] = place(span);
  }
  HOCKET_HD void destination(const SpanAt& span) {
    if (span.kind == SpanKind::kSlotOut && first()) {
      DeviceChannel& end = at(span.channel, span.peer);
      end.filled = end.sent + 1;
    }
    const int n = destination_count_++;
    if (length_ != 0 && mine(static_cast<std::uint32_t>(n))) shared_.destinations[n] = place(span);
  }

  HOCKET_HD bool end_move() {
    if (length_ == 0) return true;
    block_.sync();  // all places are known
    const std::uint64_t bytes = length_ * call_.element_bytes;
    bool stopped = false;
    if (call_.protocol == Protocol::kPacket) {
      stopped = !run(0, bytes, true);
    } else if (call_.protocol == Protocol::kFirstLine) {
      const std::uint64_t first_bytes = bytes < kInlineBytes ? bytes : kInlineBytes;
      run(0, first_bytes, false);
      if (bytes > first_bytes) run(first_bytes, bytes - first_bytes, false);
    } else {
      run(0, bytes, false);
    }
    return !block_.any(stopped);  // all bytes are written, all places may change
  }

  HOCKET_HD bool failed() {
    if (first() && !faulty() && aborted()) fault_.kind = DeviceFault::kAborted;
    return block_.any(first() && faulty());
  }

  /// Known to the first thread.
  HOCKET_HD const DeviceFault& fault() const { return fault_; }

 private:
  HOCKET_HD bool first() const { return block_.index() == 0; }
  HOCKET_HD bool faulty() const { return fault_.kind != DeviceFault::kNone; }
  HOCKET_HD bool mine(std::uint32_t n) const { return n % block_.count() == block_.index(); }
  HOCKET_HD DeviceChannel& at(std::uint32_t channel, std::int32_t peer) const {
    return call_
        .channels[static_cast<std::uint64_t>(call_.channel_base + channel) * static_cast<std::uint64_t>(call_.world) +
                  static_cast<std::uint64_t>(peer)];
  }
  HOCKET_HD bool aborted() const { return call_.errors != nullptr && load_acquire(call_.errors) != 0; }

  HOCKET_HD bool see_data(std::uint16_t channel, std::int32_t peer, std::int32_t bound) {
    using namespace device_detail;
    const DeviceChannel& end = at(channel, peer);
    const std::uint64_t need = end.received + static_cast<std::uint64_t>(static_cast<std::int64_t>(bound));
    if (need == 0) return true;
    const std::byte* line = end.data_in + ((need - 1) & mask_) * sizeof(DataLine);
    const std::uint64_t count = load_acquire(word_at(line, offsetof(DataLine, count)));  // pairs with signal_data
    if (count < need) return false;
    if (count == need && bound > 0) {
      const std::uint64_t hash = load_flagged(word_at(line, offsetof(DataLine, hash)));
      if (hash != call_.hash) {
        fault_ = {DeviceFault::kMismatch, peer, channel, 0, hash};
        return false;
      }
    }
    return true;
  }

  HOCKET_HD bool see_credit(std::uint16_t channel, std::int32_t peer, std::int32_t bound) {
    using namespace device_detail;
    DeviceChannel& end = at(channel, peer);
    if (static_cast<std::int64_t>(end.sent - end.credit_seen) > bound) {
      end.credit_seen = load_acquire(word_at(end.credit_in, offsetof(CreditLine, count)));  // pairs with signal_credit
      if (static_cast<std::int64_t>(end.sent - end.credit_seen) > bound) return false;
    }
    if (bound < 0) {
      const std::byte* grant = end.grants_in + (end.sent & mask_) * sizeof(GrantLine);
      if (load_acquire(word_at(grant, offsetof(GrantLine, count))) != end.sent + 1) return false;
      const std::uint64_t hash = load_flagged(word_at(grant, offsetof(GrantLine, hash)));
      if (hash != call_.hash) {
        fault_ = {DeviceFault::kMismatch, peer, channel, 0, hash};
        return false;
      }
    }
    return true;
  }

  HOCKET_HD LanePlace place(const SpanAt& span) const {
    using namespace device_detail;
    const std::uint64_t bytes = span.offset * call_.element_bytes;
    LanePlace p;
    switch (span.kind) {
      case SpanKind::kInput: p.body = const_cast<std::byte*>(call_.input) + bytes; break;
      case SpanKind::kOutput: p.body = call_.output + bytes; break;
      case SpanKind::kWork: p.body = call_.work + bytes; break;
      case SpanKind::kPeerInput:
      case SpanKind::kPeerOutput: {
        // Offsets come with the peer's newest data line (expose) or its grant line (grant in advance).
        const DeviceChannel& end = at(span.channel, span.peer);
        const std::byte* line = end.data_in + (end.received & mask_) * sizeof(DataLine);
        const bool exposed = load_acquire(word_at(line, offsetof(DataLine, count))) == end.received + 1;
        if (!exposed) line = end.grants_in + (end.sent & mask_) * sizeof(GrantLine);
        p.body = end.arena + load_flagged(word_at(line, span.kind == SpanKind::kPeerInput ? 0 : 8)) + bytes;
        break;
      }
      case SpanKind::kSlotIn: {
        const DeviceChannel& end = at(span.channel, span.peer);
        const std::uint64_t slot = end.received & mask_;
        p.body = const_cast<std::byte*>(end.slots_in) + slot * call_.slot_bytes + bytes;
        if (call_.protocol == Protocol::kFirstLine && bytes == 0)
          p.line = const_cast<std::byte*>(end.data_in) + slot * sizeof(DataLine);
        if (call_.protocol == Protocol::kPacket) {
          p.packets = end.packets_in + slot * kDevicePacketWords + bytes / kPacketDataBytes;
          p.flag = flag_of(end.received);
        }
        break;
      }
      case SpanKind::kSlotOut: {
        const DeviceChannel& end = at(span.channel, span.peer);
        const std::uint64_t slot = end.sent & mask_;
        p.body = end.slots_out + slot * call_.slot_bytes + bytes;
        if (call_.protocol == Protocol::kFirstLine && bytes == 0) p.line = end.data_out + slot * sizeof(DataLine);
        if (call_.protocol == Protocol::kPacket) {
          p.packets = end.packets_out + slot * kDevicePacketWords + bytes / kPacketDataBytes;
          p.flag = flag_of(end.sent);
        }
        break;
      }
      case SpanKind::kBoardOut:
        p.body = call_.board + (at(span.channel, span.peer).sent & mask_) * call_.slot_bytes + bytes;
        break;
      case SpanKind::kBoardIn: {
        const DeviceChannel& end = at(span.channel, span.peer);
        p.body = const_cast<std::byte*>(end.board_in) + (end.received & mask_) * call_.slot_bytes + bytes;
        break;
      }
    }
    return p;
  }

  /// This thread's part of bytes [begin, begin + bytes). False: the communicator ended while waiting for packets.
  HOCKET_HD bool run(std::uint64_t begin, std::uint64_t bytes, bool packets) const {
    const LaneMove move{shared_.sources, shared_.destinations, source_count_, destination_count_, begin,  bytes,
                        block_.index(),  block_.count(),       call_.errors,  call_.world,        finish_};
    if (source_count_ > 1) return reduce_move(move, packets, call_.type, call_.op);
    if (packets) return copy_packets(move, call_.element_bytes);
    copy_memory(move, call_.element_bytes);
    return true;
  }

  const DeviceCall& call_;
  LaneShared& shared_;
  Block block_;
  std::uint64_t mask_;
  std::uint64_t length_ = 0;
  int source_count_ = 0;
  int destination_count_ = 0;
  bool finish_ = false;
  DeviceFault fault_;
};

/// One thread's part in lane `lane` of a call, from start to end. All threads of the block call it alike.
template <class Block>
HOCKET_HD Progress run_lane(const DeviceCall& call, std::uint32_t lane, LaneShared& shared, Block block) {
  if (!device_can(call.op)) {
    if (block.index() == 0) call.faults[lane].kind = DeviceFault::kUnsupported;
    return Progress::kFailed;
  }
  DeviceLane<Block> policy(call, shared, block);
  LaneState state;
  Progress progress;
  do {
    progress = advance(call.plan, call.plan.lanes[lane], call.shape, state, policy);
  } while (progress == Progress::kWaiting);
  if (progress == Progress::kFailed && block.index() == 0) {
    const Step& step = call.plan.steps[call.plan.lanes[lane].first + state.pc];
    const bool move = step.op == StepOp::kMove;
    DeviceFault fault = policy.fault();
    fault.waiting_op = static_cast<std::uint32_t>(step.op);
    if (fault.kind == DeviceFault::kAborted) {
      fault.peer = move ? -1 : call.plan.peer(step.peer, state.i, state.j);
      fault.channel = move ? 0 : step.channel;
    }
    call.faults[lane] = fault;
  }
  return progress;
}

}  // namespace hocket
