// SPDX-License-Identifier: Apache-2.0
// exec/channels.hpp: the channel ends of one rank: where its lines and slots are, here and at its peers, and its
// cursors.
//
// Built once per communicator from the ranks' block offsets and endpoints. A peer whose memory cannot be stored into
// gets shadow lines and staging slots of this rank's own, and a proxy queue that carries them over.
#pragma once

#include <cstdint>
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
  std::uint64_t credit_seen = 0;      ///< the newest credit that was read
  DataLine* data_out = nullptr;       ///< S lines at the peer, or shadows
  std::byte* slots_out = nullptr;     ///< S slots at the peer, or staging
  PacketLine* packets_out = nullptr;  ///< null: no packets to this peer
  CreditLine* credit_in = nullptr;    ///< mine
  GrantLine* grants_in = nullptr;     ///< S of mine
  // peer -> me
  std::uint64_t received = 0;
  std::uint64_t credited = 0;   ///< the newest credit that was published
  bool owes = false;            ///< is on its lane policy's list of credits put off
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
  /// Rank r of `peers`, whose own entry has its own arena; blocks are laid out alike. `first_transfer` is 0 but in
  /// tests of wrap-around. Errors: kOutOfMemory.
  static Result<std::unique_ptr<Channels>> create(Arena& arena, std::uint64_t block_offset, const BlockLayout& layout,
                                                  Rank rank, std::vector<PeerView> peers,
                                                  std::uint64_t first_transfer = 0);
  ~Channels();

  HostEnd& end(int channel, int peer) { return ends_[layout_.end_index(channel, peer)]; }
  PeerView& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const PeerView& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  std::span<PeerView> peers() { return peers_; }
  /// Those reached only through a proxy queue.
  std::span<ProxyQueue* const> proxies() const { return proxies_; }
  BlockHeader& block() const { return *reinterpret_cast<BlockHeader*>(block_); }
  std::byte* board() const { return block_ + layout_.board(0); }
  const BlockLayout& layout() const { return layout_; }
  Rank rank() const { return rank_; }
  int size() const { return static_cast<int>(layout_.size); }

  /// Memory for what a peer will write on this channel, so that nobody meets SIGBUS. Once per end; cheap when repeated.
  Status commit_receive(int channel, int peer);
  /// Memory for staging towards a peer that only puts reach.
  Status commit_send(int channel, int peer);
  /// The same for my board.
  Status commit_board();

 private:
  Channels(Arena& arena, const BlockLayout& layout) : arena_(arena), layout_(layout) {}
  Arena& arena_;
  BlockLayout layout_;
  std::uint64_t block_offset_ = 0;
  std::byte* block_ = nullptr;
  Rank rank_ = 0;
  std::vector<PeerView> peers_;
  std::vector<ProxyQueue*> proxies_;
  std::vector<HostEnd> ends_;
  std::vector<bool> committed_;
  bool board_committed_ = false;
  std::uint64_t shadow_offset_ = 0;  ///< of shadow lines and staging slots in the arena; 0: none
};

}  // namespace hocket
