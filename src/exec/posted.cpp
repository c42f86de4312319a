// SPDX-License-Identifier: Apache-2.0
#include "exec/posted.hpp"

#include <algorithm>
#include <vector>

#include "base/status.hpp"
#include "exec/posted_puts.hpp"
#include "exec/step_machine.hpp"

namespace hocket {
namespace {

/// So many slots that a wait for a free one says nothing about recent puts: what is needed then is needed with fewer,
/// too.
constexpr int kManySlots = 16;
/// Tiles of a chunk, some chunks with one more; and K.
constexpr std::uint64_t kTiles[] = {1, 2, 5};
constexpr std::int32_t kTilesPerRound[] = {1, 2};

/// Where the caller's input lies: apart from the output, or in it as the collective allows.
enum class Place { kApart, kSame, kInputInOutput, kOutputInInput };

class PostedLane {
 public:
  /// `demand`: put a completion wait where one is missing; else only note that one is.
  PostedLane(Plan& plan, const Shape& shape, Place place, bool demand)
      : plan_(plan),
        shape_(shape),
        place_(place),
        demand_(demand),
        world_(static_cast<std::size_t>(plan.header.world)),
        counts_(world_ * static_cast<std::size_t>(plan.header.channels)) {}

  /// Returns false when a completion wait was missing.
  bool run(LaneProgram& lane) {
    LaneState state;
    advance(plan_.view(), lane, shape_, state, *this);
    if (!puts_.idle() && lane.completion == kNoCompletion) {
      good_ = false;
      if (demand_) lane.completion = kAllCompletion;
    }
    return good_;
  }

  // The step machine's questions.

  bool data_ready(std::uint16_t, std::int32_t, std::int32_t) { return true; }
  bool credit_ready(std::uint16_t channel, std::int32_t peer, std::int32_t bound) {
    puts_.credited(channel, peer, at(channel, peer).sent - bound);
    return true;
  }
  void signal_data(std::uint16_t channel, std::int32_t peer, const Step&) { ++at(channel, peer).sent; }
  void signal_credit(std::uint16_t channel, std::int32_t peer, const Step& step) {
    Counts& c = at(channel, peer);
    if (puts_.slot_busy(channel, peer, c.received)) {
      missing(step, kSlotCompletion);
      puts_.complete_slot(channel, peer, c.received);
    }
    ++c.received;
  }
  bool completed(const Step& step, std::int32_t peer) {
    // A Move's wait is taken for no more than the Move needs (end_move): with uneven counts the skip rule may leave it
    // out in tiles in which others run, so nothing may rest on it.
    if (step.op != StepOp::kMove) puts_.complete_slot(step.channel, peer, at(step.channel, peer).received);
    return true;
  }
  bool drained() {
    puts_.complete_all();
    return true;
  }
  void begin_move(std::uint64_t length, const Step& step) {
    length_ = length;
    step_ = &step;
    sources_.clear();
    destinations_.clear();
  }
  void source(const SpanAt& span) { sources_.push_back(span); }
  void destination(const SpanAt& span) { destinations_.push_back(span); }
  bool end_move() {
    const std::int32_t complete = puts_.complete();
    std::erase_if(reads_, [complete](const Read& read) { return read.move <= complete; });
    for (const SpanAt& d : destinations_) {
      const Range range = range_of(d);
      if (range.area == kNowhere || length_ == 0) continue;
      for (std::size_t r = 0; r < reads_.size();) {
        if (!overlap(reads_[r].range, range)) {
          ++r;
          continue;
        }
        if (step_->completion == kNoCompletion) missing(*step_, kAllCompletion);
        puts_.complete_move(reads_[r].move);
        reads_[r] = reads_.back();
        reads_.pop_back();
      }
    }
    const bool remote =
        std::any_of(destinations_.begin(), destinations_.end(), [this](const SpanAt& d) { return is_remote(d); });
    if (!remote) return true;
    const std::int32_t move = puts_.post();
    for (const SpanAt& d : destinations_)
      if (is_remote(d))
        puts_.put(d.channel, d.peer,
                  d.kind == SpanKind::kSlotOut ? at(d.channel, d.peer).sent : check::PostedPuts::kDirect);
    for (const SpanAt& s : sources_) {
      if (s.kind == SpanKind::kSlotIn) puts_.reads_slot(s.channel, s.peer, at(s.channel, s.peer).received);
      const Range range = range_of(s);
      if (range.area != kNowhere && length_ != 0) reads_.push_back({range, move});
    }
    return true;
  }
  bool failed() { return false; }

