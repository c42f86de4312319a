// SPDX-License-Identifier: Apache-2.0
// posted_puts.hpp: which posted Moves of a lane may not have read their sources yet. Shared by the checker's posted
// mode and by the derivation of completion waits (posted.hpp), so that both mean the same.
//
// A Move with remote destinations is one put a destination. Its sources are read at some time before a Signal data of
// that channel arrives, before a credit for that transfer comes back, or before a completion wait that covers it.
#pragma once

#include <cstdint>
#include <vector>

namespace hocket::check {

class PostedPuts {
 public:
  /// Never credited: direct puts, whose credits are grants in advance.
  static constexpr std::int64_t kDirect = INT64_MAX;

  void clear() { *this = {}; }

  /// A new Move; its puts and the slots it reads follow. Numbers start at 1.
  std::int32_t post() { return ++posted_; }
  void put(std::uint16_t channel, std::int32_t peer, std::int64_t transfer) {
    open_.push_back({posted_, channel, peer, transfer});
  }
  void reads_slot(std::uint16_t channel, std::int32_t peer, std::int64_t transfer) {
    slot_reads_.push_back({posted_, channel, peer, transfer});
  }

  /// Transfers below `credit` of this channel were taken by their receiver.
  void credited(std::uint16_t channel, std::int32_t peer, std::int64_t credit) {
    std::erase_if(open_, [&](const Entry& e) { return e.channel == channel && e.peer == peer && e.transfer < credit; });
    tidy();
  }
  void complete_all() {
    open_.clear();
    slot_reads_.clear();
  }
  void complete_move(std::int32_t move) {
    std::erase_if(open_, [move](const Entry& e) { return e.move == move; });
    tidy();
  }
  /// Those that read this transfer's slot.
  void complete_slot(std::uint16_t channel, std::int32_t peer, std::int64_t transfer) {
    for (std::size_t r = 0; r < slot_reads_.size();) {
      const Entry read = slot_reads_[r];
      if (read.channel != channel || read.peer != peer || read.transfer != transfer) {
        ++r;
        continue;
      }
      std::erase_if(open_, [&](const Entry& e) { return e.move == read.move; });
      slot_reads_[r] = slot_reads_.back();
      slot_reads_.pop_back();
    }
    tidy();
  }
  bool slot_busy(std::uint16_t channel, std::int32_t peer, std::int64_t transfer) const {
    for (const Entry& e : slot_reads_)
      if (e.channel == channel && e.peer == peer && e.transfer == transfer) return true;
    return false;
  }
  bool idle() const { return open_.empty(); }
  /// All Moves up to this number have read their sources.
  std::int32_t complete() const { return open_.empty() ? posted_ : open_.front().move - 1; }
  /// All Moves up to this number will have when a Signal data of this channel, sent now, arrives.
  std::int32_t complete_at(std::uint16_t channel, std::int32_t peer) const {
    for (const Entry& e : open_)
      if (e.channel != channel || e.peer != peer) return e.move - 1;
    return posted_;
  }

 private:
  struct Entry {
    std::int32_t move;
    std::uint16_t channel;
    std::int32_t peer;
    std::int64_t transfer;
  };

  /// Forget the slot reads of Moves that are complete.
  void tidy() {
    std::erase_if(slot_reads_, [&](const Entry& read) {
      for (const Entry& e : open_)
        if (e.move == read.move) return false;
      return true;
    });
  }

  std::vector<Entry> open_;        // in order of posting
  std::vector<Entry> slot_reads_;  // of open Moves
  std::int32_t posted_ = 0;
};

}  // namespace hocket::check
