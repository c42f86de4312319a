// SPDX-License-Identifier: Apache-2.0
#include "exec/channels.hpp"

#include "base/status.hpp"
#include "exec/channel_key.hpp"

namespace hocket {
namespace {

/// Blocks up to this size are committed as a whole: a few pages, and no system call later.
constexpr std::uint64_t kSmallBlock = std::uint64_t{1} << 20;
/// A credit so old that no transfer may follow it.
constexpr std::uint64_t kUnbound = std::uint64_t{1} << 40;

}  // namespace

Channels::Channels(Arena& arena, std::uint64_t block_offset, const BlockLayout& layout, Rank rank,
                   std::uint64_t first_transfer)
    : arena_(arena),
      layout_(layout),
      port_layout_(layout),
      block_offset_(block_offset),
      block_(arena.base() + block_offset),
      rank_(rank),
      first_transfer_(first_transfer),
      peers_(std::make_unique<std::atomic<PeerView*>[]>(layout.size)) {}

Channels::~Channels() {
  for (const std::uint64_t offset : shadows_) arena_.release(offset);
}

Status Channels::commit_block(Arena& arena, std::uint64_t block_offset, const BlockLayout& layout) {
  HOCKET_TRY(arena.commit(block_offset, layout.boards_at));
  if (layout.bytes - layout.lines_at > kSmallBlock) return {};
  return arena.commit(block_offset + layout.lines_at, layout.bytes - layout.lines_at);
}

Status Channels::commit_lines(std::uint64_t offset, std::uint64_t bytes) {
  if (layout_.bytes - layout_.lines_at <= kSmallBlock) return {};
  return arena_.commit(block_offset_ + offset, bytes);
}

void Channels::connect(int peer, PeerView view) {
  PeerView& kept = views_.emplace_back(std::move(view));
  if (kept.block == nullptr) {
    kept.proxy = std::make_unique<ProxyQueue>(kept.endpoint);
    proxies_.push_back({kept.proxy.get(), peer});
  }
  peers_[static_cast<std::size_t>(peer)].store(&kept, std::memory_order_release);  // pairs with find()
}

bool Channels::has_left(int peer) const {
  const auto& closed = *reinterpret_cast<const std::atomic<std::uint64_t>*>(block_ + layout_.closed(peer));
  return closed.load(std::memory_order_acquire) != 0;  // pairs with ~CommunicatorState of the peer
}

Status Channels::drive(const Proxied& proxied) const {
  Status status = proxied.queue->drive();
  if (status.ok() || !has_left(proxied.peer)) return status;
  proxied.queue->give_up();
  return {};
}

Result<HostEnd*> Channels::make_end(int channel, int peer) {
  auto& ends = ends_[static_cast<std::size_t>(channel)];
  if (!ends) ends = std::make_unique<HostEnd*[]>(layout_.size);
  HostEnd*& at = ends[peer];
  if (at == nullptr) {
    HostEnd& end = storage_.emplace_back();
    end.sent = end.received = end.credited = first_transfer_;
    at = &end;
  }
  return at;
}

Status Channels::open_send(int channel, int peer) {
  HOCKET_ASSIGN(HostEnd* const opened, make_end(channel, peer));
  HostEnd& end = *opened;
  if (end.sends) return {};
  PeerView& view = this->peer(peer);
  HOCKET_TRY(commit_lines(layout_.credit(channel, peer), sizeof(CreditLine)));
  HOCKET_TRY(commit_lines(layout_.grant(channel, peer), layout_.slots * sizeof(GrantLine)));
  end.credit_in = reinterpret_cast<CreditLine*>(block_ + layout_.credit(channel, peer));
  end.grants_in = reinterpret_cast<GrantLine*>(block_ + layout_.grant(channel, peer));
  if (first_transfer_ != 0) end.credit_in->count.store(first_transfer_, std::memory_order_relaxed);
  end.credit_seen = first_transfer_ - kUnbound;
  if (view.block != nullptr) {
    end.data_out = reinterpret_cast<DataLine*>(view.block + layout_.data(channel, rank_));
  } else {
    const std::uint64_t lines = BlockLayout::page(layout_.slots * sizeof(DataLine));
    HOCKET_ASSIGN(const std::uint64_t shadow, arena_.reserve(lines + layout_.slots * layout_.slot_bytes, 4096));
    shadows_.push_back(shadow);
    HOCKET_TRY(arena_.commit(shadow, lines + layout_.slots * layout_.slot_bytes));
    end.data_out = reinterpret_cast<DataLine*>(arena_.base() + shadow);
  }
  end.sends = true;
  return {};
}

bool Channels::bind(int channel, int peer) {
  HostEnd& end = this->end(channel, peer);
  const std::uint64_t port = end.credit_in->port.load(std::memory_order_acquire);  // pairs with open_receive
  if (port == 0) return false;
  PeerView& view = this->peer(peer);
  // Another process wrote it: it must not lead out of its arena.
  if (port > view.arena_bytes || view.arena_bytes - port < port_layout_.bytes) return false;
  if (view.block != nullptr) {
    end.slots_out = view.arena + port + port_layout_.slots_at;
    end.packets_out = reinterpret_cast<PacketLine*>(view.arena + port + port_layout_.packets_at);
  } else {
    end.slots_out = reinterpret_cast<std::byte*>(end.data_out) + BlockLayout::page(layout_.slots * sizeof(DataLine));
    end.port = port;
  }
  end.credit_seen = first_transfer_;
  return true;
}

Status Channels::open_receive(int channel, int peer, bool slotted) {
  HOCKET_ASSIGN(HostEnd* const opened, make_end(channel, peer));
  HostEnd& end = *opened;
  if (end.receives && (end.slots_committed || !slotted)) return {};
  if (!end.receives) {
    PeerView& view = this->peer(peer);
    HOCKET_TRY(commit_lines(layout_.data(channel, peer), layout_.slots * sizeof(DataLine)));
    end.data_in = reinterpret_cast<DataLine*>(block_ + layout_.data(channel, peer));
    HOCKET_ASSIGN(const std::uint64_t port, arena_.reserve(port_layout_.bytes, 4096));
    ports_.push_back(port);
    end.slots_in = arena_.base() + port + port_layout_.slots_at;
    end.packets_in = reinterpret_cast<PacketLine*>(arena_.base() + port + port_layout_.packets_at);
    if (view.block != nullptr) {
      end.credit_out = reinterpret_cast<CreditLine*>(view.block + layout_.credit(channel, rank_));
      end.grants_out = reinterpret_cast<GrantLine*>(view.block + layout_.grant(channel, rank_));
      end.board_in = view.block + layout_.board(0);
    }
  }
  if (slotted && !end.slots_committed) {
    HOCKET_TRY(arena_.commit(static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(end.packets_in) - arena_.base()),
                             port_layout_.bytes));
    end.slots_committed = true;
    // A peer that only sends is told of by its endpoint where its transfers go, before it can know that it may.
    if (PeerView& view = this->peer(peer); view.block == nullptr) {
      for (std::uint64_t q = end.received; q < end.received + layout_.slots; ++q) {
        const std::byte* slot = end.slots_in + (q & (layout_.slots - 1)) * layout_.slot_bytes;
        HOCKET_TRY(view.endpoint->expect(data_key(block_offset_, channel, peer), offset_of(slot), layout_.slot_bytes));
      }
    }
  }
  if (end.receives) return {};
  end.receives = true;
  // The news, when all is there.
  PeerView& view = this->peer(peer);
  if (end.credit_out != nullptr) {
    end.credit_out->port.exchange(ports_.back(), std::memory_order_seq_cst);  // release; pairs with bind()
    ring(*view.header, *view.doorbell);
    return {};
  }
  CreditLine line{};
  line.port.store(ports_.back(), std::memory_order_relaxed);
  line.count.store(first_transfer_, std::memory_order_relaxed);
  const std::uint64_t bell = view.block_offset + offsetof(BlockHeader, doorbell);
  while (!view.proxy->signal(credit_key(view.block_offset, channel, rank_), &line, kCacheLine,
                             view.block_offset + layout_.credit(channel, rank_), bell)) {
    HOCKET_TRY(drive({view.proxy.get(), peer}));
    if (block().errors.load(std::memory_order_acquire) != 0)
      return error(Code::kAborted, "the communicator ended while channel {} from rank {} was opened", channel, peer);
  }
  return {};
}

Status Channels::commit_board() {
  if (board_committed_) return {};
  HOCKET_TRY(arena_.commit(block_offset_ + layout_.board(0), layout_.slots * layout_.slot_bytes));
  board_committed_ = true;
  return {};
}

}  // namespace hocket
