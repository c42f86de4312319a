// SPDX-License-Identifier: Apache-2.0
#include "checker/set_up.hpp"

#include <algorithm>
#include <array>

#include "base/status.hpp"
#include "checker/call_layout.hpp"

namespace hocket::check {
namespace {

void add_channel(Run& run, const ChannelEnd& end, int rank) {
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

}  // namespace

Status set_up(Run& run, std::span<const CheckCall> calls, const CheckOptions& options) {
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
  const auto n = static_cast<std::size_t>(run.n);
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
  if (run.threads * 2 >= kShared) return error(Code::kInvalidArgument, "too many lanes for one check: {}", run.threads);
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
      for (const ChannelEnd& end : call.plans->ends(r)) add_channel(run, end, r);
  const std::size_t clocks = 2 * kSnapshots * run.stride;
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

}  // namespace hocket::check
