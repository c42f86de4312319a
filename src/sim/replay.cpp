// SPDX-License-Identifier: Apache-2.0
#include "sim/replay.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <queue>

#include "algorithms/dump.hpp"
#include "base/status.hpp"
#include "exec/step_machine.hpp"
#include "sim/replay_state.hpp"

namespace hocket::sim {
namespace {

// Pieces of a transfer differ by 16 bytes: from here on they are taken for equal.
constexpr std::uint64_t kLongPiece = 4096;
// Events nearer than this are one: rounding must not pull equal ranks apart.
constexpr double kInstant = 1e-13;

class Replay {
 public:
  Replay(const FoldedWorld& world, const Costs& costs, const Shape& shape, const ReplayOptions& options)
      : world_(world), costs_(costs), shape_(shape), options_(options), flows_(capacities()) {
    ring_ = std::bit_ceil(static_cast<std::size_t>(shape.slots) + 2);
    result_.link_bytes.assign(world.links.size(), 0);
    result_.stream_bytes.assign(world.streams.size(), 0);
    stream_seconds_per_byte_.reserve(world.streams.size());
    for (const Stream& stream : world.streams) {
      double slowest = 0;
      for (std::uint32_t l = 0; l < stream.link_count; ++l)
        slowest = std::max(slowest, 1 / capacity(world.loads[stream.first_link + l].link));
      stream_seconds_per_byte_.push_back(slowest);
    }
    counters_.resize(world.ends.size());
    for (std::size_t a = 0; a < world.actors.size(); ++a) add_actor(a);
  }

  Result<Replayed> run() {
    for (std::size_t l = 0; l < lanes_.size(); ++l) wake(static_cast<std::int32_t>(l));
    while (true) {
      run_ready();
      if (!events_.empty() && events_.top().time <= now_ + kInstant) {
        handle();
        continue;
      }
      if (flows_.dirty()) {
        for (const int flow : flows_.settle(now_))
          push(flows_.end(flow), EventKind::kFlow, flow, flows_.generation(flow));
        continue;
      }
      if (events_.empty()) break;
      now_ = events_.top().time;
      if (++result_.events > options_.most_events)
        return error(Code::kUnsupported, "the simulation takes more than {} events", options_.most_events);
    }
    return finish();
  }

 private:
  friend class Policy;

  double capacity(int link) const {
    return world_.fabric->capacity(world_.links[static_cast<std::size_t>(link)].id, costs_);
  }
  std::vector<double> capacities() const {
    std::vector<double> all;
    for (std::size_t l = 0; l < world_.links.size(); ++l) all.push_back(capacity(static_cast<int>(l)));
    return all;
  }

  static std::uint64_t end_key(std::uint16_t channel, std::int32_t peer, bool outgoing) {
    return (static_cast<std::uint64_t>(channel) << 33) | (static_cast<std::uint64_t>(outgoing) << 32) |
           static_cast<std::uint32_t>(peer);
  }
  static std::uint64_t stream_key(std::int32_t peer, StreamKind kind) {
    return (static_cast<std::uint64_t>(kind) << 32) | static_cast<std::uint32_t>(peer);
  }

  void add_actor(std::size_t a) {
    const Actor& actor = world_.actors[a];
    end_keys_.emplace_back();
    stream_keys_.emplace_back();
    const double speed = world_.fabric->speed(actor.rank);
    for (std::uint32_t e = actor.first_end; e < actor.first_end + actor.end_count; ++e) {
      const End& end = world_.ends[e];
      end_keys_.back().push_back({end_key(end.channel, end.peer, end.outgoing), e});
      Counter& counter = counters_[e];
      counter.arrivals.resize(ring_);
      counter.latency = world_.fabric->latency(end.route, costs_) / speed;
      for (int w = 0; w < kWires; ++w)
        if (end.route.hops[w] > 0) counter.wire = static_cast<Wire>(w);
    }
    std::sort(end_keys_.back().begin(), end_keys_.back().end());
    for (std::uint32_t s = actor.first_stream; s < actor.first_stream + actor.stream_count; ++s)
      stream_keys_.back().push_back({stream_key(world_.streams[s].peer, world_.streams[s].kind), s});
    std::sort(stream_keys_.back().begin(), stream_keys_.back().end());
    for (const LaneProgram& program : actor.plan.lanes) {
      LaneRun lane;
      lane.actor = &actor;
      lane.program = &program;
      lane.plan = actor.plan.view();
      lane.speed = speed;
      lanes_.push_back(std::move(lane));
    }
  }

