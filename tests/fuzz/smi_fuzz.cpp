// SPDX-License-Identifier: Apache-2.0
// The texts of nvidia-smi topo -m, rocm-smi --showtopo, ibv_devinfo and show_gids.
#include "fuzz/fuzz.hpp"
#include "topo/ibv_reader.hpp"
#include "topo/smi_reader.hpp"

using namespace hocket;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const auto matrix = topo::graph_from_smi_text(fuzz::text_of(data, bytes), "fuzz.txt");
  if (matrix.ok()) FUZZ_REQUIRE(matrix->check().ok());
  const auto ports = topo::graph_from_ibv_text(fuzz::text_of(data, bytes), "fuzz.txt");
  if (ports.ok()) FUZZ_REQUIRE(ports->check().ok());
  return 0;
}
