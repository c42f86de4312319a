// SPDX-License-Identifier: Apache-2.0
#include "core/call.hpp"

#include <algorithm>
#include <cstring>

#include "base/status.hpp"

namespace hocket {
namespace {

constexpr std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdull;
  return h ^ (h >> 32);
}

std::uint8_t index_of(const Algorithm* algorithm) {
  return static_cast<std::uint8_t>(algorithm - algorithms().data());
}

/// "sum"; of a user's operator as much of its name as the record has.
std::string operator_text(const RecordedCall& call) {
  if (call.op != ReduceOp::kUser) return std::string(to_string(call.op));
  char name[sizeof call.operator_name];
  std::memcpy(name, call.operator_name, sizeof name);
  std::string text = "user operator '";
  for (const char c : name) {
    if (c == 0) break;
    text += c >= ' ' && c <= '~' ? c : '?';  // it came from a peer
  }
  return text + (name[sizeof name - 1] != 0 ? "…'" : "'");
}

}  // namespace

std::uint64_t message_hash(std::uint64_t count, DataType type, Rank from, Rank to, const Choice& choice,
                           const World& world) {
  std::uint64_t h = 0x6d657373616765;
  for (const std::uint64_t v :
       {count, static_cast<std::uint64_t>(type), static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to),
        static_cast<std::uint64_t>(choice.protocol), choice.tile_bytes, world.slots})
    h = mix(h, v);
  return h == 0 ? 1 : h;
}

std::uint64_t pair_hash(std::uint64_t call, std::uint64_t count) {
  const std::uint64_t h = mix(call, count);
  return h == 0 ? 1 : h;
}

std::uint64_t descriptor_hash(const CallKey& key, const Choice& choice, const World& world, Rank rank) {
  if (key.collective == Collective::kSend) return message_hash(key.count, key.type, rank, key.root, choice, world);
  if (key.collective == Collective::kReceive) return message_hash(key.count, key.type, key.root, rank, choice, world);
  const auto root = static_cast<std::uint64_t>(static_cast<std::int64_t>(key.root));
  std::uint64_t h = 0x686f636b6574;
  for (const std::uint64_t v :
       {static_cast<std::uint64_t>(key.collective), key.count, static_cast<std::uint64_t>(key.type),
        reduces(key.collective) ? static_cast<std::uint64_t>(key.op) : 0, root,
        std::uint64_t{index_of(choice.algorithm)}, static_cast<std::uint64_t>(choice.protocol),
        static_cast<std::uint64_t>(choice.lanes), choice.tile_bytes, static_cast<std::uint64_t>(choice.tiles_per_round),
        world.slots, world.layout_digest})
    h = mix(h, v);
  if (key.operator_id != 0) h = mix(h, key.operator_id);
  return h == 0 ? 1 : h;
}

void write_operator(std::uint64_t (&to)[2], std::string_view name) {
  char text[sizeof to] = {};
  std::memcpy(text, name.data(), std::min(name.size(), sizeof text));
  std::memcpy(to, text, sizeof to);
}

std::uint64_t pack_what(const CallKey& key, const Choice& choice) {
  const std::uint64_t fields[] = {
      static_cast<std::uint64_t>(key.collective), static_cast<std::uint64_t>(key.type),
      static_cast<std::uint64_t>(key.op),         static_cast<std::uint64_t>(CallState::kRunning),
      std::uint64_t{index_of(choice.algorithm)},  static_cast<std::uint64_t>(choice.protocol),
      static_cast<std::uint64_t>(choice.lanes),   0};
  std::uint64_t what = 0;
  for (int i = 0; i < 8; ++i) what |= (fields[i] & 0xff) << (8 * i);
  return what;
}

std::uint64_t pack_root_tile(const CallKey& key, const Choice& choice) {
  const std::uint64_t tile = std::min<std::uint64_t>(choice.tile_bytes, 0xffffffffu);
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.root)) | (tile << 32);
}

