// SPDX-License-Identifier: Apache-2.0
// select.cpp: the rules and the cost model behind choose(); what was measured is in tuning.cpp's table. Next stop:
// algorithms/ring.cpp and its sisters.
#include "algorithms/select.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <optional>

#include "algorithms/layout.hpp"
#include "algorithms/predict.hpp"
#include "base/status.hpp"

namespace hocket {
namespace {

// Host protocols by bytes of a transfer: one line carries 48 bytes beside its counter, which saves a line up to a
// kibibyte; from there on one counter for all is cheapest. Packets, which must be looked at line by line, have not paid
// on a host that keeps stores in order: they are taken where HOCKET_PROTO asks for them. A packet slot holds 64 lines.
constexpr std::uint64_t kFirstLineTile = 1024, kMaxPacketTile = 48 + 64 * 56;
constexpr std::uint64_t kTileBytes = 64 << 10;
/// So much of a slot is left free over a network: with its frame and its signal a transfer then fits whole packets of
/// 64 KiB, as the kernel makes them. A small one behind them cost 7 %.
constexpr std::uint64_t kPacketRest = 4 << 10;

constexpr int kAnySize = 1 << 30;

/// What the uneven forms are chosen for, in bytes of a chunk: nobody knows all counts.
constexpr std::uint64_t kNominalBytes = kTileBytes;
/// Beyond that, all-to-all-v goes through its partners one after the other: no receiver is flooded.
constexpr int kMostAtOnce = 64;

bool knows_no_counts(Collective collective) {
  return collective == Collective::kAllGatherV || collective == Collective::kReduceScatterV ||
         collective == Collective::kAllToAllV || collective == Collective::kExchange;
}

bool on_devices(const World& world) {
  return world.layout && world.layout->links.device != 0;
}

/// What the world's table says of such a call; null: nothing.
const TuningRow* measured(Collective collective, std::uint64_t bytes, bool symmetric, const World& world) {
  // The table that is built in was measured between cores, not between GPUs.
  if (!world.tuning && on_devices(world)) return nullptr;
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

/// Lanes that have links of their own.
int most_lanes(const Algorithm& a, const World& world) {
  if (!a.many_lanes) return 1;
  if (world.lanes > 0) return std::clamp(world.lanes, 1, kMostLanes);
  const bool by_ring = a.name == "ring" || a.name == "chain";
  return by_ring && world.layout ? std::clamp(static_cast<int>(world.layout->rings.size()), 1, kMostLanes) : 1;
}

/// What an algorithm should take at its best: on a host by bulk, since protocols go by rule there.
double best_seconds(const Algorithm& a, std::uint64_t bytes, const World& world) {
  double best = 0;
  for (int p = 0; p < (on_devices(world) ? kProtocolCount : 1); ++p) {
    const auto protocol = static_cast<Protocol>(p);
    if (protocol != Protocol::kBulk && (a.boards || a.zero_copy)) continue;
    for (int lanes = 1; lanes <= (world.layout ? most_lanes(a, world) : 1); ++lanes) {
      const double seconds = predicted_seconds(a, protocol, lanes, static_cast<double>(bytes), world);
      best = best == 0 ? seconds : std::min(best, seconds);
    }
  }
  return best;
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
    return best_seconds(a, bytes, world) + (a.boards ? 1 : 0);
  };
  std::vector<std::pair<double, const Algorithm*>> ranked;
  ranked.reserve(list.size());
  for (const Algorithm* a : list) ranked.emplace_back(rank_of(*a), a);
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::transform(ranked.begin(), ranked.end(), list.begin(), [](const auto& one) { return one.second; });
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

/// Whether transfers of `tile` bytes a piece may travel so.
bool may_travel(const Algorithm& a, Protocol protocol, std::uint64_t tile, const World& world) {
  const int pieces = pieces_of(a, world.size);
  if (!world.protocols.allows(a.collective, to_string(protocol))) return false;
  if (protocol == Protocol::kPacket &&
      (!world.direct || tile * static_cast<std::uint64_t>(pieces) > kMaxPacketTile || pieces > 1))
    return false;
  return protocol == Protocol::kBulk || (!a.boards && !a.zero_copy);
}

std::optional<Protocol> protocol_for(const Algorithm& a, std::uint64_t tile, const World& world, const TuningRow* row) {
  // What travels under one signal; the limits are where one protocol overtakes the next on the host.
  const std::uint64_t transfer = tile * static_cast<std::uint64_t>(pieces_of(a, world.size));
  const Protocol by_rule = transfer <= kFirstLineTile ? Protocol::kFirstLine : Protocol::kBulk;
  const Protocol order[] = {row != nullptr && !row->any_protocol ? row->protocol : by_rule, by_rule, Protocol::kBulk,
                            Protocol::kFirstLine, Protocol::kPacket};
  for (const Protocol protocol : order)
    if (may_travel(a, protocol, tile, world)) return protocol;
  return std::nullopt;
}

/// A call's bytes, cut as an algorithm cuts them.
struct Cuts {
  std::uint64_t chunk = 0;  ///< what one rank owns
  std::uint64_t tile = 0;   ///< of it in flight at once; whole units of 16 bytes
};

bool cuts_evenly(const Algorithm& a) {
  return a.name == "ring" || a.name == "two_shot" || a.name == "two_shot_board" || a.name == "halving_doubling";
}

Cuts cuts_of(const Algorithm& a, std::uint64_t bytes, const World& world, const TuningRow* row) {
  // A chunk is what one rank owns; a tile of it is in flight at once. 64 KiB stays in the cache of both ends; below
  // that a transfer's fixed cost shows.
  const auto ranks = static_cast<std::uint64_t>(world.size);
  const std::uint64_t chunks = a.collective != Collective::kAllReduce || !cuts_evenly(a) ? 1
                               : a.name == "halving_doubling"                            ? std::bit_floor(ranks)
                                                                                         : ranks;
  Cuts cuts;
  cuts.chunk = (bytes + chunks - 1) / chunks;
  const auto pieces = static_cast<std::uint64_t>(pieces_of(a, world.size));
  const std::uint64_t most = std::max<std::uint64_t>(world.slot_bytes / pieces / 16 * 16, 16);
  std::uint64_t tile = world.tile_bytes != 0                    ? world.tile_bytes
                       : row != nullptr && row->tile_bytes != 0 ? row->tile_bytes
                       : world.slot_bytes > kTileBytes          ? world.slot_bytes - kPacketRest
                                                                : kTileBytes;
  tile = std::min(tile, most);
  cuts.tile = std::max<std::uint64_t>(tile / 16 * 16, 16);
  // Where packets are all that is allowed, tiles must fit their slots.
  if (world.direct && !world.protocols.allows(a.collective, "bulk") &&
      !world.protocols.allows(a.collective, "first_line"))
    cuts.tile = std::min<std::uint64_t>(cuts.tile, kMaxPacketTile / 16 * 16);
  return cuts;
}

/// The protocols and lanes that an algorithm may have, its best first. On a host, protocols go by what was measured; on
/// devices, whose protocols differ more than a rule can tell, by prediction, as lanes do.
std::vector<Candidate> ways_of(const Algorithm& a, std::uint64_t bytes, const World& world, const TuningRow* row) {
  std::vector<Candidate> ways;
  const Cuts cuts = cuts_of(a, bytes, world, row);
  const std::uint64_t transfer = std::min(cuts.chunk, cuts.tile);
  const std::optional<Protocol> preferred = protocol_for(a, transfer, world, row);
  const int most = most_lanes(a, world);
  for (int p = 0; p < kProtocolCount; ++p) {
    const auto protocol = static_cast<Protocol>(p);
    if (!may_travel(a, protocol, transfer, world)) continue;
    for (int lanes = 1; lanes <= most; ++lanes) {
      if (world.lanes > 0 && lanes != most) continue;
      ways.push_back({&a,
                      protocol,
                      lanes,
                      cuts.tile,
                      predicted_seconds(a, protocol, lanes, static_cast<double>(bytes), world),
                      row != nullptr,
                      {}});
    }
  }
  const bool device = on_devices(world);
  std::stable_sort(ways.begin(), ways.end(), [&](const Candidate& x, const Candidate& y) {
    if ((!device || row != nullptr) && preferred && (x.protocol == *preferred) != (y.protocol == *preferred))
      return x.protocol == *preferred;
    return x.seconds < y.seconds;
  });
  return ways;
}

std::string no_protocol(const Algorithm& a, std::uint64_t bytes, const World& world) {
  const Cuts cuts = cuts_of(a, bytes, world, nullptr);
  return format("HOCKET_PROTO={} leaves no protocol for {} by {} with {} bytes a transfer", world.protocols.text(),
                to_string(a.collective), a.name, std::min(cuts.chunk, cuts.tile));
}

Choice choice_of(const Candidate& way, std::uint64_t bytes, const World& world) {
  const Algorithm& a = *way.algorithm;
  const Cuts cuts = cuts_of(a, bytes, world, nullptr);
  Choice choice;
  choice.algorithm = &a;
  choice.protocol = way.protocol;
  choice.lanes = way.lanes;
  choice.tile_bytes = way.tile_bytes;
  choice.measured = way.measured;
  choice.tiles_per_round = cuts.chunk > choice.tile_bytes && world.slots > 2 ? 2 : 1;
  // How often `bytes` lie in a rank's buffers; around the caches where all of them together do not fit. Staged plans go
  // by what was measured for them.
  const auto ranks = static_cast<std::uint64_t>(world.size);
  const std::uint64_t buffers = cuts_evenly(a) || a.collective == Collective::kAllReduce ? 2
                                : !a.zero_copy                                           ? ranks
                                : a.collective == Collective::kBroadcast                 ? 1
                                : a.collective == Collective::kAllToAll                  ? 2 * ranks
                                                                                         : ranks + 1;
  choice.stream_output = bytes * buffers * ranks > world.cache_bytes;
  return choice;
}

/// What the program's tuner wants; nothing: it has no opinion.
Result<std::optional<Choice>> ask_tuner(Collective collective, std::uint64_t bytes, DataType type, bool symmetric,
                                        const World& world, const OperatorNeeds& needs, Rank root) {
  const Tuner& tuner = *world.tuner;
  const std::vector<Candidate> known = candidates(collective, bytes, symmetric, world, needs);
  std::vector<TunerCandidate> shown;
  shown.reserve(known.size());
  for (const Candidate& one : known)
    shown.push_back({one.algorithm->name, one.why_not.empty() ? to_string(one.protocol) : std::string_view(), one.lanes,
                     one.tile_bytes, one.seconds, one.measured, one.why_not});
  TunerCall call;
  call.collective = collective;
  call.bytes = knows_no_counts(collective) ? 0 : bytes;
  call.type = type;
  if (reduces(collective)) call.op = needs.op;
  call.root = root;
  call.symmetric = symmetric;
  call.ranks = world.size;
  call.hosts = world.hosts;
  call.candidates = shown;
  std::optional<TunerChoice> wanted;
  try {
    if (tuner.choose) wanted = tuner.choose(call);
  } catch (const std::exception& e) {
    return error(Code::kInvalidArgument, "the tuner '{}' threw for {}: {}", tuner.name, to_string(collective),
                 e.what());
  } catch (...) {
    return error(Code::kInvalidArgument, "the tuner '{}' threw for {}", tuner.name, to_string(collective));
  }
  if (!wanted) return std::optional<Choice>();

  const auto refuse = [&](std::string_view why) {
    return error(Code::kInvalidArgument,
                 "the tuner '{}' wants {}{}{} for {} of {} bytes on {} ranks, which cannot be: {}", tuner.name,
                 wanted->algorithm, wanted->protocol.empty() ? "" : " by ", wanted->protocol, to_string(collective),
                 call.bytes, world.size, why);
  };
  const Algorithm* algorithm = find_algorithm(collective, wanted->algorithm);
  if (algorithm == nullptr) {
    std::vector<std::string_view> names;
    for (const Algorithm& a : algorithms())
      if (a.collective == collective) names.push_back(a.name);
    return refuse(format("there are {}", join(names, ", ")));
  }
  if (wanted->lanes < 0 || wanted->lanes > kMostLanes || (wanted->lanes > 1 && !algorithm->many_lanes))
    return refuse(format("{} lanes, where {} has {}", wanted->lanes, algorithm->name,
                         algorithm->many_lanes ? format("1 to {}", kMostLanes) : std::string("its own")));
  const auto protocol_list = protocol_names();
  if (!wanted->protocol.empty() &&
      std::find(protocol_list.begin(), protocol_list.end(), wanted->protocol) == protocol_list.end())
    return refuse(format("protocols are {}", join(protocol_list, ", ")));
  const Candidate* best = nullptr;
  for (const Candidate& one : known) {
    if (one.algorithm != algorithm) continue;
    if (!one.why_not.empty()) return refuse(one.why_not);
    if (!wanted->protocol.empty() && to_string(one.protocol) != wanted->protocol) continue;
    best = &one;
    break;
  }
  if (best == nullptr)
    return refuse(format(
        "{} does not carry its transfers of {} bytes", wanted->protocol,
        std::min(cuts_of(*algorithm, bytes, world, nullptr).chunk, cuts_of(*algorithm, bytes, world, nullptr).tile)));
  const int set_lanes = world.lanes > 0 && algorithm->many_lanes ? std::min(world.lanes, kMostLanes) : 0;
  if (wanted->lanes > 0 && set_lanes > 0 && wanted->lanes != set_lanes)
    return refuse(format("{} lanes, and HOCKET_LANES={} rules that out", wanted->lanes, world.lanes));
  Choice choice = choice_of(*best, bytes, world);
  if (wanted->lanes > 0) choice.lanes = wanted->lanes;
  choice.by_tuner = true;
  return std::optional<Choice>(choice);
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

std::vector<Candidate> candidates(Collective collective, std::uint64_t bytes, bool symmetric, const World& world,
                                  const OperatorNeeds& needs) {
  if (knows_no_counts(collective)) bytes = kNominalBytes;
  std::vector<Candidate> all;
  const TuningRow* row = measured(collective, bytes, symmetric, world);
  for (const Algorithm* algorithm : by_preference(collective, bytes, symmetric, world, row)) {
    Candidate refused;
    refused.algorithm = algorithm;
    refused.why_not = why_not(*algorithm, symmetric, world, needs);
    if (refused.why_not.empty()) {
      const bool by_row = row != nullptr && row->algorithm == algorithm;
      std::vector<Candidate> ways = ways_of(*algorithm, bytes, world, by_row ? row : nullptr);
      all.insert(all.end(), ways.begin(), ways.end());
      if (!ways.empty()) continue;
      refused.why_not = no_protocol(*algorithm, bytes, world);
    }
    all.push_back(std::move(refused));
  }
  return all;
}

int roundings_of(const Algorithm& algorithm, const World& world) {
  const int by_rank = algorithm.roundings(world.size);
  if (algorithm.name != "tree" || by_rank == 0 || !world.layout || world.layout->trees.empty()) return by_rank;
  return world.layout->depth();
}

Result<Choice> choose(Collective collective, std::uint64_t bytes, DataType type, bool symmetric, const World& world,
                      std::vector<Rejected>* rejected, const OperatorNeeds& needs, Rank root) {
  const bool own_say = world.tuner != nullptr && collective != Collective::kBarrier &&
                       collective != Collective::kSend && collective != Collective::kReceive &&
                       collective != Collective::kExchange;
  if (knows_no_counts(collective)) bytes = kNominalBytes;
  if (own_say) {
    HOCKET_ASSIGN(const std::optional<Choice> wanted,
                  ask_tuner(collective, bytes, type, symmetric, world, needs, root));
    if (wanted) return *wanted;
  }
  const Algorithm* chosen = nullptr;
  std::string reasons;
  const TuningRow* row = measured(collective, bytes, symmetric, world);
  for (const Algorithm* algorithm : by_preference(collective, bytes, symmetric, world, row)) {
    std::string reason = why_not(*algorithm, symmetric, world, needs);
    if (reason.empty()) {
      chosen = algorithm;
      break;
    }
    reasons += format("{}{}: {}", reasons.empty() ? "" : "; ", algorithm->name, reason);
    if (rejected != nullptr) rejected->push_back({algorithm->name, std::move(reason)});
  }
  const bool ordered = world.reproducible && reduces(collective);
  if (chosen == nullptr && ordered && world.size > most_ordered(collective))
    return error(Code::kUnsupported,
                 "HOCKET_REPRODUCIBLE=1 (Settings::reproducible) takes {} up to {} ranks, not {}: an element must be "
                 "reduced in rank order by one rank, which has all ranks' values at once",
                 to_string(collective), most_ordered(collective), world.size);
  if (chosen == nullptr)
    return error(Code::kUnsupported, "no algorithm is left for {} with {} ranks ({})", to_string(collective),
                 world.size, reasons);
  if (row != nullptr && row->algorithm != chosen) row = nullptr;  // ruled out: its protocol and tile are not this one's
  const std::vector<Candidate> ways = ways_of(*chosen, bytes, world, row);
  if (ways.empty()) return error(Code::kUnsupported, "{}", no_protocol(*chosen, bytes, world));
  return choice_of(ways.front(), bytes, world);
}

}  // namespace hocket
