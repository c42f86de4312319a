// SPDX-License-Identifier: Apache-2.0
// NCCL's and RCCL's topology XML: a machine or an error, and what is saved of a machine reads back.
#include <string>

#include "fuzz/fuzz.hpp"
#include "topo/nccl_reader.hpp"

using namespace hocket;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const auto graph = topo::graph_from_nccl_text(std::string(fuzz::text_of(data, bytes)), "fuzz.xml");
  if (!graph.ok()) return 0;
  FUZZ_REQUIRE(graph->check().ok());
  FUZZ_REQUIRE(topo::graph_from_nccl_text(topo::to_nccl_xml(*graph), "saved.xml").ok());
  return 0;
}
