// SPDX-License-Identifier: Apache-2.0
// core/prepare.cpp: from what the caller asked for to a plan that is ready to run.
// Next stop: algorithms/select.cpp chooses, algorithms/ring.cpp and its sisters build, run.cpp runs.
#include <algorithm>

#include "algorithms/exchange.hpp"
#include "base/status.hpp"
#include "core/communicator_state.hpp"
#include "exec/ends.hpp"
#include "exec/posted.hpp"

namespace hocket {
namespace {

constexpr std::size_t kReadyCalls = 128;
constexpr std::size_t kReadyExchanges = 256;

std::size_t slot_of(const CallKey& key) {
  std::uint64_t h = key.count * 0x9e3779b97f4a7c15ull;
  h ^= (static_cast<std::uint64_t>(key.collective) << 8) ^ (static_cast<std::uint64_t>(key.type) << 16) ^
       (static_cast<std::uint64_t>(key.op) << 24) ^
       (static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.root)) << 32) ^
       static_cast<std::uint64_t>(key.symmetric) ^ key.operator_id;
  return (h ^ (h >> 29)) % kReadyCalls;
}

std::uint64_t plan_key(const Algorithm& algorithm, Rank root, int lanes) {
  return static_cast<std::uint64_t>(&algorithm - algorithms().data()) | (static_cast<std::uint64_t>(lanes) << 8) |
         (static_cast<std::uint64_t>(static_cast<std::uint32_t>(root)) << 32);
}

std::uint16_t channel_base(const Algorithm& algorithm) {
  if (is_message(algorithm.collective)) return kPointToPointId;
  return algorithm.boards ? kMailboxIds : 0;
}

/// A credit may be published late if nobody can be blocked by that alone. A sender waits for a free slot only when most
/// slots hold what this rank has not even received; but a sender that drains waits for every credit: one that hears
/// nothing from this rank in the call (Drain), or whose plan has such a wait.
/// `defers`: none does the former.
bool may_merge_credits(const Plan& plan, const std::vector<ChannelEnd>& ends, bool defers) {
  // A peer's buffers are its own again when it has the credit.
  for (const SpanRef& span : plan.spans)
    if (span.kind == SpanKind::kPeerInput || span.kind == SpanKind::kPeerOutput) return false;
  for (const Step& step : plan.steps)
    if ((step.op == StepOp::kWaitCredit && step.bound != kBoundFree) || step.grant != kNoGrant) return false;
  for (const ChannelEnd& end : ends) {
    if (end.board) return false;
    const auto answers = [&](const ChannelEnd& other) {
      return other.outgoing && other.peer == end.peer && other.signals != 0;
    };
    if (!end.outgoing && !defers && std::none_of(ends.begin(), ends.end(), answers)) return false;
  }
  return true;
}

}  // namespace

Status CommunicatorState::make_ready(ReadyPlan& made, int base, bool boards) {
  if (!world.direct) HOCKET_TRY(derive_completions(made.plan));
  HOCKET_ASSIGN(const std::vector<ChannelEnd> ends, ends_of(made.plan));
  for (const ChannelEnd& end : ends) {
    const auto back = [&](const ChannelEnd& other) { return !other.outgoing && other.peer == end.peer; };
    if (end.outgoing && std::none_of(ends.begin(), ends.end(), back)) made.drains.push_back({end.channel, end.peer, 0});
    HOCKET_TRY(reach_for_call(end.peer));
    HOCKET_TRY(end.outgoing ? channels->open_send(base + end.channel, end.peer)
                            : channels->open_receive(base + end.channel, end.peer, end.slotted));
  }
  made.defers = !settings.drain && !is_message(made.plan.header.collective);
  // A message's other side may be alone, and then waits for every credit.
  made.merge_credits = !is_message(made.plan.header.collective) && may_merge_credits(made.plan, ends, made.defers);
  return boards ? channels->commit_board() : Status();
}

