// SPDX-License-Identifier: Apache-2.0
// plan.cpp: a plan as tables, as bytes, and the checks that make both safe to run.
#include "algorithms/plan.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/status.hpp"

namespace hocket {
namespace {

constexpr std::uint64_t kMagic = 0x31304e4c50544b48;  // "HKTPLN01", little endian
constexpr std::uint64_t kAlign = 8;

enum Table : std::size_t { kLanes, kSteps, kSpans, kExtents, kCuts, kGroups, kGroupRanks, kTableCount };
constexpr std::array<std::uint32_t, kTableCount> kEntryBytes = {sizeof(LaneProgram), sizeof(Step), sizeof(SpanRef),
                                                                sizeof(Extent),      sizeof(Cut),  sizeof(GroupRef),
                                                                sizeof(std::int32_t)};

/// What a flattened plan starts with. Entry sizes stand in for a version: a table of other structs is refused.
struct FlatHeader {
  std::uint64_t magic = kMagic;
  std::uint64_t bytes = 0;
  std::array<std::uint32_t, kTableCount> entry_bytes = kEntryBytes;
  std::uint32_t header_bytes = sizeof(PlanHeader);
  std::array<std::uint64_t, kTableCount> offset = {};
  std::array<std::uint64_t, kTableCount> count = {};
};
constexpr std::uint64_t kPlanHeaderAt = sizeof(FlatHeader);
static_assert(sizeof(FlatHeader) % kAlign == 0 && std::is_trivially_copyable_v<FlatHeader>);

constexpr std::uint64_t aligned(std::uint64_t at) {
  return (at + kAlign - 1) / kAlign * kAlign;
}

/// A view with the lengths that it does not carry.
struct Tables {
  PlanView view;
  std::uint64_t steps = 0;
  std::uint64_t spans = 0;
  std::uint64_t extents = 0;
  std::uint64_t cuts = 0;
  std::uint64_t groups = 0;
  std::uint64_t group_ranks = 0;
};

/// How often the loops around a step run their bodies: i in [0, i), j in [0, j).
struct LoopCounts {
  std::int64_t i = 1;
  std::int64_t j = 1;
  bool dead() const { return i <= 0 || j <= 0; }
};

struct Range {
  std::int64_t low;
  std::int64_t high;
};

constexpr bool fits32(std::int64_t v) {
  return v >= std::numeric_limits<std::int32_t>::min() && v <= std::numeric_limits<std::int32_t>::max();
}

/// All values that an index takes lie in here; an error when 32 bits would overflow on the way.
Result<Range> range_of(const Index& index, const LoopCounts& loops) {
  if (index.mod < 0) return error(Code::kInvalidArgument, "an index has modulus {}", index.mod);
  const std::int64_t di = std::int64_t{index.s0} * (loops.i - 1);
  const std::int64_t dj = std::int64_t{index.s1} * (loops.j - 1);
  if (!fits32(di) || !fits32(dj)) return error(Code::kInvalidArgument, "an index overflows 32 bits");
  std::int64_t low = index.base + std::min<std::int64_t>(di, 0) + std::min<std::int64_t>(dj, 0);
  std::int64_t high = index.base + std::max<std::int64_t>(di, 0) + std::max<std::int64_t>(dj, 0);
  if (!fits32(low) || !fits32(high)) return error(Code::kInvalidArgument, "an index overflows 32 bits");
  if (index.mod != 0) {
    const auto floor_div = [&](std::int64_t v) { return (v >= 0 ? v : v - index.mod + 1) / index.mod; };
    const std::int64_t period = floor_div(low);
    if (period == floor_div(high)) {
      low -= period * index.mod;
      high -= period * index.mod;
    } else {
      low = 0;
      high = index.mod - 1;
    }
  }
  const std::int64_t a = low * index.scale + index.offset;
  const std::int64_t b = high * index.scale + index.offset;
  if (!fits32(low * index.scale) || !fits32(high * index.scale) || !fits32(a) || !fits32(b))
    return error(Code::kInvalidArgument, "an index overflows 32 bits");
  return Range{std::min(a, b), std::max(a, b)};
}

class Validator {
 public:
  explicit Validator(const Tables& tables) : t_(tables), header_(*tables.view.header) {}

