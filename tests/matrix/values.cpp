// SPDX-License-Identifier: Apache-2.0
#include "matrix/values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace hocket::matrix {
namespace {

bool is_float(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kBfloat16 ||
         type == DataType::kFloat16 || type == DataType::kFloat8E4M3 || type == DataType::kFloat8E5M2;
}
bool is_float8(DataType type) {
  return type == DataType::kFloat8E4M3 || type == DataType::kFloat8E5M2;
}
bool is_unsigned(DataType type) {
  return type == DataType::kUint8 || type == DataType::kUint32 || type == DataType::kUint64;
}

std::uint64_t low_bytes(std::uint64_t bits, DataType type) {
  const std::size_t bytes = size_of(type);
  return bytes == 8 ? bits : bits & ((std::uint64_t{1} << (8 * bytes)) - 1);
}

// A whole number as sign, exponent and fraction of a small float format; it must be one that the format holds.
std::uint64_t small_float(std::int64_t number, int exponent_bits, int fraction_bits) {
  if (number == 0) return 0;
  const std::uint64_t sign = number < 0 ? 1 : 0;
  const auto magnitude = static_cast<std::uint64_t>(std::llabs(number));
  const int exponent = static_cast<int>(std::bit_width(magnitude)) - 1;
  const std::uint64_t fraction = magnitude - (std::uint64_t{1} << exponent);
  if (exponent > fraction_bits && fraction % (std::uint64_t{1} << (exponent - fraction_bits)) != 0)
    std::abort();  // a mistake in this file
  const std::uint64_t shifted =
      exponent > fraction_bits ? fraction >> (exponent - fraction_bits) : fraction << (fraction_bits - exponent);
  const auto biased = static_cast<std::uint64_t>(exponent + (1 << (exponent_bits - 1)) - 1);
  return (sign << (exponent_bits + fraction_bits)) | (biased << fraction_bits) | shifted;
}

// Integers' sums and the caller's operators take any bits.
bool any_bits(const Contents& c) {
  return c.op == Op::kNone || c.op == Op::kXor || c.op == Op::kFirst || (c.op == Op::kSum && !is_float(c.type));
}

// The whole number that `rank` has. Ranks are turned by the hash, so that each has every part of the pattern somewhere.
std::int64_t number_of(const Contents& c, Rank rank, std::uint64_t index) {
  const std::uint64_t all = mixed(c.seed + index);
  const std::uint64_t own = mixed(all + static_cast<std::uint64_t>(rank) + 1);
  const auto n = static_cast<std::uint64_t>(c.ranks);
  const auto turned = static_cast<std::int64_t>((static_cast<std::uint64_t>(rank) + all % n) % n);
  const std::int64_t sign = is_unsigned(c.type) || (all >> 40 & 1) == 0 ? 1 : -1;
  const auto between = [&](std::int64_t most) {
    return is_unsigned(c.type) ? static_cast<std::int64_t>(own % static_cast<std::uint64_t>(most + 1))
                               : static_cast<std::int64_t>(own % static_cast<std::uint64_t>(2 * most + 1)) - most;
  };
  switch (c.op) {
    case Op::kSum:
    case Op::kPremultiplied:
    case Op::kPremultipliedAt:
      // An 8-bit float counts to 8: four ones, doubled.
      return is_float8(c.type) ? (turned < 4 ? sign : 0) : between(10);
    case Op::kProduct: return (turned < 5 ? 2 : 1) * (turned == 0 ? sign : 1);
    case Op::kMin:
    case Op::kMax: return between(is_float8(c.type) ? 8 : 100);
    case Op::kAverage:
      if (!is_float(c.type)) return between(10);
      // The sum is a multiple of n.
      if (is_float8(c.type)) return sign * static_cast<std::int64_t>(all >> 44 & 1);
      return sign * (2 * static_cast<std::int64_t>((all >> 44) % 6) + 2 * turned);
    default: return 0;
  }
}

}  // namespace

std::uint64_t encode(DataType type, std::int64_t number) {
  switch (type) {
    case DataType::kFloat32: return std::bit_cast<std::uint32_t>(static_cast<float>(number));
    case DataType::kFloat64: return std::bit_cast<std::uint64_t>(static_cast<double>(number));
    case DataType::kBfloat16: return small_float(number, 8, 7);
    case DataType::kFloat16: return small_float(number, 5, 10);
    case DataType::kFloat8E4M3: return small_float(number, 4, 3);
    case DataType::kFloat8E5M2: return small_float(number, 5, 2);
    default: return low_bytes(static_cast<std::uint64_t>(number), type);
  }
}

std::uint64_t input_bits(const Contents& c, Rank rank, std::uint64_t index) {
  if (!any_bits(c)) return encode(c.type, number_of(c, rank, index));
  return low_bytes(mixed((c.seed + index) ^ (static_cast<std::uint64_t>(rank + 1) << 48)), c.type);
}

std::uint64_t reduced_bits(const Contents& c, std::uint64_t index) {
  if (any_bits(c)) {
    std::uint64_t bits = input_bits(c, 0, index);
    for (Rank r = 1; r < c.ranks && c.op != Op::kFirst; ++r) {
      const std::uint64_t more = input_bits(c, r, index);
      bits = c.op == Op::kXor ? bits ^ more : bits + more;
    }
    return low_bytes(bits, c.type);
  }
  const bool scaled = c.op == Op::kPremultiplied || c.op == Op::kPremultipliedAt;
  std::int64_t result = 0;
  for (Rank r = 0; r < c.ranks; ++r) {
    const std::int64_t number = number_of(c, r, index) * (scaled ? scalar_of(r) : 1);
    if (r == 0) {
      result = number;
    } else if (c.op == Op::kProduct) {
      result *= number;
    } else if (c.op == Op::kMin) {
      result = std::min(result, number);
    } else if (c.op == Op::kMax) {
      result = std::max(result, number);
    } else {
      result += number;
    }
  }
  if (c.op == Op::kAverage) result /= c.ranks;  // exact for floats; integers truncate
  return encode(c.type, result);
}

}  // namespace hocket::matrix
