// SPDX-License-Identifier: Apache-2.0
#include "sim/simulate.hpp"

#include <algorithm>

#include "algorithms/registry.hpp"
#include "base/status.hpp"
#include "sim/hierarchical.hpp"

namespace hocket::sim {
namespace {

constexpr std::uint64_t kUnit = 16;
constexpr std::uint64_t kLeastTile = 8 << 10;
constexpr std::uint64_t kTilesOfChunk = 8;

bool counts_one_rank(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kBarrier: return false;
    default: return true;
  }
}

}  // namespace

double bus_factor(Collective collective, int ranks) {
  const double n = ranks;
  switch (collective) {
    case Collective::kAllReduce: return 2 * (n - 1) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kAllGatherV:
    case Collective::kReduceScatterV:
    case Collective::kAllToAllV:
    case Collective::kGather:
    case Collective::kScatter: return (n - 1) / n;
    default: return 1;
  }
}

std::vector<std::string_view> simulated_algorithms(Collective collective) {
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Algorithm& a : algorithms())
    if (a.collective == collective) add(a.name);
  if (collective == Collective::kAllReduce) {
    add("log_step");
    add("hierarchical");
  }
  return names;
}

bool in_library(Collective collective, std::string_view algorithm) {
  return algorithm != "hierarchical" || find_algorithm(collective, algorithm) != nullptr;
}

Result<Simulation> Simulation::make(const Fabric& fabric, const Placement& placement, Collective collective,
                                    std::string_view algorithm, const Setup& setup) {
  Simulation simulation;
  simulation.fabric_ = &fabric;
  simulation.collective_ = collective;
  simulation.algorithm_ = algorithm;
  simulation.setup_ = setup;
  const int n = fabric.ranks();
  if (setup.slot_bytes < kUnit)
    return error(Code::kInvalidArgument, "a slot of {} bytes holds no tile", setup.slot_bytes);
  if (setup.root < 0 || setup.root >= n) return error(Code::kInvalidArgument, "roots are 0 to {}", n - 1);
  const auto add = [&](Collective of, const PlanFamily& family, int pieces) -> Status {
    if (static_cast<std::uint64_t>(pieces) * kUnit > setup.slot_bytes)
      return error(Code::kUnsupported, "a slot of {} bytes does not hold the {} tiles of {}", setup.slot_bytes, pieces,
                   algorithm);
    HOCKET_ASSIGN(FoldedWorld world,
                  fold(fabric, family, placement, {!setup.full, setup.depth, setup.average, setup.most_near}));
    bool slots = false;
    for (const Actor& actor : world.actors) slots |= actor.plan.header.uses_slots != 0;
    simulation.stages_.push_back({std::move(world), of, static_cast<std::uint64_t>(pieces), slots});
    return {};
  };
  if (!in_library(collective, algorithm)) {
    if (collective != Collective::kAllReduce) return error(Code::kUnsupported, "hierarchical is for all_reduce");
    HOCKET_TRY(add(collective, hierarchical_all_reduce(fabric.ranks_per_host(), fabric.hosts()), 1));
    return simulation;
  }
  std::vector<const Algorithm*> parts;
  if (collective == Collective::kAllReduce && algorithm == "log_step") {
    parts = {find_algorithm(Collective::kReduceScatter, algorithm), find_algorithm(Collective::kAllGather, algorithm)};
  } else {
    parts = {find_algorithm(collective, algorithm)};
  }
  for (const Algorithm* part : parts) {
    if (part == nullptr) {
      std::string known;
      for (const std::string_view name : simulated_algorithms(collective))
        known += format("{}{}", known.empty() ? "" : ", ", name);
      return error(Code::kInvalidArgument, "{} has no algorithm '{}', but {}", to_string(collective), algorithm, known);
    }
    if (part->max_world != 0 && n > part->max_world)
      return error(Code::kUnsupported, "{} is for at most {} ranks", algorithm, part->max_world);
    if (collective == Collective::kSend || collective == Collective::kReceive || collective == Collective::kExchange)
      return error(Code::kUnsupported, "{} is not simulated: it is no collective", to_string(collective));
    const PlanFamily family{n, [part, n, root = setup.root](int label) {
                              return part->build({.world = n, .rank = label, .root = root, .lanes = 1});
                            }};
    HOCKET_TRY(add(part->collective, family, pieces_of(*part, n)));
  }
  return simulation;
}

