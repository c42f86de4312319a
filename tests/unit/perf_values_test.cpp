// SPDX-License-Identifier: Apache-2.0
// The data of hocket perf's check is exact in every type and operation, and every kind of wrong data is seen.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/float8.hpp"
#include "bench/perf/values.hpp"

namespace hocket::perf {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat64, DataType::kBfloat16,   DataType::kFloat16,
                               DataType::kInt32,   DataType::kInt64,   DataType::kInt8,       DataType::kUint8,
                               DataType::kUint32,  DataType::kUint64,  DataType::kFloat8E4M3, DataType::kFloat8E5M2};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin,
                             ReduceOp::kMax, ReduceOp::kAverage, ReduceOp::kPremultipliedSum};

double value_at(DataType type, const std::vector<std::byte>& data, std::size_t i) {
  const std::byte* at = data.data() + i * size_of(type);
  const auto as = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (type) {
    case DataType::kFloat32: return as(float{});
    case DataType::kFloat64: return as(double{});
    case DataType::kBfloat16: return bfloat16_to_float(as(std::uint16_t{}));
    case DataType::kFloat16: return half_to_float(as(std::uint16_t{}));
    case DataType::kInt32: return as(std::int32_t{});
    case DataType::kInt64: return static_cast<double>(as(std::int64_t{}));
    case DataType::kInt8: return as(std::int8_t{});
    case DataType::kUint8: return as(std::uint8_t{});
    case DataType::kUint32: return as(std::uint32_t{});
    case DataType::kUint64: return static_cast<double>(as(std::uint64_t{}));
    case DataType::kFloat8E4M3: return e4m3_to_float(as(std::uint8_t{}));
    case DataType::kFloat8E5M2: return e5m2_to_float(as(std::uint8_t{}));
  }
  return 0;
}

// As the type stores it.
double rounded(DataType type, double value) {
  switch (type) {
    case DataType::kBfloat16: return bfloat16_to_float(float_to_bfloat16(static_cast<float>(value)));
    case DataType::kFloat16: return half_to_float(float_to_half(static_cast<float>(value)));
    case DataType::kFloat32: return static_cast<float>(value);
    case DataType::kFloat8E4M3: return e4m3_to_float(float_to_e4m3(static_cast<float>(value)));
    case DataType::kFloat8E5M2: return e5m2_to_float(float_to_e5m2(static_cast<float>(value)));
    case DataType::kInt8: return static_cast<std::int8_t>(static_cast<std::int64_t>(value));
    case DataType::kUint8: return static_cast<std::uint8_t>(static_cast<std::int64_t>(value));
    default: return value;
  }
}

double combined(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kPremultipliedSum:
    case ReduceOp::kUser:
    case ReduceOp::kAverage: return a + b;
    case ReduceOp::kProduct: return a * b;
    case ReduceOp::kMin: return std::min(a, b);
    case ReduceOp::kMax: return std::max(a, b);
  }
  return 0;
}

std::vector<std::byte> filled(const Contents& contents, Rank rank, std::size_t first, std::size_t count) {
  std::vector<std::byte> data(count * size_of(contents.type));
  fill(contents, rank, first, count, data.data());
  return data;
}

TEST(PerfValues, ReducingInAnyOrderAndRoundingAfterEachStepGivesTheExpectedValueExactly) {
  constexpr std::size_t kCount = 500;
  for (const DataType type : kTypes) {
    for (const ReduceOp op : kOps) {
      for (const int ranks : {1, 2, 3, 4, 7, 8, 16, 64, 100, 129, 300}) {
        const Contents contents{type, true, op, ranks, 5};
        std::vector<double> up(kCount), down(kCount);
        for (int r = 0; r < ranks; ++r) {
          const auto a = filled(contents, r, 17, kCount), b = filled(contents, ranks - 1 - r, 17, kCount);
          for (std::size_t i = 0; i < kCount; ++i) {
            double va = value_at(type, a, i), vb = value_at(type, b, i);
            if (op == ReduceOp::kPremultipliedSum) va *= scalar_of(r), vb *= scalar_of(ranks - 1 - r);
            ASSERT_EQ(rounded(type, va), va);
            ASSERT_LT(std::abs(va), 1 << 21);
            up[i] = r == 0 ? va : rounded(type, combined(op, up[i], va));
            down[i] = r == 0 ? vb : rounded(type, combined(op, down[i], vb));
          }
        }
        std::vector<std::byte> result(kCount * size_of(type));
        for (std::size_t i = 0; i < kCount; ++i) {
          ASSERT_EQ(up[i], down[i]) << to_string(type) << " " << to_string(op) << " " << ranks;
          double value = up[i];
          if (op == ReduceOp::kAverage) {
            ASSERT_EQ(std::fmod(value, ranks), 0) << "an average is whole";
            value /= ranks;
          }
          std::byte* at = result.data() + i * size_of(type);
          const auto put = [at](auto v) { std::memcpy(at, &v, sizeof v); };
          switch (type) {
            case DataType::kFloat32: put(static_cast<float>(value)); break;
            case DataType::kFloat64: put(value); break;
            case DataType::kBfloat16: put(float_to_bfloat16(static_cast<float>(value))); break;
            case DataType::kFloat16: put(float_to_half(static_cast<float>(value))); break;
            case DataType::kInt32: put(static_cast<std::int32_t>(value)); break;
            case DataType::kInt64: put(static_cast<std::int64_t>(value)); break;
            case DataType::kInt8: put(static_cast<std::int8_t>(value)); break;
            case DataType::kUint8: put(static_cast<std::uint8_t>(value)); break;
            case DataType::kUint32: put(static_cast<std::uint32_t>(value)); break;
            case DataType::kUint64: put(static_cast<std::uint64_t>(value)); break;
            case DataType::kFloat8E4M3: put(float_to_e4m3(static_cast<float>(value))); break;
            case DataType::kFloat8E5M2: put(float_to_e5m2(static_cast<float>(value))); break;
          }
        }
        EXPECT_EQ(count_wrong(contents, kAllRanks, 17, kCount, result.data()), 0u)
            << to_string(type) << " " << to_string(op) << " " << ranks;
      }
    }
  }
}

