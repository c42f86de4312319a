// SPDX-License-Identifier: Apache-2.0
// checker.cpp: sets up a world, drives its lanes in some order, and plays the caller before and after each call.
#include "checker/checker.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "algorithms/registry.hpp"
#include "base/status.hpp"
#include "checker/checker_state.hpp"
#include "checker/symbolic_lane.hpp"

namespace hocket {

using check::Channel;
using check::Element;
using check::RankState;
using check::Run;
using check::SymbolicLane;

// A world of plans.

Result<PlanWorld> PlanWorld::of(std::vector<Plan> plans) {
  if (plans.empty()) return error(Code::kInvalidArgument, "a world of no plans");
  PlanWorld world;
  for (std::size_t r = 0; r < plans.size(); ++r) {
    if (plans[r].header.world != static_cast<int>(plans.size()) || plans[r].header.rank != static_cast<int>(r))
      return error(Code::kInvalidArgument, "plan {} of {} is for rank {} of {}", r, plans.size(), plans[r].header.rank,
                   plans[r].header.world);
    if (Status status = validate(plans[r]); !status.ok()) return error(status.code(), "rank {}: {}", r, status.text());
    auto ends = ends_of(plans[r]);
    if (!ends.ok()) return error(ends.status().code(), "rank {}: {}", r, ends.status().text());
    world.ends_.push_back(std::move(ends).value());
  }
  world.plans_ = std::move(plans);
  HOCKET_TRY(world.summarise());
  return world;
}

Status PlanWorld::replace(Plan plan) {
  const auto rank = static_cast<std::size_t>(plan.header.rank);
  if (rank >= plans_.size() || plan.header.world != size())
    return error(Code::kInvalidArgument, "a plan of another world");
  HOCKET_TRY(validate(plan));
  HOCKET_ASSIGN(ends_[rank], ends_of(plan));
  plans_[rank] = std::move(plan);
  return summarise();
}

Status PlanWorld::summarise() {
  const Plan* first = nullptr;
  channels_ = 0;
  lanes_ = 1;
  packets_ = posted_ = true;
  step_base_.assign(1, 0);
  for (const Plan& plan : plans_) {
    step_base_.push_back(step_base_.back() + plan.steps.size());
    if (plan.lanes.empty()) continue;
    const PlanHeader& h = plan.header;
    if (first == nullptr) {
      first = &plan;
      collective_ = h.collective;
      root_ = h.root;
      pieces_ = h.pieces;
      uses_slots_ = h.uses_slots != 0;
    }
    const bool pair = h.collective == Collective::kSend || h.collective == Collective::kReceive;
    if (!pair && (h.collective != collective_ || h.root != root_))
      return error(Code::kInvalidArgument, "rank {} and rank {} have plans of different calls", first->header.rank,
                   h.rank);
    // A rank that sends only to itself in a group has no slots, whatever others have.
    if (h.collective == Collective::kExchange) uses_slots_ |= h.uses_slots != 0;
    const bool alike = h.collective == Collective::kExchange || (h.uses_slots != 0) == uses_slots_;
    if (h.pieces != pieces_ || !alike)
      return error(Code::kInvalidArgument,
                   "rank {} and rank {} disagree on slots, so they would choose different tiles", first->header.rank,
                   h.rank);
    if (h.uses_slots == 0 && h.work_entries != 0)
      return error(Code::kInvalidArgument, "rank {} has scratch but no slots, so a tile has no limit", h.rank);
    channels_ = std::max(channels_, h.channels);
    lanes_ = std::max(lanes_, static_cast<int>(plan.lanes.size()));
    packets_ = packets_ && qualifies_for_packets(plan).ok();
    posted_ = posted_ && !reach_of(plan).loads;
  }
  if (first == nullptr) return error(Code::kInvalidArgument, "no rank has a lane");
  return {};
}

// The checker.

bool may_be_in_place(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllGatherV:
    case Collective::kReduceScatterV: return true;
    default: return false;
  }
}

struct Checker::State {
  Run run;
  std::size_t head = 0;                           // of run.ready, when it is a queue
  std::uint64_t random = 0;                       // of the schedule
  std::vector<std::vector<std::uint64_t>> sums;   // by call: expected sums of an all-reduce, reduce
  std::vector<std::vector<std::uint64_t>> trees;  // by call: the first result's expression trees
  CheckReport report;
  int finished_ranks = 0;

