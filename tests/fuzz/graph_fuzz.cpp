// SPDX-License-Identifier: Apache-2.0
// A machine's graph as bytes from another rank, and lists of CPUs as the kernel writes them.
#include "topo/graph.hpp"

#include "fuzz/fuzz.hpp"
#include "topo/cost.hpp"
#include "topo/domains.hpp"
#include "topo/hwloc_reader.hpp"
#include "topo/link_speed.hpp"

using namespace hocket;
using namespace hocket::topo;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string_view text = fuzz::text_of(data, bytes);
  if (const auto graph = Graph::from_bytes(text); graph.ok()) {
    FUZZ_REQUIRE(graph->check().ok());
    const auto again = Graph::from_bytes(graph->to_bytes());
    FUZZ_REQUIRE(again.ok());
    FUZZ_REQUIRE(again->digest() == graph->digest());
    FUZZ_REQUIRE(!graph->to_text().empty());
    FUZZ_REQUIRE(!graph->to_json().empty());
    (void)graph->l3_bytes();
    (void)link_cost(*graph, LinkKind::kShm);
    (void)place_of(*graph, {1, 2}, 1, CpuSet::range(0, 3));
  }
  if (const auto cpus = CpuSet::parse_list(text); cpus.ok()) {
    const auto again = CpuSet::parse_list(cpus->to_string());
    FUZZ_REQUIRE(again.ok() && *again == *cpus);
  }
  (void)CpuSet::parse_mask(text);
  const std::size_t half = text.size() / 2;
  (void)pcie_rate(text.substr(0, half), text.substr(half));
  (void)json_string(text);
  return 0;
}
