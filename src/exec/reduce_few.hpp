// SPDX-License-Identifier: Apache-2.0
// exec/reduce_few.hpp: Moves of two sources into one destination of a few elements, for which starting a SIMD kernel
// costs more than the elements. The same bits as the kernels: both are reduce_scalar.hpp's.
#pragma once

#include <cstddef>

#include "hocket/types.hpp"

namespace hocket {

/// to[i] = a[i] op b[i]. `to` may be one of the sources, else no overlap; nothing has to be aligned. Any thread.
using ReduceFew = void (*)(void* to, const void* a, const void* b, std::size_t count);

/// How it is done for `count` elements; null where that is not worth it, or the operation has more to it.
ReduceFew reduce_few(DataType type, ReduceOp op, std::size_t count);

}  // namespace hocket
