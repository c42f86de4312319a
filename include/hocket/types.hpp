// SPDX-License-Identifier: Apache-2.0
// types.hpp: element types, reductions, collectives and ranks, as users name them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace [[gnu::visibility("default")]] hocket {

/// A member of a communicator, 0 .. size - 1.
using Rank = int;

/// Element types. 16-bit and 8-bit floating types are passed as their bits in typed calls: see Bfloat16, Half,
/// Float8E4M3, Float8E5M2. New ones are appended: values are stable.
enum class DataType : std::uint8_t {
  kFloat32,
  kFloat64,
  kBfloat16,
  kFloat16,
  kInt32,
  kInt64,
  kInt8,
  kUint8,
  kUint32,
  kUint64,
  kFloat8E4M3,
  kFloat8E5M2,
};
inline constexpr int kDataTypeCount = 12;

enum class ReduceOp : std::uint8_t {
  kSum,
  kProduct,
  kMin,
  kMax,
  kAverage,           ///< the sum divided by the world size; integers truncate toward zero
  kPremultipliedSum,  ///< each rank's scalar times its input, summed: made by Reduction::premultiplied()
  kUser,              ///< an operator of the caller's: made by Reduction::user()
};
inline constexpr int kReduceOpCount = 7;

enum class Collective : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduce,
  kBarrier,
  kSend,
  kReceive,
  kGather,          ///< the chunks of all ranks, one after the other, on the root
  kScatter,         ///< chunk r of the root's buffer on rank r
  kAllGatherV,      ///< all_gather with a count for each rank; all ranks know all counts
  kReduceScatterV,  ///< reduce_scatter likewise
  kAllToAllV,       ///< all_to_all with a count for each pair; a rank knows only its own row and column
  kExchange,        ///< sends and receives of a group, as one sparse pairwise exchange
};
inline constexpr int kCollectiveCount = 15;

/// Bytes of one element; 0 for a value that is no DataType.
constexpr std::size_t size_of(DataType type) noexcept {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kInt32:
    case DataType::kUint32: return 4;
    case DataType::kFloat64:
    case DataType::kInt64:
    case DataType::kUint64: return 8;
    case DataType::kBfloat16:
    case DataType::kFloat16: return 2;
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kFloat8E4M3:
    case DataType::kFloat8E5M2: return 1;
  }
  return 0;
}

/// "float32", "bfloat16" …, "sum" …, "all_reduce" …; "?" for a value out of range.
std::string_view to_string(DataType type) noexcept;
std::string_view to_string(ReduceOp op) noexcept;
std::string_view to_string(Collective collective) noexcept;

/// The bits of a bfloat16 or an IEEE half, so that spans of them can be told apart. Conversions round to nearest even.
struct Bfloat16 {
  std::uint16_t bits;
};
struct Half {
  std::uint16_t bits;
};
Bfloat16 to_bfloat16(float value) noexcept;
Half to_half(float value) noexcept;
float to_float(Bfloat16 value) noexcept;
float to_float(Half value) noexcept;

/// The bits of an 8-bit float of the Open Compute Project's OFP8 specification 1.0. E4M3: largest 448, no infinity, NaN
/// 0x7f and 0xff. E5M2: an IEEE half without its low byte; largest 57344, infinities and NaNs as there.
///
/// Conversions round to nearest even. A finite value beyond the largest becomes the largest of its sign: the
/// specification's saturating mode, which CUDA's types have and so NCCL's sums. An infinity stays one in E5M2, whose
/// users look for it to scale their loss (CUDA makes it 57344), and becomes 448 in E4M3, which has none. A NaN becomes
/// 0x7f, or 0x7e in E5M2.
struct Float8E4M3 {
  std::uint8_t bits;
};
struct Float8E5M2 {
  std::uint8_t bits;
};
Float8E4M3 to_float8_e4m3(float value) noexcept;
Float8E5M2 to_float8_e5m2(float value) noexcept;
float to_float(Float8E4M3 value) noexcept;
float to_float(Float8E5M2 value) noexcept;

/// The DataType of a C++ element type: float, double, the four above, and integers of 1, 4 and 8 bytes.
template <class T>
constexpr DataType data_type_of() noexcept {
  if constexpr (std::is_same_v<T, float>) {
    return DataType::kFloat32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DataType::kFloat64;
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return DataType::kBfloat16;
  } else if constexpr (std::is_same_v<T, Half>) {
    return DataType::kFloat16;
  } else if constexpr (std::is_same_v<T, Float8E4M3>) {
    return DataType::kFloat8E4M3;
  } else if constexpr (std::is_same_v<T, Float8E5M2>) {
    return DataType::kFloat8E5M2;
  } else {
    static_assert(
        std::is_integral_v<T> && !std::is_same_v<T, bool> && (sizeof(T) == 1 || sizeof(T) == 4 || sizeof(T) == 8),
        "hocket has no DataType for this element type");
    constexpr bool is_signed = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1) {
      return is_signed ? DataType::kInt8 : DataType::kUint8;
    } else if constexpr (sizeof(T) == 4) {
      return is_signed ? DataType::kInt32 : DataType::kUint32;
    } else {
      return is_signed ? DataType::kInt64 : DataType::kUint64;
    }
  }
}

}  // namespace gnu::visibility("default")]]hocket
