// SPDX-License-Identifier: Apache-2.0
// core/run.cpp: runs a ready call on the caller's thread: turns of the executor, and between them spinning, sleeping
// and watching. Next stop: exec/executor.cpp.
#include <sched.h>

#include <algorithm>

#include "base/log.hpp"
#include "base/status.hpp"
#include "core/communicator_state.hpp"
#include "core/reduction.hpp"

namespace hocket {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
/// A wait this long looks at call boards, and then every second.
constexpr std::int64_t kFirstLook = 50 * kMillisecond;
constexpr std::int64_t kLaterLooks = 1000 * kMillisecond;
/// A blocked rank shows that it lives at least this often.
constexpr std::int64_t kHeartbeat = 250 * kMillisecond;

bool is_message(const ReadyCall& call) {
  return hocket::is_message(call.key.collective);
}

/// The parts of a call where they are not all equal.
void bind_uneven(ReadyCall& call, Uneven& u, const World& world, Rank rank) {
  Shape& shape = call.bound.shape;
  call.uneven = &u;
  BoundCall& bound = call.bound;
  switch (call.key.collective) {
    case Collective::kAllGatherV:
    case Collective::kReduceScatterV:
      shape.count = u.counts[static_cast<std::size_t>(rank)];  // where lanes divide a rank's own chunk
      shape.rank_counts = u.counts.data();
      shape.rank_offsets = u.offsets.data();
      bound.hash = pair_hash(call.hash, u.digest);
      return;
    case Collective::kAllToAllV:
    case Collective::kExchange:
      shape.send_counts = u.counts.data();
      shape.send_offsets = u.offsets.data();
      shape.receive_counts = u.receive_counts.data();
      shape.receive_offsets = u.receive_offsets.data();
      break;
    default: return;
  }
  const bool exchange = call.key.collective == Collective::kExchange;
  const auto n = static_cast<std::size_t>(world.size);
  const std::size_t sends = exchange ? u.sends.size() : n, receives = exchange ? u.receives.size() : n;
  u.hashes.assign(sends + receives + 1, 0);  // and one that is pointed to after the last
  u.transfers.assign(sends + receives + 1, ~std::uint64_t{0});
  u.out.assign(n, {});
  u.in.assign(n, {});
  const auto enter = [&](std::size_t at, std::size_t e, bool out) {
    const Rank peer = exchange ? (out ? u.sends : u.receives)[e] : static_cast<Rank>(e);
    const std::uint64_t count = (out ? u.counts : u.receive_counts)[e];
    if (exchange) {
      const DataType type = (out ? u.send_types : u.receive_types)[e];
      u.hashes[at] =
          message_hash(count / size_of(type), type, out ? rank : peer, out ? peer : rank, call.choice, world);
      u.transfers[at] = tiles_of(count, shape.tile);
    } else {
      u.hashes[at] = pair_hash(call.hash, count);
    }
    // Messages of a pair lie one behind the other: the list is ordered by rank.
    PairHashes& pair = (out ? u.out : u.in)[static_cast<std::size_t>(peer)];
    if (pair.hash == nullptr) pair = {&u.hashes[at], &u.transfers[at], 0};
  };
  for (std::size_t e = 0; e < sends; ++e) enter(e, e, true);
  for (std::size_t e = 0; e < receives; ++e) enter(sends + e, e, false);
  bound.hashes_out = u.out.data();
  bound.hashes_in = u.in.data();
}

}  // namespace

void Turnstile::wait(std::uint64_t ticket) {
  while (!is_next(ticket)) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t seen = changes_.load(std::memory_order_seq_cst);
    if (!is_next(ticket)) os::futex_wait(changes_, seen, os::Deadline::never());
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }
}

bool Turnstile::leave(std::uint64_t ticket) {
  serving_.exchange(ticket + 1, std::memory_order_seq_cst);  // release; pairs with is_next
  if (sleepers_.load(std::memory_order_seq_cst) != 0) {
    changes_.fetch_add(1, std::memory_order_seq_cst);
    os::futex_wake(changes_, 1 << 20);
  }
  return next_.load(std::memory_order_relaxed) != ticket + 1;
}

bool CommunicatorState::shares_core(Rank peer) {
  if (peer < 0) return false;
  const PeerView& view = channels->peer(peer);
  if (view.block != nullptr) return view.block_header()->cpu.load(std::memory_order_relaxed) == cpu;
  return view.endpoint != nullptr && view.endpoint->peer_cpu() == ::sched_getcpu();
}

