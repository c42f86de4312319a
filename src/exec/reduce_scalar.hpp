// SPDX-License-Identifier: Apache-2.0
// exec/reduce_scalar.hpp: what one element of a reduction is, for host and device. This is the definition: the device
// lanes compile it, and the host's SIMD kernels (reduce_kernels-inl.hpp) give the same bits, which
// tests/unit/reduce_test.cpp shows.
//
// One Move reduces its sources in the order listed: (((s0 + s1) + s2) + ...).
//  - float16 and bfloat16 accumulate in float32 over all sources of the Move and round once, to nearest even.
//  - Integers wrap.
//  - min and max: NaN if any source is NaN, and -0 < +0; so the order of the sources doesn't matter.
//  - average is the sum. The Move that finishes it divides by the world size, in the accumulator's type: floats round
//    correctly (a product with 1/n would not, unless n is a power of two), integers truncate toward zero.
//  - A NaN result is always the one positive quiet NaN of its type: which payload the hardware keeps depends on the
//  machine
//    and on the operand order that the compiler chose.
// No operation here may be contracted into a fused multiply-add or flush denormals: no -ffast-math, no -use_fast_math.
#pragma once

#include <cstdint>

#include "base/float16.hpp"
#include "base/host_device.hpp"
#include "hocket/types.hpp"

namespace hocket {

/// How elements of a DataType lie in memory (Stored), and what they are accumulated in (Accumulator).
template <DataType type>
struct Element;

template <>
struct Element<DataType::kFloat32> {
  using Stored = float;
  using Accumulator = float;
  HOCKET_HD static float load(float value) { return value; }
  HOCKET_HD static float store(float value) { return value == value ? value : float_of(0x7fc00000u); }
};

template <>
struct Element<DataType::kFloat64> {
  using Stored = double;
  using Accumulator = double;
  HOCKET_HD static double load(double value) { return value; }
  HOCKET_HD static double store(double value) {
    return value == value ? value : __builtin_bit_cast(double, std::uint64_t{0x7ff8000000000000u});
  }
};

template <>
struct Element<DataType::kBfloat16> {
  using Stored = std::uint16_t;
  using Accumulator = float;
  HOCKET_HD static float load(std::uint16_t bits) { return bfloat16_to_float(bits); }
  HOCKET_HD static std::uint16_t store(float value) { return float_to_bfloat16(value); }
};

template <>
struct Element<DataType::kFloat16> {
  using Stored = std::uint16_t;
  using Accumulator = float;
  HOCKET_HD static float load(std::uint16_t bits) { return half_to_float(bits); }
  HOCKET_HD static std::uint16_t store(float value) { return float_to_half(value); }
};

template <>
struct Element<DataType::kInt32> {
  using Stored = std::int32_t;
  using Accumulator = std::int32_t;
  HOCKET_HD static std::int32_t load(std::int32_t value) { return value; }
  HOCKET_HD static std::int32_t store(std::int32_t value) { return value; }
};

template <>
struct Element<DataType::kInt64> {
  using Stored = std::int64_t;
  using Accumulator = std::int64_t;
  HOCKET_HD static std::int64_t load(std::int64_t value) { return value; }
  HOCKET_HD static std::int64_t store(std::int64_t value) { return value; }
};

namespace scalar {

HOCKET_HD inline float add(float a, float b) {
  return a + b;
}
HOCKET_HD inline double add(double a, double b) {
  return a + b;
}
HOCKET_HD inline std::int32_t add(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}
HOCKET_HD inline std::int64_t add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

HOCKET_HD inline float multiply(float a, float b) {
  return a * b;
}
HOCKET_HD inline double multiply(double a, double b) {
  return a * b;
}
HOCKET_HD inline std::int32_t multiply(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b));
}
HOCKET_HD inline std::int64_t multiply(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

HOCKET_HD inline std::int32_t minimum(std::int32_t a, std::int32_t b) {
  return a < b ? a : b;
}
HOCKET_HD inline std::int64_t minimum(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
HOCKET_HD inline std::int32_t maximum(std::int32_t a, std::int32_t b) {
  return a < b ? b : a;
}
HOCKET_HD inline std::int64_t maximum(std::int64_t a, std::int64_t b) {
  return a < b ? b : a;
}

/// Equal values differ at most in the sign of a zero; a NaN fails every comparison and is added to the other into a
/// NaN.
HOCKET_HD inline float minimum(float a, float b) {
  if (a < b) return a;
  if (b < a) return b;
  return a == b ? float_of(bits_of(a) | bits_of(b)) : a + b;
}
HOCKET_HD inline float maximum(float a, float b) {
  if (a < b) return b;
  if (b < a) return a;
  return a == b ? float_of(bits_of(a) & bits_of(b)) : a + b;
}
HOCKET_HD inline double minimum(double a, double b) {
  if (a < b) return a;
  if (b < a) return b;
  if (a != b) return a + b;
  return __builtin_bit_cast(double, __builtin_bit_cast(std::uint64_t, a) | __builtin_bit_cast(std::uint64_t, b));
}
HOCKET_HD inline double maximum(double a, double b) {
  if (a < b) return b;
  if (b < a) return a;
  if (a != b) return a + b;
  return __builtin_bit_cast(double, __builtin_bit_cast(std::uint64_t, a) & __builtin_bit_cast(std::uint64_t, b));
}

}  // namespace scalar

/// One more source: op(accumulator, value). Average accumulates like sum.
template <ReduceOp op, class Accumulator>
HOCKET_HD inline Accumulator combine(Accumulator accumulator, Accumulator value) {
  if constexpr (op == ReduceOp::kProduct) {
    return scalar::multiply(accumulator, value);
  } else if constexpr (op == ReduceOp::kMin) {
    return scalar::minimum(accumulator, value);
  } else if constexpr (op == ReduceOp::kMax) {
    return scalar::maximum(accumulator, value);
  } else {
    return scalar::add(accumulator, value);
  }
}

/// The last Move of an average, before the element is stored; nothing for other operations. world_size >= 1.
template <ReduceOp op, class Accumulator>
HOCKET_HD inline Accumulator finish(Accumulator accumulator, int world_size) {
  if constexpr (op == ReduceOp::kAverage) {
    return accumulator / static_cast<Accumulator>(world_size);
  } else {
    return accumulator;
  }
}

/// A whole Move for one element: `source_count` >= 1 values in the order of the sources.
template <DataType type, ReduceOp op>
HOCKET_HD inline typename Element<type>::Stored reduce_element(const typename Element<type>::Stored* values,
                                                               int source_count, bool is_last, int world_size) {
  auto accumulator = Element<type>::load(values[0]);
  for (int s = 1; s < source_count; ++s) accumulator = combine<op>(accumulator, Element<type>::load(values[s]));
  if (is_last) accumulator = finish<op>(accumulator, world_size);
  return Element<type>::store(accumulator);
}

}  // namespace hocket