std::size_t Simulation::classes() const {
  std::size_t most = 0;
  for (const Stage& stage : stages_) most = std::max(most, stage.world.actors.size());
  return most;
}

Shape Simulation::shape_of(const Stage& stage, std::uint64_t bytes) const {
  const auto copies = static_cast<std::uint64_t>(stage.world.copies);
  const auto n = static_cast<std::uint64_t>(fabric_->ranks());
  std::uint64_t count = bytes;
  if (counts_one_rank(stage.collective)) count = (count + n - 1) / n;
  if (copies > 1) count = (count + copies * kUnit - 1) / (copies * kUnit) * kUnit;
  Shape shape{.count = count,
              .tile = kWholeChunk,
              .unit = kUnit,
              .tiles_per_round = setup_.tiles_per_round,
              .slots = setup_.slots};
  if (!stage.slots) return shape;
  std::uint64_t longest = 0;
  const Plan& plan = stage.world.actors.front().plan;
  for (const LaneProgram& lane : plan.lanes)
    for (const Cut& cut : plan.cuts) longest = std::max(longest, longest_of(cut, shape, lane.parts));
  const std::uint64_t most = std::max(kUnit, setup_.slot_bytes / stage.pieces / kUnit * kUnit);
  // Where a step has several tiles, they are a whole chunk if slots allow it.
  const bool by_k = std::any_of(plan.steps.begin(), plan.steps.end(), [](const Step& step) { return step.by_k != 0; });
  const std::uint64_t parts = by_k ? static_cast<std::uint64_t>(setup_.tiles_per_round) : kTilesOfChunk;
  const std::uint64_t wanted =
      setup_.tile_bytes != 0 ? setup_.tile_bytes : std::max(kLeastTile, (longest / parts + kUnit - 1) / kUnit * kUnit);
  shape.tile = std::clamp(wanted / kUnit * kUnit, kUnit, most);
  return shape;
}

Result<Price> Simulation::price(std::uint64_t bytes, const Costs& costs) const {
  Price price;
  price.protocol = costs.name;
  const Spent zero;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    HOCKET_ASSIGN(Extrapolated staged, replay_part(stages_[s].world, costs, shape_of(stages_[s], bytes),
                                                   {.full = setup_.full, .most_work = setup_.most_work}));
    price.seconds += staged.run.seconds - (s > 0 ? costs.call_seconds : 0);
    if (s > 0) staged.run.spent.overhead -= costs.call_seconds;
    add_scaled(price.spent, staged.run.spent, zero, 1);
    price.path = std::move(staged.run.path);
    price.moves += staged.run.moves;
    price.events += staged.run.events;
    price.extrapolated |= staged.extrapolated;
    price.doubt = std::max(price.doubt, staged.doubt);
    // What no run can beat: the busiest link's bytes at its rate.
    double least = 0;
    for (const LinkLoad& load : stages_[s].world.carried) {
      double carried = 0;
      for (const auto& [stream, times] : load.streams) carried += staged.run.stream_bytes[stream] * times;
      const double busy = carried / fabric_->capacity(load.id, costs);
      least = std::max(least, busy);
      if (busy <= price.busiest_load) continue;
      price.busiest_load = busy;
      price.busiest_link = load.id;
      price.busiest_bytes = carried;
    }
    price.least_seconds += least;
  }
  // Averaged links may let a little more through.
  if (price.seconds < price.least_seconds) {
    price.doubt = std::max(price.doubt, price.least_seconds / price.seconds - 1);
    price.seconds = price.least_seconds;
  }
  if (price.seconds > 0) {
    price.busiest_load /= price.seconds;
    price.algbw = static_cast<double>(bytes) / price.seconds;
    price.busbw = price.algbw * bus_factor(collective_, fabric_->ranks());
  }
  return price;
}

Result<Price> price_best(const Simulation& simulation, const Fabric& fabric, std::uint64_t bytes) {
  if (!fabric.has_gpus()) return simulation.price(bytes, host_costs());
  HOCKET_ASSIGN(Price bulk, simulation.price(bytes, gpu_costs(false)));
  // Half of a packet is flags: beyond this it never wins.
  if (bytes / static_cast<std::uint64_t>(fabric.ranks()) > (16 << 20)) return bulk;
  HOCKET_ASSIGN(Price packet, simulation.price(bytes, gpu_costs(true)));
  return packet.seconds < bulk.seconds ? packet : bulk;
}

}  // namespace hocket::sim
