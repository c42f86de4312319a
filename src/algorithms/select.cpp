// SPDX-License-Identifier: Apache-2.0
// select.cpp: the rules and the cost model behind choose(); what was measured is in tuning.cpp's table. Next stop:
// algorithms/ring.cpp and its sisters.
#include "algorithms/select.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/status.hpp"

namespace hocket {
namespace {

// Host protocols by bytes of a transfer: one line carries 48 bytes beside its counter, which saves a line up to a
// kibibyte; from there on one counter for all is cheapest. Packets, which must be looked at line by line, have not paid
// on a host that keeps stores in order: they are taken where HOCKET_PROTO asks for them. A packet slot holds 64 lines.
constexpr std::uint64_t kFirstLineTile = 1024, kMaxPacketTile = 48 + 64 * 56;
constexpr std::uint64_t kTileBytes = 64 << 10;

constexpr int kAnySize = 1 << 30;

/// What the uneven forms are chosen for, in bytes of a chunk: nobody knows all counts.
constexpr std::uint64_t kNominalBytes = kTileBytes;
/// Beyond that, all-to-all-v goes through its partners one after the other: no receiver is flooded.
constexpr int kMostAtOnce = 64;

bool knows_no_counts(Collective collective) {
  return collective == Collective::kAllGatherV || collective == Collective::kReduceScatterV ||
         collective == Collective::kAllToAllV || collective == Collective::kExchange;
}

/// Seconds of an algorithm by latency (per hop) and bandwidth (per link), for worlds without rows. Messages that one
/// rank handles in a row cost it a part of a hop each. Where several tiles share a slot, each round of such tiles goes
/// through all steps before the next, and what is forwarded is copied once more; an inner rank of a tree has three
/// streams at a time.
double cost(const Algorithm& algorithm, const World& world, double bytes) {
  constexpr double kEach = 1.0 / 8, kForwarded = 1.25;
  const std::string_view name = algorithm.name;
  const Collective collective = algorithm.collective;
  const double n = world.size;
  const double hop = world.hop_seconds > 0 ? world.hop_seconds : 1e-6;
  const double per_byte = world.seconds_per_byte > 0 ? world.seconds_per_byte : 1e-10;
  const double log_n = std::ceil(std::log2(std::max(2.0, n)));
  const bool chunked =
      collective != Collective::kAllReduce && collective != Collective::kBroadcast && collective != Collective::kReduce;
  const double total = chunked ? bytes * n : bytes;
  const double scatter = (n - 1) / n * total * per_byte;
  const double once = hop + (n - 1) * kEach * hop;
  const auto rounds = [&](double chunk) {
    return std::max(1.0, std::ceil(chunk * pieces_of(algorithm, world.size) / static_cast<double>(world.slot_bytes)));
  };
  if (name == "ring") return (collective == Collective::kAllReduce ? 2 : 1) * ((n - 1) * hop + scatter);
  if (name == "tree")
    return (collective == Collective::kAllReduce ? 2 : 1) * (log_n * (1 + kEach) * hop + total * per_byte * kForwarded);
  if (name == "chain") return (n - 1) * hop + total * per_byte;
  if (name == "one_shot") return once + (n - 1) * bytes * per_byte;
  if (name == "two_shot") return 2 * (once + scatter);
  if (name == "direct") return once + (collective == Collective::kBroadcast ? (n - 1) * bytes * per_byte : scatter);
  if (name == "pairwise") return (n - 1) * hop + scatter;
  if (name == "halving_doubling") {
    const double p = std::exp2(std::floor(std::log2(n)));
    const double fold = p == n ? 0 : 2 * (hop + bytes * per_byte);
    return fold + 2 * (rounds(bytes / p) * std::log2(p) * hop + (p - 1) / p * bytes * per_byte * kForwarded);
  }
  if (name == "log_step" || name == "binomial") return rounds(bytes) * log_n * hop + scatter * kForwarded;
  if (name == "bruck") return rounds(bytes) * log_n * hop + log_n * n / 2 * bytes * per_byte * kForwarded;
  return hop;
}

/// What the world's table says of such a call; null: nothing.
const TuningRow* measured(Collective collective, std::uint64_t bytes, bool symmetric, const World& world) {
  const Tuning& table = world.tuning ? *world.tuning : default_tuning();
  const bool puts = !world.direct || world.hosts > 1;
  if (symmetric && !puts)
    if (const TuningRow* row = table.find(collective, Where::kSymmetric, world.size, bytes)) return row;
  return table.find(collective,
                    puts            ? Where::kPuts
                    : world.crowded ? Where::kCrowded
                                    : Where::kDirect,
                    world.size, bytes);
}

std::vector<const Algorithm*> by_preference(Collective collective, std::uint64_t bytes, bool symmetric,
                                            const World& world, const TuningRow* row) {
  std::vector<const Algorithm*> list;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.collective == collective) list.push_back(&algorithm);
  const auto rank_of = [&](const Algorithm& a) -> double {
    // What was measured with such buffers; what takes none of their advantage was measured with others.
    if (row != nullptr && row->algorithm == &a && (row->where == Where::kSymmetric || !symmetric)) return -3;
    if (symmetric && a.zero_copy) return -2;
    if (row != nullptr && row->algorithm == &a) return -1;
    if (collective == Collective::kAllToAllV)
      return a.name == (world.size <= kMostAtOnce ? "direct" : "pairwise") ? -1 : 0;
    return cost(a, world, static_cast<double>(bytes)) + (a.boards ? 1 : 0);
  };
  std::stable_sort(list.begin(), list.end(),
                   [&](const Algorithm* a, const Algorithm* b) { return rank_of(*a) < rank_of(*b); });
  return list;
}

/// Empty: it fits.
std::string why_not(const Algorithm& a, bool symmetric, const World& world, const OperatorNeeds& needs) {
  if (!world.algorithms.allows(a.collective, a.name))
    return format("HOCKET_ALGO={} rules it out", world.algorithms.text());
  if (a.max_world != 0 && world.size > a.max_world) return format("it is for up to {} ranks", a.max_world);
  if (needs.rank_order && !a.ordered) return "it does not combine the ranks in their order";
  if (needs.own_input && a.zero_copy) return "peers would read inputs before they are scaled";
  if (world.reproducible && reduces(a.collective) && !a.ordered)
    return "it does not reduce in rank order, which HOCKET_REPRODUCIBLE=1 asks for";
  if (static_cast<std::uint64_t>(pieces_of(a, world.size)) > world.slot_bytes / 16)
    return format("a slot of {} bytes does not hold {} tiles", world.slot_bytes, pieces_of(a, world.size));
  if (a.zero_copy && !symmetric) return "the buffers are not mem_alloc memory";
  if ((a.zero_copy || a.boards) && !world.direct) return "not all ranks can load each other's memory";
  if ((a.zero_copy || a.boards) && !world.protocols.allows(a.collective, "bulk"))
    return format("it moves data in bulk, which HOCKET_PROTO={} rules out", world.protocols.text());
  if (pieces_of(a, world.size) > 1 && !world.protocols.allows(a.collective, "bulk") &&
      !world.protocols.allows(a.collective, "first_line"))
    return format(
        "its transfers are of several tiles, which packets are not for, but HOCKET_PROTO={} leaves nothing "
        "else",
        world.protocols.text());
  return {};
}

Protocol protocol_for(const Algorithm& a, std::uint64_t tile, const World& world, const TuningRow* row, bool* none) {
  const bool mailbox_only = !a.boards && !a.zero_copy;
  const int pieces = pieces_of(a, world.size);
  tile *= static_cast<std::uint64_t>(pieces);
  // What travels under one signal; the limits are where one protocol overtakes the next on the host.
  const Protocol by_rule = tile <= kFirstLineTile ? Protocol::kFirstLine : Protocol::kBulk;
  const Protocol order[] = {row != nullptr && !row->any_protocol ? row->protocol : by_rule, by_rule, Protocol::kBulk,
                            Protocol::kFirstLine, Protocol::kPacket};
  for (const Protocol protocol : order) {
    if (!world.protocols.allows(a.collective, to_string(protocol))) continue;
    if (protocol == Protocol::kPacket && (!world.direct || tile > kMaxPacketTile || pieces > 1)) continue;
    if (protocol != Protocol::kBulk && !mailbox_only) continue;
    return protocol;
  }
  *none = true;
  return Protocol::kBulk;
}

/// The largest world that some algorithm reduces in rank order.
int most_ordered(Collective collective) {
  int most = 1;
  for (const Algorithm& a : algorithms())
    if (a.collective == collective && a.ordered) most = std::max(most, a.max_world == 0 ? kAnySize : a.max_world);
  return most;
}

}  // namespace

