// SPDX-License-Identifier: Apache-2.0
// Next stop: transport/shm.cpp for how peers' memory got here; exec/proxy.hpp where it cannot.
#include "exec/host_lane.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

#include "base/status.hpp"

#include "exec/channel_key.hpp"

namespace hocket {
namespace {

/// Moves are cut here so that an abort is seen within a millisecond, whatever the tile.
constexpr std::uint64_t kMovePiece = 4 << 20;
/// Blocks in which inputs are scaled and users' operators run: they stay in L1. A multiple of every element.
constexpr std::uint64_t kOperatorBlock = 8 << 10;

}  // namespace

void HostLane::post_data(HostEnd& end, PeerView& to, std::uint16_t channel, int peer, const DataLine& line) {
  const BlockLayout& layout = channels_.layout();
  const int id = call_->channel_base + channel;
  const std::uint64_t slot = (end.sent - 1) & mask_;
  if (!owed_.empty()) post_owed(peer);
  // Room was made before: see executor.cpp, turn().
  to.proxy->signal(data_key(to.block_offset, id, channels_.rank()), &line, kCacheLine,
                   to.block_offset + layout.data(id, channels_.rank()) + slot * sizeof(DataLine),
                   to.block_offset + offsetof(BlockHeader, doorbell));
}

/// signal_credit() towards a peer that only puts reach; the transfer is counted already.
void HostLane::answer_by_puts(HostEnd& end, PeerView& to, std::uint16_t channel, int peer, std::uint64_t slot,
                              const Step& step) {
  const BlockLayout& layout = channels_.layout();
  const int id = call_->channel_base + channel;
  const std::uint64_t count = end.received;
  if (Status told = expect(end, id, peer, slot, step); !told.ok()) [[unlikely]] {
    fault_ = {LaneFault::Kind::kPeerLost, channel, peer, 0, std::move(told)};
    return;
  }
  // Merged ones leave with the data that follows: one system call for both.
  if (call_->merge_credits && count - end.credited < 2 * call_->credit_every) return owe(end, id, peer);
  if (step.grant != kNoGrant) {
    const std::uint64_t line[8] = {call_->input_offset, call_->output_offset, 0, 0, 0, 0, call_->hash, count};
    to.proxy->signal(credit_key(to.block_offset, id, channels_.rank()), line, sizeof line,
                     to.block_offset + layout.grant(id, channels_.rank()) + slot * sizeof(GrantLine),
                     to.block_offset + offsetof(BlockHeader, doorbell));
  }
  post_credit(end, id, peer);
}

void HostLane::post_credit(HostEnd& end, int id, int peer) {
  end.credited = end.received;
  PeerView& to = channels_.peer(peer);
  const BlockLayout& layout = channels_.layout();
  to.proxy->signal(credit_key(to.block_offset, id, channels_.rank()), &end.credited, sizeof end.credited,
                   to.block_offset + layout.credit(id, channels_.rank()) + offsetof(CreditLine, count),
                   to.block_offset + offsetof(BlockHeader, doorbell));
}

/// Those of a peer that only puts reach which are due.
void HostLane::post_owed(int peer) {
  for (const Owed& owed : owed_)
    if (owed.peer == peer && owed.end->received - owed.end->credited >= call_->credit_every)
      post_credit(*owed.end, owed.id, peer);
}

/// Where the transfer that a credit makes room for will land: in this slot again, or where the credit grants it.
Status HostLane::expect(const HostEnd& end, int id, int peer, std::uint64_t slot, const Step& step) {
  if (step.grant == kNoGrant && !end.slots_committed) return {};  // order only
  const std::uint64_t slot_bytes = channels_.layout().slot_bytes;
  const ChannelKey key = data_key(channels_.block_offset(), id, peer);
  Endpoint& endpoint = *channels_.peer(peer).endpoint;
  if (step.grant != kNoGrant) return endpoint.expect(key, call_->output_offset, call_->output_bytes);
  return endpoint.expect(key, channels_.offset_of(end.slots_in + slot * slot_bytes), slot_bytes);
}

void HostLane::publish_owed() {
  for (const Owed& owed : owed_) {
    owed.end->owes = false;
    if (owed.end->credited == owed.end->received) continue;
    PeerView& to = channels_.peer(owed.peer);
    if (to.block == nullptr) [[unlikely]] {
      post_credit(*owed.end, owed.id, owed.peer);
      continue;
    }
    owed.end->credited = owed.end->received;
    publish(owed.end->credit_out->count, owed.end->credited, fenced_);  // release; pairs with credit_ready
    ring(*to.header, *to.doorbell);
  }
  owed_.clear();
}

bool HostLane::drained() {
  for (const Channels::Proxied& proxied : channels_.proxies()) {
    if (proxied.queue->puts_read()) continue;
    if (Status status = channels_.drive(proxied); !status.ok()) {
      fault_ = {LaneFault::Kind::kPeerLost, 0, proxied.peer, 0, std::move(status)};
      return false;
    }
    if (!proxied.queue->puts_read()) return false;
  }
  return true;
}

/// A peer's buffer, at the offset that came with its grant: in its newest data line (expose) or its grant line (in
/// advance).
void HostLane::place_granted(const SpanAt& span, std::uint64_t bytes, Place* p) {
  HostEnd& end = at(span.channel, span.peer);
  std::uint64_t offsets[2];
  const DataLine& line = end.data_in[end.received & mask_];
  if (line.count.load(std::memory_order_acquire) == end.received + 1) {
    std::memcpy(offsets, line.payload, sizeof offsets);
  } else {
    const GrantLine& grant = end.grants_in[end.sent & mask_];
    offsets[0] = grant.input_offset;
    offsets[1] = grant.output_offset;
  }
  const PeerView& peer = channels_.peer(span.peer);
  const std::uint64_t offset = offsets[span.kind == SpanKind::kPeerInput ? 0 : 1] + bytes;
  if (peer.arena != nullptr) {
    p->body = peer.arena + offset;
  } else {
    p->posted_to = span.peer;
    p->remote = offset;
    p->landing = offset - bytes;
    p->key = data_key(peer.block_offset, call_->channel_base + span.channel, channels_.rank());
  }
}

bool HostLane::packets_arrived(std::uint64_t bytes) const {
  if (bytes <= kInlineBytes) return true;
  const std::uint64_t lines = (bytes - kInlineBytes + kPacketPayload - 1) / kPacketPayload;
  for (int s = 0; s < source_count_; ++s) {
    const Place& p = sources_[s];
    if (p.packets == nullptr) continue;
    // acquire, line by line; pairs with the release in run_segment. The last line usually comes last: look there first.
    for (std::uint64_t i = lines; i-- > 0;)
      if (p.packets[i].flag.load(std::memory_order_acquire) != p.flag) return false;
  }
  return true;
}

/// Bytes [begin, begin + bytes) of the Move; `packet` is the packet line that carries them, -1: the line or the body.
void HostLane::run_segment(std::uint64_t begin, std::uint64_t bytes, int packet) {
  const auto address = [&](const Place& p) -> std::byte* {
    if (packet >= 0 && p.packets != nullptr) return p.packets[packet].payload;
    if (p.line != nullptr && begin < kInlineBytes) return p.line + begin;
    return p.body + begin;
  };
  Piece piece;
  piece.bytes = bytes;
  piece.slots = 0;
  for (int d = 0; d < destination_count_; ++d) {
    piece.to[d] = address(destinations_[d]);
    if (destinations_[d].slot && d < 32) piece.slots |= 1u << d;
  }
  for (int s = 0; s < source_count_; ++s) piece.from[s] = address(sources_[s]);
  piece.stream = call_->stream_output && !destinations_[0].slot && bytes >= kSlotCopyBytes;
  if (call_->scale != nullptr) [[unlikely]] {
    scale_piece(piece);
  } else if (call_->user != nullptr) [[unlikely]] {
    combine_piece(piece);
  } else {
    move_piece(piece);
  }
  if (packet >= 0) {
    for (int d = 0; d < destination_count_; ++d)
      if (destinations_[d].packets != nullptr)  // release; pairs with packets_arrived
        destinations_[d].packets[packet].flag.store(destinations_[d].flag, std::memory_order_release);
  }
}

HOCKET_INLINE void HostLane::move_piece(const Piece& piece) {
  source_count_ == 1 ? copy_piece(piece, piece.from[0]) : reduce_piece(piece);
}

void HostLane::copy_piece(const Piece& piece, const void* from) {
  const auto hint = [&](int d) {
    return destinations_[d].slot ? CopyHint::kSlot : piece.stream ? CopyHint::kStream : CopyHint::kCached;
  };
  if (destination_count_ == 1) {
    copy(piece.to[0], from, piece.bytes, hint(0));
    return;
  }
  CopyHint hints[kMaxSpans];
  for (int d = 0; d < destination_count_; ++d) hints[d] = hint(d);
  copy(piece.to, hints, destination_count_, from, piece.bytes);
}

void HostLane::reduce_piece(const Piece& piece) {
  ReduceArgs args{};
  args.sources = piece.from;
  args.source_count = source_count_;
  args.destinations = piece.to;
  args.destination_count = destination_count_;
  args.count = piece.bytes / call_->element_bytes;
  args.finish = step_->finish != 0;
  args.world_size = call_->world;
  args.stream = piece.stream;
  args.slot_destinations = piece.slots;
  call_->reduce(args);
}

/// A premultiplied sum: what is read of this rank's input is scaled into a block that stays in the cache, which then
/// stands in for it. Every contribution is read from its rank's input once on its way to a result, so it is scaled
/// once.
void HostLane::scale_piece(const Piece& piece) {
  std::uint64_t inputs = 0;
  for (int s = 0; s < source_count_; ++s) inputs += sources_[s].input;
  if (inputs == 0) return move_piece(piece);
  std::byte* const scaled = scratch(inputs * kOperatorBlock);
  Piece block = piece;
  for (std::uint64_t at = 0; at < piece.bytes; at += kOperatorBlock) {
    block.bytes = std::min(kOperatorBlock, piece.bytes - at);
    std::byte* to = scaled;
    for (int s = 0; s < source_count_; ++s) {
      block.from[s] = static_cast<const std::byte*>(piece.from[s]) + at;
      if (!sources_[s].input) continue;
      call_->scale(block.from[s], to, block.bytes / call_->element_bytes, call_->scalar);
      block.from[s] = to;
      to += kOperatorBlock;
    }
    for (int d = 0; d < destination_count_; ++d) block.to[d] = static_cast<std::byte*>(piece.to[d]) + at;
    move_piece(block);
  }
}

/// A user's operator: the sources are combined one by one in a block of our own, so that the function sees aligned
/// memory of this process only, and a destination that is a source keeps its value until it was read.
void HostLane::combine_piece(const Piece& piece) {
  if (source_count_ == 1 || fault_.kind != LaneFault::Kind::kNone) return copy_piece(piece, piece.from[0]);
  std::byte* const result = scratch(2 * kOperatorBlock);
  std::byte* const aligned = result + kOperatorBlock;
  Piece block = piece;
  for (std::uint64_t at = 0; at < piece.bytes; at += kOperatorBlock) {
    block.bytes = std::min(kOperatorBlock, piece.bytes - at);
    std::memcpy(result, static_cast<const std::byte*>(piece.from[0]) + at, block.bytes);
    for (int s = 1; s < source_count_; ++s) {
      const std::byte* from = static_cast<const std::byte*>(piece.from[s]) + at;
      if (reinterpret_cast<std::uintptr_t>(from) % call_->element_bytes != 0) {
        std::memcpy(aligned, from, block.bytes);
        from = aligned;
      }
      std::string thrown;
      try {
        (*call_->user)(from, result, block.bytes / call_->element_bytes);
        continue;
      } catch (const std::exception& e) {
        thrown = e.what();
      } catch (...) {
        thrown = "something that is no std::exception";
      }
      fault_ = {LaneFault::Kind::kOperator, 0, -1, 0, error(Code::kAborted, "the user's operator threw: {}", thrown)};
      return;
    }
    for (int d = 0; d < destination_count_; ++d) block.to[d] = static_cast<std::byte*>(piece.to[d]) + at;
    copy_piece(block, result);
  }
}

std::byte* HostLane::scratch(std::uint64_t bytes) {
  const std::size_t units = (bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t);
  if (scratch_.size() < units) scratch_.resize(units);
  return reinterpret_cast<std::byte*>(scratch_.data());
}

/// Hand the staged destinations to their queues. False: a queue is full.
bool HostLane::post() {
  const std::uint64_t bytes = length_ * call_->element_bytes;
  for (int d = 0; d < destination_count_; ++d) {
    const Place& p = destinations_[d];
    if (p.posted_to < 0) continue;
    const std::uint64_t first = p.line != nullptr ? std::min<std::uint64_t>(bytes, kInlineBytes) : 0;
    if (bytes > first)
      channels_.peer(p.posted_to).proxy->put({p.key, p.body + first, bytes - first, p.remote + first, p.landing});
  }
  return true;
}

bool HostLane::end_move() {
  ++events_;
  if (length_ == 0) return true;
  const std::uint64_t bytes = length_ * call_->element_bytes;
  bool posted = false;
  for (int d = 0; d < destination_count_; ++d) posted |= destinations_[d].posted_to >= 0;
  if (posted) {
    // A copy of one contiguous source to one peer needs no staging: the put reads the source itself.
    Place& only = destinations_[0];
    const bool as_it_is = call_->scale == nullptr || !sources_[0].input;
    if (source_count_ == 1 && destination_count_ == 1 && only.line == nullptr && sources_[0].line == nullptr &&
        as_it_is) {
      only.body = sources_[0].body;
      return post();
    }
  }
  if (call_->protocol == Protocol::kBulk) [[likely]] {
    for (std::uint64_t at = 0; at < bytes; at += kMovePiece) {
      run_segment(at, std::min(kMovePiece, bytes - at), -1);
      if (bytes > kMovePiece && failed()) return false;
    }
  } else {
    const bool packets = call_->protocol == Protocol::kPacket;
    if (packets && !packets_arrived(bytes)) {
      --events_;
      return false;
    }
    const std::uint64_t first = std::min<std::uint64_t>(bytes, kInlineBytes);
    run_segment(0, first, -1);
    if (packets) {
      int line = 0;
      for (std::uint64_t at = first; at < bytes; at += kPacketPayload, ++line)
        run_segment(at, std::min<std::uint64_t>(kPacketPayload, bytes - at), line);
    } else if (bytes > first) {
      run_segment(first, bytes - first, -1);
    }
  }
  if (fault_.kind == LaneFault::Kind::kOperator) [[unlikely]]
    return false;
  return posted ? post() : true;
}

}  // namespace hocket
