// SPDX-License-Identifier: Apache-2.0
// exec/reduce_avx2.cpp: the reduction kernels for AVX2, FMA and F16C.

#define HOCKET_REDUCE_TARGET avx2
#include "exec/reduce_kernels-inl.hpp"
