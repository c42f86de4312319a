// SPDX-License-Identifier: Apache-2.0
// Plans as bytes: what view_of lets through must be safe to follow. Every step is printed, and every lane is run by the
// step machine over a policy that moves nothing: it must only name peers and channels that the plan's header has.
#include "algorithms/plan.hpp"

#include "algorithms/dump.hpp"
#include "algorithms/registry.hpp"
#include "exec/step_machine.hpp"
#include "fuzz/fuzz.hpp"

using namespace hocket;

namespace {

/// All transfers have come; after so many steps it is enough.
class NullPolicy {
 public:
  explicit NullPolicy(const PlanHeader& header) : header_(header) {}
  bool failed() const { return steps_ >= kEnough; }
  bool data_ready(std::uint16_t channel, std::int32_t peer, std::int32_t) { return look(channel, peer); }
  bool credit_ready(std::uint16_t channel, std::int32_t peer, std::int32_t) { return look(channel, peer); }
  void signal_data(std::uint16_t channel, std::int32_t peer, const Step&) { look(channel, peer); }
  void signal_credit(std::uint16_t channel, std::int32_t peer, const Step&) { look(channel, peer); }
  bool completed(const Step&, std::int32_t) { return ++steps_ < kEnough; }
  bool drained() { return true; }
  void begin_move(std::uint64_t, const Step&) {}
  void source(const SpanAt& span) { look(span); }
  void destination(const SpanAt& span) { look(span); }
  bool end_move() { return ++steps_ < kEnough; }

 private:
  static constexpr int kEnough = 2000;
  bool look(std::uint16_t channel, std::int32_t peer) {
    FUZZ_REQUIRE(channel < header_.channels);
    FUZZ_REQUIRE(peer >= 0 && peer < header_.world);
    return ++steps_ < kEnough;
  }
  void look(const SpanAt& span) {
    const bool local = span.kind == SpanKind::kInput || span.kind == SpanKind::kOutput || span.kind == SpanKind::kWork;
    FUZZ_REQUIRE(local || (span.peer >= 0 && span.peer < header_.world));
  }

  const PlanHeader& header_;
  int steps_ = 0;
};

void follow(const PlanView& view, std::uint64_t count) {
  std::vector<std::uint64_t> counts, offsets;
  for (std::uint32_t l = 0; l < view.lane_count; ++l) {
    const LaneProgram& lane = view.lanes[l];
    for (std::uint32_t s = 0; s < lane.count && s < 4096; ++s) FUZZ_REQUIRE(!step_text(view, lane, s).empty());
    Shape shape;
    shape.count = count;
    shape.tile = 7;
    shape.unit = 4;
    shape.tiles_per_round = 2;
    shape.slots = 4;
    // Every second input with a count of its own for each rank.
    const auto world = static_cast<std::size_t>(view.header->world);
    if (count % 2 == 1 && world <= 4096) {
      counts.assign(world, count);
      offsets.assign(world, 0);
      shape.rank_counts = shape.send_counts = shape.receive_counts = counts.data();
      shape.rank_offsets = shape.send_offsets = shape.receive_offsets = offsets.data();
    }
    LaneState state;
    NullPolicy policy(*view.header);
    (void)advance(view, lane, shape, state, policy, 1000);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  // Bytes as they are; and, which gets further, a real plan with some of its bytes replaced.
  const std::vector<std::byte> copy = fuzz::copy_of(data, bytes);
  if (const auto view = view_of(copy); view.ok()) follow(*view, bytes % 41);

  fuzz::Taker taker(data, bytes);
  const std::span<const Algorithm> all = algorithms();
  const Algorithm& algorithm = all[taker.take<std::uint8_t>() % all.size()];
  PlanArgs args;
  args.world = 2 + taker.take<std::uint8_t>() % 7;
  if (algorithm.max_world != 0 && args.world > algorithm.max_world) args.world = algorithm.max_world;
  args.rank = taker.take<std::uint8_t>() % args.world;
  args.root = algorithm.collective == Collective::kSend || algorithm.collective == Collective::kReceive
                  ? (args.rank + 1) % args.world
                  : taker.take<std::uint8_t>() % args.world;
  std::vector<std::byte> plan = flatten(algorithm.build(args));
  FUZZ_REQUIRE(view_of(plan).ok());
  while (taker.left() > 0 && !plan.empty()) {
    const std::size_t at = taker.take<std::uint16_t>() % plan.size();
    plan[at] = taker.take<std::byte>();
  }
  if (const auto view = view_of(plan); view.ok()) follow(*view, bytes % 41);
  return 0;
}
