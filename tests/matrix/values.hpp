// SPDX-License-Identifier: Apache-2.0
// matrix/values.hpp: what the ranks of a case have in their inputs, and what must come of it, exactly.
//
// Computed here with whole numbers and an encoder of its own, and not by anything of the library: a mistake in both
// would have to be the same. Inputs of copies are random bits. Inputs of reductions are whole numbers for which every
// partial result, in any order, is exact in the type (8-bit floats hold few), so that results are compared bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hocket/types.hpp"

namespace hocket::matrix {

/// What reduces. kXor and kFirst are operators of the caller's: the second keeps the lowest rank's value, so it shows
/// whether ranks are combined in order.
enum class Op { kNone, kSum, kProduct, kMin, kMax, kAverage, kPremultiplied, kPremultipliedAt, kXor, kFirst };

/// The contents of all ranks' inputs of one case.
struct Contents {
  DataType type = DataType::kInt32;
  Op op = Op::kNone;
  int ranks = 1;
  std::uint64_t seed = 0;
};

/// By what `rank` multiplies its input in a premultiplied sum.
constexpr int scalar_of(Rank rank) {
  return rank % 3 == 1 ? 1 : 2;
}

/// splitmix64: Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
constexpr std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// The bits of element `index` of the input of `rank`, in the low bytes.
std::uint64_t input_bits(const Contents& contents, Rank rank, std::uint64_t index);
/// Those of the reduction of all ranks' elements.
std::uint64_t reduced_bits(const Contents& contents, std::uint64_t index);

/// The bits of a number that `type` holds exactly.
std::uint64_t encode(DataType type, std::int64_t number);

}  // namespace hocket::matrix
