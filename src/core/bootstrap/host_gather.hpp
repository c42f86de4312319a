// SPDX-License-Identifier: Apache-2.0
// host_gather.hpp: all-gathers of one block a host, among the leaders: ceil(log2 hosts) rounds, in round k from the
// leader 2^k hosts further and to the one 2^k before, all blocks that are there or that are still missing there.
//
// Source: Bruck et al., Efficient algorithms for all-to-all communications in multiport message-passing systems, IEEE
// TPDS 1997 (the concatenation algorithm).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/bootstrap/frames.hpp"
#include "core/bootstrap/messages.hpp"

namespace hocket {

/// Nothing here waits. One thread.
class HostGather {
 public:
  using Block = std::vector<std::byte>;

  /// By what the root says to a leader when all have come. Errors: kMismatch, it is nonsense for `size` ranks.
  Status take_place(std::span<const std::byte> welcome, int size, std::string_view self);
  const WelcomeHead& place() const noexcept { return place_; }
  /// Leaders to connect to, by round.
  const std::vector<LeaderCard>& targets() const noexcept { return targets_; }

  /// A connection to the next target.
  void link_to(FrameStream stream);
  /// One from another leader; may come before take_place(). Passed over if no round is its.
  void link_from(std::uint32_t round, FrameStream stream);
  bool linked() const;
  /// "a connection from host a (rank 0)": what it waits for until then.
  std::string missing_links() const;
  void add_streams(std::vector<FrameStream*>& streams);
  void send_error(const Status& status);
  bool flushed() const;

  /// Begins one, with this host's own block. All leaders number them alike.
  void begin(std::uint64_t sequence, Block own);
  bool under_way() const noexcept { return under_way_; }
  /// Goes on as far as it gets; true: all blocks are there. Errors: kMismatch, kPeerLost.
  Result<bool> advance(std::string_view self);
  /// All, from this host's own on; then it is not under way.
  std::vector<Block> take_blocks();
  /// The host of the i-th of these.
  std::size_t host_of(std::size_t i) const noexcept { return (place_.index + i) % place_.hosts; }
  /// Whom it waits for.
  std::string source() const { return sources_[round_].name(); }

  int rounds_done() const noexcept { return static_cast<int>(rounds_done_); }

 private:
  void send_blocks();
  Status receive_blocks(const Frame& frame);

  WelcomeHead place_;
  std::vector<LeaderCard> targets_, sources_;          // by round
  std::vector<std::optional<FrameStream>> to_, from_;  // by round

  bool under_way_ = false;
  std::uint64_t sequence_ = 0;
  std::uint32_t round_ = 0;
  bool round_sent_ = false;
  std::vector<Block> blocks_;  // from this host's on
  std::uint64_t rounds_done_ = 0;
};

}  // namespace hocket
