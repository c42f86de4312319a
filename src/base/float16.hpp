// SPDX-License-Identifier: Apache-2.0
// base/float16.hpp: bfloat16 and IEEE half to float and back, on bits, for host and device.
//
// Integer arithmetic and exact products only, so the result depends on no rounding mode, flush-to-zero setting or
// instruction set. To 16 bits rounds to nearest, ties to even; too large becomes infinity; half keeps its denormals.
// Every NaN becomes the one positive quiet NaN (0x7fc0, 0x7e00): hardware keeps other payload bits on each machine, and
// results must be equal.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"

namespace hocket {

HOCKET_HD inline std::uint32_t bits_of(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}
HOCKET_HD inline float float_of(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

HOCKET_HD inline float bfloat16_to_float(std::uint16_t bits) {
  return float_of(static_cast<std::uint32_t>(bits) << 16);
}

HOCKET_HD inline std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

HOCKET_HD inline float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude < 0x0400u) {  // zero or denormal: magnitude * 2^-24 is a normal float
    return float_of(sign | bits_of(static_cast<float>(magnitude) * 0x1p-24f));
  }
  if (magnitude >= 0x7c00u) return float_of(sign | 0x7f800000u | (magnitude << 13));
  return float_of(sign | ((magnitude << 13) + (112u << 23)));
}

HOCKET_HD inline std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7e00;
  if (magnitude >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65536 and more
  if (magnitude < 0x38800000u) {
    // Below 2^-14: 0.5 has an ulp of 2^-24, the unit of half's denormals, so adding it rounds to them.
    return static_cast<std::uint16_t>(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u));
  }
  // 65520 and more carries into the exponent and becomes infinity.
  return static_cast<std::uint16_t>(sign | ((magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13));
}

}  // namespace hocket
