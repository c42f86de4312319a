// SPDX-License-Identifier: Apache-2.0
// call_cost.cpp: all-reduces of 8 bytes by two ranks, for bench/call-cost, which counts the instructions of one rank's.
// Rank 1 is the one that is counted. It comes late, when rank 0 has sent its part, so what is counted never waits.
//
//   hocket run -n 2 -- call_cost CALLS
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "core/engine.hpp"
#include "hocket/hocket.hpp"

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 10000;
  hocket::EngineOptions options;
  options.arena_bytes = std::uint64_t{2} << 30;  // callgrind gives no program more
  auto core = hocket::EngineCore::create(std::move(options));
  if (!core.ok()) {
    std::fprintf(stderr, "%s\n", core.status().to_string().c_str());
    return 1;
  }
  auto comm = hocket::Communicator::from_environment({}, *core);
  if (!comm.ok()) {
    std::fprintf(stderr, "%s\n", comm.status().to_string().c_str());
    return 1;
  }
  float in[2] = {1, 2}, out[2] = {};
  for (int i = 0; i < calls; ++i) {
    if (comm->rank() == 1) std::this_thread::sleep_for(std::chrono::microseconds(500));
    if (const auto status = comm->all_reduce(in, out, 2, hocket::DataType::kFloat32, hocket::ReduceOp::kSum);
        !status.ok()) {
      std::fprintf(stderr, "%s\n", status.to_string().c_str());
      return 1;
    }
  }
  return out[0] == 2 && out[1] == 4 ? 0 : 1;
}
