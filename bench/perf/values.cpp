// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/values.hpp"

#include <algorithm>
#include <cstring>

#include "exec/reduce_scalar.hpp"

namespace hocket::perf {
namespace {

template <DataType type>
using StoredType = typename hocket::Element<type>::Stored;

template <DataType type>
StoredType<type> stored(std::int32_t value) {
  return hocket::Element<type>::store(static_cast<typename hocket::Element<type>::Accumulator>(value));
}

constexpr bool is_unsigned(DataType type) {
  return type == DataType::kUint8 || type == DataType::kUint32 || type == DataType::kUint64;
}

// Up to here all integers are exact, with room to spare in the larger types.
constexpr std::int32_t largest_exact(DataType type) {
  switch (type) {
    case DataType::kBfloat16: return 256;
    case DataType::kFloat16: return 2048;
    case DataType::kFloat8E4M3: return 16;
    case DataType::kFloat8E5M2: return 8;
    case DataType::kInt8: return 127;
    case DataType::kUint8: return 126;  // below poison()
    default: return 1 << 20;
  }
}

// Powers of two up to this one are exact, its negative too where there is one.
constexpr std::int32_t most_factors(DataType type) {
  switch (type) {
    case DataType::kInt8: return 6;
    case DataType::kUint8: return 7;
    case DataType::kFloat8E4M3: return 8;
    default: return 10;
  }
}

constexpr std::int32_t kMostScalar = 2;  // scalar_of

// splitmix64: Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// One element of all ranks, from which that of each and their reduction follow.
//
// The ranks are turned by c, so that position (r + c) mod n of a rank differs from element to element. In a sum, ranks
// at positions below k have a + b and the others a: together n * a + k * b, however they are turned.
struct Parameters {
  std::int32_t ranks;
  std::int32_t most_a, most_b, most_k;
  std::int32_t least = 0, most_above = 0;  ///< min and max: values are least + a + 0 to most_above
  bool is_unsigned = false;
};

template <ReduceOp op>
class Element {
 public:
  static Parameters parameters(DataType type, int ranks) {
    const std::int32_t half = largest_exact(type) / (op == ReduceOp::kPremultipliedSum ? 2 * kMostScalar : 2);
    const std::int32_t share = half / ranks;  // n * a and k * b have one half each
    Parameters p{ranks, 0, 1, 0};
    p.is_unsigned = is_unsigned(type);
    if constexpr (op == ReduceOp::kSum || op == ReduceOp::kPremultipliedSum) {
      p.most_a = share;
      p.most_b = std::max(share, 1);
      p.most_k = std::min(ranks, half / p.most_b);
    } else if constexpr (op == ReduceOp::kAverage) {
      // b = n, so that the sum is a multiple of n. For very many ranks there is no room for that: see value().
      p.most_a = share;
      p.most_k = std::min(ranks, share);
    } else if constexpr (op == ReduceOp::kProduct) {
      p.most_k = std::min(ranks, most_factors(type));
    } else {
      p.most_above = std::min(64, largest_exact(type) / 2);
      p.least = p.is_unsigned ? 0 : -p.most_above;
      p.most_a = p.is_unsigned ? p.most_above : 2 * p.most_above - 1;
    }
    return p;
  }

  Element(const Parameters& p, std::uint64_t hash) : p_(p) {
    // Fields of the hash, scaled to their ranges without a division.
    const auto below = [](std::uint64_t bits, std::int32_t n) {
      return static_cast<std::int32_t>(((bits & 0xffff) * static_cast<std::uint64_t>(n)) >> 16);
    };
    a_ = below(hash, p.most_a + 1);
    b_ = 1 + below((hash >> 12) & 0xfff0, p.most_b);
    k_ = below(hash >> 32, p.most_k + 1);
    turn_ = below(hash >> 48, p.ranks);
    negative_ = ((hash >> 28) & 1) != 0 && !p.is_unsigned;
    if constexpr (op == ReduceOp::kAverage) b_ = p.ranks;
    if (negative_) b_ = -b_;
  }