  Status prepare(std::span<const CheckCall> calls, const CheckOptions& options);
  Status shape_of(int rank, int call, Shape& shape);
  void add_channel(const ChannelEnd& end, int rank);
  void begin_call(int rank);
  void finish_call(int rank);
  void caller_writes(int rank, const CheckCall* call);
  void check_result(int rank);
  void check_gaps(int rank);
  void check_element(int rank, std::uint64_t e, std::uint64_t expected);
  std::string diagnose(int rank, std::uint64_t got, std::uint64_t expected);
  std::uint64_t input_token(int rank, std::uint64_t e, int call) const {
    return check::token(run.options.seed, static_cast<std::uint64_t>(rank), e, static_cast<std::uint64_t>(call));
  }
  const CheckCall& call_of(int rank) const {
    return run.calls[static_cast<std::size_t>(run.ranks[static_cast<std::size_t>(rank)].call)];
  }
  int next_lane();
  void start_lanes(int rank);
  void drive();
  void check_balance();
  std::string deadlock();
};

Checker::Checker() : state_(std::make_unique<State>()) {}
Checker::~Checker() = default;

namespace {

/// Of chunks with gaps before, between and after them.
std::uint64_t total(const std::vector<std::uint64_t>& counts, std::uint64_t gap) {
  return std::accumulate(counts.begin(), counts.end(), gap * (gap == 0 ? 0 : counts.size() + 1));
}

/// Where each chunk starts in its buffer.
std::vector<std::uint64_t> layout_of(const std::vector<std::uint64_t>& counts, std::uint64_t gap) {
  std::vector<std::uint64_t> offsets(counts.size());
  std::uint64_t at = gap;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const std::size_t c = gap == 0 ? k : counts.size() - 1 - k;
    offsets[c] = at;
    at += counts[c] + gap;
  }
  return offsets;
}

bool by_pair(Collective collective) {
  return collective == Collective::kAllToAll || collective == Collective::kAllToAllV;
}

/// The chunks of rank's send row or receive column; empty: all of the call's count.
std::vector<std::uint64_t> pair_counts(const CheckCall& call, int rank, bool sends) {
  std::vector<std::uint64_t> counts;
  if (call.uneven == nullptr) return counts;
  const auto n = static_cast<std::size_t>(call.plans->size()), r = static_cast<std::size_t>(rank);
  const UnevenCounts& uneven = *call.uneven;
  if (by_pair(call.plans->collective()) && uneven.pairs.size() == n * n)
    for (std::size_t p = 0; p < n; ++p) counts.push_back(uneven.pairs[sends ? r * n + p : p * n + r]);
  if (call.plans->collective() == Collective::kExchange && uneven.sends.size() == n && uneven.receives.size() == n)
    for (const Message& message : (sends ? uneven.sends : uneven.receives)[r]) counts.push_back(message.count);
  return counts;
}

/// Fill a rank's shape for a call; `counts` and `offsets` keep what it points to.
void fill_shape(const CheckCall& call, int slots, int rank, Shape& shape, std::vector<std::uint64_t> (&counts)[3],
                std::vector<std::uint64_t> (&offsets)[3]) {
  const PlanWorld& world = *call.plans;
  const auto n = static_cast<std::size_t>(world.size());
  const auto r = static_cast<std::size_t>(rank);
  shape = {.count = call.count,
           .tile = world.uses_slots() ? call.tile : kWholeChunk,
           .unit = call.unit,
           .tiles_per_round = call.tiles_per_round,
           .slots = slots};
  for (auto& c : counts) c.clear();
  for (auto& o : offsets) o.clear();
  if (call.uneven == nullptr) return;
  counts[1] = pair_counts(call, rank, true);
  counts[2] = pair_counts(call, rank, false);
  if (call.uneven->ranks.size() == n) {
    counts[0] = call.uneven->ranks;
    shape.count = counts[0][r];
  }
  for (int k = 0; k < 3; ++k) offsets[k] = layout_of(counts[k], call.uneven->gap);
  if (!counts[0].empty()) {
    shape.rank_counts = counts[0].data();
    shape.rank_offsets = offsets[0].data();
  }
  if (!counts[1].empty()) {
    shape.send_counts = counts[1].data();
    shape.send_offsets = offsets[1].data();
  }
  if (!counts[2].empty()) {
    shape.receive_counts = counts[2].data();
    shape.receive_offsets = offsets[2].data();
  }
}

struct Lengths {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
};

/// What a rank's caller passes; zero where the collective does not look at it.
Lengths lengths_of(const Plan& plan, const CheckCall& call, const Shape& shape,
                   const std::vector<std::uint64_t> (&counts)[3]) {
  const auto n = static_cast<std::uint64_t>(plan.header.world);
  const bool root = plan.header.rank == plan.header.root;
  const std::uint64_t own = shape.count;
  const std::uint64_t gap = call.uneven == nullptr ? 0 : call.uneven->gap;
  const auto sum = [&](int k) { return counts[k].empty() ? n * own : total(counts[k], gap); };
  const bool lists = call.uneven != nullptr && !call.uneven->sends.empty();
  if (plan.lanes.empty()) return {};
  switch (plan.header.collective) {
    case Collective::kAllReduce: return {own, own};
    case Collective::kAllGather:
    case Collective::kAllGatherV: return {own, sum(0)};
    case Collective::kReduceScatter:
    case Collective::kReduceScatterV: return {sum(0), own};
    case Collective::kAllToAll:
    case Collective::kAllToAllV: return {sum(1), sum(2)};
    case Collective::kExchange:
      return lists ? Lengths{total(counts[1], gap), total(counts[2], gap)} : Lengths{n * own, n * own};
    case Collective::kGather: return {own, root || n == 1 ? n * own : 0};
    case Collective::kScatter: return {root || n == 1 ? n * own : 0, own};
    // A world of one has no root of its own in its plan.
    case Collective::kBroadcast: return {root || n == 1 ? own : 0, own};
    case Collective::kReduce: return {own, root || n == 1 ? own : 0};
    case Collective::kSend: return {own, 0};
    case Collective::kReceive: return {0, own};
    case Collective::kBarrier: return {};
  }
  return {};
}

