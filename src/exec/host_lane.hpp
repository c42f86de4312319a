// SPDX-License-Identifier: Apache-2.0
// exec/host_lane.hpp: the step machine's policy for host memory: what Wait, Signal and Move are on cache lines.
//
// Protocols (algorithms/protocol.hpp), a property of the call that all its ranks agree on:
//   bulk        data into the slot, then the counter in the transfer's own line
//   first line  the first 48 bytes travel in that line beside the counter, the rest in the slot
//   packet      likewise, but the rest travels in lines of 56 bytes that carry their own flag: no order between lines
//   is needed
// Towards peers that only puts reach, Moves go to staging slots and descriptors to the proxy queue; the packet protocol
// is not chosen in such a world. Next stop: transport/shm.cpp for how peers' memory got here; exec/proxy.hpp where it
// cannot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "algorithms/protocol.hpp"
#include "exec/channel_key.hpp"
#include "exec/channels.hpp"
#include "exec/copy.hpp"
#include "exec/reduce.hpp"
#include "exec/step_machine.hpp"
#include "exec/tape.hpp"

namespace hocket {

/// The hashes of what one pair sends in one direction: of messages that follow each other.
struct PairHashes {
  const std::uint64_t* hash = nullptr;       ///< of the message under way; those that follow lie behind it
  const std::uint64_t* transfers = nullptr;  ///< of the message under way; likewise
  std::uint64_t done = 0;                    ///< transfers of it so far

  void advance() {
    if (++done < *transfers) return;
    done = 0;
    ++hash, ++transfers;
  }
};

/// Everything about a call that its lanes need. Fixed while it runs.
struct BoundCall {
  PlanView plan;
  Shape shape;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* work = nullptr;
  std::uint32_t element_bytes = 1;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  ReduceFunction reduce = nullptr;
  ScaleFunction scale = nullptr;  ///< premultiplied sum: this rank's input is scaled by `scalar` as it is read
  std::uint64_t scalar = 0;
  /// A user's operator, in place of `reduce`; see Reduction::Function.
  const std::function<void(const void*, void*, std::size_t)>* user = nullptr;
  int world = 1;
  Protocol protocol = Protocol::kBulk;
  std::uint16_t channel_base = 0;    ///< plan's channel 0
  bool stream_output = false;        ///< larger than the cache: store around it
  bool merge_credits = false;        ///< nobody can be blocked by a credit that is put off
  bool touches_peers = false;        ///< reads or writes plain memory of other ranks, which are threads of this process
  std::uint64_t credit_every = 1;    ///< credits are published once in so many transfers, and before this rank sleeps
  std::uint64_t hash = 0;            ///< of the descriptor
  PairHashes* hashes_out = nullptr;  ///< by rank, where each pair has descriptors of its own; null: `hash` is for all
  PairHashes* hashes_in = nullptr;
  std::uint64_t input_offset = 0;  ///< in this process's arena, for grants
  std::uint64_t output_offset = 0;
  std::uint64_t output_bytes = 0;  ///< from there to the end of its mem_alloc memory
};

/// What stopped a call from inside.
struct LaneFault {
  enum class Kind : std::uint8_t { kNone, kMismatch, kAborted, kPeerLost, kOperator };
  Kind kind = Kind::kNone;
  std::uint16_t channel = 0;
  int peer = -1;
  std::uint64_t their_hash = 0;
  Status status;
};

/// The policy. One per running call, used by one thread at a time; lanes of the call take turns on it.
class HostLane {
 public:
  static constexpr int kMaxSpans = 130;

  /// `fenced`: whether signals carry a fence of their own (transport/doorbell.hpp).
  HostLane(Channels& channels, bool fenced)
      : channels_(channels), mask_(channels.layout().slots - 1), fenced_(fenced) {}

  void begin(const BoundCall& call) {
    call_ = &call;
    if (fault_.kind != LaneFault::Kind::kNone) [[unlikely]]
      fault_ = {};
    events_ = 0;
  }
  /// Publish the credits that were put off: before this rank sleeps.
  void flush_credits() {
    if (!owed_.empty()) publish_owed();
  }