 private:
  struct Counts {
    std::int64_t sent = 0;
    std::int64_t received = 0;
  };
  static constexpr int kNowhere = -1;
  struct Range {
    int area;
    std::uint64_t begin;
    std::uint64_t end;
  };
  struct Read {
    Range range;
    std::int32_t move;
  };
  static bool overlap(const Range& a, const Range& b) { return a.area == b.area && a.begin < b.end && b.begin < a.end; }

  Counts& at(std::uint16_t channel, std::int32_t peer) {
    return counts_[channel * world_ + static_cast<std::size_t>(peer)];
  }
  bool is_remote(const SpanAt& d) const {
    return (d.kind == SpanKind::kSlotOut || d.kind == SpanKind::kPeerOutput) && d.peer != plan_.header.rank;
  }

  /// Own memory that others could overwrite: areas 0 output, 1 input, 2 scratch.
  Range range_of(const SpanAt& span) const {
    const auto rank = static_cast<std::size_t>(plan_.header.rank);
    const std::uint64_t own = shape_.rank_offsets != nullptr ? shape_.rank_offsets[rank] : rank * shape_.count;
    std::uint64_t begin = span.offset;
    int area = kNowhere;
    switch (span.kind) {
      case SpanKind::kInput:
        area = place_ == Place::kApart ? 1 : 0;
        if (place_ == Place::kInputInOutput) begin += own;
        break;
      case SpanKind::kOutput:
        area = 0;
        if (place_ == Place::kOutputInInput) begin += own;
        break;
      case SpanKind::kWork: area = 2; break;
      default: break;
    }
    return {area, begin, begin + length_};
  }

  void missing(const Step& step, CompletionScope scope) {
    good_ = false;
    if (demand_) plan_.steps[static_cast<std::size_t>(&step - plan_.steps.data())].completion = scope;
  }