std::uint64_t own_offset(const Shape& shape, int rank) {
  return shape.rank_offsets != nullptr ? shape.rank_offsets[rank] : static_cast<std::uint64_t>(rank) * shape.count;
}

}  // namespace

Status Checker::State::prepare(std::span<const CheckCall> calls, const CheckOptions& options) {
  if (calls.empty() || calls.size() > kMaxCheckedCalls || calls.front().plans == nullptr)
    return error(Code::kInvalidArgument, "a check takes 1 to {} calls", kMaxCheckedCalls);
  if (options.slots < 2 || options.slots > kMaxCheckedSlots)
    return error(Code::kInvalidArgument, "a check takes 2 to {} slots", kMaxCheckedSlots);
  run.calls = calls;
  run.options = options;
  run.n = calls.front().plans->size();
  run.failed = false;
  run.error.clear();
  run.steps = 0;
  run.arena.clear();
  run.shared_reads.clear();
  run.ready.clear();
  run.channels.clear();
  run.boards.clear();
  head = 0;
  finished_ranks = 0;
  random = check::mix(options.seed);
  report = {};
  const auto n = static_cast<std::size_t>(run.n);
  sums.assign(calls.size(), {});
  trees.assign(calls.size(), {});
  int channels = 0;
  run.lanes_per_rank = 1;
  run.slot_capacity = 0;
  run.ranks.resize(n);
  std::vector<std::array<std::uint64_t, 3>> most(n);  // area 0, area 1, scratch
  for (const CheckCall& call : calls) {
    const PlanWorld& world = *call.plans;
    if (world.size() != run.n)
      return error(Code::kInvalidArgument, "worlds of {} and {} ranks in one check", run.n, world.size());
    if (call.in_place && !may_be_in_place(world.collective()))
      return error(Code::kInvalidArgument, "{} is not offered in place", to_string(world.collective()));
    if (world.uses_slots() && (call.tile == 0 || call.tile == kWholeChunk))
      return error(Code::kInvalidArgument, "a plan with slots needs a tile");
    if (call.tiles_per_round < 1 || call.tiles_per_round > options.slots - 1)
      return error(Code::kInvalidArgument, "{} tiles a round with {} slots", call.tiles_per_round, options.slots);
    if (call.ran != nullptr && call.ran->size() != world.steps()) call.ran->assign(world.steps(), 0);
    channels = std::max(channels, world.channels());
    run.lanes_per_rank = std::max(run.lanes_per_rank, world.lanes());
    if (world.uses_slots())
      run.slot_capacity = std::max(run.slot_capacity, call.tile * static_cast<std::uint64_t>(world.pieces()));
    for (std::size_t r = 0; r < n; ++r) {
      RankState& state = run.ranks[r];
      const Plan& plan = world.plan(static_cast<int>(r));
      fill_shape(call, options.slots, static_cast<int>(r), state.shape, state.counts, state.offsets);
      const Lengths lengths = lengths_of(plan, call, state.shape, state.counts);
      most[r][0] = std::max({most[r][0], lengths.input, call.in_place ? lengths.output : 0});
      most[r][1] = std::max(most[r][1], lengths.output);
      if (plan.header.work_entries != 0)
        most[r][2] = std::max(most[r][2], static_cast<std::uint64_t>(plan.header.work_entries) * state.shape.tile);
    }
  }
  run.threads = run.n * run.lanes_per_rank;
  if (run.threads * 2 >= check::kShared)
    return error(Code::kInvalidArgument, "too many lanes for one check: {}", run.threads);
  run.stride = (static_cast<std::size_t>(run.threads) * (options.posted ? 2 : 1) + 7) / 8 * 8;
  run.clocks.assign(static_cast<std::size_t>(run.threads) * run.stride, 0);
  if (run.lanes.size() != static_cast<std::size_t>(run.threads) || run.lanes.back().rank() != run.n - 1) {
    run.lanes.clear();
    for (int r = 0; r < run.n; ++r)
      for (int l = 0; l < run.lanes_per_rank; ++l) run.lanes.emplace_back(run, r, l);
  }
  for (int t = 0; t < run.threads; ++t) {
    run.lanes[static_cast<std::size_t>(t)].reset(run.threads);
    run.clock(t)[t] = 1;
  }
  run.channel_index.assign(static_cast<std::size_t>(channels) * n * n, -1);
  run.board_index.assign(static_cast<std::size_t>(channels) * n, -1);
  for (const CheckCall& call : calls)
    for (int r = 0; r < run.n; ++r)
      for (const ChannelEnd& end : call.plans->ends(r)) add_channel(end, r);
  const std::size_t clocks = 2 * check::kSnapshots * run.stride;
  if (run.snapshots.size() < clocks * run.channels.size()) run.snapshots.resize(clocks * run.channels.size());
  for (std::size_t c = 0; c < run.channels.size(); ++c) run.channels[c].clocks = run.snapshots.data() + c * clocks;
  for (std::size_t r = 0; r < n; ++r) {
    RankState& state = run.ranks[r];
    state.call = 0;
    state.area[0] = run.arena.take(most[r][0]);
    state.area[1] = run.arena.take(most[r][1]);
    state.work = run.arena.take(most[r][2]);
    state.work_length = most[r][2];
    std::fill(std::begin(state.entry), std::end(state.entry), INT32_MAX);
  }
  run.links.assign(n * n, {});
  return {};
}