  static std::uint32_t find(const std::vector<Key>& keys, std::uint64_t key) {
    return std::lower_bound(keys.begin(), keys.end(), Key{key, 0})->index;
  }
  std::size_t index_of(const LaneRun& lane) const {
    return static_cast<std::size_t>(lane.actor - world_.actors.data());
  }
  std::uint32_t end_of(const LaneRun& lane, std::uint16_t channel, std::int32_t peer, bool outgoing) const {
    return find(end_keys_[index_of(lane)], end_key(channel, peer, outgoing));
  }
  std::uint32_t stream_of(const LaneRun& lane, std::int32_t peer, StreamKind kind) const {
    return find(stream_keys_[index_of(lane)], stream_key(peer, kind));
  }

  void push(double time, EventKind kind, std::int32_t id, std::uint32_t generation = 0) {
    events_.push({time, order_++, id, generation, kind});
  }
  void wake(std::int32_t lane) {
    LaneRun& at = lanes_[static_cast<std::size_t>(lane)];
    if (at.queued || at.done) return;
    at.queued = true;
    ready_.push_back(lane);
  }

  void run_ready();
  void handle();
  void begin_flows(LaneRun& lane, std::int32_t id);
  void flow_ended(std::int32_t flow);
  void move_ended(LaneRun& lane, std::int32_t id, double time);

  bool see(LaneRun& lane, std::int32_t id, std::uint32_t end, std::int64_t needed) {
    if (needed <= 0) return true;
    Counter& counter = counters_[static_cast<std::size_t>(world_.ends[end].opposite)];
    if (counter.count < needed) {
      counter.waiters.push_back(id);
      return false;
    }
    // What is older than the ring keeps lies in the past.
    if (needed + static_cast<std::int64_t>(ring_) <= counter.count) return true;
    const Arrival& arrival = counter.arrivals[static_cast<std::size_t>(needed) & (ring_ - 1)];
    if (arrival.time > lane.clock) {
      lane.clock = arrival.time;
      lane.spent = arrival.spent;
      lane.hop = arrival.hop;
    }
    return true;
  }

  void publish(LaneRun& lane, std::uint32_t end) {
    spend(lane, costs_.signal_seconds);
    Counter& counter = counters_[end];
    ++counter.count;
    if (world_.ends[end].outgoing)
      result_.most_signals = std::max(result_.most_signals, static_cast<int>(counter.count));
    Arrival& arrival = counter.arrivals[static_cast<std::size_t>(counter.count) & (ring_ - 1)];
    arrival.time = lane.clock + counter.latency;
    arrival.hop = lane.hop;
    arrival.spent = lane.spent;
    arrival.spent.latency[static_cast<std::size_t>(counter.wire)] += counter.latency;
    ++arrival.spent.hops;
    waking_.swap(counter.waiters);
    for (const std::int32_t waiter : waking_) wake(waiter);
    waking_.clear();
  }

  void spend(LaneRun& lane, double seconds) {
    seconds /= lane.speed;
    lane.clock += seconds;
    lane.spent.overhead += seconds;
  }

  Result<Replayed> finish();

  const FoldedWorld& world_;
  const Costs& costs_;
  const Shape shape_;
  const ReplayOptions options_;
  FlowSet flows_;
  std::size_t ring_ = 4;
  std::vector<Counter> counters_;                         // [ends]
  std::vector<std::vector<Key>> end_keys_, stream_keys_;  // [actor]
  std::vector<double> stream_seconds_per_byte_;
  std::vector<LaneRun> lanes_;
  std::vector<std::int32_t> ready_, waking_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::uint32_t> flow_stream_;  // [flow]
  std::vector<double> flow_bytes_;
  std::vector<Hop> hops_;
  bool hops_lost_ = false;
  std::uint64_t order_ = 0;
  double now_ = 0;
  Replayed result_;
};

/// The step machine's policy for one lane.
class Policy {
 public:
  Policy(Replay& replay, LaneRun& lane, std::int32_t id) : replay_(replay), lane_(lane), id_(id) {}

  bool failed() const { return false; }
  bool completed(const Step&, std::int32_t) const { return true; }
  bool drained() const { return true; }
  bool data_ready(std::uint16_t channel, std::int32_t peer, std::int32_t bound) {
    const std::uint32_t end = replay_.end_of(lane_, channel, peer, false);
    return replay_.see(lane_, id_, end, replay_.counters_[end].count + bound);
  }
  bool credit_ready(std::uint16_t channel, std::int32_t peer, std::int32_t bound) {
    const std::uint32_t end = replay_.end_of(lane_, channel, peer, true);
    return replay_.see(lane_, id_, end, replay_.counters_[end].count - bound);
  }
  void signal_data(std::uint16_t channel, std::int32_t peer, const Step&) {
    replay_.publish(lane_, replay_.end_of(lane_, channel, peer, true));
  }
  void signal_credit(std::uint16_t channel, std::int32_t peer, const Step&) {
    replay_.publish(lane_, replay_.end_of(lane_, channel, peer, false));
  }
  void begin_move(std::uint64_t length, const Step&) {
    length_ = length;
    weight_ = 0;
    if (!lane_.moving && !lane_.moved) lane_.flows.clear();
  }
  void source(const SpanAt& span) {
    add(span, span.kind == SpanKind::kPeerInput || span.kind == SpanKind::kBoardIn, StreamKind::kPull);
  }
  void destination(const SpanAt& span) {
    add(span, span.kind == SpanKind::kSlotOut || span.kind == SpanKind::kPeerOutput, StreamKind::kPush);
  }

