// SPDX-License-Identifier: Apache-2.0
// NCCL's graph XML.
#include <string>

#include "fuzz/fuzz.hpp"
#include "topo/nccl_graph.hpp"

using namespace hocket;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const auto graphs = topo::parse_nccl_graphs(std::string(fuzz::text_of(data, bytes)), "fuzz.xml");
  if (graphs.ok()) FUZZ_REQUIRE(graphs->size() <= 32);
  return 0;
}
