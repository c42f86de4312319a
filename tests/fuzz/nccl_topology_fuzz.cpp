// SPDX-License-Identifier: Apache-2.0
// NCCL's and RCCL's topology XML: a machine or an error; what is saved of a machine reads back; rings that are found on
// it hold, and trees, and what ranks make of them.
#include <string>

#include "algorithms/layout.hpp"
#include "fuzz/fuzz.hpp"
#include "topo/host_layout.hpp"
#include "topo/nccl_reader.hpp"
#include "topo/nics.hpp"
#include "topo/search.hpp"

using namespace hocket;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const auto graph = topo::graph_from_nccl_text(std::string(fuzz::text_of(data, bytes)), "fuzz.xml");
  if (!graph.ok()) return 0;
  FUZZ_REQUIRE(graph->check().ok());
  FUZZ_REQUIRE(topo::graph_from_nccl_text(topo::to_nccl_xml(*graph), "saved.xml").ok());
  const topo::Paths paths(*graph);
  (void)topo::plan_nics(paths);
  if (paths.gpus().size() > 5) return 0;  // more take longer than a run should
  const topo::SearchResult result = topo::search(paths);
  if (!result.machine.rings.empty()) FUZZ_REQUIRE(topo::check_rings(paths, paths.gpus(), result.machine).ok());
  FUZZ_REQUIRE(topo::check_trees(paths, paths.gpus(), result.trees).ok());
  (void)topo::search_text(paths, result);
  if (paths.gpus().empty()) return 0;
  const topo::HostLayout host = topo::host_layout(*graph, paths.gpus());
  const std::vector<std::int32_t> of_rank(paths.gpus().size(), 0);
  FUZZ_REQUIRE(join_hosts(of_rank, std::span(&host, 1)).ok());
  return 0;
}