  bool data_ready(std::uint16_t channel, int peer, int bound) {
    return data_ready(at(channel, peer), channel, peer, bound);
  }
  HOCKET_INLINE bool data_ready(HostEnd& end, std::uint16_t channel, int peer, int bound) {
    const std::uint64_t need = end.received + static_cast<std::uint64_t>(static_cast<std::int64_t>(bound));
    if (need == 0) return true;
    DataLine& line = end.data_in[(need - 1) & mask_];
    // acquire (seq_cst for the doorbell): pairs with publish() in signal_data
    const std::uint64_t count = line.count.load(std::memory_order_seq_cst);
    if (count < need) return false;
    if (count == need && bound > 0 && line.hash != hash_from(peer)) [[unlikely]] {
      fault_ = {LaneFault::Kind::kMismatch, channel, peer, line.hash, {}};
      return false;
    }
    ++events_;
    return true;
  }

  bool credit_ready(std::uint16_t channel, int peer, int bound) {
    return credit_ready(at(channel, peer), channel, peer, bound);
  }
  HOCKET_INLINE bool credit_ready(HostEnd& end, std::uint16_t channel, int peer, int bound) {
    const auto in_flight = [&] { return static_cast<std::int64_t>(end.sent - end.credit_seen); };
    if (in_flight() > bound) {
      if (end.slots_out == nullptr && !channels_.bind(call_->channel_base + channel, peer)) [[unlikely]]
        return false;
      // acquire (seq_cst for the doorbell): pairs with publish() in signal_credit
      end.credit_seen = end.credit_in->count.load(std::memory_order_seq_cst);
      if (in_flight() > bound) return false;
    }
    if (bound < 0) {
      const GrantLine& grant = end.grants_in[end.sent & mask_];
      if (grant.count.load(std::memory_order_acquire) != end.sent + 1) return false;
      if (grant.hash != call_->hash) [[unlikely]] {
        fault_ = {LaneFault::Kind::kMismatch, channel, peer, grant.hash, {}};
        return false;
      }
    }
    ++events_;
    return true;
  }

  void signal_data(std::uint16_t channel, int peer, const Step& step) {
    signal_data(at(channel, peer), channels_.peer(peer), channel, peer, step);
  }
  void signal_credit(std::uint16_t channel, int peer, const Step& step) {
    signal_credit(at(channel, peer), channels_.peer(peer), channel, peer, step);
  }

  /// Does what is written from step *at on until it is done, must wait, or failed: advance() of a tape.
  Progress play(const Tape& tape, std::uint32_t* at);

  bool completed(const Step&, int) { return drained(); }
  bool drained();

  void begin_move(std::uint64_t length, const Step& step) {
    length_ = length;
    step_ = &step;
    source_count_ = destination_count_ = 0;
  }
  HOCKET_INLINE void source(SpanAt span) { place(span, &sources_[source_count_++]); }
  HOCKET_INLINE void destination(SpanAt span) { place(span, &destinations_[destination_count_++]); }
  bool end_move();

  bool failed() {
    if (fault_.kind != LaneFault::Kind::kNone) return true;
    if (channels_.block().errors.load(std::memory_order_acquire) == 0) return false;
    fault_.kind = LaneFault::Kind::kAborted;
    return true;
  }

  const LaneFault& fault() const { return fault_; }
  void set_fault(LaneFault fault) { fault_ = std::move(fault); }
  /// Steps that got somewhere since begin().
  std::uint64_t events() const { return events_; }

 private:
  /// A span as addresses: contiguous memory, or a slot whose first bytes travel in its line.
  struct Place {
    std::byte* body = nullptr;      ///< contiguous memory; of a slot: its bytes from 0 on
    std::byte* line = nullptr;      ///< of a slot in the first-line and packet protocols: 48 bytes
    PacketLine* packets = nullptr;  ///< of a slot in the packet protocol
    std::uint32_t flag = 0;
    int posted_to = -1;         ///< destination reached by a put from `body`
    std::uint64_t remote = 0;   ///< where that goes, in the peer's arena
    std::uint64_t landing = 0;  ///< start of the slot or granted buffer that this is in
    ChannelKey key{};
    bool slot = false;
    bool input = false;  ///< this rank's own input
  };
  /// One piece of a Move as plain memory.
  struct Piece {
    const void* from[kMaxSpans];
    void* to[kMaxSpans];
    std::uint64_t bytes;
    std::uint32_t slots;  ///< bit d: to[d] is in a slot
    bool stream;
  };