void Checker::State::add_channel(const ChannelEnd& end, int rank) {
  const int from = end.outgoing ? rank : end.peer;
  const int to = end.outgoing ? end.peer : rank;
  const auto n = static_cast<std::size_t>(run.n);
  std::int32_t& at =
      run.channel_index[(end.channel * n + static_cast<std::size_t>(from)) * n + static_cast<std::size_t>(to)];
  if (at < 0) {
    at = static_cast<std::int32_t>(run.channels.size());
    run.channels.emplace_back();
    Channel& c = run.channels.back();
    c.id = end.channel;
    c.from = from;
    c.to = to;
    // As if an earlier plan had left all slots consumed, but the sender had not seen it yet.
    c.sent = c.received = c.seen_data = run.options.slots;
    std::fill(std::begin(c.data_number), std::end(c.data_number), -1);
    std::fill(std::begin(c.credit_number), std::end(c.credit_number), -1);
  }
  if (!end.board) return;
  run.channels[static_cast<std::size_t>(at)].board = true;
  std::int32_t& board = run.board_index[end.channel * n + static_cast<std::size_t>(from)];
  if (board < 0) {
    board = static_cast<std::int32_t>(run.boards.size());
    run.boards.emplace_back();
  }
  std::vector<std::int32_t>& readers = run.boards[static_cast<std::size_t>(board)].channels;
  if (std::find(readers.begin(), readers.end(), at) == readers.end()) readers.push_back(at);
}

void Checker::State::start_lanes(int rank) {
  RankState& state = run.ranks[static_cast<std::size_t>(rank)];
  const auto lanes = static_cast<int>(call_of(rank).plans->plan(rank).lanes.size());
  const int running = state.started - (lanes - state.unfinished);
  for (int more = run.options.resident == 0 ? lanes : run.options.resident - running; more > 0 && state.started < lanes;
       --more) {
    SymbolicLane& lane = run.lanes[static_cast<std::size_t>(rank * run.lanes_per_rank + state.started++)];
    lane.queued = true;
    run.ready.push_back(lane.thread());
  }
}

/// The caller fills its memory: the input with this call's tokens, all else with what nobody should see. A null call:
/// all else.
void Checker::State::caller_writes(int rank, const CheckCall* call) {
  RankState& state = run.ranks[static_cast<std::size_t>(rank)];
  const int t = rank * run.lanes_per_rank;
  // Lanes start after all lanes of the previous call; the caller is one thread with lane 0 of its rank.
  std::int32_t* clock = run.clock(t);
  for (int l = 1; l < run.lanes_per_rank; ++l) run.join(clock, run.clock(t + l));
  ++clock[t];
  if (call != nullptr) state.entry[state.call] = clock[t];
  const auto write = [&](Element& x, check::Value value) {
    x = {};
    x.value = value;
    x.write_thread = static_cast<std::uint16_t>(t);
    x.write_clock = clock[t];
  };
  for (int area = 0; area < 2; ++area)
    for (std::uint64_t e = 0; e < state.area_used[area]; ++e)
      write(state.area[area][e], check::origin(input_token(rank + run.n, e, state.call)));
  if (call != nullptr)
    for (std::uint64_t e = 0; e < state.input_length; ++e)
      write(state.input[e], check::origin(input_token(rank, e, state.call)));
  for (int l = run.lanes_per_rank - 1; l >= 0; --l) {
    std::int32_t* mine = run.clock(t + l);
    if (l != 0) std::memcpy(mine, clock, run.stride * sizeof *mine);
    ++mine[t + l];
  }
}