  Status run() {
    HOCKET_TRY(header());
    for (std::uint64_t c = 0; c < t_.cuts; ++c) HOCKET_TRY(cut(t_.view.cuts[c], c));
    for (std::uint64_t g = 0; g < t_.groups; ++g) {
      const GroupRef& group = t_.view.groups[g];
      if (group.first > t_.group_ranks || group.count > t_.group_ranks - group.first)
        return error(Code::kInvalidArgument, "group {} lies outside of the table of ranks", g + 1);
    }
    for (std::uint64_t r = 0; r < t_.group_ranks; ++r)
      if (t_.view.group_ranks[r] < 0 || t_.view.group_ranks[r] >= header_.world)
        return error(Code::kInvalidArgument, "a group names rank {} in a world of {}", t_.view.group_ranks[r],
                     header_.world);
    for (std::uint32_t l = 0; l < t_.view.lane_count; ++l) HOCKET_TRY(lane(l));
    return {};
  }

 private:
  Status header() const {
    if (header_.world < 1 || header_.rank < 0 || header_.rank >= header_.world || header_.root < -1 ||
        header_.root >= header_.world)
      return error(Code::kInvalidArgument, "rank {} and root {} in a world of {}", header_.rank, header_.root,
                   header_.world);
    if (header_.channels < 0 || header_.channels > 1 << 16 || header_.pieces < 1 || header_.work_entries < 0)
      return error(Code::kInvalidArgument, "{} channels, {} pieces a slot, {} work entries", header_.channels,
                   header_.pieces, header_.work_entries);
    if (static_cast<int>(header_.collective) >= kCollectiveCount)
      return error(Code::kInvalidArgument, "unknown collective {}", static_cast<int>(header_.collective));
    if (std::memchr(header_.algorithm, 0, sizeof header_.algorithm) == nullptr)
      return error(Code::kInvalidArgument, "the algorithm's name has no end");
    return {};
  }

  Status cut(const Cut& cut, std::uint64_t at) const {
    bool good = cut.chunks >= 1;
    switch (cut.kind) {
      case CutKind::kEven: break;
      case CutKind::kOwn: good = cut.chunks == 1; break;
      case CutKind::kRanks: good = good && cut.chunks <= header_.world; break;
      case CutKind::kSendRow:
      case CutKind::kReceiveColumn:  // of an exchange: one chunk a message
        good = good && (cut.chunks <= header_.world || header_.collective == Collective::kExchange);
        break;
      default: good = false;
    }
    if (!good)
      return error(Code::kInvalidArgument, "cut {} is of kind {} with {} chunks", at, static_cast<int>(cut.kind),
                   cut.chunks);
    return {};
  }

  Status index_in(const Index& index, const LoopCounts& loops, std::int64_t limit, std::string_view what) const {
    HOCKET_ASSIGN(const Range range, range_of(index, loops));
    if (range.low < 0 || range.high >= limit)
      return error(Code::kInvalidArgument, "{} runs from {} to {}, but there are {}", what, range.low, range.high,
                   limit);
    return {};
  }

  Status peer(const PeerIndex& peer, const LoopCounts& loops) const {
    if (peer.group > t_.groups) return error(Code::kInvalidArgument, "group {} of {}", peer.group, t_.groups);
    const std::int64_t size = peer.group == 0 ? header_.world : std::int64_t{t_.view.groups[peer.group - 1].count};
    return index_in(peer.index, loops, size, "a peer");
  }

  Status channel(std::uint16_t id) const {
    if (id >= header_.channels) return error(Code::kInvalidArgument, "channel {} of {}", id, header_.channels);
    return {};
  }

  Status chunk(std::uint8_t cut, const Index& index, const LoopCounts& loops) const {
    if (cut >= t_.cuts) return error(Code::kInvalidArgument, "cut {} of {}", cut, t_.cuts);
    return index_in(index, loops, t_.view.cuts[cut].chunks, "a chunk");
  }

  Status extent(const Extent& extent, const LoopCounts& loops) const {
    switch (extent.kind) {
      case ExtentKind::kAlways: return {};
      case ExtentKind::kChunk: return chunk(extent.cut, extent.index, loops);
      case ExtentKind::kLongest:
        if (extent.cut >= t_.cuts) return error(Code::kInvalidArgument, "cut {} of {}", extent.cut, t_.cuts);
        return {};
    }
    return error(Code::kInvalidArgument, "unknown extent {}", static_cast<int>(extent.kind));
  }

  Status span(const SpanRef& span, bool destination, const LoopCounts& loops) const {
    const auto wrong_side = [&] {
      return error(Code::kInvalidArgument, "a span of kind {} can't be a {}", static_cast<int>(span.kind),
                   destination ? "destination" : "source");
    };
    switch (span.kind) {
      case SpanKind::kInput:
      case SpanKind::kOutput: return chunk(span.cut, span.index, loops);
      case SpanKind::kWork: return index_in(span.index, loops, header_.work_entries, "a work entry");
      case SpanKind::kPeerInput:
        if (destination) return wrong_side();
        [[fallthrough]];
      case SpanKind::kPeerOutput:
        HOCKET_TRY(channel(span.channel));
        HOCKET_TRY(chunk(span.cut, span.index, loops));
        return peer(span.peer, loops);
      case SpanKind::kSlotIn:
      case SpanKind::kBoardIn:
        if (destination) return wrong_side();
        break;
      case SpanKind::kSlotOut:
      case SpanKind::kBoardOut:
        if (!destination) return wrong_side();
        break;
      default: return error(Code::kInvalidArgument, "unknown span {}", static_cast<int>(span.kind));
    }
    HOCKET_TRY(channel(span.channel));
    HOCKET_TRY(index_in(span.index, loops, header_.pieces, "a piece"));
    return peer(span.peer, loops);
  }

