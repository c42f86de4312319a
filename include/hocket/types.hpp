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

/// Element types. 16-bit floating types are passed as their bits (std::uint16_t storage) in typed calls: see Bfloat16,
/// Half.
enum class DataType : std::uint8_t { kFloat32, kFloat64, kBfloat16, kFloat16, kInt32, kInt64 };
inline constexpr int kDataTypeCount = 6;

enum class ReduceOp : std::uint8_t {
  kSum,
  kProduct,
  kMin,
  kMax,
  kAverage,  ///< the sum divided by the world size; integers truncate toward zero
};
inline constexpr int kReduceOpCount = 5;

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
    case DataType::kInt32: return 4;
    case DataType::kFloat64:
    case DataType::kInt64: return 8;
    case DataType::kBfloat16:
    case DataType::kFloat16: return 2;
  }
  return 0;
}

/// "float32", "bfloat16" …, "sum" …, "all_reduce" …; "?" for a value out of range.
std::string_view to_string(DataType type) noexcept;
std::string_view to_string(ReduceOp op) noexcept;
std::string_view to_string(Collective collective) noexcept;

/// The bits of a bfloat16 or an IEEE half, so that spans of them can be told apart. Conversion round to nearest even.
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

/// The DataType of a C++ element type; only the six types below have one.
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
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return DataType::kInt32;
  } else {
    static_assert(std::is_same_v<T, std::int64_t> || (std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 8),
                  "hocket has no DataType for this element type");
    return DataType::kInt64;
  }
}

}  // namespace gnu::visibility("default")]]hocket