void Checker::State::begin_call(int rank) {
  RankState& state = run.ranks[static_cast<std::size_t>(rank)];
  const CheckCall& call = call_of(rank);
  const Plan& plan = call.plans->plan(rank);
  fill_shape(call, run.options.slots, rank, state.shape, state.counts, state.offsets);
  const Lengths lengths = lengths_of(plan, call, state.shape, state.counts);
  state.input_length = lengths.input;
  state.output_length = lengths.output;
  state.input = state.area[0];
  if (call.in_place) {
    state.output = state.area[0];
    const Collective collective = plan.header.collective;
    const bool root = rank == plan.header.root;
    if (collective == Collective::kAllGather || collective == Collective::kAllGatherV ||
        (collective == Collective::kGather && root))
      state.input += own_offset(state.shape, rank);
    if (collective == Collective::kReduceScatter || collective == Collective::kReduceScatterV ||
        (collective == Collective::kScatter && root))
      state.output += own_offset(state.shape, rank);
    state.area_used[0] = std::max(lengths.input, lengths.output);
    state.area_used[1] = 0;
  } else {
    state.output = state.area[1];
    state.area_used[0] = lengths.input;
    state.area_used[1] = lengths.output;
  }
  caller_writes(rank, &call);
  state.unfinished = static_cast<int>(plan.lanes.size());
  state.started = 0;
  for (std::size_t l = 0; l < plan.lanes.size(); ++l)
    run.lanes[static_cast<std::size_t>(rank * run.lanes_per_rank) + l].start(*call.plans, state.call, call.ran);
  start_lanes(rank);
}

void Checker::State::check_element(int rank, std::uint64_t e, std::uint64_t expected) {
  const RankState& state = run.ranks[static_cast<std::size_t>(rank)];
  const std::uint64_t got = state.output[e].value.sum;
  if (got == expected || run.failed) return;
  run.fail(format("call {} ({} {}): element {} of the output of rank {} is wrong: {}", state.call,
                  to_string(call_of(rank).plans->plan(rank).header.collective),
                  call_of(rank).plans->plan(rank).algorithm(), e, rank, diagnose(rank, got, expected)));
}

/// What a wrong sum is made of, as far as one guess goes.
std::string Checker::State::diagnose(int rank, std::uint64_t got, std::uint64_t expected) {
  const RankState& state = run.ranks[static_cast<std::size_t>(rank)];
  // Kinds that reduce expect a finished sum; the inverse of `finished` recovers the plain one.
  const Collective collective = call_of(rank).plans->plan(rank).header.collective;
  const bool reduction = reduces(collective);
  if (check::finished(got) == expected) return "all contributions are there, but no Move with `finish` made it";
  if (check::finished(expected) == got)
    return reduction ? "it was finished twice" : "it was finished, which only a reduction is";
  std::uint64_t inverse = check::kFinishFactor;
  for (int k = 0; k < 6; ++k) inverse *= 2 - check::kFinishFactor * inverse;
  const auto plain = [&](std::uint64_t sum) { return reduction ? (sum - check::kFinishOffset) * inverse : sum; };
  std::uint64_t longest = 0;
  for (const RankState& r : run.ranks) longest = std::max({longest, r.input_length, r.output_length});
  for (int c = state.call; c >= 0; --c)
    for (int q = 0; q < 2 * run.n; ++q)
      for (std::uint64_t e = 0; e < longest; ++e) {
        const std::uint64_t t = input_token(q, e, c);
        const std::string who = q < run.n ? format("element {} of the input of rank {}", e, q)
                                          : format("what the caller of rank {} had in its memory", q - run.n);
        const std::string when = c == state.call ? "" : format(" in call {}", c);
        if (got == t) return format("it is {}{}{}", who, when, q < run.n ? "" : ", so nobody wrote it");
        if (plain(expected) - plain(got) == t) return format("{} is missing{}", who, when);
        if (plain(got) - plain(expected) == t) return format("{}{} is in it once too often", who, when);
      }
  return "its contributions are not the expected ones";
}