  Status step(const Step& step, const LoopCounts& loops) const {
    switch (step.op) {
      case StepOp::kMove: {
        const std::uint64_t spans = std::uint64_t{step.source_count} + step.destination_count;
        if (step.first > t_.spans || spans > t_.spans - step.first)
          return error(Code::kInvalidArgument, "its spans lie outside of the table");
        if (step.source_count == 0 || step.destination_count == 0)
          return error(Code::kInvalidArgument, "a Move with {} sources and {} destinations", step.source_count,
                       step.destination_count);
        if (loops.dead()) return {};
        HOCKET_TRY(extent(step.extent, loops));
        for (std::uint64_t s = 0; s < spans; ++s)
          HOCKET_TRY(span(t_.view.spans[step.first + s], s >= step.source_count, loops));
        return {};
      }
      case StepOp::kSignalData:
      case StepOp::kSignalCredit:
      case StepOp::kWaitData:
      case StepOp::kWaitCredit:
        HOCKET_TRY(channel(step.channel));
        if (loops.dead()) return {};
        HOCKET_TRY(extent(step.extent, loops));
        return peer(step.peer, loops);
      default: return error(Code::kInvalidArgument, "unknown step {}", static_cast<int>(step.op));
    }
  }

  Status lane(std::uint32_t l) const {
    const LaneProgram& lane = t_.view.lanes[l];
    if (lane.first > t_.steps || lane.count > t_.steps - lane.first)
      return error(Code::kInvalidArgument, "lane {} lies outside of the table of steps", l);
    if (lane.parts < 1 || lane.part < 0 || lane.part >= lane.parts)
      return error(Code::kInvalidArgument, "lane {} is part {} of {}", l, lane.part, lane.parts);
    std::array<std::uint32_t, kMaxLoopDepth> open{};
    int depth = 0;
    LoopCounts loops;
    bool i_used = false;
    bool j_used = false;
    bool in_rounds = false;
    bool in_tiles = false;
    const Step* steps = t_.view.steps + lane.first;
    for (std::uint32_t at = 0; at < lane.count; ++at) {
      const Step& s = steps[at];
      const auto bad = [&](std::string_view why) {
        return error(Code::kInvalidArgument, "lane {}, step {}: {}", l, at, why);
      };
      if (s.completion > kAllCompletion || s.grant > (kGrantInput | kGrantOutput))
        return bad("unknown completion or grant");
      if (s.op == StepOp::kEnd) {
        if (depth == 0) return bad("an End without a loop");
        const Step& loop = steps[open[--depth]];
        if (s.jump != open[depth] || loop.jump != at + 1) return bad("jumps do not match the nesting");
        if (loop.op == StepOp::kRepeat) {
          (loop.variable == 0 ? loops.i : loops.j) = 1;
          (loop.variable == 0 ? i_used : j_used) = false;
        } else {
          (loop.op == StepOp::kRounds ? in_rounds : in_tiles) = false;
        }
        continue;
      }
      if (s.op == StepOp::kRepeat || s.op == StepOp::kRounds || s.op == StepOp::kTiles) {
        if (depth == kMaxLoopDepth) return bad("loops are nested too deep");
        open[depth++] = at;
        if (s.op == StepOp::kRepeat) {
          if (s.variable > 1 || (s.variable == 0 ? i_used : j_used)) return bad("a loop's variable is in use");
          if (s.count < 0) return bad("a negative repeat count");
          (s.variable == 0 ? i_used : j_used) = true;
          (s.variable == 0 ? loops.i : loops.j) = s.count;
        } else if (s.op == StepOp::kRounds) {
          if (in_rounds || in_tiles) return bad("Rounds inside of Rounds");
          in_rounds = true;
          if (s.first > t_.extents || s.extent_count > t_.extents - s.first)
            return bad("its extents lie outside of the table");
          for (std::uint32_t e = 0; e < s.extent_count && !loops.dead(); ++e)
            if (Status status = extent(t_.view.extents[s.first + e], loops); !status.ok()) return bad(status.text());
        } else {
          if (in_tiles) return bad("Tiles inside of Tiles");
          in_tiles = true;
        }
        continue;
      }
      if (Status status = step(s, loops); !status.ok()) return bad(status.text());
    }
    if (depth != 0) return error(Code::kInvalidArgument, "lane {}: a loop without an End", l);
    if (lane.completion > kAllCompletion) return error(Code::kInvalidArgument, "lane {}: unknown completion", l);
    return {};
  }

