// SPDX-License-Identifier: Apache-2.0
#include "checker/call_layout.hpp"

#include <algorithm>
#include <numeric>

namespace hocket::check {
namespace {

// Of chunks with gaps before, between and after them.
std::uint64_t total(const std::vector<std::uint64_t>& counts, std::uint64_t gap) {
  return std::accumulate(counts.begin(), counts.end(), gap * (gap == 0 ? 0 : counts.size() + 1));
}

bool by_pair(Collective collective) {
  return collective == Collective::kAllToAll || collective == Collective::kAllToAllV;
}

}  // namespace

std::vector<std::uint64_t> layout_of(const std::vector<std::uint64_t>& counts, std::uint64_t gap) {
  std::vector<std::uint64_t> offsets(counts.size());
  std::uint64_t at = gap;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const std::size_t c = gap == 0 ? k : counts.size() - 1 - k;
    offsets[c] = at;
    at += counts[c] + gap;
  }
  return offsets;
}

std::vector<std::uint64_t> pair_counts(const CheckCall& call, int rank, bool sends) {
  std::vector<std::uint64_t> counts;
  if (call.uneven == nullptr) return counts;
  const auto n = static_cast<std::size_t>(call.plans->size()), r = static_cast<std::size_t>(rank);
  const UnevenCounts& uneven = *call.uneven;
  if (by_pair(call.plans->collective()) && uneven.pairs.size() == n * n)
    for (std::size_t p = 0; p < n; ++p) counts.push_back(uneven.pairs[sends ? r * n + p : p * n + r]);
  if (call.plans->collective() == Collective::kExchange && uneven.sends.size() == n && uneven.receives.size() == n)
    for (const Message& message : (sends ? uneven.sends : uneven.receives)[r]) counts.push_back(message.count);
  return counts;
}

void fill_shape(const CheckCall& call, int slots, int rank, Shape& shape, ChunkLists& counts, ChunkLists& offsets) {
  const PlanWorld& world = *call.plans;
  const auto n = static_cast<std::size_t>(world.size());
  const auto r = static_cast<std::size_t>(rank);
  shape = {.count = call.count,
           .tile = world.uses_slots() ? call.tile : kWholeChunk,
           .unit = call.unit,
           .tiles_per_round = call.tiles_per_round,
           .slots = slots};
  for (auto& c : counts) c.clear();
  for (auto& o : offsets) o.clear();
  if (call.uneven == nullptr) return;
  counts[1] = pair_counts(call, rank, true);
  counts[2] = pair_counts(call, rank, false);
  if (call.uneven->ranks.size() == n) {
    counts[0] = call.uneven->ranks;
    shape.count = counts[0][r];
  }
  for (int k = 0; k < 3; ++k) offsets[k] = layout_of(counts[k], call.uneven->gap);
  if (!counts[0].empty()) {
    shape.rank_counts = counts[0].data();
    shape.rank_offsets = offsets[0].data();
  }
  if (!counts[1].empty()) {
    shape.send_counts = counts[1].data();
    shape.send_offsets = offsets[1].data();
  }
  if (!counts[2].empty()) {
    shape.receive_counts = counts[2].data();
    shape.receive_offsets = offsets[2].data();
  }
}

Lengths lengths_of(const Plan& plan, const CheckCall& call, const Shape& shape, const ChunkLists& counts) {
  const auto n = static_cast<std::uint64_t>(plan.header.world);
  const bool root = plan.header.rank == plan.header.root;
  const std::uint64_t own = shape.count;
  const std::uint64_t gap = call.uneven == nullptr ? 0 : call.uneven->gap;
  const auto sum = [&](int k) { return counts[k].empty() ? n * own : total(counts[k], gap); };
  const bool lists = call.uneven != nullptr && !call.uneven->sends.empty();
  if (plan.lanes.empty()) return {};
  switch (plan.header.collective) {
    case Collective::kAllReduce: return {own, own};
    case Collective::kAllGather:
    case Collective::kAllGatherV: return {own, sum(0)};
    case Collective::kReduceScatter:
    case Collective::kReduceScatterV: return {sum(0), own};
    case Collective::kAllToAll:
    case Collective::kAllToAllV: return {sum(1), sum(2)};
    case Collective::kExchange:
      return lists ? Lengths{total(counts[1], gap), total(counts[2], gap)} : Lengths{n * own, n * own};
    case Collective::kGather: return {own, root || n == 1 ? n * own : 0};
    case Collective::kScatter: return {root || n == 1 ? n * own : 0, own};
    // A world of one has no root of its own in its plan.
    case Collective::kBroadcast: return {root || n == 1 ? own : 0, own};
    case Collective::kReduce: return {own, root || n == 1 ? own : 0};
    case Collective::kSend: return {own, 0};
    case Collective::kReceive: return {0, own};
    case Collective::kBarrier: return {};
  }
  return {};
}

std::uint64_t own_offset(const Shape& shape, int rank) {
  return shape.rank_offsets != nullptr ? shape.rank_offsets[rank] : static_cast<std::uint64_t>(rank) * shape.count;
}

}  // namespace hocket::check