void Checker::State::check_result(int rank) {
  RankState& state = run.ranks[static_cast<std::size_t>(rank)];
  const CheckCall& call = call_of(rank);
  const Plan& plan = call.plans->plan(rank);
  const int k = state.call;
  const std::uint64_t length = state.output_length;
  const int n = run.n;
  const auto size = [&](int r) {
    return call.uneven != nullptr && !call.uneven->ranks.empty() ? call.uneven->ranks[static_cast<std::size_t>(r)]
                                                                 : call.count;
  };
  // What one Move of all inputs in rank order makes of element e.
  const auto in_order = [&](std::uint64_t e) {
    std::uint64_t tree = check::origin(input_token(0, e, k)).tree;
    for (int r = 1; r < n; ++r) tree = check::reduced(tree, check::origin(input_token(r, e, k)).tree);
    return check::finished_tree(n > 1 ? check::moved_tree(tree) : tree);
  };
  const std::uint64_t gap = call.uneven == nullptr ? 0 : call.uneven->gap;
  switch (plan.header.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce: {
      std::vector<std::uint64_t>& sum = sums[static_cast<std::size_t>(k)];
      std::vector<std::uint64_t>& tree = trees[static_cast<std::size_t>(k)];
      const bool first = length != 0 && sum.empty();
      if (first) {
        sum.resize(length);
        tree.resize(length);
        for (std::uint64_t e = 0; e < length; ++e) {
          for (int r = 0; r < n; ++r) sum[e] += input_token(r, e, k);
          sum[e] = check::finished(sum[e]);
          tree[e] = state.output[e].value.tree;
          report.ordered = report.ordered && tree[e] == in_order(e);
        }
      }
      for (std::uint64_t e = 0; e < length; ++e) {
        check_element(rank, e, sum[e]);
        if (tree[e] != state.output[e].value.tree) report.equal_bits = report.ordered = false;
      }
      break;
    }
    case Collective::kReduceScatter:
    case Collective::kReduceScatterV: {
      const std::uint64_t offset = own_offset(state.shape, rank);
      for (std::uint64_t e = 0; e < length; ++e) {
        std::uint64_t sum = 0;
        for (int r = 0; r < n; ++r) sum += input_token(r, offset + e, k);
        check_element(rank, e, check::finished(sum));
        report.ordered = report.ordered && state.output[e].value.tree == in_order(offset + e);
      }
      break;
    }
    case Collective::kGather:
      if (length == 0) break;
      [[fallthrough]];
    case Collective::kAllGather:
    case Collective::kAllGatherV:
      for (int r = 0; r < n; ++r) {
        const std::uint64_t at = own_offset(state.shape, r);
        for (std::uint64_t e = 0; e < size(r); ++e) check_element(rank, at + e, input_token(r, e, k));
      }
      break;
    case Collective::kScatter: {
      const int root = n == 1 ? 0 : plan.header.root;
      const std::uint64_t offset = own_offset(state.shape, rank);
      for (std::uint64_t e = 0; e < length; ++e) check_element(rank, e, input_token(root, offset + e, k));
      break;
    }
    case Collective::kAllToAll:
    case Collective::kAllToAllV:
    case Collective::kExchange: {
      const bool lists = call.uneven != nullptr && !call.uneven->sends.empty();
      const std::size_t me = static_cast<std::size_t>(rank);
      const std::size_t chunks = lists ? call.uneven->receives[me].size() : static_cast<std::size_t>(n);
      std::vector<std::size_t> met(static_cast<std::size_t>(n));
      for (std::size_t c = 0; c < chunks; ++c) {
        // Chunk c of mine is chunk `theirs` of rank `from`: of a list, the next one that it has for me.
        const int from = lists ? call.uneven->receives[me][c].peer : static_cast<int>(c);
        std::size_t theirs = me;
        if (lists) {
          const std::vector<Message>& sent = call.uneven->sends[static_cast<std::size_t>(from)];
          theirs = met[static_cast<std::size_t>(from)];
          while (theirs < sent.size() && sent[theirs].peer != rank) ++theirs;
          met[static_cast<std::size_t>(from)] = theirs + 1;
        }
        const std::vector<std::uint64_t> row = pair_counts(call, from, true);
        const std::uint64_t offset = row.empty() ? theirs * call.count : layout_of(row, gap)[theirs];
        const std::uint64_t count = row.empty() ? call.count : row[theirs];
        const std::uint64_t at = state.offsets[2].empty() ? c * call.count : state.offsets[2][c];
        for (std::uint64_t e = 0; e < count; ++e) check_element(rank, at + e, input_token(from, offset + e, k));
      }
      break;
    }
    case Collective::kBroadcast: {
      const int root = n == 1 ? 0 : plan.header.root;
      for (std::uint64_t e = 0; e < length; ++e) check_element(rank, e, input_token(root, e, k));
      break;
    }
    case Collective::kReceive:
      for (std::uint64_t e = 0; e < length; ++e) check_element(rank, e, input_token(plan.header.root, e, k));
      break;
    case Collective::kBarrier:
      for (int r = 0; r < n && !plan.lanes.empty(); ++r)
        if (run.clock(rank * run.lanes_per_rank)[r * run.lanes_per_rank] <
            run.ranks[static_cast<std::size_t>(r)].entry[k])
          run.fail(format("call {} (barrier {}): rank {} leaves without knowing that rank {} has entered", k,
                          plan.algorithm(), rank, r));
      break;
    case Collective::kSend: break;
  }
  if (gap != 0 && !call.in_place && !run.failed) check_gaps(rank);
}