bool read_record(const CallRecord* ring, std::uint64_t records, std::uint64_t number, RecordedCall* call) {
  const CallRecord& r = ring[number % records];
  if (r.number.load(std::memory_order_acquire) != number + 1) return false;  // pairs with write_record
  call->number = number;
  call->hash = r.hash.load(std::memory_order_relaxed);
  call->count = r.count.load(std::memory_order_relaxed);
  const std::uint64_t what = r.what.load(std::memory_order_relaxed);
  const std::uint64_t root_tile = r.root_tile.load(std::memory_order_relaxed);
  for (int i = 0; i < 2; ++i) call->operator_name[i] = r.operator_name[i].load(std::memory_order_relaxed);
  // Still the same record: the loads above must not sink below this one.
  if (r.number.load(std::memory_order_acquire) != number + 1) return false;
  return unpack(what, root_tile, call);
}

bool unpack(std::uint64_t what, std::uint64_t root_tile, RecordedCall* call) {
  const auto field = [what](int i) { return static_cast<std::uint8_t>(what >> (8 * i)); };
  if (field(0) >= kCollectiveCount || field(1) >= kDataTypeCount || field(2) >= kReduceOpCount || field(3) > 2 ||
      field(4) >= algorithms().size() || field(5) >= kProtocolCount)
    return false;
  call->collective = static_cast<Collective>(field(0));
  call->type = static_cast<DataType>(field(1));
  call->op = static_cast<ReduceOp>(field(2));
  call->state = static_cast<CallState>(field(3));
  call->algorithm = field(4);
  call->protocol = static_cast<Protocol>(field(5));
  call->lanes = field(6);
  call->root = static_cast<std::int32_t>(root_tile & 0xffffffffu);
  call->tile_bytes = static_cast<std::uint32_t>(root_tile >> 32);
  return true;
}

void write_record(CallRecord* ring, std::uint64_t records, std::uint64_t number, const ReadyCall& call) {
  CallRecord& r = ring[number % records];
  r.number.store(0, std::memory_order_relaxed);
  // A reader that still sees the old number may see new fields: it looks at the number again afterwards, and release
  // stores of the fields keep that look from seeing the old one.
  r.hash.store(call.bound.hash, std::memory_order_release);
  r.count.store(call.key.count, std::memory_order_release);
  r.what.store(call.record_what, std::memory_order_release);
  r.root_tile.store(call.record_root_tile, std::memory_order_release);
  if (call.key.op == ReduceOp::kUser) [[unlikely]]
    for (int i = 0; i < 2; ++i) r.operator_name[i].store(call.operator_name[i], std::memory_order_release);
  r.number.store(number + 1, std::memory_order_release);  // pairs with read_record
}

void end_record(CallRecord* ring, std::uint64_t records, std::uint64_t number, CallState state) {
  CallRecord& r = ring[number % records];
  const std::uint64_t what = r.what.load(std::memory_order_relaxed);
  r.what.store((what & ~(std::uint64_t{0xff} << 24)) | (static_cast<std::uint64_t>(state) << 24),
               std::memory_order_release);
}

std::string to_text(const RecordedCall& call) {
  std::string text = format("{} #{}", to_string(call.collective), call.number);
  switch (call.collective) {
    case Collective::kBarrier: return text;
    case Collective::kSend: text += format(" to rank {}", call.root); break;
    case Collective::kReceive: text += format(" from rank {}", call.root); break;
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kGather:
    case Collective::kScatter: text += format(" with root {}", call.root); break;
    default: break;
  }
  if (call.collective == Collective::kExchange)
    return format("group #{} of {} sends and {} receives", call.number, call.count & 0xffffffffu, call.count >> 32);
  const bool uneven = call.collective == Collective::kAllGatherV || call.collective == Collective::kReduceScatterV ||
                      call.collective == Collective::kAllToAllV;
  text += uneven ? format(" of {}", to_string(call.type)) : format(" of {} {}", call.count, to_string(call.type));
  if (reduces(call.collective)) text += format(", {}", operator_text(call));
  return text + format(", by {} ({}, tile {}{})", algorithms()[call.algorithm].name, to_string(call.protocol),
                       call.tile_bytes, call.lanes > 1 ? format(", {} lanes", call.lanes) : std::string());
}

}  // namespace hocket