  std::uint64_t hash_from(int peer) const {
    return call_->hashes_in == nullptr ? call_->hash : *call_->hashes_in[peer].hash;
  }
  HostEnd& at(std::uint16_t channel, int peer) { return channels_.end(call_->channel_base + channel, peer); }
  HOCKET_INLINE void signal_data(HostEnd& end, PeerView& to, std::uint16_t channel, int peer, const Step& step);
  HOCKET_INLINE void signal_credit(HostEnd& end, PeerView& to, std::uint16_t channel, int peer, const Step& step);
  void post_data(HostEnd& end, PeerView& to, std::uint16_t channel, int peer, const DataLine& line);
  void answer_by_puts(HostEnd& end, PeerView& to, std::uint16_t channel, int peer, std::uint64_t slot,
                      const Step& step);
  void post_credit(HostEnd& end, int id, int peer);
  void post_owed(int peer);
  void publish_owed();
  /// A credit that may be late is put off.
  HOCKET_INLINE void owe(HostEnd& end, int id, int peer) {
    if (end.owes) return;
    end.owes = true;
    owed_.push_back({&end, id, peer});
  }
  struct Address {
    std::byte* body;
    std::byte* line;
    bool slot;
  };
  HOCKET_INLINE Address address(const TapeSpan& span) const;
  HOCKET_INLINE std::byte* locate(const TapeSpan& span) const;
  HOCKET_INLINE void play_move(const Tape& tape, const TapeStep& step);
  void play_plain_move(const Tape& tape, const TapeStep& step);
  HOCKET_INLINE void play_segment(const TapeStep& step, const Address* spans, std::uint64_t begin, std::uint64_t bytes);
  bool play_any_move(const Tape& tape, const TapeStep& step);
  HOCKET_INLINE void place(const SpanAt& span, Place* p);
  void place_granted(const SpanAt& span, std::uint64_t bytes, Place* p);
  void run_segment(std::uint64_t begin, std::uint64_t bytes, int packet);
  void move_piece(const Piece& piece);
  void copy_piece(const Piece& piece, const void* from);
  void reduce_piece(const Piece& piece);
  void scale_piece(const Piece& piece);
  void combine_piece(const Piece& piece);
  std::byte* scratch(std::uint64_t bytes);
  bool packets_arrived(std::uint64_t bytes) const;
  bool post();
  Status expect(const HostEnd& end, int id, int peer, std::uint64_t slot, const Step& step);

  Channels& channels_;
  std::uint64_t mask_;
  bool fenced_;
  const BoundCall* call_ = nullptr;
  const Step* step_ = nullptr;
  std::uint64_t length_ = 0;
  std::uint64_t events_ = 0;
  int source_count_ = 0;
  int destination_count_ = 0;
  Place sources_[kMaxSpans];
  Place destinations_[kMaxSpans];
  LaneFault fault_;