/// What lies between the output's chunks is still the caller's.
void Checker::State::check_gaps(int rank) {
  const RankState& state = run.ranks[static_cast<std::size_t>(rank)];
  const Collective collective = call_of(rank).plans->plan(rank).header.collective;
  const int kind = collective == Collective::kAllGatherV || collective == Collective::kAllGather ? 0
                   : collective == Collective::kAllToAllV || collective == Collective::kExchange ? 2
                                                                                                 : -1;
  if (kind < 0 || state.counts[kind].empty()) return;
  std::vector<bool> chunk(state.output_length);
  for (std::size_t c = 0; c < state.counts[kind].size(); ++c)
    for (std::uint64_t e = 0; e < state.counts[kind][c]; ++e) chunk[state.offsets[kind][c] + e] = true;
  for (std::uint64_t e = 0; e < state.output_length; ++e)
    if (!chunk[e]) check_element(rank, e, input_token(rank + run.n, e, state.call));
}

void Checker::State::finish_call(int rank) {
  RankState& state = run.ranks[static_cast<std::size_t>(rank)];
  const CheckCall& call = call_of(rank);
  const int t = rank * run.lanes_per_rank;
  std::int32_t* clock = run.clock(t);
  for (int l = 1; l < run.lanes_per_rank; ++l) run.join(clock, run.clock(t + l));
  check_result(rank);
  // The caller overwrites all of its memory at once.
  for (int area = 0; area < 2 && !run.failed; ++area)
    for (std::uint64_t e = 0; e < state.area_used[area]; ++e) {
      const Element& x = state.area[area][e];
      const int reader = SymbolicLane::unordered_read(run, x, clock);
      if (x.write_clock <= clock[x.write_thread] && reader < 0) continue;
      const int other = (reader < 0 ? static_cast<int>(x.write_thread) : reader) % run.threads;
      run.fail(format(
          "call {} ({} {}): rank {} returns, and its caller overwrites element {} of its {}, while lane {} of rank {} "
          "may still {} it",
          state.call, to_string(call.plans->plan(rank).header.collective), call.plans->plan(rank).algorithm(), rank, e,
          area == 0 ? "input" : "output", other % run.lanes_per_rank, other / run.lanes_per_rank,
          reader < 0 ? "write" : "read"));
      break;
    }
  for (const ChannelEnd& end : call.plans->ends(rank)) {
    Channel& c = *run.channel(end.channel, end.outgoing ? rank : end.peer, end.outgoing ? end.peer : rank);
    (end.outgoing ? c.sent_after : c.received_after)[state.call] = end.outgoing ? c.sent : c.received;
  }
  if (run.failed) return;
  ++state.call;
  if (static_cast<std::size_t>(state.call) == run.calls.size()) {
    --state.call;
    caller_writes(rank, nullptr);
    ++finished_ranks;
    return;
  }
  begin_call(rank);
}

int Checker::State::next_lane() {
  std::vector<int>& ready = run.ready;
  int lane = 0;
  switch (run.options.order) {
    case Order::kForward:
      lane = ready[head++];
      if (head == ready.size()) {
        ready.clear();
        head = 0;
      }
      break;
    case Order::kBackward:
      lane = ready.back();
      ready.pop_back();
      break;
    case Order::kShuffled: {
      random = check::mix(random);
      const std::size_t at = random % ready.size();
      lane = ready[at];
      ready[at] = ready.back();
      ready.pop_back();
      break;
    }
  }
  return lane;
}

void Checker::State::drive() {
  for (int r = 0; r < run.n && !run.failed; ++r) {
    begin_call(r);
  }
  // Ranks that take no part return at once.
  for (int r = 0; r < run.n; ++r)
    while (!run.failed && finished_ranks < run.n && run.ranks[static_cast<std::size_t>(r)].unfinished == 0 &&
           call_of(r).plans->plan(r).lanes.empty()) {
      const int call = run.ranks[static_cast<std::size_t>(r)].call;
      finish_call(r);
      if (call == run.ranks[static_cast<std::size_t>(r)].call) break;
    }
  while (!run.failed && !run.ready.empty()) {
    SymbolicLane& lane = run.lanes[static_cast<std::size_t>(next_lane())];
    lane.queued = false;
    if (lane.done) continue;
    RankState& state = run.ranks[static_cast<std::size_t>(lane.rank())];
    const std::uint32_t budget =
        run.options.order == Order::kShuffled ? static_cast<std::uint32_t>(1 + (random >> 40) % 3) : ~0u;
    const Progress progress = advance(lane.plan(), lane.program(), state.shape, lane.state, lane, budget);
    if (run.failed) return;
    if (progress == Progress::kWaiting) {
      if (lane.state.waiting.op == StepOp::kMove) {
        lane.queued = true;
        run.ready.push_back(lane.thread());
      }
      continue;
    }
    lane.done = true;
    lane.check_end();
    if (run.failed) return;
    if (--state.unfinished > 0) {
      if (run.options.resident != 0) start_lanes(lane.rank());
      continue;
    }
    // Calls in which this rank has no lanes end as they begin.
    int call;
    do {
      call = state.call;
      finish_call(lane.rank());
    } while (!run.failed && state.call != call && call_of(lane.rank()).plans->plan(lane.rank()).lanes.empty());
  }
}