TEST(PerfValues, DataOfAnotherRoundRankOrPlaceIsWrong) {
  constexpr std::size_t kCount = 1000;
  for (const DataType type : kTypes) {
    const Contents contents{type, false, ReduceOp::kSum, 4, 1};
    const auto data = filled(contents, 2, 0, kCount);
    EXPECT_EQ(count_wrong(contents, 2, 0, kCount, data.data()), 0u);
    // Random bytes are equal now and then.
    const std::size_t most = size_of(type) == 1 ? kCount - 20 : kCount - 5;
    EXPECT_GT(count_wrong(contents, 1, 0, kCount, data.data()), most);
    EXPECT_GT(count_wrong(contents, 2, 1, kCount, data.data()), most);
    Contents next = contents;
    next.round = 2;
    EXPECT_GT(count_wrong(next, 2, 0, kCount, data.data()), most);
  }
}

TEST(PerfValues, ResultsOfAnotherRoundOrPlaceAreMostlyWrong) {
  constexpr std::size_t kCount = 1000;
  for (const DataType type : kTypes) {
    for (const ReduceOp op : kOps) {
      const Contents contents{type, true, op, 4, 1};
      // A world of one: its input is the reduction.
      const Contents alone{type, true, op, 1, 1};
      if (op != ReduceOp::kProduct && op != ReduceOp::kPremultipliedSum) {
        Contents next = alone;
        next.round = 2;
        const auto data = filled(alone, 0, 0, kCount);
        EXPECT_EQ(count_wrong(alone, kAllRanks, 0, kCount, data.data()), 0u);
        EXPECT_GT(count_wrong(next, kAllRanks, 0, kCount, data.data()), kCount / 2) << to_string(type) << to_string(op);
      }
      // A rank's own input is not the result.
      const auto own = filled(contents, 1, 0, kCount);
      EXPECT_GT(count_wrong(contents, kAllRanks, 0, kCount, own.data()), kCount / 10)
          << to_string(type) << to_string(op);
    }
  }
}

TEST(PerfValues, ARankThatIsLeftOutOrCountedTwiceShows) {
  constexpr std::size_t kCount = 1000;
  for (const int ranks : {2, 3, 8, 64}) {
    const Contents contents{DataType::kInt32, true, ReduceOp::kSum, ranks, 9};
    std::vector<std::int32_t> sum(kCount);
    for (int r = 0; r < ranks; ++r) {
      const auto data = filled(contents, r == 1 ? 0 : r, 0, kCount);  // rank 0 twice in place of rank 1
      for (std::size_t i = 0; i < kCount; ++i) sum[i] += static_cast<std::int32_t>(value_at(DataType::kInt32, data, i));
    }
    EXPECT_GT(count_wrong(contents, kAllRanks, 0, kCount, sum.data()), kCount / 100) << ranks;
  }
}

TEST(PerfValues, PoisonIsNoResultOfAnything) {
  constexpr std::size_t kCount = 1000;
  for (const DataType type : kTypes) {
    std::vector<std::byte> data(kCount * size_of(type));
    poison(data.data(), data.size());
    for (const ReduceOp op : kOps) {
      EXPECT_EQ(count_wrong({type, true, op, 4, 1}, kAllRanks, 0, kCount, data.data()), kCount);
    }
    EXPECT_GE(count_wrong({type, false, ReduceOp::kSum, 4, 1}, 0, 0, kCount, data.data()),
              size_of(type) == 1 ? kCount - 20 : kCount - 1);
  }
}

TEST(PerfValues, OneChangedElementIsOneWrongElement) {
  const Contents contents{DataType::kBfloat16, false, ReduceOp::kSum, 2, 1};
  auto data = filled(contents, 0, 0, 100);
  data[101] ^= std::byte{1};
  EXPECT_EQ(count_wrong(contents, 0, 0, 100, data.data()), 1u);
}

}  // namespace
}  // namespace hocket::perf