  /// Credits that were put off: their end, its channel, and whom they are for.
  struct Owed {
    HostEnd* end;
    int id;
    int peer;
  };
  std::vector<Owed> owed_;
  std::vector<std::max_align_t> scratch_;  ///< of scale_piece and combine_piece; empty until one is needed
};

inline void HostLane::signal_data(HostEnd& end, PeerView& to, std::uint16_t channel, int peer, const Step& step) {
  ++events_;
  const std::uint64_t slot = end.sent & mask_;
  DataLine& line = end.data_out[slot];
  line.hash = call_->hash;
  if (call_->hashes_out != nullptr) [[unlikely]] {
    line.hash = *call_->hashes_out[peer].hash;
    call_->hashes_out[peer].advance();
  }
  if (step.grant != kNoGrant) [[unlikely]] {
    const std::uint64_t offsets[2] = {call_->input_offset, call_->output_offset};
    std::memcpy(line.payload, offsets, sizeof offsets);
  }
  const std::uint64_t count = ++end.sent;
  if (to.block != nullptr) [[likely]] {
    publish(line.count, count, fenced_);  // release; pairs with data_ready
    ring(*to.header, *to.doorbell);
    return;
  }
  line.count.store(count, std::memory_order_relaxed);  // a shadow: only this thread reads it
  post_data(end, to, channel, peer, line);
}

inline void HostLane::signal_credit(HostEnd& end, PeerView& to, std::uint16_t channel, int peer, const Step& step) {
  ++events_;
  const std::uint64_t q = end.received;
  const std::uint64_t slot = q & mask_;
  if (packet_wipe(q, mask_ + 1)) [[unlikely]] {
    for (std::size_t i = 0; i < kPacketLines; ++i)
      end.packets_in[slot * kPacketLines + i].flag.store(0, std::memory_order_relaxed);
  }
  const std::uint64_t count = ++end.received;
  if (call_->hashes_in != nullptr) [[unlikely]]
    call_->hashes_in[peer].advance();
  if (to.block == nullptr) [[unlikely]]
    return answer_by_puts(end, to, channel, peer, slot, step);
  if (call_->credit_every > 1 && count - end.credited < call_->credit_every)
    return owe(end, call_->channel_base + channel, peer);
  end.credited = count;
  if (step.grant != kNoGrant) [[unlikely]] {
    GrantLine& grant = end.grants_out[slot];
    grant.input_offset = call_->input_offset;
    grant.output_offset = call_->output_offset;
    grant.hash = call_->hash;
    grant.count.store(count, std::memory_order_release);  // pairs with credit_ready
  }
  publish(end.credit_out->count, count, fenced_);  // release; pairs with credit_ready
  ring(*to.header, *to.doorbell);
}

inline void HostLane::place(const SpanAt& span, Place* p) {
  const std::uint64_t bytes = span.offset * call_->element_bytes;
  const BlockLayout& layout = channels_.layout();
  p->line = nullptr;
  p->packets = nullptr;
  p->posted_to = -1;
  p->slot = false;
  p->input = false;
  switch (span.kind) {
    case SpanKind::kInput:
      p->body = const_cast<std::byte*>(call_->input) + bytes;
      p->input = true;
      return;
    case SpanKind::kOutput: p->body = call_->output + bytes; return;
    case SpanKind::kWork: p->body = call_->work + bytes; return;
    case SpanKind::kPeerInput:
    case SpanKind::kPeerOutput: place_granted(span, bytes, p); return;
    case SpanKind::kSlotIn: {
      HostEnd& end = at(span.channel, span.peer);
      const std::uint64_t slot = end.received & mask_;
      p->slot = true;
      p->body = end.slots_in + slot * layout.slot_bytes + bytes;
      // Of several pieces the first has its start in the line.
      if (call_->protocol == Protocol::kBulk || span.index != 0) return;
      p->line = end.data_in[slot].payload;
      if (call_->protocol != Protocol::kPacket) return;
      p->packets = end.packets_in + slot * kPacketLines;
      p->flag = packet_flag(end.received);
      return;
    }
    case SpanKind::kSlotOut: {
      HostEnd& end = at(span.channel, span.peer);
      const std::uint64_t slot = end.sent & mask_;
      p->slot = true;
      p->body = end.slots_out + slot * layout.slot_bytes + bytes;
      const PeerView& peer = channels_.peer(span.peer);
      if (peer.block == nullptr) [[unlikely]] {
        p->posted_to = span.peer;
        p->remote = end.port + channels_.port_layout().slots_at + slot * layout.slot_bytes + bytes;
        p->landing = p->remote - bytes;
        p->key = data_key(peer.block_offset, call_->channel_base + span.channel, channels_.rank());
      }
      // Of several pieces the first has its start in the line.
      if (call_->protocol == Protocol::kBulk || span.index != 0) return;
      p->line = end.data_out[slot].payload;
      if (call_->protocol != Protocol::kPacket) return;
      p->packets = end.packets_out + slot * kPacketLines;
      p->flag = packet_flag(end.sent);
      return;
    }
    case SpanKind::kBoardOut: {
      HostEnd& end = at(span.channel, span.peer);
      p->slot = true;
      p->body = channels_.board() + (end.sent & mask_) * layout.slot_bytes + bytes;
      return;
    }
    case SpanKind::kBoardIn: {
      HostEnd& end = at(span.channel, span.peer);
      p->body = end.board_in + (end.received & mask_) * layout.slot_bytes + bytes;
      return;
    }
  }
}

}  // namespace hocket
