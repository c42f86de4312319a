// SPDX-License-Identifier: Apache-2.0
#include "algorithms/builder.hpp"

#include <algorithm>
#include <cstring>

namespace hocket {

PlanBuilder::PlanBuilder(Collective collective, std::string_view algorithm, int world, Rank rank, Rank root) {
  const std::size_t length = std::min(algorithm.size(), std::size_t{kMaxAlgorithmName - 1});
  std::memcpy(plan_.header.algorithm, algorithm.data(), length);
  plan_.header.collective = collective;
  plan_.header.world = world;
  plan_.header.rank = rank;
  plan_.header.root = root;
}

CutId PlanBuilder::cut(CutKind kind, int chunks) {
  const Cut cut{kind, chunks};
  const auto found = std::find(plan_.cuts.begin(), plan_.cuts.end(), cut);
  if (found != plan_.cuts.end()) return static_cast<CutId>(found - plan_.cuts.begin());
  plan_.cuts.push_back(cut);
  return static_cast<CutId>(plan_.cuts.size() - 1);
}

std::uint32_t PlanBuilder::group(std::span<const std::int32_t> ranks) {
  plan_.groups.push_back(
      {static_cast<std::uint32_t>(plan_.group_ranks.size()), static_cast<std::uint32_t>(ranks.size())});
  plan_.group_ranks.insert(plan_.group_ranks.end(), ranks.begin(), ranks.end());
  return static_cast<std::uint32_t>(plan_.groups.size());
}

void PlanBuilder::pieces(int pieces) {
  plan_.header.pieces = std::max(plan_.header.pieces, pieces);
}
void PlanBuilder::work(int entries) {
  plan_.header.work_entries = std::max(plan_.header.work_entries, entries);
}

void PlanBuilder::lane(int part, int parts, const std::function<void()>& body) {
  lane_first_ = static_cast<std::uint32_t>(plan_.steps.size());
  body();
  LaneProgram program;
  program.first = lane_first_;
  program.count = static_cast<std::uint32_t>(plan_.steps.size()) - lane_first_;
  program.part = part;
  program.parts = parts;
  plan_.lanes.push_back(program);
}

void PlanBuilder::loop(Step step, const std::function<void()>& body) {
  const auto at = static_cast<std::uint32_t>(plan_.steps.size()) - lane_first_;
  plan_.steps.push_back(step);
  body();
  Step end;
  end.op = StepOp::kEnd;
  end.jump = at;
  plan_.steps.push_back(end);
  plan_.steps[lane_first_ + at].jump = static_cast<std::uint32_t>(plan_.steps.size()) - lane_first_;
}

void PlanBuilder::repeat(int variable, int count, const std::function<void()>& body) {
  Step step;
  step.op = StepOp::kRepeat;
  step.variable = static_cast<std::uint8_t>(variable);
  step.count = count;
  loop(step, body);
}

void PlanBuilder::rounds(std::initializer_list<Extent> extents, const std::function<void()>& body) {
  Step step;
  step.op = StepOp::kRounds;
  step.first = static_cast<std::uint32_t>(plan_.extents.size());
  step.extent_count = static_cast<std::uint16_t>(extents.size());
  plan_.extents.insert(plan_.extents.end(), extents.begin(), extents.end());
  loop(step, body);
}

void PlanBuilder::rounds_by_k(std::initializer_list<Extent> extents, const std::function<void()>& body) {
  Step step;
  step.op = StepOp::kRounds;
  step.by_k = 1;
  step.first = static_cast<std::uint32_t>(plan_.extents.size());
  step.extent_count = static_cast<std::uint16_t>(extents.size());
  plan_.extents.insert(plan_.extents.end(), extents.begin(), extents.end());
  loop(step, body);
}

void PlanBuilder::tiles(const std::function<void()>& body) {
  Step step;
  step.op = StepOp::kTiles;
  loop(step, body);
}

void PlanBuilder::note(Link link) {
  plan_.header.channels = std::max<std::int32_t>(plan_.header.channels, link.channel + 1);
}

Step& PlanBuilder::add(StepOp op, Extent extent) {
  Step step;
  step.op = op;
  step.extent = extent;
  plan_.steps.push_back(step);
  return plan_.steps.back();
}

void PlanBuilder::wait_data(Link from, Extent extent, int bound) {
  note(from);
  Step& step = add(StepOp::kWaitData, extent);
  step.channel = from.channel;
  step.peer = from.peer;
  step.bound = static_cast<std::int8_t>(bound);
}

void PlanBuilder::wait_credit(Link to, Extent extent, int bound) {
  note(to);
  Step& step = add(StepOp::kWaitCredit, extent);
  step.channel = to.channel;
  step.peer = to.peer;
  step.bound = static_cast<std::int8_t>(bound);
}

void PlanBuilder::signal_data(Link to, Extent extent, GrantKind grant) {
  note(to);
  Step& step = add(StepOp::kSignalData, extent);
  step.channel = to.channel;
  step.peer = to.peer;
  step.grant = grant;
}

void PlanBuilder::signal_credit(Link from, Extent extent, GrantKind grant) {
  note(from);
  Step& step = add(StepOp::kSignalCredit, extent);
  step.channel = from.channel;
  step.peer = from.peer;
  step.grant = grant;
}

void PlanBuilder::move(Extent extent, std::span<const SpanRef> sources, std::span<const SpanRef> destinations,
                       Finish finish) {
  for (const auto list : {sources, destinations})
    for (const SpanRef& span : list)
      if (span.kind == SpanKind::kSlotIn || span.kind == SpanKind::kSlotOut || span.kind == SpanKind::kBoardIn ||
          span.kind == SpanKind::kBoardOut)
        plan_.header.uses_slots = 1;
  Step& step = add(StepOp::kMove, extent);
  step.first = static_cast<std::uint32_t>(plan_.spans.size());
  step.source_count = static_cast<std::uint16_t>(sources.size());
  step.destination_count = static_cast<std::uint16_t>(destinations.size());
  step.finish = static_cast<std::uint8_t>(finish);
  plan_.spans.insert(plan_.spans.end(), sources.begin(), sources.end());
  plan_.spans.insert(plan_.spans.end(), destinations.begin(), destinations.end());
}

void PlanBuilder::move(Extent extent, std::initializer_list<SpanRef> sources,
                       std::initializer_list<SpanRef> destinations, Finish finish) {
  move(extent, std::span(sources.begin(), sources.size()), std::span(destinations.begin(), destinations.size()),
       finish);
}

void PlanBuilder::send(Link to, Extent extent, SpanRef source, Finish finish) {
  wait_credit(to, extent);
  move(extent, {source}, {slot_at(to)}, finish);
  signal_data(to, extent);
}

void PlanBuilder::recv(Link from, Extent extent, std::initializer_list<SpanRef> destinations, Finish finish) {
  wait_data(from, extent);
  move(extent, {slot_of(from)}, destinations, finish);
  signal_credit(from, extent);
}

void PlanBuilder::recv_reduce(Link from, Extent extent, SpanRef with, SpanRef destination, Finish finish) {
  wait_data(from, extent);
  move(extent, {slot_of(from), with}, {destination}, finish);
  signal_credit(from, extent);
}

void PlanBuilder::recv_send(Link from, Link to, Extent extent) {
  wait_data(from, extent);
  wait_credit(to, extent);
  move(extent, {slot_of(from)}, {slot_at(to)});
  signal_data(to, extent);
  signal_credit(from, extent);
}

void PlanBuilder::recv_copy_send(Link from, Link to, Extent extent, SpanRef destination) {
  wait_data(from, extent);
  wait_credit(to, extent);
  move(extent, {slot_of(from)}, {destination, slot_at(to)});
  signal_data(to, extent);
  signal_credit(from, extent);
}

void PlanBuilder::recv_reduce_send(Link from, Link to, Extent extent, SpanRef with) {
  wait_data(from, extent);
  wait_credit(to, extent);
  move(extent, {slot_of(from), with}, {slot_at(to)});
  signal_data(to, extent);
  signal_credit(from, extent);
}

void PlanBuilder::recv_reduce_copy_send(Link from, Link to, Extent extent, SpanRef with, SpanRef destination,
                                        Finish finish) {
  wait_data(from, extent);
  wait_credit(to, extent);
  move(extent, {slot_of(from), with}, {destination, slot_at(to)}, finish);
  signal_data(to, extent);
  signal_credit(from, extent);
}

Plan PlanBuilder::finish() {
  return std::move(plan_);
}

}  // namespace hocket
