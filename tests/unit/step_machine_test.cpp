// SPDX-License-Identifier: Apache-2.0
// step_machine_test.cpp: one thread advances all lanes of all ranks through every algorithm, on real arrays, in random
// turns.
//
// The policy below is the plainest one there can be; what it computes is compared with a direct computation. Calls
// follow each other on the same channels with other algorithms, counts, tiles and lanes, and ranks run ahead of each
// other as channels allow.
#include "exec/step_machine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "checker/worlds.hpp"

namespace hocket {
namespace {

constexpr int kRanks = 8;
constexpr int kSlots = 3;
constexpr std::size_t kSlotElements = 4096;

using Number = std::int64_t;

struct Channel {
  std::uint64_t sent = 0;      // also what the receiver sees
  std::uint64_t received = 0;  // also what the sender sees
  std::vector<Number> slots[kSlots];
};

struct Buffers {
  Number* input = nullptr;
  Number* output = nullptr;
};

/// What all ranks share: channels that live as long as the test, and the buffers of each rank's current call.
struct Memory {
  std::map<std::tuple<int, int, int>, Channel> channels;  // (id, from, to)
  std::map<std::pair<int, int>, std::vector<Number>[kSlots]> boards;
  Buffers buffers[kRanks];
  std::vector<Number> work[kRanks];

  Channel& channel(int id, int from, int to) { return channels[{id, from, to}]; }
  static Number* slot(std::vector<Number>& slot) {
    if (slot.empty()) slot.resize(kSlotElements);
    return slot.data();
  }
};

/// Data is copied and added at once, in program order of one thread.
struct PlainLane {
  Memory& memory;
  int rank;
  std::uint64_t length = 0;
  const Step* step = nullptr;
  std::vector<const Number*> sources;
  std::vector<Number*> destinations;

  bool data_ready(std::uint16_t id, int peer, int bound) {
    const Channel& c = memory.channel(id, peer, rank);
    return static_cast<std::int64_t>(c.sent) >= static_cast<std::int64_t>(c.received) + bound;
  }
  bool credit_ready(std::uint16_t id, int peer, int bound) {
    const Channel& c = memory.channel(id, rank, peer);
    return static_cast<std::int64_t>(c.sent) - static_cast<std::int64_t>(c.received) <= bound;
  }
  void signal_data(std::uint16_t id, int peer, const Step&) { ++memory.channel(id, rank, peer).sent; }
  void signal_credit(std::uint16_t id, int peer, const Step&) { ++memory.channel(id, peer, rank).received; }
  bool completed(const Step&, int) { return true; }
  bool drained() { return true; }
  bool failed() { return false; }
  void begin_move(std::uint64_t elements, const Step& move) {
    length = elements;
    step = &move;
    sources.clear();
    destinations.clear();
  }
  void source(const SpanAt& span) { sources.push_back(at(span)); }
  void destination(const SpanAt& span) { destinations.push_back(at(span)); }
  bool end_move() {
    for (std::uint64_t e = 0; e < length; ++e) {
      Number sum = 0;
      for (const Number* s : sources) sum += s[e];
      if (step->finish) sum /= kRanks;
      for (Number* d : destinations) d[e] = sum;
    }
    return true;
  }

 private:
  Number* at(const SpanAt& span) {
    Number* base = nullptr;
    switch (span.kind) {
      case SpanKind::kInput: base = memory.buffers[rank].input; break;
      case SpanKind::kOutput: base = memory.buffers[rank].output; break;
      case SpanKind::kPeerInput: base = memory.buffers[span.peer].input; break;
      case SpanKind::kPeerOutput: base = memory.buffers[span.peer].output; break;
      case SpanKind::kWork: base = memory.work[rank].data(); break;
      case SpanKind::kSlotIn: {
        Channel& c = memory.channel(span.channel, span.peer, rank);
        base = Memory::slot(c.slots[c.received % kSlots]);
        break;
      }
      case SpanKind::kSlotOut: {
        Channel& c = memory.channel(span.channel, rank, span.peer);
        base = Memory::slot(c.slots[c.sent % kSlots]);
        break;
      }
      case SpanKind::kBoardIn:
        base = Memory::slot(
            memory.boards[{span.channel, span.peer}][memory.channel(span.channel, span.peer, rank).received % kSlots]);
        break;
      case SpanKind::kBoardOut:
        base = Memory::slot(
            memory.boards[{span.channel, rank}][memory.channel(span.channel, rank, span.peer).sent % kSlots]);
        break;
    }
    return base + span.offset;
  }
};

/// One call of all ranks: plans, shape, and memory that outlives it.
struct Call {
  const Algorithm* algorithm = nullptr;
  PlanWorld plans;
  Shape shape;
  int root = 0;
  std::vector<std::vector<Number>> inputs;
  std::vector<std::vector<Number>> outputs;

