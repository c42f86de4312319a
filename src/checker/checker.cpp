// SPDX-License-Identifier: Apache-2.0
// checker.cpp: drives a world's lanes in some order, and plays the caller before and after each call.
//
// Next stops: set_up.hpp makes the world, symbolic_lane.hpp runs a lane's steps, judge.hpp looks at what a call left.
#include "checker/checker.hpp"

#include <algorithm>
#include <cstring>

#include "base/status.hpp"
#include "checker/call_layout.hpp"
#include "checker/checker_state.hpp"
#include "checker/judge.hpp"
#include "checker/set_up.hpp"
#include "checker/symbolic_lane.hpp"

namespace hocket {

using check::Channel;
using check::Element;
using check::RankState;
using check::Run;
using check::SymbolicLane;

struct Checker::State {
  Run run;
  check::Judge judge{run};
  std::size_t head = 0;      // of run.ready, when it is a queue
  std::uint64_t random = 0;  // of the schedule
  int finished_ranks = 0;

  void begin();
  void begin_call(int rank);
  void finish_call(int rank);
  void caller_writes(int rank, const CheckCall* call);
  int next_lane();
  void start_lanes(int rank);
  void drive();
  void check_balance();
  std::string deadlock();
};

Checker::Checker() : state_(std::make_unique<State>()) {}
Checker::~Checker() = default;

void Checker::State::begin() {
  judge.reset();
  head = 0;
  random = check::mix(run.options.seed);
  finished_ranks = 0;
}

void Checker::State::start_lanes(int rank) {
  RankState& state = run.ranks[static_cast<std::size_t>(rank)];
  const auto lanes = static_cast<int>(run.call_of(rank).plans->plan(rank).lanes.size());
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
      write(state.area[area][e], check::origin(run.input_token(rank + run.n, e, state.call)));
  if (call != nullptr)
    for (std::uint64_t e = 0; e < state.input_length; ++e)
      write(state.input[e], check::origin(run.input_token(rank, e, state.call)));
  for (int l = run.lanes_per_rank - 1; l >= 0; --l) {
    std::int32_t* mine = run.clock(t + l);
    if (l != 0) std::memcpy(mine, clock, run.stride * sizeof *mine);
    ++mine[t + l];
  }
}

void Checker::State::begin_call(int rank) {
  RankState& state = run.ranks[static_cast<std::size_t>(rank)];
  const CheckCall& call = run.call_of(rank);
  const Plan& plan = call.plans->plan(rank);
  check::fill_shape(call, run.options.slots, rank, state.shape, state.counts, state.offsets);
  const check::Lengths lengths = check::lengths_of(plan, call, state.shape, state.counts);
  state.input_length = lengths.input;
  state.output_length = lengths.output;
  state.input = state.area[0];
  if (call.in_place) {
    state.output = state.area[0];
    const Collective collective = plan.header.collective;
    const bool root = rank == plan.header.root;
    if (collective == Collective::kAllGather || collective == Collective::kAllGatherV ||
        (collective == Collective::kGather && root))
      state.input += check::own_offset(state.shape, rank);
    if (collective == Collective::kReduceScatter || collective == Collective::kReduceScatterV ||
        (collective == Collective::kScatter && root))
      state.output += check::own_offset(state.shape, rank);
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

void Checker::State::finish_call(int rank) {
  RankState& state = run.ranks[static_cast<std::size_t>(rank)];
  const CheckCall& call = run.call_of(rank);
  const int t = rank * run.lanes_per_rank;
  std::int32_t* clock = run.clock(t);
  for (int l = 1; l < run.lanes_per_rank; ++l) run.join(clock, run.clock(t + l));
  judge.check(rank);
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
           run.call_of(r).plans->plan(r).lanes.empty()) {
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
    } while (!run.failed && state.call != call && run.call_of(lane.rank()).plans->plan(lane.rank()).lanes.empty());
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
  Run& run = state_->run;
  HOCKET_TRY(check::set_up(run, calls, options));
  state_->begin();
  for (Channel& c : run.channels)
    for (std::size_t k = 0; k < calls.size(); ++k) c.sent_after[k] = c.received_after[k] = options.slots;
  state_->drive();
  if (!run.failed && state_->finished_ranks != run.n) run.fail(state_->deadlock());
  if (!run.failed) state_->check_balance();
  if (run.failed) return error(Code::kInternal, "{}", run.error);
  return CheckReport{.steps = run.steps,
                     .equal_bits = state_->judge.equal_bits(),
                     .ordered = state_->judge.ordered(),
                     .links = run.links};
}

std::uint64_t tile_for(const PlanWorld& world, const CheckCall& call, std::uint64_t tiles) {
  std::uint64_t longest = 1;
  for (int r = 0; r < world.size(); ++r) {
    const Plan& plan = world.plan(r);
    Shape shape;
    std::vector<std::uint64_t> counts[3];
    std::vector<std::uint64_t> offsets[3];
    check::fill_shape(call, 2, r, shape, counts, offsets);
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
