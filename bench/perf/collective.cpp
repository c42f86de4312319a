// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/collective.hpp"

#include <algorithm>
#include <string>

namespace hocket::perf {
namespace {

constexpr const PerfCollective* kCollectives[] = {
    &kAllReducePerf, &kAllGatherPerf,   &kReduceScatterPerf, &kAllToAllPerf,   &kBroadcastPerf,
    &kReducePerf,    &kGatherPerf,      &kScatterPerf,       &kAllGatherVPerf, &kReduceScatterVPerf,
    &kAllToAllVPerf, &kSendReceivePerf, &kBarrierPerf};

std::string squeezed(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c != '_' && c != '-') result += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return result;
}

}  // namespace

std::size_t PerfCollective::count_of(std::size_t bytes, DataType type, int ranks) const {
  if (no_data || bytes == 0) return 0;
  const std::size_t elements = bytes / size_of(type);
  return std::max<std::size_t>(wide_input || wide_output ? elements / all_chunks(ranks, 1) : elements, 1);
}

std::size_t PerfCollective::bytes_of(std::size_t count, DataType type, int ranks) const {
  return (wide_input || wide_output ? all_chunks(ranks, count) : count) * size_of(type);
}

std::size_t PerfCollective::all_chunks(int ranks, std::size_t count) const {
  return uneven ? chunk_at(ranks, count) : static_cast<std::size_t>(ranks) * count;
}

std::size_t PerfCollective::chunk_at(Rank rank, std::size_t count) const {
  const auto r = static_cast<std::size_t>(rank);
  return (uneven ? r * (r + 1) / 2 : r) * count;
}

std::size_t PerfCollective::chunk_count(Rank rank, std::size_t count) const {
  return uneven ? (static_cast<std::size_t>(rank) + 1) * count : count;
}

std::vector<std::size_t> uneven_counts(int ranks, std::size_t count) {
  std::vector<std::size_t> counts;
  for (int r = 0; r < ranks; ++r) counts.push_back((static_cast<std::size_t>(r) + 1) * count);
  return counts;
}

std::span<const PerfCollective* const> perf_collectives() {
  return kCollectives;
}

const PerfCollective* find_perf_collective(std::string_view name) {
  const std::string wanted = squeezed(name);
  for (const PerfCollective* collective : kCollectives) {
    if (squeezed(collective->name) == wanted) return collective;
  }
  return nullptr;
}

}  // namespace hocket::perf
