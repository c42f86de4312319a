// SPDX-License-Identifier: Apache-2.0
// exec/channels.hpp: the channel ends of one rank: where its lines and slots are, here and at its peers, and its
// cursors.
//
// Peers are connected and ends opened when a plan first uses them, so a rank pays for what it uses, whatever the size
// of the world. A peer whose memory cannot be stored into gets shadow lines and staging slots of this rank's own, and a
// proxy queue that carries them over.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "exec/block.hpp"
#include "exec/proxy.hpp"
#include "transport/arena.hpp"
#include "transport/transport.hpp"

namespace hocket {

/// One peer of this rank: how its block is reached.
struct PeerView {
  std::shared_ptr<Endpoint> endpoint;
  std::uint64_t block_offset = 0;  ///< in the peer's arena
  std::uint64_t arena_bytes = 0;   ///< of the peer's arena
  std::byte* arena = nullptr;      ///< the peer's arena; null: only puts
  std::byte* block = nullptr;      ///< the peer's block; null: only puts
  ArenaHeader* header = nullptr;
  Doorbell* doorbell = nullptr;
  std::unique_ptr<ProxyQueue> proxy;  ///< where block is null

  BlockHeader* block_header() const { return reinterpret_cast<BlockHeader*>(block); }
};

/// Both directions between one lane of mine and one of a peer. Private memory of the rank.
struct HostEnd {
  // me -> peer
  std::uint64_t sent = 0;
  std::uint64_t credit_seen = 0;      ///< the newest credit that was read; before the port is known, a number so old
                                      ///< that nothing may be sent
  DataLine* data_out = nullptr;       ///< S lines at the peer, or shadows
  std::byte* slots_out = nullptr;     ///< S slots at the peer, or staging; null: the peer has not announced them
  PacketLine* packets_out = nullptr;  ///< null: no packets to this peer
  CreditLine* credit_in = nullptr;    ///< mine
  GrantLine* grants_in = nullptr;     ///< S of mine
  std::uint64_t port = 0;             ///< of the peer's slots in its arena, where only puts reach
  // peer -> me
  std::uint64_t received = 0;
  std::uint64_t credited = 0;  ///< the newest credit that was published
  bool owes = false;           ///< is on its lane policy's list of credits put off
  bool sends = false;          ///< opened for me -> peer
  bool receives = false;       ///< opened for peer -> me
  bool slots_committed = false;
  DataLine* data_in = nullptr;  ///< S of mine
  std::byte* slots_in = nullptr;
  PacketLine* packets_in = nullptr;
  CreditLine* credit_out = nullptr;  ///< the peer's, null where only puts reach
  GrantLine* grants_out = nullptr;
  // boards: one writer, all its peers read
  std::byte* board_in = nullptr;  ///< the peer's board; null where it cannot be read
};

class Channels {
 public:
  /// Of rank `rank`, whose block is at `block_offset`; all ranks' blocks are laid out alike. `first_transfer` is 0 but
  /// in tests of wrap-around.
  Channels(Arena& arena, std::uint64_t block_offset, const BlockLayout& layout, Rank rank,
           std::uint64_t first_transfer = 0);
  ~Channels();
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  /// Memory for the part of the block that peers may write to at any time. Before anybody is told of the block.
  /// Errors: kOutOfMemory.
  static Status commit_block(Arena& arena, std::uint64_t block_offset, const BlockLayout& layout);

  /// From now on this peer can be used. Once per rank, also for `rank` itself. Owner of the turn only.
  void connect(int peer, PeerView view);
  /// The peer is connected. These two: any thread.
  bool connected(int peer) const { return find(peer) != nullptr; }
  /// Null if it is not.
  PeerView* find(int peer) const { return peers_[static_cast<std::size_t>(peer)].load(std::memory_order_acquire); }
  /// Must be connected.
  PeerView& peer(int rank) const { return *find(rank); }
  /// Those reached only through a proxy queue, and who that is.
  struct Proxied {
    ProxyQueue* queue;
    int peer;
  };
  std::span<const Proxied> proxies() const { return proxies_; }
  /// Hands over what is queued and moves what is under way. The end of the connection to a peer that has left is no
  /// error: what it had sent before has come, and a call that needs more of it finds out. Errors: kPeerLost.
  Status drive(const Proxied& proxied) const;
  /// The peer will make no more calls. Any thread.
  bool has_left(int peer) const;

  /// Make an end usable: memory for what the peer will write to, so that nobody meets SIGBUS, and the news for the
  /// peer where that is. The peer must be connected. Cheap when repeated. Owner of the turn only.
  Status open_send(int channel, int peer);
  Status open_receive(int channel, int peer, bool slotted);
  /// Memory for my board.
  Status commit_board();
  /// Must be open.
  HostEnd& end(int channel, int peer) const { return *ends_[static_cast<std::size_t>(channel)][peer]; }
  /// The peer's slots, if it has announced them. Called while they are not known. False: not yet.
  bool bind(int channel, int peer);

  BlockHeader& block() const { return *reinterpret_cast<BlockHeader*>(block_); }
  std::byte* board() const { return block_ + layout_.board(0); }
  const BlockLayout& layout() const { return layout_; }
  const PortLayout& port_layout() const { return port_layout_; }
  std::uint64_t block_offset() const { return block_offset_; }
  Rank rank() const { return rank_; }
  int size() const { return static_cast<int>(layout_.size); }
  /// Of something in this process's arena.
  std::uint64_t offset_of(const std::byte* at) const { return static_cast<std::uint64_t>(at - arena_.base()); }
  /// Where peers may still write when this object is gone: the owner gives these ranges of the arena back later.
  std::vector<std::uint64_t> take_ports() { return std::move(ports_); }

 private:
  Result<HostEnd*> make_end(int channel, int peer);
  Status commit_lines(std::uint64_t offset, std::uint64_t bytes);

  Arena& arena_;
  const BlockLayout layout_;
  const PortLayout port_layout_;
  const std::uint64_t block_offset_;
  std::byte* const block_;
  const Rank rank_;
  const std::uint64_t first_transfer_;
  std::unique_ptr<std::atomic<PeerView*>[]> peers_;  // [size]
  std::deque<PeerView> views_;
  std::vector<Proxied> proxies_;
  std::array<std::unique_ptr<HostEnd*[]>, kChannelIds> ends_;  // [channel][size], made when the channel is first used
  std::deque<HostEnd> storage_;
  std::vector<std::uint64_t> ports_;
  std::vector<std::uint64_t> shadows_;  // ranges of shadow lines and staging slots
  bool board_committed_ = false;
};

}  // namespace hocket
