// SPDX-License-Identifier: Apache-2.0
// hwloc XML files. hwloc imports them in a child process, so this is slow; a child that ends by a signal is an error
// with its name, as it should be.
#include <sys/mman.h>

#include <string>

#include "fuzz/fuzz.hpp"
#include "topo/hwloc_reader.hpp"

using namespace hocket;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const os::UniqueFd file(::memfd_create("hwloc.xml", MFD_CLOEXEC));
  if (!file || ::write(file.get(), data, bytes) != static_cast<ssize_t>(bytes)) std::abort();
  const auto graph = topo::graph_from_hwloc_xml("/proc/self/fd/" + std::to_string(file.get()));
  if (graph.ok()) FUZZ_REQUIRE(graph->check().ok());
  return 0;
}