  bool end_move() {
    if (lane_.moved) {
      lane_.moved = false;
      return true;
    }
    if (lane_.moving) return false;
    ++replay_.result_.moves;
    const double times = whole_loop();
    for (auto& flow : lane_.flows) flow.second *= times;
    if (length_ > 0 && replay_.world_.fabric->limits_copying())
      lane_.flows.emplace_back(replay_.stream_of(lane_, lane_.actor->label, StreamKind::kEngine),
                               static_cast<double>(length_) * times * weight_ / 2);
    if (length_ == 0 || lane_.flows.empty()) {
      replay_.spend(lane_, replay_.costs_.move_seconds);
      return true;
    }
    lane_.moving = true;
    replay_.spend(lane_, replay_.costs_.move_seconds);
    lane_.begin = lane_.clock;
    replay_.push(lane_.clock, EventKind::kBegin, id_);
    return false;
  }

 private:
  /// A repeat of nothing but one Move to the same peers (the pieces of a transfer) is one Move: how often its bytes.
  /// The loop's variable goes to its last value.
  double whole_loop() {
    LaneState& s = lane_.state;
    const Step* steps = lane_.plan.steps + lane_.program->first;
    if (s.pc == 0 || length_ == 0 || steps[s.pc - 1].op != StepOp::kRepeat || steps[s.pc + 1].op != StepOp::kEnd)
      return 1;
    const Step& loop = steps[s.pc - 1];
    const Step& move = steps[s.pc];
    std::int32_t& v = loop.variable == 0 ? s.i : s.j;
    if (v != 0 || loop.count < 2) return 1;
    for (std::uint32_t n = 0; n < std::uint32_t{move.source_count} + move.destination_count; ++n) {
      const Index& peer = lane_.plan.spans[move.first + n].peer.index;
      if ((loop.variable == 0 ? peer.s0 : peer.s1) != 0) return 1;
    }
    double bytes = static_cast<double>(length_) * loop.count;
    const Shape& shape = replay_.shape_;
    if (length_ < kLongPiece) {
      bytes = 0;
      const std::uint64_t tile = s.round * static_cast<std::uint64_t>(s.round_tiles) + static_cast<std::uint64_t>(s.k);
      for (v = 0; v < loop.count; ++v) {
        const std::uint64_t length = length_of(lane_.plan, *lane_.program, shape, move.extent, s.i, s.j);
        if (tile != 0 && tile >= tiles_of(length, shape.tile)) continue;
        bytes += static_cast<double>(std::min(length - tile * (tile == 0 ? 0 : shape.tile), shape.tile));
      }
    }
    v = loop.count - 1;
    replay_.spend(lane_, replay_.costs_.move_seconds * v);
    return bytes / static_cast<double>(length_);
  }

  void add(const SpanAt& span, bool remote, StreamKind kind) {
    weight_ += span.kind == SpanKind::kSlotIn && span.peer != lane_.actor->label ? replay_.costs_.slot_weight : 1;
    if (lane_.moving || lane_.moved || length_ == 0 || !remote || span.peer == lane_.actor->label) return;
    const std::uint32_t stream = replay_.stream_of(lane_, span.peer, kind);
    if (replay_.world_.streams[stream].link_count > 0) lane_.flows.emplace_back(stream, static_cast<double>(length_));
  }