  Plan& plan_;
  const Shape& shape_;
  Place place_;
  bool demand_;
  std::size_t world_;
  std::vector<Counts> counts_;  // [channel][peer]
  check::PostedPuts puts_;
  std::vector<Read> reads_;  // of own memory, by posted Moves
  bool good_ = true;
  std::uint64_t length_ = 0;
  const Step* step_ = nullptr;
  std::vector<SpanAt> sources_;
  std::vector<SpanAt> destinations_;
};

Place in_place_of(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBroadcast: return Place::kSame;
    case Collective::kAllGather:
    case Collective::kAllGatherV:
    case Collective::kGather: return Place::kInputInOutput;
    case Collective::kReduceScatter:
    case Collective::kReduceScatterV:
    case Collective::kScatter: return Place::kOutputInInput;
    default: return Place::kApart;
  }
}

bool is_uneven(Collective collective) {
  return collective == Collective::kAllGatherV || collective == Collective::kReduceScatterV ||
         collective == Collective::kAllToAllV || collective == Collective::kExchange;
}

/// Chunks of unlike lengths: by the skip rule some steps then run without the waits around them. Only mine, all but
/// mine, only a neighbour's, and some at random.
constexpr std::uint32_t kUnevenShapes = 10;
std::uint64_t uneven_tiles(std::uint32_t shape, std::size_t chunk, std::size_t rank, std::size_t world) {
  constexpr std::uint64_t kMany = 3, kSome[] = {0, 1, 2, 3, 5, 0, 1, 7};
  switch (shape) {
    case 0: return chunk == rank ? kMany : 0;
    case 1: return chunk == rank ? 0 : kMany;
    case 2: return chunk == (rank + 1) % world ? kMany : 0;
    case 3: return chunk == (rank + world - 1) % world ? kMany : 0;
    default: return kSome[((chunk + 1) * (2 * shape + 1) * 0x9e3779b97f4a7c15ull >> 40) % 8];
  }
}

/// As run_lane; `counts` and `offsets` are scratch.
bool run_uneven(Plan& plan, LaneProgram& lane, bool demand, std::vector<std::uint64_t>& counts,
                std::vector<std::uint64_t>& offsets) {
  const auto world = static_cast<std::size_t>(plan.header.world), rank = static_cast<std::size_t>(plan.header.rank);
  std::size_t chunks = world;
  for (const Cut& cut : plan.cuts) chunks = std::max(chunks, static_cast<std::size_t>(cut.chunks));
  counts.resize(chunks);
  offsets.resize(chunks);
  bool good = true;
  for (std::uint32_t shapes = 0; shapes < kUnevenShapes; ++shapes) {
    std::uint64_t at = 0;
    for (std::size_t c = 0; c < chunks; ++c) {
      counts[c] = uneven_tiles(shapes, c, rank, world) * static_cast<std::uint64_t>(lane.parts);
      offsets[c] = at;
      at += counts[c];
    }
    const Shape shape{.count = counts[rank],
                      .tile = 1,
                      .tiles_per_round = kTilesPerRound[shapes % 2],
                      .slots = kManySlots,
                      .rank_counts = counts.data(),
                      .rank_offsets = offsets.data(),
                      .send_counts = counts.data(),
                      .send_offsets = offsets.data(),
                      .receive_counts = counts.data(),
                      .receive_offsets = offsets.data()};
    for (const Place place : {Place::kApart, in_place_of(plan.header.collective)}) {
      good = PostedLane(plan, shape, place, demand).run(lane) && good;
      if (!good && !demand) return false;
    }
  }
  return good;
}

bool posts(const Plan& plan, const LaneProgram& lane) {
  for (std::uint32_t at = 0; at < lane.count; ++at) {
    const Step& step = plan.steps[lane.first + at];
    if (step.op != StepOp::kMove) continue;
    for (std::uint32_t d = step.source_count; d < step.source_count + std::uint32_t{step.destination_count}; ++d) {
      const SpanKind kind = plan.spans[step.first + d].kind;
      if (kind == SpanKind::kSlotOut || kind == SpanKind::kPeerOutput) return true;
    }
  }
  return false;
}

/// All shapes and places; false when a completion wait is missing somewhere.
bool run_lane(Plan& plan, LaneProgram& lane, bool demand) {
  const bool even =
      std::any_of(plan.cuts.begin(), plan.cuts.end(), [](const Cut& cut) { return cut.kind == CutKind::kEven; });
  const std::uint64_t chunks =
      static_cast<std::uint64_t>(lane.parts) * (even ? static_cast<std::uint64_t>(plan.header.world) : 1);
  bool good = true;
  for (const std::uint64_t count : {kTiles[0] * chunks, kTiles[0] * chunks + 1, kTiles[1] * chunks,
                                    kTiles[1] * chunks + chunks / 2 + 1, kTiles[2] * chunks})
    for (const std::int32_t k : kTilesPerRound)
      for (const Place place : {Place::kApart, in_place_of(plan.header.collective)}) {
        const Shape shape{.count = count, .tile = 1, .tiles_per_round = k, .slots = kManySlots};
        good = PostedLane(plan, shape, place, demand).run(lane) && good;
        if (!good && !demand) return false;
      }
  if (!is_uneven(plan.header.collective)) return good;
  std::vector<std::uint64_t> counts, offsets;
  return run_uneven(plan, lane, demand, counts, offsets) && good;
}

}  // namespace

Status derive_completions(Plan& plan) {
  for (Step& step : plan.steps) step.completion = kNoCompletion;
  for (LaneProgram& lane : plan.lanes) lane.completion = kNoCompletion;
  HOCKET_TRY(validate(plan));
  for (LaneProgram& lane : plan.lanes) {
    run_lane(plan, lane, true);
    // A wait found in one shape may make one found earlier needless; the lane's end is the first to go.
    if (lane.completion != kNoCompletion) {
      lane.completion = kNoCompletion;
      if (!run_lane(plan, lane, false)) lane.completion = kAllCompletion;
    }
    for (std::uint32_t at = 0; at < lane.count; ++at) {
      std::uint8_t& wait = plan.steps[lane.first + at].completion;
      const std::uint8_t scope = wait;
      if (scope == kNoCompletion) continue;
      wait = kNoCompletion;
      if (!run_lane(plan, lane, false)) wait = scope;
    }
    // Whatever the counts, no put may outlast the call: nothing that the skip rule can leave out may stand for that.
    if (is_uneven(plan.header.collective) && posts(plan, lane)) lane.completion = kAllCompletion;
  }
  return {};
}

}  // namespace hocket
