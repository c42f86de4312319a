// SPDX-License-Identifier: Apache-2.0
// exec/reduce_avx512.cpp: the reduction kernels for AVX-512 (F, BW, DQ, VL, CD).

#define HOCKET_REDUCE_TARGET avx512
#include "exec/reduce_kernels-inl.hpp"