  std::int32_t value(Rank rank) const {
    const std::int32_t turned = rank + turn_;
    const std::int32_t position = turned >= p_.ranks ? turned - p_.ranks : turned;
    if constexpr (op == ReduceOp::kProduct) {
      const std::int32_t factor = position < k_ ? 2 : 1;
      return negative_ && position == p_.ranks - 1 ? -factor : factor;
    } else if constexpr (op == ReduceOp::kMin || op == ReduceOp::kMax) {
      return p_.least + a_ + std::min(position, p_.most_above);
    } else {
      if constexpr (op == ReduceOp::kAverage) {
        // More ranks than half of the exact integers: one +1, one -1 (which wraps if it must), else 0.
        if (p_.most_a == 0 && p_.ranks > 1) return position == 0 ? sign() : position == 1 ? -sign() : 0;
      }
      return a_ + (position < k_ ? b_ : 0);
    }
  }

  std::int32_t reduction() const {
    if constexpr (op == ReduceOp::kSum) return p_.ranks * a_ + k_ * b_;
    if constexpr (op == ReduceOp::kPremultipliedSum) {
      // The ranks at positions below k are k neighbours, from the one at position 0 on and around.
      const std::int32_t first = turn_ == 0 ? 0 : p_.ranks - turn_, end = first + k_;
      const std::int32_t even = end <= p_.ranks ? even_below(end) - even_below(first)
                                                : even_below(p_.ranks) - even_below(first) + even_below(end - p_.ranks);
      return (p_.ranks + even_below(p_.ranks)) * a_ + (k_ + even) * b_;  // even ranks count twice: scalar_of
    }
    if constexpr (op == ReduceOp::kAverage) {
      if (p_.most_a == 0 && p_.ranks > 1) return 0;
      return a_ + k_ * sign();
    }
    if constexpr (op == ReduceOp::kProduct) return sign() * (1 << k_);
    if constexpr (op == ReduceOp::kMin) return p_.least + a_;
    return p_.least + a_ + std::min(p_.ranks - 1, p_.most_above);
  }

 private:
  static std::int32_t even_below(std::int32_t n) { return (n + 1) / 2; }
  std::int32_t sign() const { return negative_ ? -1 : 1; }

  const Parameters& p_;
  std::int32_t a_, b_, k_, turn_;
  bool negative_;
};

std::uint64_t seed_of(const Contents& contents, Rank rank) {
  // Ranks share the hash of an element where it is reduced.
  const auto of_rank = static_cast<std::uint64_t>(contents.reduced ? 0 : rank + 1);
  return mixed((of_rank << 32) + contents.round);
}

// Calls `visit(index, expected element)` for each.
template <DataType type, ReduceOp op, class Visit>
void for_each_reduced(const Contents& contents, Rank from, std::size_t first, std::size_t count, const Visit& visit) {
  const Parameters parameters = Element<op>::parameters(type, contents.ranks);
  const std::uint64_t seed = seed_of(contents, from);
  for (std::size_t i = 0; i < count; ++i) {
    const Element<op> element(parameters, mixed(seed + first + i));
    visit(i, stored<type>(from == kAllRanks ? element.reduction() : element.value(from)));
  }
}

template <DataType type, class Visit>
void for_each(const Contents& contents, Rank from, std::size_t first, std::size_t count, const Visit& visit) {
  if (contents.reduced) {
    switch (contents.op) {
      case ReduceOp::kSum: return for_each_reduced<type, ReduceOp::kSum>(contents, from, first, count, visit);
      case ReduceOp::kProduct: return for_each_reduced<type, ReduceOp::kProduct>(contents, from, first, count, visit);
      case ReduceOp::kMin: return for_each_reduced<type, ReduceOp::kMin>(contents, from, first, count, visit);
      case ReduceOp::kMax: return for_each_reduced<type, ReduceOp::kMax>(contents, from, first, count, visit);
      case ReduceOp::kAverage: return for_each_reduced<type, ReduceOp::kAverage>(contents, from, first, count, visit);
      case ReduceOp::kPremultipliedSum:
        return for_each_reduced<type, ReduceOp::kPremultipliedSum>(contents, from, first, count, visit);
      case ReduceOp::kUser: break;  // not measured
    }
    return;
  }
  using T = StoredType<type>;
  const std::uint64_t seed = seed_of(contents, from);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = mixed(seed + first + i);
    T value;
    std::memcpy(&value, &bits, sizeof value);
    visit(i, value);
  }
}

template <DataType type>
void fill_as(const Contents& contents, Rank rank, std::size_t first, std::size_t count, void* data) {
  // By memcpy: buffers may be unaligned.
  auto* bytes = static_cast<std::byte*>(data);
  for_each<type>(contents, rank, first, count,
                 [bytes](std::size_t i, auto value) { std::memcpy(bytes + i * sizeof value, &value, sizeof value); });
}

template <DataType type>
std::size_t count_wrong_as(const Contents& contents, Rank from, std::size_t first, std::size_t count,
                           const void* data) {
  const auto* bytes = static_cast<const std::byte*>(data);
  std::size_t wrong = 0;
  // Bits and not values: a NaN of the copied bits equals itself.
  for_each<type>(contents, from, first, count, [bytes, &wrong](std::size_t i, auto value) {
    wrong += std::memcmp(bytes + i * sizeof value, &value, sizeof value) != 0;
  });
  return wrong;
}

}  // namespace