std::string Checker::State::deadlock() {
  for (SymbolicLane& lane : run.lanes) {
    const RankState& state = run.ranks[static_cast<std::size_t>(lane.rank())];
    if (lane.done || lane.lane() >= state.started) continue;
    const WaitingOn& w = lane.state.waiting;
    const bool data = w.op == StepOp::kWaitData;
    const Channel* c = data ? run.channel(w.channel, w.peer, lane.rank()) : run.channel(w.channel, lane.rank(), w.peer);
    std::string text = format("deadlock: {} waits forever", lane.where());
    if (c != nullptr)
      text += data ? format(" for data {} of channel {} from rank {}, which sent {}", c->received + w.bound, w.channel,
                            w.peer, c->sent)
                   : format(" for credit {} of channel {} from rank {}, which gave {}", c->sent - w.bound, w.channel,
                            w.peer, c->received);
    bool all_done = true;
    for (int l = 0; l < run.lanes_per_rank; ++l) {
      const SymbolicLane& peer = run.lanes[static_cast<std::size_t>(w.peer * run.lanes_per_rank + l)];
      if (peer.done) continue;
      if (all_done) text += format("; there, {}", peer.where());
      all_done = false;
    }
    if (all_done) text += "; there, all lanes have ended";
    return text;
  }
  return "deadlock: a rank never finishes";
}

void Checker::State::check_balance() {
  for (std::size_t k = 0; k < run.calls.size(); ++k)
    for (int r = 0; r < run.n; ++r)
      for (const ChannelEnd& end : run.calls[k].plans->ends(r)) {
        const Channel& c = *run.channel(end.channel, end.outgoing ? r : end.peer, end.outgoing ? end.peer : r);
        // A side that has no such end in this call signalled nothing since its last one.
        const std::int64_t sent = k + 1 == run.calls.size() ? c.sent : c.sent_after[k];
        const std::int64_t received = k + 1 == run.calls.size() ? c.received : c.received_after[k];
        if (sent != received) {
          run.fail(format(
              "call {} ({} {}): channel {} from rank {} to rank {} is out of balance: {} data, {} credit signals", k,
              to_string(run.calls[k].plans->collective()), run.calls[k].plans->plan(r).algorithm(), c.id, c.from, c.to,
              sent - run.options.slots, received - run.options.slots));
          return;
        }
      }
}

Result<CheckReport> Checker::check(std::span<const CheckCall> calls, const CheckOptions& options) {
  HOCKET_TRY(state_->prepare(calls, options));
  Run& run = state_->run;
  for (Channel& c : run.channels)
    for (std::size_t k = 0; k < calls.size(); ++k) c.sent_after[k] = c.received_after[k] = options.slots;
  state_->drive();
  if (!run.failed && state_->finished_ranks != run.n) run.fail(state_->deadlock());
  if (!run.failed) state_->check_balance();
  if (run.failed) return error(Code::kInternal, "{}", run.error);
  state_->report.steps = run.steps;
  state_->report.links = run.links;
  return state_->report;
}

std::uint64_t tile_for(const PlanWorld& world, const CheckCall& call, std::uint64_t tiles) {
  std::uint64_t longest = 1;
  for (int r = 0; r < world.size(); ++r) {
    const Plan& plan = world.plan(r);
    Shape shape;
    std::vector<std::uint64_t> counts[3];
    std::vector<std::uint64_t> offsets[3];
    fill_shape(call, 2, r, shape, counts, offsets);
    for (const LaneProgram& lane : plan.lanes)
      for (const Extent& extent : plan.extents)
        longest = std::max(longest, length_of(plan.view(), lane, shape, extent, 0, 0));
  }
  return (longest + tiles - 1) / tiles;
}

Result<int> resident(const PlanWorld& world) {
  Checker checker;
  for (int lanes = 1; lanes < world.lanes(); ++lanes) {
    bool runs = true;
    for (const std::uint64_t tiles : {1, 5}) {
      CheckCall call{.plans = &world, .count = static_cast<std::uint64_t>(6 * world.size() + 5)};
      call.tile = tile_for(world, call, tiles);
      const CheckCall calls[] = {call, call};
      runs = runs && checker.check(calls, {.resident = lanes}).ok();
    }
    if (runs) return lanes;
  }
  CheckCall call{.plans = &world, .count = static_cast<std::uint64_t>(6 * world.size() + 5)};
  call.tile = tile_for(world, call, 5);
  HOCKET_TRY(checker.check({&call, 1}, {}).status());
  return world.lanes();
}

}  // namespace hocket