void CommunicatorState::bind(ReadyCall& call, int base) {
  BoundCall& bound = call.bound;
  const CallKey& key = call.key;
  bound.plan = call.plan->plan.view();
  bound.element_bytes = static_cast<std::uint32_t>(size_of(key.type));
  bound.type = key.type;
  bound.op = key.op;
  bound.reduce = reduce_function(key.type, key.op);
  if (key.op == ReduceOp::kPremultipliedSum) bound.scale = scale_function(key.type);
  bound.world = size;
  bound.protocol = call.choice.protocol;
  bound.channel_base = static_cast<std::uint16_t>(base);
  bound.stream_output = call.choice.stream_output;
  bound.touches_peers = world.one_process && call.choice.algorithm->zero_copy;
  bound.merge_credits = call.plan->merge_credits;
  bound.credit_every = bound.merge_credits ? std::max<std::uint64_t>(layout.slots / 4, 1) : 1;
  bound.shape.count = key.count;
  bound.shape.unit = std::max(1u, 16 / bound.element_bytes);
  bound.shape.slots = static_cast<std::int32_t>(layout.slots);
  bound.shape.tiles_per_round = call.choice.tiles_per_round;
  bound.shape.tile = call.plan->plan.header.uses_slots ? call.choice.tile_bytes / bound.element_bytes : kWholeChunk;
  call.hash = bound.hash = descriptor_hash(key, call.choice, world, rank);
  const std::size_t scratch =
      static_cast<std::size_t>(call.plan->plan.header.work_entries) * static_cast<std::size_t>(call.choice.tile_bytes);
  if (work.size() < scratch) work.resize(scratch);
  call.record_what = pack_what(key, call.choice);
  call.record_root_tile = pack_root_tile(key, call.choice);
}

Result<ReadyCall*> CommunicatorState::prepare(const CallKey& key, const Uneven* uneven) {
  if (key.collective == Collective::kExchange) return prepare_exchange(key, *uneven);
  if (ready.empty()) ready.resize(kReadyCalls);
  std::unique_ptr<ReadyCall>& slot = ready[slot_of(key)];
  if (slot && slot->key == key) [[likely]]
    return last_ready = slot.get();

  auto call = std::make_unique<ReadyCall>();
  call->key = key;
  const std::uint64_t bytes = key.count * size_of(key.type);
  HOCKET_ASSIGN(call->choice, choose(key.collective, bytes, key.type, key.symmetric, world, nullptr,
                                     needs_of(key.op, key.ordered), key.root));
  if (is_message(key.collective)) {
    // Its other side may be in a group with messages of other lengths: how they travel is the same for all.
    HOCKET_ASSIGN(const Choice of_all, choose(Collective::kExchange, 0, DataType::kUint8, false, world));
    call->choice.protocol = of_all.protocol;
    call->choice.tile_bytes = of_all.tile_bytes;
  }
  const Algorithm& algorithm = *call->choice.algorithm;
  std::unique_ptr<ReadyPlan>& plan = plans[plan_key(algorithm, key.root, call->choice.lanes)];
  if (!plan) {
    auto made = std::make_unique<ReadyPlan>();
    made->plan = algorithm.build({.world = size,
                                  .rank = rank,
                                  .root = std::max(key.root, 0),
                                  .lanes = call->choice.lanes,
                                  .layout = world.layout.get()});
    HOCKET_TRY(make_ready(*made, channel_base(algorithm), algorithm.boards));
    plan = std::move(made);
  }
  call->plan = plan.get();
  bind(*call, channel_base(algorithm));
  if (world.direct && uneven == nullptr) (void)record(call->bound, *channels, &call->tape);
  slot = std::move(call);
  return last_ready = slot.get();
}

Result<ReadyCall*> CommunicatorState::prepare_exchange(const CallKey& key, const Uneven& uneven) {
  if (exchanges.size() >= kReadyExchanges) exchanges.clear();
  std::unique_ptr<ReadyExchange>& slot = exchanges[{uneven.sends, uneven.receives}];
  if (!slot) {
    auto made = std::make_unique<ReadyExchange>();
    HOCKET_ASSIGN(made->call.choice, choose(Collective::kExchange, 0, DataType::kUint8, false, world));
    HOCKET_ASSIGN(made->plan.plan,
                  exchange_plan(size, rank, uneven.sends, uneven.receives, 1, ExchangeForm::kSideBySide));
    HOCKET_TRY(make_ready(made->plan, kPointToPointId, false));
    made->call.plan = &made->plan;
    slot = std::move(made);
  }
  slot->call.key = key;
  bind(slot->call, kPointToPointId);
  return &slot->call;
}

}  // namespace hocket
