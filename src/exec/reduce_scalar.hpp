// SPDX-License-Identifier: Apache-2.0
// exec/reduce_scalar.hpp: what one element of a reduction is, for host and device. This is the definition: the device
// lanes compile it, and the host's SIMD kernels (reduce_kernels-inl.hpp) give the same bits, which
// tests/unit/reduce_test.cpp shows.
//
// One Move reduces its sources in the order listed: (((s0 + s1) + s2) + ...).
//  - float16, bfloat16 and the 8-bit floats accumulate in float32 over all sources of the Move and round once, to
//  nearest
//    even; what an 8-bit float cannot hold becomes its largest (base/float8.hpp).
//  - Integers wrap, in their own width.
//  - min and max: NaN if any source is NaN, and -0 < +0; so the order of the sources doesn't matter.
//  - average is the sum. The Move that finishes it divides by the world size, in the accumulator's type: floats round
//    correctly (a product with 1/n would not, unless n is a power of two), integers truncate toward zero.
//  - A premultiplied sum is the sum of scalar * input. Each product is rounded to the type as it is read from the
//  rank's
//    input, also where it goes straight into a sum: so it is the same on every way that an algorithm takes it.
//  - A NaN result is always the one positive quiet NaN of its type: which payload the hardware keeps depends on the
//  machine
//    and on the operand order that the compiler chose.
// No operation here may be contracted into a fused multiply-add or flush denormals: no -ffast-math, no -use_fast_math.
#pragma once

#include <cstdint>

#include "base/float16.hpp"
#include "base/float8.hpp"
#include "base/host_device.hpp"
#include "hocket/types.hpp"

namespace hocket {

/// Whether sums are kept in a type that holds more than the elements'.
constexpr bool accumulates_wider(DataType type) {
  return type == DataType::kBfloat16 || type == DataType::kFloat16 || type == DataType::kFloat8E4M3 ||
         type == DataType::kFloat8E5M2;
}

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
struct Element<DataType::kFloat8E4M3> {
  using Stored = std::uint8_t;
  using Accumulator = float;
  HOCKET_HD static float load(std::uint8_t bits) { return e4m3_to_float(bits); }
  HOCKET_HD static std::uint8_t store(float value) { return float_to_e4m3(value); }
};

template <>
struct Element<DataType::kFloat8E5M2> {
  using Stored = std::uint8_t;
  using Accumulator = float;
  HOCKET_HD static float load(std::uint8_t bits) { return e5m2_to_float(bits); }
  HOCKET_HD static std::uint8_t store(float value) { return float_to_e5m2(value); }
};

/// Integers accumulate in their own type.
template <class T>
struct IntegerElement {
  using Stored = T;
  using Accumulator = T;
  HOCKET_HD static T load(T value) { return value; }
  HOCKET_HD static T store(T value) { return value; }
};
template <>
struct Element<DataType::kInt8> : IntegerElement<std::int8_t> {};
template <>
struct Element<DataType::kUint8> : IntegerElement<std::uint8_t> {};
template <>
struct Element<DataType::kInt32> : IntegerElement<std::int32_t> {};
template <>
struct Element<DataType::kUint32> : IntegerElement<std::uint32_t> {};
template <>
struct Element<DataType::kInt64> : IntegerElement<std::int64_t> {};
template <>
struct Element<DataType::kUint64> : IntegerElement<std::uint64_t> {};

namespace scalar {

HOCKET_HD inline float add(float a, float b) {
  return a + b;
}
HOCKET_HD inline double add(double a, double b) {
  return a + b;
}
HOCKET_HD inline float multiply(float a, float b) {
  return a * b;
}
HOCKET_HD inline double multiply(double a, double b) {
  return a * b;
}

// Integers wrap: what is below 2^64 of the sum or product decides the low bits, whatever the type.
template <class Integer>
HOCKET_HD inline Integer add(Integer a, Integer b) {
  return static_cast<Integer>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
template <class Integer>
HOCKET_HD inline Integer multiply(Integer a, Integer b) {
  return static_cast<Integer>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
template <class Integer>
HOCKET_HD inline Integer minimum(Integer a, Integer b) {
  return a < b ? a : b;
}
template <class Integer>
HOCKET_HD inline Integer maximum(Integer a, Integer b) {
  return a < b ? b : a;
}

HOCKET_HD inline float divide(float a, int n) {
  return a / static_cast<float>(n);
}
HOCKET_HD inline double divide(double a, int n) {
  return a / static_cast<double>(n);
}
template <class Integer>
HOCKET_HD inline Integer divide(Integer a, int n) {
  // n may be more than an 8-bit type holds.
  if constexpr (sizeof(Integer) < sizeof(int)) {
    return static_cast<Integer>(static_cast<int>(a) / n);
  } else {
    return a / static_cast<Integer>(n);
  }
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

/// One more source: op(accumulator, value). Average and premultiplied sum accumulate like sum.
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
    return scalar::divide(accumulator, world_size);
  } else {
    return accumulator;
  }
}

/// One element of a rank's contribution to a premultiplied sum.
template <DataType type>
HOCKET_HD inline typename Element<type>::Stored scale_element(typename Element<type>::Stored value,
                                                              typename Element<type>::Accumulator factor) {
  return Element<type>::store(scalar::multiply(Element<type>::load(value), factor));
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
