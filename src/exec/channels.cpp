// SPDX-License-Identifier: Apache-2.0
#include "exec/channels.hpp"

#include "base/status.hpp"

namespace hocket {

Result<std::unique_ptr<Channels>> Channels::create(Arena& arena, std::uint64_t block_offset, const BlockLayout& layout,
                                                   Rank rank, std::vector<PeerView> peers,
                                                   std::uint64_t first_transfer) {
  std::unique_ptr<Channels> c(new Channels(arena, layout));
  c->block_offset_ = block_offset;
  c->block_ = arena.base() + block_offset;
  c->rank_ = rank;
  c->peers_ = std::move(peers);
  c->ends_.resize(static_cast<std::size_t>(kChannelIds) * layout.size);
  c->committed_.resize(c->ends_.size());

  const int n = static_cast<int>(layout.size);
  const std::uint64_t lines_bytes = layout.slots * sizeof(DataLine);
  const std::uint64_t shadow_bytes =
      BlockLayout::page(kChannelIds * lines_bytes) + kChannelIds * layout.slots * layout.slot_bytes;
  std::uint64_t remote = 0;
  for (PeerView& peer : c->peers_)
    if (peer.block == nullptr) ++remote;
  if (remote != 0) {
    HOCKET_ASSIGN(c->shadow_offset_, arena.reserve(remote * shadow_bytes, 4096));
  }

  std::uint64_t shadow = c->shadow_offset_;
  for (int p = 0; p < n; ++p) {
    PeerView& peer = c->peers_[static_cast<std::size_t>(p)];
    if (peer.block == nullptr) {
      peer.proxy = std::make_unique<ProxyQueue>(peer.endpoint);
      c->proxies_.push_back(peer.proxy.get());
    }
    for (int id = 0; id < kChannelIds; ++id) {
      HostEnd& end = c->end(id, p);
      end.sent = end.received = end.credited = end.credit_seen = first_transfer;
      end.credit_in = reinterpret_cast<CreditLine*>(c->block_ + layout.credit(id, p));
      end.grants_in = reinterpret_cast<GrantLine*>(c->block_ + layout.grant(id, p));
      end.data_in = reinterpret_cast<DataLine*>(c->block_ + layout.data(id, p));
      end.packets_in = reinterpret_cast<PacketLine*>(c->block_ + layout.packets(id, p));
      end.slots_in = c->block_ + layout.slot(id, p);
      if (first_transfer != 0) end.credit_in->count.store(first_transfer, std::memory_order_relaxed);
      if (peer.block != nullptr) {
        end.data_out = reinterpret_cast<DataLine*>(peer.block + layout.data(id, rank));
        end.slots_out = peer.block + layout.slot(id, rank);
        end.packets_out = reinterpret_cast<PacketLine*>(peer.block + layout.packets(id, rank));
        end.credit_out = reinterpret_cast<CreditLine*>(peer.block + layout.credit(id, rank));
        end.grants_out = reinterpret_cast<GrantLine*>(peer.block + layout.grant(id, rank));
        end.board_in = peer.block + layout.board(0);
      } else {
        std::byte* base = arena.base() + shadow;
        end.data_out = reinterpret_cast<DataLine*>(base + static_cast<std::uint64_t>(id) * lines_bytes);
        end.slots_out = base + BlockLayout::page(kChannelIds * lines_bytes) +
                        static_cast<std::uint64_t>(id) * layout.slots * layout.slot_bytes;
      }
    }
    if (peer.block == nullptr) shadow += shadow_bytes;
  }
  return c;
}

Channels::~Channels() {
  if (shadow_offset_ != 0) arena_.release(shadow_offset_);
}

Status Channels::commit_receive(int channel, int peer) {
  const std::size_t at = layout_.end_index(channel, peer);
  if (committed_[at]) return {};
  HOCKET_TRY(
      arena_.commit(block_offset_ + layout_.packets(channel, peer), layout_.slots * kPacketLines * sizeof(PacketLine)));
  HOCKET_TRY(arena_.commit(block_offset_ + layout_.slot(channel, peer), layout_.slots * layout_.slot_bytes));
  committed_[at] = true;
  return {};
}

Status Channels::commit_send(int channel, int peer) {
  if (peers_[static_cast<std::size_t>(peer)].block != nullptr) return {};
  const HostEnd& end = ends_[layout_.end_index(channel, peer)];
  HOCKET_TRY(arena_.commit(static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(end.data_out) - arena_.base()),
                           layout_.slots * sizeof(DataLine)));
  return arena_.commit(static_cast<std::uint64_t>(end.slots_out - arena_.base()), layout_.slots * layout_.slot_bytes);
}

Status Channels::commit_board() {
  if (board_committed_) return {};
  HOCKET_TRY(arena_.commit(block_offset_ + layout_.board(0), layout_.slots * layout_.slot_bytes));
  board_committed_ = true;
  return {};
}

}  // namespace hocket
