// SPDX-License-Identifier: Apache-2.0
// perf/values.hpp: what is in the buffers of a check, and what must be in them afterwards: exactly, bit for bit.
//
// Every element depends on its rank, its index and the round, so that stale, shifted and missing data show. Collectives
// that copy get random bits. Those that reduce get integers so small that every partial sum or product, in any order,
// is exact in the type (256 for bfloat16, 2048 for float16, 16 and 8 for the 8-bit floats; unsigned types get no
// negative ones), and whose reduction over all ranks has a closed form.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hocket/types.hpp"

namespace hocket::perf {

/// The contents of all ranks' inputs in one round. A value.
struct Contents {
  DataType type = DataType::kFloat32;
  bool reduced = false;  ///< whether the collective reduces (by op) or copies
  ReduceOp op = ReduceOp::kSum;
  int ranks = 1;
  std::uint32_t round = 0;
};

/// "Rank" of the reduction of all ranks' elements.
inline constexpr Rank kAllRanks = -1;

/// By what `rank` multiplies its input in a premultiplied sum.
double scalar_of(Rank rank);

/// Writes `count` elements of the input of `rank`, from its element `first` on.
void fill(const Contents& contents, Rank rank, std::size_t first, std::size_t count, void* data);

/// How many of `count` elements differ from those of `from`'s input from `first` on, or from their reduction
/// (kAllRanks).
std::size_t count_wrong(const Contents& contents, Rank from, std::size_t first, std::size_t count, const void* data);

/// Overwrites with bytes that no check takes for a result.
void poison(void* data, std::size_t bytes);

}  // namespace hocket::perf
