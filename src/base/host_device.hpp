// SPDX-License-Identifier: Apache-2.0
// base/host_device.hpp: marks what also compiles for the device.
#pragma once

#ifdef __CUDACC__
#define HOCKET_HD __host__ __device__
#else
#define HOCKET_HD
#endif
