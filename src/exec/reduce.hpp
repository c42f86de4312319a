// SPDX-License-Identifier: Apache-2.0
// exec/reduce.hpp: Moves with several sources on host memory: SIMD kernels for every DataType and ReduceOp.
//
// What a reduction is, to the bit, is written in reduce_scalar.hpp; every target (avx512, avx2, baseline) gives those
// bits. The target is chosen once, by what the CPU has. Each is a translation unit of its own, compiled for its
// instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hocket/types.hpp"

namespace hocket {

/// A Move with more than one destination stores to this many straight from registers; others are copied block by block.
inline constexpr int kMaxFusedDestinations = 2;

struct ReduceArgs {
  const void* const* sources;  ///< source_count >= 1 of them, reduced in this order
  int source_count;
  void* const*
      destinations;  ///< destination_count >= 1 of them; each may be exactly one of the sources, else no overlap
  int destination_count;
  std::size_t count;  ///< elements; 0 is fine. No pointer has to be aligned, not even to the element
  bool finish;        ///< the Move that finishes an average: divide by world_size. Ignored by other operations
  int world_size;     ///< >= 1; read only if finish
  /// Destinations that are no slots are larger than the cache and nobody reads them soon: non-temporal stores, ordered
  /// before any later store.
  bool stream = false;
  /// Bit d: destinations[d] is a slot whose lines another core's cache holds, filled as CopyHint::kSlot says.
  std::uint32_t slot_destinations = 0;
};

/// One kernel. Any thread; allocates nothing, calls nothing but copies.
using ReduceFunction = void (*)(const ReduceArgs&);

/// The kernel of this CPU for (type, op), both valid: looked up once per plan, so that a Move has no switch. That of a
/// premultiplied sum is the sum's (inputs are scaled before); a user's operator has none: null.
ReduceFunction reduce_function(DataType type, ReduceOp op);

/// to[i] = scalar * from[i], rounded to the type as a Move is. `scalar` is of the accumulator's type
/// (reduce_scalar.hpp) in the low bytes. `to` may be `from`, else no overlap; nothing has to be aligned.
using ScaleFunction = void (*)(const void* from, void* to, std::size_t count, std::uint64_t scalar);
ScaleFunction scale_function(DataType type);

/// "avx512", "avx2" or "baseline": what reduce_function() gives now.
std::string_view reduce_target();

/// For tests: give kernels of this target from now on; false (and no change) if there is none or the CPU can't run it.
/// An empty name goes back to the best. Not while another thread looks functions up for use.
bool set_reduce_target_for_test(std::string_view name);

}  // namespace hocket
