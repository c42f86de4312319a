// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/collective.hpp"

#include <string>

namespace hocket::perf {
namespace {

constexpr const PerfCollective* kCollectives[] = {&kAllReducePerf, &kAllGatherPerf, &kReduceScatterPerf, &kAllToAllPerf,
                                                  &kBroadcastPerf, &kReducePerf,    &kSendReceivePerf,   &kBarrierPerf};

std::string squeezed(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c != '_' && c != '-') result += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return result;
}

}  // namespace

std::size_t PerfCollective::count_of(std::size_t bytes, DataType type, int ranks) const {
  if (no_data) return 0;
  const std::size_t elements = bytes / size_of(type);
  return wide_input || wide_output ? elements / static_cast<std::size_t>(ranks) : elements;
}

std::size_t PerfCollective::bytes_of(std::size_t count, DataType type, int ranks) const {
  return (wide_input ? input_count(ranks, count) : output_count(ranks, count)) * size_of(type);
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