  Collective collective(int rank) const { return plans.plan(rank).header.collective; }

  std::uint64_t whole() const { return shape.count * kRanks; }

  /// Inputs are multiples of the world size, so that a finished sum is exact.
  void fill(std::mt19937_64& random) {
    for (int r = 0; r < kRanks; ++r) {
      inputs.emplace_back(whole());
      outputs.emplace_back(whole(), -1);
      for (Number& x : inputs.back()) x = kRanks * static_cast<Number>(random() % 1000);
    }
  }

  /// What element e of rank's output must be; -1 where it is not an output.
  Number expected(int rank, std::uint64_t e) const {
    const std::uint64_t count = shape.count;
    const auto sum = [&](std::uint64_t at) {
      Number all = 0;
      for (int r = 0; r < kRanks; ++r) all += inputs[static_cast<std::size_t>(r)][at];
      return all / kRanks;
    };
    const auto from = static_cast<std::size_t>(count == 0 ? 0 : e / count);
    switch (plans.plan(rank).lanes.empty() ? Collective::kBarrier : collective(rank)) {
      case Collective::kAllReduce: return e < count ? sum(e) : -1;
      case Collective::kReduce: return e < count && rank == root ? sum(e) : -1;
      case Collective::kReduceScatterV:
      case Collective::kReduceScatter: return e < count ? sum(static_cast<std::uint64_t>(rank) * count + e) : -1;
      case Collective::kGather: return rank == root ? inputs[from][e % count] : -1;
      case Collective::kScatter:
        return e < count ? inputs[static_cast<std::size_t>(root)][static_cast<std::uint64_t>(rank) * count + e] : -1;
      case Collective::kAllGatherV:
      case Collective::kAllGather: return inputs[from][e % count];
      case Collective::kAllToAllV:
      case Collective::kExchange:
      case Collective::kAllToAll: return inputs[from][static_cast<std::uint64_t>(rank) * count + e % count];
      case Collective::kBroadcast: return e < count ? inputs[static_cast<std::size_t>(root)][e] : -1;
      case Collective::kReceive: return e < count ? inputs[0][e] : -1;
      default: return -1;
    }
  }
};

/// Random turns over all lanes that have something to do; a rank starts its next call when all its lanes are done.
class Scheduler {
 public:
  Scheduler(std::vector<Call>& calls, Memory& memory, std::uint64_t seed)
      : calls_(calls), memory_(memory), random_(seed) {
    for (int r = 0; r < kRanks; ++r) begin(r);
  }

