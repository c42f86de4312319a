// SPDX-License-Identifier: Apache-2.0
// checker_state.hpp: the checker's model of memory, clocks and channels. Private to the checker.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "checker/check_call.hpp"
#include "exec/posted_puts.hpp"

namespace hocket::check {

/// What an element holds: the sum of its contributions' tokens, and a hash of the expression that made it.
struct Value {
  std::uint64_t sum = 0;
  std::uint64_t tree = 0;
};

constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// What rank's element e of its input is worth in a call; rank + world: what the caller leaves in its memory after it.
constexpr std::uint64_t token(std::uint64_t seed, std::uint64_t rank, std::uint64_t e, std::uint64_t call) {
  return mix(seed ^ (rank << 44) ^ (call << 40) ^ e);
}
constexpr Value origin(std::uint64_t token) {
  return {token, token * 0xd6e8feb86659fd93};
}

/// The division of an average: any bijection that is not additive will do.
inline constexpr std::uint64_t kFinishFactor = 0xa0761d6478bd642f;
inline constexpr std::uint64_t kFinishOffset = 0xe7037ed1a0b428db;
constexpr std::uint64_t finished(std::uint64_t sum) {
  return sum * kFinishFactor + kFinishOffset;
}

// The hash of an expression: of sources in their order, of the Move that reduced them, and of the division.
constexpr std::uint64_t reduced(std::uint64_t tree, std::uint64_t next) {
  return mix(tree * 0x9fb21c651e98df25 + next);
}
constexpr std::uint64_t moved_tree(std::uint64_t tree) {
  return mix(tree + 1);
}
constexpr std::uint64_t finished_tree(std::uint64_t tree) {
  return mix(tree ^ kFinishFactor);
}

/// One element of memory: its value, who wrote it last and who read it since (thread and that thread's clock).
/// In a slot, write_clock and read_clock are the transfer it was written and read by, plus one.
struct Element {
  Value value;
  std::int32_t write_clock = 0;
  std::uint16_t write_thread = 0;
  std::uint16_t unused = 0;
  std::int32_t read_clock = 0;
  std::uint16_t read_thread = 0;  ///< kShared: read_clock is the first of a list of reads
  std::uint16_t unused2 = 0;
};
static_assert(sizeof(Element) == 32);
inline constexpr std::uint16_t kShared = 0xffff;

/// Reads of one element by several threads, none of which orders the others.
struct SharedRead {
  std::int32_t clock;
  std::int32_t next;
  std::uint16_t thread;
};

/// Elements handed out in runs and taken back all at once.
class Arena {
 public:
  /// Zeroed.
  Element* take(std::uint64_t count) {
    while (block_ < blocks_.size() && blocks_[block_].size - used_ < count) {
      ++block_;
      used_ = 0;
    }
    if (block_ == blocks_.size()) {
      const std::uint64_t size = std::max<std::uint64_t>(count, 1 << 14);
      blocks_.push_back({std::make_unique<Element[]>(size), size});
      used_ = 0;
    }
    Element* at = blocks_[block_].elements.get() + used_;
    std::memset(static_cast<void*>(at), 0, count * sizeof(Element));
    used_ += count;
    return at;
  }
  void clear() { block_ = used_ = 0; }

 private:
  struct Block {
    std::unique_ptr<Element[]> elements;
    std::uint64_t size;
  };
  std::vector<Block> blocks_;
  std::size_t block_ = 0;
  std::uint64_t used_ = 0;
};

struct Slot {
  Element* elements = nullptr;
  std::int32_t tag = 0;  ///< transfer it was last written by, plus one
  std::uint32_t written = 0;
  std::uint32_t read = 0;
};

/// Clocks that a counter's latest values carry, by value mod kSnapshots.
inline constexpr int kSnapshots = 8;
static_assert(kSnapshots >= kMaxCheckedSlots + 2);

struct Channel {
  std::uint16_t id = 0;
  bool board = false;
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int64_t sent = 0;         ///< also the data counter
  std::int64_t received = 0;     ///< also the credit counter
  std::int64_t seen_data = 0;    ///< by the receiver's waits
  std::int64_t seen_credit = 0;  ///< by the sender's waits
  std::int32_t data_waiter = -1;
  std::int32_t credit_waiter = -1;
  std::int64_t data_number[kSnapshots];
  std::int64_t credit_number[kSnapshots];
  std::int32_t* clocks = nullptr;  ///< [data, credit][kSnapshots][stride]
  Slot slots[kMaxCheckedSlots];
  // Grants given in the giver's call `grant_call`: the counter's value from which on it is seen; kinds input, output.
  std::int32_t data_grant_call[2] = {-1, -1};
  std::int32_t credit_grant_call[2] = {-1, -1};
  std::int64_t data_grant[2] = {};
  std::int64_t credit_grant[2] = {};
  std::int64_t sent_after[kMaxCheckedCalls];
  std::int64_t received_after[kMaxCheckedCalls];
};

/// A slot that the writer keeps and several readers read.
struct Board {
  std::vector<std::int32_t> channels;  ///< to each reader
  Slot slots[kMaxCheckedSlots];
};

}  // namespace hocket::check
