// SPDX-License-Identifier: Apache-2.0
// exec/cuda_lane.cu: device lanes as a kernel: a plan's step machine in a thread block, one block a lane.
//
// Grid (lanes, ranks), block kCudaLaneThreads; static shared memory: the places of a Move, the call and its plan (25
// KB). Resident at once: at least resident(plan) lanes of every rank in the launch, which a cooperative launch
// guarantees for all of them. The bandwidth to reach is that of the link under the channel (NVLink; on one shared GPU
// its memory), with as many lanes as fill it; tests/gpu measures it. The CPU reference is the same header on host
// threads, tests/unit/device_lane_test.cpp. No fast-math, no fused multiply-add: equal bits on host and device.
#include "exec/cuda_lane.hpp"

#include "exec/device_lane.hpp"

namespace hocket {
namespace {

/// The threads of a CUDA block.
struct CudaBlock {
  static constexpr int kPolls = 1024;
  HOCKET_HD std::uint32_t index() const {
#ifdef __CUDA_ARCH__
    return threadIdx.x;
#else
    return 0;
#endif
  }
  HOCKET_HD std::uint32_t count() const {
    return kCudaLaneThreads;
  }
  HOCKET_HD void sync() {
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
  }
  HOCKET_HD bool any(bool flag) {
#ifdef __CUDA_ARCH__
    return __syncthreads_or(flag) != 0;
#else
    return flag;
#endif
  }
};

/// A plan up to this size is read from shared memory: polling throws what the first-level cache holds away each time.
constexpr std::uint64_t kStagedPlanBytes = 16384;

}  // namespace
}  // namespace hocket

extern "C" __global__ void __launch_bounds__(hocket::kCudaLaneThreads, 1)
    hocket_run_lanes(const hocket::DeviceCall* calls) {
  using namespace hocket;
  __shared__ LaneShared shared;
  // Raw words, because DeviceCall's members have initial values.
  __shared__ alignas(16) std::uint64_t call_words[(sizeof(DeviceCall) + 7) / 8];
  __shared__ alignas(16) std::uint64_t plan_words[kStagedPlanBytes / 8];
  DeviceCall& call = *reinterpret_cast<DeviceCall*>(call_words);

  const DeviceCall& from = calls[blockIdx.y];
  if (blockIdx.x >= from.plan.lane_count) return;
  const bool staged = from.flat != nullptr && from.flat_bytes <= kStagedPlanBytes;
  if (staged) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(from.flat);
    for (std::uint64_t w = threadIdx.x; w < from.flat_bytes / 8; w += kCudaLaneThreads) plan_words[w] = words[w];
  }
  if (threadIdx.x == 0) {
    call = from;
    if (staged) call.plan = moved(from.plan, from.flat, reinterpret_cast<const std::byte*>(plan_words));
  }
  __syncthreads();
  run_lane(call, blockIdx.x, shared, CudaBlock{});
}

const void* hocket::lane_kernel() {
  return reinterpret_cast<const void*>(&hocket_run_lanes);
}
