// SPDX-License-Identifier: Apache-2.0
// tape_test.cpp: what is played back is what the step machine does. Of each call that has a tape, the machine is run
// once more with a policy that makes it wait at random and writes down what it was let do: the same steps, in the same
// order, on the same channel ends and bytes.
#include "exec/tape.hpp"

#include <gtest/gtest.h>

#include <random>

#include "algorithms/registry.hpp"
#include "base/format.hpp"
#include "core/communicator_state.hpp"
#include "support/ranks.hpp"

namespace hocket {
namespace {

struct Written {
  StepOp op = StepOp::kEnd;
  int channel = 0, peer = -1, bound = 0;
  std::uint64_t elements = 0;
  std::vector<SpanAt> sources, destinations;
};

/// Lets a step be done, or not yet.
struct HesitantLane {
  std::mt19937& random;
  std::vector<Written>& log;
  Written move;

  bool now() { return random() % 3 != 0; }
  bool wait(StepOp op, int channel, int peer, int bound) {
    if (!now()) return false;
    log.push_back({op, channel, peer, bound, 0, {}, {}});
    return true;
  }
  bool data_ready(std::uint16_t channel, int peer, int bound) { return wait(StepOp::kWaitData, channel, peer, bound); }
  bool credit_ready(std::uint16_t channel, int peer, int bound) {
    return wait(StepOp::kWaitCredit, channel, peer, bound);
  }
  void signal_data(std::uint16_t channel, int peer, const Step&) {
    log.push_back({StepOp::kSignalData, channel, peer, 0, 0, {}, {}});
  }
  void signal_credit(std::uint16_t channel, int peer, const Step&) {
    log.push_back({StepOp::kSignalCredit, channel, peer, 0, 0, {}, {}});
  }
  bool completed(const Step&, int) { return now(); }
  bool drained() { return now(); }
  void begin_move(std::uint64_t elements, const Step&) { move = {StepOp::kMove, 0, -1, 0, elements, {}, {}}; }
  void source(const SpanAt& span) { move.sources.push_back(span); }
  void destination(const SpanAt& span) { move.destinations.push_back(span); }
  bool end_move() {
    if (!now()) return false;
    log.push_back(move);
    return true;
  }
  bool failed() { return false; }
};

bool equal(const SpanAt& a, const SpanAt& b) {
  return a.kind == b.kind && a.peer == b.peer && a.index == b.index && a.offset == b.offset &&
         (a.peer < 0 || a.channel == b.channel);
}

/// The last call of this rank.
void compare(Communicator& comm, std::mt19937& random, int* taped) {
  CommunicatorState& s = *comm.state();
  ASSERT_NE(s.last_ready, nullptr);
  const ReadyCall& call = *s.last_ready;
  const Tape& tape = call.tape;
  const std::string what = to_text(s.describe(call));
  std::vector<Written> log;
  HesitantLane lane{random, log, {}};
  LaneState state;
  state.restart();
  if (call.bound.plan.lane_count != 1) {  // lanes take turns as they can
    EXPECT_TRUE(tape.steps.empty()) << what;
    return;
  }
  for (Progress p = Progress::kWaiting; p != Progress::kDone && log.size() < 10000;)
    p = advance(call.bound.plan, call.bound.plan.lanes[0], call.bound.shape, state, lane,
                static_cast<std::uint32_t>(random() % 3));
  if (tape.steps.empty()) {
    EXPECT_TRUE(log.empty() || log.size() > Tape::kMostSteps) << what << " has no tape";
    return;
  }
  ++*taped;
  ASSERT_EQ(tape.steps.size(), log.size()) << what;
  for (std::size_t i = 0; i < log.size(); ++i) {
    SCOPED_TRACE(testing::Message() << what << ", rank " << comm.rank() << ", step " << i);
    const TapeStep& step = tape.steps[i];
    const Written& done = log[i];
    ASSERT_EQ(step.op, done.op);
    if (step.op != StepOp::kMove) {
      EXPECT_EQ(step.channel, done.channel);
      EXPECT_EQ(step.peer, done.peer);
      EXPECT_EQ(step.bound, done.bound);
      EXPECT_EQ(step.end, &s.channels->end(call.bound.channel_base + done.channel, done.peer));
      EXPECT_EQ(step.view, &s.channels->peer(done.peer));
      continue;
    }
    EXPECT_EQ(step.elements, done.elements);
    EXPECT_EQ(step.bytes, done.elements * call.bound.element_bytes);
    ASSERT_EQ(step.sources, done.sources.size());
    ASSERT_EQ(step.destinations, done.destinations.size());
    for (std::size_t n = 0; n < done.sources.size() + done.destinations.size(); ++n) {
      const SpanAt& span = n < done.sources.size() ? done.sources[n] : done.destinations[n - done.sources.size()];
      const TapeSpan& written = tape.spans[step.first + n];
      EXPECT_TRUE(equal(written.at, span)) << "span " << n;
      EXPECT_EQ(written.bytes, span.offset * call.bound.element_bytes);
      if (written.end == nullptr) continue;
      EXPECT_EQ(written.end, &s.channels->end(call.bound.channel_base + span.channel, span.peer));
    }
  }
}

/// Every algorithm in turn, where it does not have to be chosen by hand.
class TapeOf : public testing::TestWithParam<const Algorithm*> {};

TEST_P(TapeOf, EveryCallIsWhatTheMachineDoes) {
  const Algorithm& algorithm = *GetParam();
  std::atomic<int> taped{0};
  for (const int size : {1, 2, 3, 4, 5, 8}) {
    Settings settings;
    settings.algo = format("{}:{}", to_string(algorithm.collective), algorithm.name);
    test::run_ranks(size, test::Wire::kLocal, settings, [&](Communicator& comm) {
      std::mt19937 random(static_cast<unsigned>(size * 100 + comm.rank()));
      int mine = 0;
      for (const std::size_t count : {0, 1, 2, 3, 12, 13, 17, 40, 100, 1000, 5003, 40000}) {
        const auto n = static_cast<std::size_t>(size);
        std::vector<float> in(count * n, 1.0f), out(count * n, 0.0f);
        Status status;
        switch (algorithm.collective) {
          case Collective::kAllReduce:
            status = comm.all_reduce(in.data(), out.data(), count, DataType::kFloat32, ReduceOp::kSum);
            break;
          case Collective::kAllGather:
            status = comm.all_gather(in.data(), out.data(), count, DataType::kFloat32);
            break;
          case Collective::kReduceScatter:
            status = comm.reduce_scatter(in.data(), out.data(), count, DataType::kFloat32, ReduceOp::kMax);
            break;
          case Collective::kAllToAll: status = comm.all_to_all(in.data(), out.data(), count, DataType::kFloat32); break;
          case Collective::kBroadcast:
            status = comm.broadcast(in.data(), out.data(), count, DataType::kFloat32, size - 1);
            break;
          case Collective::kReduce:
            status = comm.reduce(in.data(), out.data(), count, DataType::kFloat32, ReduceOp::kAverage, 0);
            break;
          case Collective::kGather: status = comm.gather(in.data(), out.data(), count, DataType::kFloat32, 0); break;
          case Collective::kScatter:
            status = comm.scatter(in.data(), out.data(), count, DataType::kFloat32, size - 1);
            break;
          case Collective::kBarrier: status = comm.barrier(); break;
          default: return;
        }
        // Some algorithms are not for every world.
        if (status.code() == Code::kUnsupported) return;
        ASSERT_TRUE(status.ok()) << status.to_string();
        compare(comm, random, &mine);
        if (testing::Test::HasFatalFailure()) return;
      }
      taped += mine;
    });
  }
  // Trees are lanes that go up and down at once.
  if (std::string_view(algorithm.name) != "tree") {
    EXPECT_GT(taped, 0);
  }
}

std::vector<const Algorithm*> those_of_collectives() {
  std::vector<const Algorithm*> found;
  for (const Algorithm& a : algorithms())
    if (!is_message(a.collective) && a.collective != Collective::kAllGatherV &&
        a.collective != Collective::kReduceScatterV && a.collective != Collective::kAllToAllV &&
        std::string_view(a.name).find("zero_copy") == std::string_view::npos)
      found.push_back(&a);
  return found;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, TapeOf, testing::ValuesIn(those_of_collectives()), [](const auto& info) {
  return std::string(to_string(info.param->collective)) + "_" + std::string(info.param->name);
});

}  // namespace
}  // namespace hocket
