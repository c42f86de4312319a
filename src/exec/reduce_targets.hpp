// SPDX-License-Identifier: Apache-2.0
// exec/reduce_targets.hpp: what the translation units of the targets give to reduce.cpp. One table each, nothing else.
#pragma once

#include "exec/reduce.hpp"

namespace hocket {

/// Operations that have kernels of their own: sum to average.
inline constexpr int kKernelOpCount = 5;

struct ReduceTable {
  ReduceFunction functions[kDataTypeCount][kKernelOpCount];  // [DataType][ReduceOp]
  ScaleFunction scale[kDataTypeCount];
};

namespace baseline {
extern const ReduceTable kReduceTable;
}
namespace avx2 {
extern const ReduceTable kReduceTable;
}
namespace avx512 {
extern const ReduceTable kReduceTable;
}

/// Fill part of a slot from the cache: copy(…, CopyHint::kSlot), compiled for every CPU.
void reduce_fill_slot(void* slot, const void* from, std::size_t bytes);
/// To what this core reads soon: CopyHint::kCached.
void reduce_copy(void* to, const void* from, std::size_t bytes);
/// The same past the caches: CopyHint::kStream.
void reduce_stream(void* to, const void* from, std::size_t bytes);

}  // namespace hocket