void CommunicatorState::begin(ReadyCall& call, const void* input, void* output, const Reduction& reduction,
                              Uneven* uneven) {
  BoundCall& bound = call.bound;
  bound.input = static_cast<const std::byte*>(input);
  bound.output = static_cast<std::byte*>(output);
  bound.work = work.data();
  if (uneven != nullptr) [[unlikely]]
    bind_uneven(call, *uneven, world, rank);
  if (bound.scale != nullptr) [[unlikely]]
    bound.scalar = scalar_bits(reduction, call.key.type);
  if (reduction.user() != nullptr) [[unlikely]] {
    bound.user = &reduction.user()->function;
    write_operator(call.operator_name, reduction.name());
  }
  if (call.key.symmetric) {
    bound.input_offset = static_cast<std::uint64_t>(bound.input - engine->arena().base());
    bound.output_offset = static_cast<std::uint64_t>(bound.output - engine->arena().base());
    const auto memory = symmetric.upper_bound(bound.output_offset);
    bound.output_bytes =
        memory == symmetric.begin() ? 0 : std::prev(memory)->first + std::prev(memory)->second - bound.output_offset;
  }
  // Who waits for this rank yields to it on its own core: of short calls now and then is soon enough.
  constexpr std::uint64_t kLookEvery = 16;
  if (call.tape.steps.empty() || calls % kLookEvery == 0) {
    if (const auto now_on = static_cast<std::uint32_t>(::sched_getcpu() + 1); now_on != cpu) [[unlikely]] {
      cpu = now_on;
      block().cpu.store(now_on, std::memory_order_relaxed);
    }
  }
  LiveState& live = block().live;
  if (is_message(call)) {
    write_record(message_records(), layout.records, messages, call);
    live.point_to_point.store(++messages, std::memory_order_release);
  } else {
    write_record(records(), layout.records, calls, call);
    live.entered.store(++calls, std::memory_order_release);
  }
  if (observer) [[unlikely]]
    observer->begin(call);
  executor->start(bound, call.plan->defers ? std::span<const Drain>() : call.plan->drains,
                  call.tape.steps.empty() ? nullptr : &call.tape);
}

std::uint64_t CommunicatorState::number_of(const ReadyCall& call) const {
  return (is_message(call) ? messages : calls) - 1;
}

Status CommunicatorState::end(ReadyCall& call, Progress progress) {
  const bool done = progress == Progress::kDone;
  const bool message = is_message(call);
  LiveState& live = block().live;
  end_record(message ? message_records() : records(), layout.records, (message ? messages : calls) - 1,
             done ? CallState::kDone : CallState::kFailed);
  (message ? live.point_to_point_completed : live.completed)
      .store(message ? messages : calls, std::memory_order_release);
  if (observer) [[unlikely]]
    observer->end(call, (message ? messages : calls) - 1, done);
  if (done) [[likely]] {
    if (call.plan->defers && !call.plan->drains.empty()) note_untaken(call);
    return {};
  }
  executor->abandon();
  const LaneFault& fault = executor->fault();
  const WaitingOn waiting = executor->waiting();
  if (fault.kind == LaneFault::Kind::kMismatch) {
    look_back();  // an earlier difference explains this one
    fail(Code::kMismatch, mismatch_text(call, fault.peer, fault.their_hash));
  } else if (fault.kind == LaneFault::Kind::kPeerLost) {
    fail(Code::kPeerLost, format("{} can no longer be reached: {}", name_of(fault.peer), fault.status.text()),
         fault.peer);
  } else if (fault.kind == LaneFault::Kind::kOperator) {
    fail(fault.status.code(), format("{}: {}", name_of(rank), fault.status.text()));
  }
  check_ended();
  send_off();
  if (call.bound.touches_peers) await_peers_turns();
  live.waiting.store(0, std::memory_order_relaxed);
  return end_error_in(call, waiting);
}

Status CommunicatorState::run(ReadyCall& call, const void* input, void* output, const Reduction& reduction,
                              Uneven* uneven) {
  if (check_ended()) return end_error_before(call.key);
  begin(call, input, output, reduction, uneven);
  Progress progress = executor->turn();
  if (progress == Progress::kWaiting) {
    Doorbell& bell = block().doorbell;
    Waiter waiter(wait_policy, bell, !channels->proxies().empty());
    Watch watch(*this);
    watch.start(call);
    for (;;) {
      progress = executor->turn();
      if (progress != Progress::kWaiting) break;
      if (executor->moved()) {
        waiter.reset();
        watch.moved();
        if (observer) observer->moved(number_of(call));
        continue;
      }
      if (observer && !observer->is_still()) observer->still(executor->waiting());
      if (const Waiter::Next next = waiter.spin(); next != Waiter::Next::kSleep) {
        if (next == Waiter::Next::kLook) continue;
        const bool beside = shares_core(executor->waiting().peer);
        if (next == Waiter::Next::kShare ? beside : beside || !waiter.linger()) ::sched_yield();
        continue;
      }
      executor->before_sleep();
      waiter.arm();
      progress = executor->turn();
      if (progress != Progress::kWaiting || executor->moved()) {
        waiter.disarm();
        executor->after_sleep();
        if (progress != Progress::kWaiting) break;
        waiter.reset();
        watch.moved();
        continue;
      }
      if (!watch.tick(executor->waiting())) {
        waiter.disarm();
        executor->after_sleep();
        progress = Progress::kFailed;
        break;
      }
      // What only puts reach moves when it is driven: sleep a moment only.
      const os::Deadline moment = os::Deadline::after(std::chrono::microseconds(50));
      waiter.sleep(executor->driving() ? std::min(moment, watch.next()) : watch.next());
      waiter.disarm();
      executor->after_sleep();
    }
    watch.moved();
  }
  return end(call, progress);
}