double scalar_of(Rank rank) {
  return rank % 2 == 0 ? kMostScalar : 1;
}

void fill(const Contents& contents, Rank rank, std::size_t first, std::size_t count, void* data) {
  switch (contents.type) {
    case DataType::kFloat32: return fill_as<DataType::kFloat32>(contents, rank, first, count, data);
    case DataType::kFloat64: return fill_as<DataType::kFloat64>(contents, rank, first, count, data);
    case DataType::kBfloat16: return fill_as<DataType::kBfloat16>(contents, rank, first, count, data);
    case DataType::kFloat16: return fill_as<DataType::kFloat16>(contents, rank, first, count, data);
    case DataType::kInt32: return fill_as<DataType::kInt32>(contents, rank, first, count, data);
    case DataType::kInt64: return fill_as<DataType::kInt64>(contents, rank, first, count, data);
    case DataType::kInt8: return fill_as<DataType::kInt8>(contents, rank, first, count, data);
    case DataType::kUint8: return fill_as<DataType::kUint8>(contents, rank, first, count, data);
    case DataType::kUint32: return fill_as<DataType::kUint32>(contents, rank, first, count, data);
    case DataType::kUint64: return fill_as<DataType::kUint64>(contents, rank, first, count, data);
    case DataType::kFloat8E4M3: return fill_as<DataType::kFloat8E4M3>(contents, rank, first, count, data);
    case DataType::kFloat8E5M2: return fill_as<DataType::kFloat8E5M2>(contents, rank, first, count, data);
  }
}

std::size_t count_wrong(const Contents& contents, Rank from, std::size_t first, std::size_t count, const void* data) {
  switch (contents.type) {
    case DataType::kFloat32: return count_wrong_as<DataType::kFloat32>(contents, from, first, count, data);
    case DataType::kFloat64: return count_wrong_as<DataType::kFloat64>(contents, from, first, count, data);
    case DataType::kBfloat16: return count_wrong_as<DataType::kBfloat16>(contents, from, first, count, data);
    case DataType::kFloat16: return count_wrong_as<DataType::kFloat16>(contents, from, first, count, data);
    case DataType::kInt32: return count_wrong_as<DataType::kInt32>(contents, from, first, count, data);
    case DataType::kInt64: return count_wrong_as<DataType::kInt64>(contents, from, first, count, data);
    case DataType::kInt8: return count_wrong_as<DataType::kInt8>(contents, from, first, count, data);
    case DataType::kUint8: return count_wrong_as<DataType::kUint8>(contents, from, first, count, data);
    case DataType::kUint32: return count_wrong_as<DataType::kUint32>(contents, from, first, count, data);
    case DataType::kUint64: return count_wrong_as<DataType::kUint64>(contents, from, first, count, data);
    case DataType::kFloat8E4M3: return count_wrong_as<DataType::kFloat8E4M3>(contents, from, first, count, data);
    case DataType::kFloat8E5M2: return count_wrong_as<DataType::kFloat8E5M2>(contents, from, first, count, data);
  }
  return count;
}

void poison(void* data, std::size_t bytes) {
  // A huge value or a NaN in every type.
  if (bytes > 0) std::memset(data, 0x7f, bytes);
}

}  // namespace hocket::perf