Status fit_algorithms(AllowList* list) {
  for (int c = 0; c < kCollectiveCount; ++c) {
    const auto collective = static_cast<Collective>(c);
    std::vector<std::string_view> names;
    bool any = false;
    for (const Algorithm& a : algorithms()) {
      if (a.collective != collective) continue;
      names.push_back(a.name);
      any |= list->allows(collective, a.name);
    }
    if (any || names.empty()) continue;
    if (list->names(collective))
      return error(Code::kInvalidArgument, "HOCKET_ALGO='{}' leaves no algorithm for {}, which has {}", list->text(),
                   to_string(collective), join(names, ", "));
    list->lift(collective);
  }
  return {};
}

std::vector<std::string_view> algorithm_names() {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms())
    if (std::find(names.begin(), names.end(), algorithm.name) == names.end()) names.push_back(algorithm.name);
  return names;
}

std::vector<std::string_view> protocol_names() {
  std::vector<std::string_view> names;
  for (int p = 0; p < kProtocolCount; ++p) names.push_back(to_string(static_cast<Protocol>(p)));
  return names;
}

Result<Choice> choose(Collective collective, std::uint64_t bytes, DataType, bool symmetric, const World& world,
                      std::vector<Rejected>* rejected, const OperatorNeeds& needs) {
  if (knows_no_counts(collective)) bytes = kNominalBytes;
  Choice choice;
  std::string reasons;
  const TuningRow* row = measured(collective, bytes, symmetric, world);
  for (const Algorithm* algorithm : by_preference(collective, bytes, symmetric, world, row)) {
    std::string reason = why_not(*algorithm, symmetric, world, needs);
    if (reason.empty()) {
      choice.algorithm = algorithm;
      break;
    }
    reasons += format("{}{}: {}", reasons.empty() ? "" : "; ", algorithm->name, reason);
    if (rejected != nullptr) rejected->push_back({algorithm->name, std::move(reason)});
  }
  const bool ordered = world.reproducible && reduces(collective);
  if (choice.algorithm == nullptr && ordered && world.size > most_ordered(collective))
    return error(Code::kUnsupported,
                 "HOCKET_REPRODUCIBLE=1 (Settings::reproducible) takes {} up to {} ranks, not {}: an element must be "
                 "reduced in rank order by one rank, which has all ranks' values at once",
                 to_string(collective), most_ordered(collective), world.size);
  if (choice.algorithm == nullptr)
    return error(Code::kUnsupported, "no algorithm is left for {} with {} ranks ({})", to_string(collective),
                 world.size, reasons);

  // A chunk is what one rank owns; a tile of it is in flight at once. 64 KiB stays in the cache of both ends; below
  // that a transfer's fixed cost shows. Tiles hold whole units of 16 bytes.
  const Algorithm& a = *choice.algorithm;
  if (row != nullptr && row->algorithm != &a) row = nullptr;  // ruled out: its protocol and tile are not this one's
  choice.measured = row != nullptr;
  const bool halving = a.name == "halving_doubling";
  const bool cut_even = a.name == "ring" || a.name == "two_shot" || a.name == "two_shot_board" || halving;
  const auto ranks = static_cast<std::uint64_t>(world.size);
  const std::uint64_t chunks = collective != Collective::kAllReduce || !cut_even ? 1
                               : halving                                         ? std::bit_floor(ranks)
                                                                                 : ranks;
  const std::uint64_t chunk = (bytes + chunks - 1) / chunks;
  const auto pieces = static_cast<std::uint64_t>(pieces_of(a, world.size));
  const std::uint64_t most = std::max<std::uint64_t>(world.slot_bytes / pieces / 16 * 16, 16);
  std::uint64_t tile = world.tile_bytes != 0                    ? world.tile_bytes
                       : row != nullptr && row->tile_bytes != 0 ? row->tile_bytes
                                                                : kTileBytes;
  tile = std::min(tile, most);
  choice.tile_bytes = std::max<std::uint64_t>(tile / 16 * 16, 16);
  choice.tiles_per_round = chunk > choice.tile_bytes && world.slots > 2 ? 2 : 1;
  choice.lanes = a.many_lanes ? std::clamp(world.lanes, 1, 8) : 1;
  choice.stream_output =
      bytes * static_cast<std::uint64_t>(cut_even || collective == Collective::kAllReduce ? 2 : world.size) *
          static_cast<std::uint64_t>(world.size) >
      world.cache_bytes;

  // Where packets are all that is allowed, tiles must fit their slots.
  if (world.direct && !world.protocols.allows(collective, "bulk") &&
      !world.protocols.allows(collective, "first_line")) {
    choice.tile_bytes = std::min<std::uint64_t>(choice.tile_bytes, kMaxPacketTile / 16 * 16);
    choice.tiles_per_round = chunk > choice.tile_bytes && world.slots > 2 ? 2 : 1;
  }
  bool none = false;
  choice.protocol = protocol_for(a, std::min(chunk, choice.tile_bytes), world, row, &none);
  if (none)
    return error(Code::kUnsupported, "HOCKET_PROTO={} leaves no protocol for {} by {} with {} bytes a transfer",
                 world.protocols.text(), to_string(collective), a.name, std::min(chunk, choice.tile_bytes));
  return choice;
}

}  // namespace hocket