void Watch::start(ReadyCall& call) {
  call_ = &call;
  since_ns_ = 0;
  left_ = -1;
}

void Watch::moved() {
  if (since_ns_ == 0) return;
  since_ns_ = 0;
  left_ = -1;
  state_.block().live.waiting.store(0, std::memory_order_release);
}

bool Watch::tick(const WaitingOn& waiting) {
  const std::int64_t now = os::now_ns();
  LiveState& live = state_.block().live;
  if (since_ns_ == 0) {
    since_ns_ = now;
    look_ns_ = now + kFirstLook;
    warn_step_ns_ = state_.settings.warn_after.count();
    warn_ns_ = warn_step_ns_ > 0 ? now + warn_step_ns_ : INT64_MAX;
    live.waiting_since.store(now, std::memory_order_relaxed);
  }
  if (waiting.peer >= 0) {
    const bool data = waiting.op == StepOp::kWaitData;
    const HostEnd& end = state_.channels->end(waiting.channel, waiting.peer);
    const std::uint64_t need = data
                                   ? end.received + static_cast<std::uint64_t>(static_cast<std::int64_t>(waiting.bound))
                                   : end.sent - static_cast<std::uint64_t>(static_cast<std::int64_t>(waiting.bound));
    live.waiting_need.store(need, std::memory_order_relaxed);
    live.waiting.store((std::uint64_t{data ? 1u : 2u} << 56) | (std::uint64_t{waiting.channel} << 40) |
                           static_cast<std::uint64_t>(waiting.peer),
                       std::memory_order_release);
  }
  live.heartbeat.store(now, std::memory_order_release);
  if (state_.check_ended() || state_.ended_with_parent()) return false;

  // What a rank sent before it left may have come after the last look: look once more before giving up.
  if (waiting.peer >= 0 && state_.has_left(waiting.peer)) {
    if (left_ == waiting.peer) {
      state_.fail(Code::kPeerLost,
                  format("{} has left the communicator, and {} of rank {} needs it", state_.name_of(waiting.peer),
                         to_text(state_.describe(*call_)), state_.rank),
                  waiting.peer);
      return false;
    }
    left_ = waiting.peer;
    next_ns_ = now;
    return true;
  }

  if (now >= look_ns_) {
    look_ns_ = now + kLaterLooks;
    if (waiting.peer >= 0) state_.learn_from(waiting.peer);
    state_.look_back();
    if (state_.check_ended()) return false;
    if (std::string text = state_.find_mismatch(*call_, waiting); !text.empty()) {
      state_.fail(Code::kMismatch, std::move(text));
      return false;
    }
  }
  const std::int64_t timeout = state_.settings.timeout.count();
  if (timeout > 0 && now - since_ns_ >= timeout) {
    std::vector<Rank> ranks;
    const std::string who = state_.suspects(*call_, waiting, &ranks);
    if (state_.check_ended()) return false;
    state_.fail(Code::kTimeout,
                format("rank {} waited {:.1f} s (HOCKET_TIMEOUT) in {}: {}", state_.rank,
                       static_cast<double>(timeout) / 1e9, to_text(state_.describe(*call_)), who),
                ranks.empty() ? -1 : ranks.front());
    return false;
  }
  if (now >= warn_ns_) {
    const std::string who = state_.suspects(*call_, waiting);
    if (state_.check_ended()) return false;
    HOCKET_LOG(LogLevel::kWarn, "rank {} has waited {:.1f} s in {}: {}", state_.rank,
               static_cast<double>(now - since_ns_) / 1e9, to_text(state_.describe(*call_)), who);
    warn_step_ns_ *= 2;
    warn_ns_ = now + warn_step_ns_;
  }
  next_ns_ = std::min({look_ns_, now + kHeartbeat, warn_ns_, timeout > 0 ? since_ns_ + timeout : INT64_MAX});
  return true;
}

}  // namespace hocket
