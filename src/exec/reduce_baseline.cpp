// SPDX-License-Identifier: Apache-2.0
// exec/reduce_baseline.cpp: the reduction kernels for every CPU of the architecture.

#define HOCKET_REDUCE_TARGET baseline
#include "exec/reduce_kernels-inl.hpp"