  ::testing::AssertionResult run() {
    int idle = 0;
    while (!turns_.empty()) {
      const std::size_t at = random_() % turns_.size();
      Turn& turn = turns_[at];
      const Call& call = calls_[static_cast<std::size_t>(call_[turn.rank])];
      const Plan& plan = call.plans.plan(turn.rank);
      PlainLane policy{memory_, turn.rank, 0, nullptr, {}, {}};
      const std::uint32_t before = turn.state.pc;
      const Progress progress = advance(plan.view(), plan.lanes[static_cast<std::size_t>(turn.lane)], call.shape,
                                        turn.state, policy, 1 + random_() % 3);
      if (progress == Progress::kDone) {
        const int rank = turn.rank;
        turns_[at] = turns_.back();
        turns_.pop_back();
        if (--unfinished_[rank] == 0) {
          ++call_[rank];
          begin(rank);
        }
        idle = 0;
      } else if (progress == Progress::kWaiting) {
        idle = before == turn.state.pc ? idle + 1 : 0;
        if (idle > 100'000)
          return ::testing::AssertionFailure() << "no progress in call " << call_[turns_.front().rank];
      }
    }
    return ::testing::AssertionSuccess();
  }

 private:
  struct Turn {
    int rank;
    int lane;
    LaneState state;
  };

  void begin(int rank) {
    while (call_[rank] < static_cast<int>(calls_.size())) {
      Call& call = calls_[static_cast<std::size_t>(call_[rank])];
      const Plan& plan = call.plans.plan(rank);
      const auto r = static_cast<std::size_t>(rank);
      memory_.buffers[rank] = {call.inputs[r].data(), call.outputs[r].data()};
      memory_.work[rank].resize(static_cast<std::size_t>(plan.header.work_entries) * kSlotElements);
      unfinished_[rank] = static_cast<int>(plan.lanes.size());
      for (int l = 0; l < unfinished_[rank]; ++l) turns_.push_back({rank, l, {}});
      if (unfinished_[rank] != 0) return;
      ++call_[rank];
    }
  }

  std::vector<Call>& calls_;
  Memory& memory_;
  std::mt19937_64 random_;
  std::vector<Turn> turns_;
  int call_[kRanks] = {};
  int unfinished_[kRanks] = {};
};

TEST(StepMachine, OneThreadAdvancesAllRanksThroughEveryAlgorithm) {
  const char* text = std::getenv("HOCKET_TEST_SEED");
  const std::uint64_t seed = text == nullptr ? 8 : std::strtoull(text, nullptr, 10);
  std::printf("seed %llu (HOCKET_TEST_SEED)\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  auto memory = std::make_unique<Memory>();
  int done = 0;
  for (int round = 0; round < 12; ++round) {
    // Every algorithm once, in another order each time, as one sequence.
    std::vector<Call> calls;
    for (const Algorithm& a : algorithms()) {
      Call call;
      call.algorithm = &a;
      call.root = static_cast<int>(random() % kRanks);
      const bool pair = a.collective == Collective::kSend || a.collective == Collective::kReceive;
      if (pair && call.root == 0) call.root = 5;
      auto plans = plan_world(
          a, {.world = kRanks, .root = call.root, .lanes = a.many_lanes ? 1 + static_cast<int>(random() % 3) : 1});
      ASSERT_TRUE(plans.ok()) << plans.status().text();
      call.plans = std::move(plans).value();
      call.shape.count = random() % 200;
      call.shape.unit = random() % 2 == 0 ? 1 : 4;
      call.shape.slots = kSlots;
      call.shape.tiles_per_round = 1 + static_cast<int>(random() % (kSlots - 1));
      if (call.plans.uses_slots()) {
        call.shape.tile = 1 + random() % 60;
        ASSERT_LE(call.shape.tile * static_cast<std::uint64_t>(call.plans.pieces()), kSlotElements);
      }
      call.fill(random);
      calls.push_back(std::move(call));
    }
    std::shuffle(calls.begin(), calls.end(), random);
    ASSERT_TRUE(Scheduler(calls, *memory, random()).run());
    for (const Call& call : calls)
      for (int r = 0; r < kRanks; ++r)
        for (std::uint64_t e = 0; e < call.whole(); ++e)
          ASSERT_EQ(call.outputs[static_cast<std::size_t>(r)][e], call.expected(r, e))
              << to_string(call.algorithm->collective) << " " << call.algorithm->name << ", root " << call.root
              << ", count " << call.shape.count << ", tile " << call.shape.tile << ": element " << e << " of rank "
              << r;
    done += static_cast<int>(calls.size());
  }
  for (const auto& [key, channel] : memory->channels)
    EXPECT_EQ(channel.sent, channel.received) << "channel " << std::get<0>(key);
  std::printf("%d calls\n", done);
}

TEST(StepMachine, BudgetOfNoMoveMakesNone) {
  const Plan plan = find_algorithm(Collective::kAllReduce, "ring")->build({.world = 1});
  Memory memory;
  PlainLane policy{memory, 0, 0, nullptr, {}, {}};
  LaneState state;
  const Shape shape{.count = 4};
  EXPECT_EQ(advance(plan.view(), plan.lanes[0], shape, state, policy, 0), Progress::kWaiting);
  EXPECT_EQ(state.waiting.op, StepOp::kMove);
  Number input[4] = {8, 16, 24, 32};
  Number output[4] = {};
  memory.buffers[0] = {input, output};
  EXPECT_EQ(advance(plan.view(), plan.lanes[0], shape, state, policy, 1), Progress::kDone);
  EXPECT_EQ(output[3], 4);
}

TEST(StepMachine, AWaitThatIsNotSatisfiedSaysForWhatAndChangesNothing) {
  const Plan plan = find_algorithm(Collective::kBroadcast, "chain")->build({.world = 3, .rank = 1, .root = 0});
  Memory memory;
  PlainLane policy{memory, 1, 0, nullptr, {}, {}};
  LaneState state;
  const Shape shape{.count = 4, .tile = 4, .slots = kSlots};
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(advance(plan.view(), plan.lanes[0], shape, state, policy), Progress::kWaiting);
    EXPECT_EQ(state.waiting.op, StepOp::kWaitData);
    EXPECT_EQ(state.waiting.peer, 0);
    EXPECT_EQ(state.waiting.bound, 1);
  }
}

}  // namespace
}  // namespace hocket
