// SPDX-License-Identifier: Apache-2.0
// core/call.hpp: what a call is (its descriptor, which must be equal on all its ranks), and a call made ready to run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/select.hpp"
#include "exec/block.hpp"
#include "exec/executor.hpp"
#include "hocket/types.hpp"

namespace hocket {

/// What the caller asked for. Everything but the addresses.
struct CallKey {
  Collective collective = Collective::kBarrier;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  bool symmetric = false;  ///< buffers in mem_alloc memory
  Rank root = -1;          ///< the other rank for send and receive
  std::uint64_t count = 0;
  bool ordered = false;           ///< the ranks' elements are combined in rank order: the operator is not commutative
  std::uint64_t operator_id = 0;  ///< of a user's operator, which ranks must agree on; its function and scalars are the
                                  ///< rank's own and belong to the run
  friend bool operator==(const CallKey&, const CallKey&) = default;
};

/// A send, a receive, or a group of them: two ranks' matter, numbered apart from what all ranks do together.
constexpr bool is_message(Collective c) {
  return c == Collective::kSend || c == Collective::kReceive || c == Collective::kExchange;
}

/// What a call with unequal parts brings besides its key; lengths and offsets are elements (of an exchange: bytes).
/// Stays until the call has ended.
struct Uneven {
  // all_gather_v, reduce_scatter_v: one a rank, equal on all of them. all_to_all_v: one a rank. Exchange: one a
  // message.
  std::vector<std::uint64_t> counts, offsets;  ///< what I send where it is not the same for all
  std::vector<std::uint64_t> receive_counts, receive_offsets;
  std::uint64_t digest = 0;                         ///< of `counts`, where they must be equal on all ranks; else 0
  std::vector<Rank> sends, receives;                ///< exchange: whom message e goes to or comes from; ordered by rank
  std::vector<DataType> send_types, receive_types;  ///< exchange
  // Filled in when the call begins: what is in the lines of transfers where each pair has hashes of its own.
  std::vector<std::uint64_t> hashes, transfers;
  std::vector<PairHashes> out, in;  ///< by rank, into these
};

/// A plan of this rank and what its runs need besides.
struct ReadyPlan {
  Plan plan;
  mutable std::vector<Drain> drains;  ///< channels to peers from which the plan hears nothing
  bool defers = false;                ///< a call need not wait for them: see core/late_look.hpp
  bool merge_credits = false;  ///< no peer waits for a credit of this plan in particular: some may be published late
};

/// A call that can be started: cached by its key, so that a repeated call costs a comparison.
struct ReadyCall {
  CallKey key;
  Choice choice;
  const ReadyPlan* plan = nullptr;
  BoundCall bound;                 ///< addresses are filled in per call
  Tape tape;                       ///< its steps, where they are few; else empty
  std::uint64_t hash = 0;          ///< of the key and choice
  const Uneven* uneven = nullptr;  ///< of the run under way, where parts are unequal
  std::uint64_t record_what = 0;
  std::uint64_t record_root_tile = 0;
  std::uint64_t operator_name[2] = {};  ///< the first letters of a user's operator, for the record
};

/// The hash that must be equal on all ranks of a call (on both of a message): everything that decides what moves where.
std::uint64_t descriptor_hash(const CallKey& key, const Choice& choice, const World& world, Rank rank);

/// The hash of a message of `count` elements, equal on both sides whether they call it alone or in a group.
std::uint64_t message_hash(std::uint64_t count, DataType type, Rank from, Rank to, const Choice& choice,
                           const World& world);
/// The hash of one pair's part of an all_to_all_v whose call has the hash `call`.
std::uint64_t pair_hash(std::uint64_t call, std::uint64_t count);

/// The state of a recorded call.
enum class CallState : std::uint8_t { kRunning = 0, kDone = 1, kFailed = 2 };

/// A call as its record tells it, for messages and `hocket ps`.
struct RecordedCall {
  std::uint64_t number = 0;
  std::uint64_t hash = 0;
  std::uint64_t count = 0;
  Collective collective = Collective::kBarrier;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  CallState state = CallState::kRunning;
  Protocol protocol = Protocol::kBulk;
  std::uint8_t algorithm = 0;  ///< index into algorithms()
  int lanes = 1;
  std::int32_t root = -1;
  std::uint32_t tile_bytes = 0;
  std::uint64_t operator_name[2] = {};
};

/// The first 16 bytes of a user's operator's name, as records have it.
void write_operator(std::uint64_t (&to)[2], std::string_view name);

std::uint64_t pack_what(const CallKey& key, const Choice& choice);
std::uint64_t pack_root_tile(const CallKey& key, const Choice& choice);
/// What pack_what and pack_root_tile packed, without number, hash and count. False if it is not possible.
bool unpack(std::uint64_t what, std::uint64_t root_tile, RecordedCall* call);
/// Call `number` of a ring of records; false if it is not there (not entered, overwritten, or torn).
bool read_record(const CallRecord* ring, std::uint64_t records, std::uint64_t number, RecordedCall* call);
void write_record(CallRecord* ring, std::uint64_t records, std::uint64_t number, const ReadyCall& call);
void end_record(CallRecord* ring, std::uint64_t records, std::uint64_t number, CallState state);

/// "all_reduce #17 of 1024 float32, sum, by two_shot (bulk, tile 65536)".
std::string to_text(const RecordedCall& call);

}  // namespace hocket