  const Tables& t_;
  const PlanHeader& header_;
};

}  // namespace

PlanView Plan::view() const {
  return {&header,       lanes.data(),       steps.data(),
          spans.data(),  extents.data(),     cuts.data(),
          groups.data(), group_ranks.data(), static_cast<std::uint32_t>(lanes.size())};
}

Status validate(const Plan& plan) {
  return Validator({plan.view(), plan.steps.size(), plan.spans.size(), plan.extents.size(), plan.cuts.size(),
                    plan.groups.size(), plan.group_ranks.size()})
      .run();
}

std::vector<std::byte> flatten(const Plan& plan) {
  const std::array<const void*, kTableCount> data = {plan.lanes.data(),      plan.steps.data(), plan.spans.data(),
                                                     plan.extents.data(),    plan.cuts.data(),  plan.groups.data(),
                                                     plan.group_ranks.data()};
  FlatHeader flat;
  flat.count = {plan.lanes.size(), plan.steps.size(),  plan.spans.size(),      plan.extents.size(),
                plan.cuts.size(),  plan.groups.size(), plan.group_ranks.size()};
  std::uint64_t at = aligned(kPlanHeaderAt + sizeof(PlanHeader));
  for (std::size_t table = 0; table < kTableCount; ++table) {
    flat.offset[table] = at;
    at = aligned(at + flat.count[table] * kEntryBytes[table]);
  }
  flat.bytes = at;
  std::vector<std::byte> bytes(at);
  std::memcpy(bytes.data(), &flat, sizeof flat);
  std::memcpy(bytes.data() + kPlanHeaderAt, &plan.header, sizeof plan.header);
  for (std::size_t table = 0; table < kTableCount; ++table)
    if (flat.count[table] != 0)
      std::memcpy(bytes.data() + flat.offset[table], data[table], flat.count[table] * kEntryBytes[table]);
  return bytes;
}

Result<PlanView> view_of(std::span<const std::byte> bytes) {
  const auto bad = [](std::string_view why) {
    return error(Code::kInvalidArgument, "these bytes are no plan: {}", why);
  };
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % kAlign != 0) return bad("they are not 8-byte aligned");
  if (bytes.size() < kPlanHeaderAt + sizeof(PlanHeader)) return bad("they are too few for the header");
  FlatHeader flat;
  std::memcpy(&flat, bytes.data(), sizeof flat);
  if (flat.magic != kMagic) return bad("the magic number is wrong");
  if (flat.entry_bytes != kEntryBytes || flat.header_bytes != sizeof(PlanHeader))
    return bad("they are of another version");
  if (flat.bytes > bytes.size()) return bad("they are cut short");
  std::array<const std::byte*, kTableCount> at{};
  for (std::size_t table = 0; table < kTableCount; ++table) {
    if (flat.offset[table] % kAlign != 0 || flat.offset[table] > flat.bytes ||
        flat.count[table] > (flat.bytes - flat.offset[table]) / kEntryBytes[table])
      return bad("a table lies outside of them");
    at[table] = bytes.data() + flat.offset[table];
  }
  if (flat.count[kLanes] > std::numeric_limits<std::uint32_t>::max()) return bad("there are too many lanes");
  PlanView view;
  view.header = reinterpret_cast<const PlanHeader*>(bytes.data() + kPlanHeaderAt);
  view.lanes = reinterpret_cast<const LaneProgram*>(at[kLanes]);
  view.steps = reinterpret_cast<const Step*>(at[kSteps]);
  view.spans = reinterpret_cast<const SpanRef*>(at[kSpans]);
  view.extents = reinterpret_cast<const Extent*>(at[kExtents]);
  view.cuts = reinterpret_cast<const Cut*>(at[kCuts]);
  view.groups = reinterpret_cast<const GroupRef*>(at[kGroups]);
  view.group_ranks = reinterpret_cast<const std::int32_t*>(at[kGroupRanks]);
  view.lane_count = static_cast<std::uint32_t>(flat.count[kLanes]);
  HOCKET_TRY(Validator({view, flat.count[kSteps], flat.count[kSpans], flat.count[kExtents], flat.count[kCuts],
                        flat.count[kGroups], flat.count[kGroupRanks]})
                 .run());
  return view;
}

}  // namespace hocket
