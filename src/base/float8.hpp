// SPDX-License-Identifier: Apache-2.0
// base/float8.hpp: the two 8-bit floats to float and back, on bits, for host and device.
//
//         sign exponent mantissa bias  largest  smallest normal  unit of the denormals  special
//   E4M3  1    4        3        7     448      2^-6             2^-9                   NaN 0x7f, 0xff; no infinity
//   E5M2  1    5        2        15    57344    2^-14            2^-16                  as IEEE: infinity 0x7c, NaN
//   above
//
// Integer arithmetic and exact sums only, as in float16.hpp. To 8 bits rounds to nearest, ties to even. What is finite
// and too large becomes the largest; so does infinity in E4M3, and stays infinity in E5M2 (hocket/types.hpp says why).
// Every NaN becomes the one positive quiet NaN (0x7f, 0x7e).
// Source: Open Compute Project, OCP 8-bit Floating Point Specification (OFP8), revision 1.0, 2023.
#pragma once

#include <cstdint>

#include "base/float16.hpp"
#include "base/host_device.hpp"

namespace hocket {

HOCKET_HD inline float e4m3_to_float(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80u) << 24;
  const std::uint32_t magnitude = bits & 0x7fu;
  if (magnitude == 0x7fu) return float_of(sign | 0x7fc00000u);
  // Zero or denormal: magnitude * 2^-9 is a normal float.
  if (magnitude < 0x08u) return float_of(sign | bits_of(static_cast<float>(magnitude) * 0x1p-9f));
  return float_of(sign | ((magnitude << 20) + (120u << 23)));
}

HOCKET_HD inline std::uint8_t float_to_e4m3(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits >> 24) & 0x80u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;
  if (magnitude >= 0x43e00000u) return static_cast<std::uint8_t>(sign | 0x7eu);  // 448 and more
  if (magnitude < 0x3c800000u) {
    // Below 2^-6: 2^14 has an ulp of 2^-9, the unit of the denormals, so adding it rounds to them.
    return static_cast<std::uint8_t>(sign | (bits_of(float_of(magnitude) + 0x1p14f) - 0x46800000u));
  }
  return static_cast<std::uint8_t>(sign | ((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u) - (120u << 23)) >> 20));
}

HOCKET_HD inline float e5m2_to_float(std::uint8_t bits) {
  return half_to_float(static_cast<std::uint16_t>(bits << 8));
}

HOCKET_HD inline std::uint8_t float_to_e5m2(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits >> 24) & 0x80u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7e;
  if (magnitude == 0x7f800000u) return static_cast<std::uint8_t>(sign | 0x7cu);
  if (magnitude >= 0x47600000u) return static_cast<std::uint8_t>(sign | 0x7bu);  // 57344 and more
  if (magnitude < 0x38800000u) {
    // Below 2^-14: 2^7 has an ulp of 2^-16.
    return static_cast<std::uint8_t>(sign | (bits_of(float_of(magnitude) + 0x1p7f) - 0x43000000u));
  }
  return static_cast<std::uint8_t>(sign | ((magnitude + 0xfffffu + ((magnitude >> 21) & 1u) - (112u << 23)) >> 21));
}

}  // namespace hocket
