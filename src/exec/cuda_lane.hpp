// SPDX-License-Identifier: Apache-2.0
// exec/cuda_lane.hpp: the kernel of cuda_lane.cu, for who launches them; needs no CUDA header.
#pragma once

#include <cstdint>

namespace hocket {

/// Threads of a block, which runs one lane.
inline constexpr std::uint32_t kCudaLaneThreads = 512;

/// The kernel, `hocket_run_lanes(const DeviceCall* calls)`, calls in device memory; any type, operation and protocol.
/// Launch it cooperatively (cudaLaunchCooperativeKernel) with
///   grid    (lanes, ranks): block (l, r) runs lane l of calls[r]. Ranks that share a device share a launch, because
///   all
///           their lanes must be resident at once; a rank that has the device to itself is a grid of (lanes, 1).
///   block   kCudaLaneThreads; no dynamic shared memory, about 25 KB static.
const void* lane_kernel();

}  // namespace hocket