  Replay& replay_;
  LaneRun& lane_;
  std::int32_t id_;
  std::uint64_t length_ = 0;
  double weight_ = 0;  // of the spans: bytes copied are half of it
};

void Replay::run_ready() {
  for (std::size_t next = 0; next < ready_.size(); ++next) {
    const std::int32_t id = ready_[next];
    LaneRun& lane = lanes_[static_cast<std::size_t>(id)];
    lane.queued = false;
    if (lane.done || (lane.moving && !lane.moved)) continue;
    Policy policy(*this, lane, id);
    if (advance(lane.plan, *lane.program, shape_, lane.state, policy) == Progress::kDone) lane.done = true;
  }
  ready_.clear();
}

void Replay::handle() {
  const Event event = events_.top();
  events_.pop();
  switch (event.kind) {
    case EventKind::kBegin: begin_flows(lanes_[static_cast<std::size_t>(event.id)], event.id); break;
    case EventKind::kFlow:
      if (flows_.active(event.id) && flows_.generation(event.id) == event.generation) flow_ended(event.id);
      break;
    case EventKind::kResume: move_ended(lanes_[static_cast<std::size_t>(event.id)], event.id, event.time); break;
  }
}

void Replay::begin_flows(LaneRun& lane, std::int32_t id) {
  lane.open = static_cast<int>(lane.flows.size());
  lane.alone = 0;
  lane.stream = -1;
  for (const auto& [stream, bytes] : lane.flows) {
    const Stream& at = world_.streams[stream];
    const int flow = flows_.add(now_, bytes, {world_.loads.data() + at.first_link, at.link_count}, id);
    if (static_cast<std::size_t>(flow) >= flow_stream_.size()) {
      flow_stream_.resize(static_cast<std::size_t>(flow) + 1);
      flow_bytes_.resize(static_cast<std::size_t>(flow) + 1);
    }
    flow_stream_[static_cast<std::size_t>(flow)] = stream;
    flow_bytes_[static_cast<std::size_t>(flow)] = bytes;
  }
}

void Replay::flow_ended(std::int32_t flow) {
  const std::int32_t id = flows_.owner(flow);
  LaneRun& lane = lanes_[static_cast<std::size_t>(id)];
  const std::uint32_t stream = flow_stream_[static_cast<std::size_t>(flow)];
  const double bytes = flow_bytes_[static_cast<std::size_t>(flow)];
  const Stream& at = world_.streams[stream];
  for (std::uint32_t l = 0; l < at.link_count; ++l) {
    const WeightedLink& load = world_.loads[at.first_link + l];
    result_.link_bytes[static_cast<std::size_t>(load.link)] += bytes * load.weight;
  }
  result_.stream_bytes[stream] += bytes;
  flows_.remove(flow);
  const double alone = bytes * stream_seconds_per_byte_[stream];
  if (alone >= lane.alone) {
    lane.alone = alone;
    lane.stream = static_cast<std::int32_t>(stream);
  }
  if (--lane.open > 0) return;
  const double end = lane.speed == 1 ? now_ : lane.begin + (now_ - lane.begin) / lane.speed;
  if (end > now_) {
    push(end, EventKind::kResume, id);
  } else {
    move_ended(lane, id, now_);
  }
}

void Replay::move_ended(LaneRun& lane, std::int32_t id, double time) {
  const double took = time - lane.begin;
  const auto wire = static_cast<std::size_t>(world_.streams[static_cast<std::size_t>(lane.stream)].wire);
  const double alone = std::min(lane.alone, took);
  lane.spent.transfer[wire] += alone;
  lane.spent.contention[wire] += took - alone;
  lane.clock = time;
  if (hops_.size() < options_.most_hops) {
    hops_.push_back({lane.hop, lane.stream, lane.begin, time});
    lane.hop = static_cast<std::int32_t>(hops_.size()) - 1;
  } else {
    hops_lost_ = true;
  }
  lane.moving = false;
  lane.moved = true;
  wake(id);
}

Result<Replayed> Replay::finish() {
  const LaneRun* last = nullptr;
  for (const LaneRun& lane : lanes_) {
    if (!lane.done)
      return error(Code::kInternal, "the simulation of {} {} stopped: rank {} waits at step {} for ever",
                   to_string(lane.actor->plan.header.collective), lane.actor->plan.algorithm(), lane.actor->label,
                   step_text(lane.plan, *lane.program, lane.state.pc));
    if (last == nullptr || lane.clock > last->clock) last = &lane;
  }
  if (last == nullptr) return error(Code::kInvalidArgument, "a world without lanes");
  result_.seconds = last->clock + costs_.call_seconds;
  result_.spent = last->spent;
  result_.spent.overhead += costs_.call_seconds;
  if (!hops_lost_) {
    for (std::int32_t hop = last->hop; hop >= 0; hop = hops_[static_cast<std::size_t>(hop)].before)
      result_.path.push_back(hops_[static_cast<std::size_t>(hop)]);
    std::reverse(result_.path.begin(), result_.path.end());
  }
  return std::move(result_);
}

}  // namespace

double Spent::total() const {
  const auto sum = [](const std::array<double, kWires>& of) { return std::accumulate(of.begin(), of.end(), 0.0); };
  return sum(latency) + sum(transfer) + sum(contention) + overhead;
}

Result<Replayed> replay(const FoldedWorld& world, const Costs& costs, const Shape& shape,
                        const ReplayOptions& options) {
  if (shape.slots < 2 || shape.tiles_per_round < 1 || shape.tiles_per_round > shape.slots - 1 || shape.tile == 0)
    return error(Code::kInvalidArgument, "{} tiles a round with {} slots: slots are 2 or more, tiles 1 to slots - 1",
                 shape.tiles_per_round, shape.slots);
  return Replay(world, costs, shape, options).run();
}

}  // namespace hocket::sim
