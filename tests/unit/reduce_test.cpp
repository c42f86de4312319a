// SPDX-License-Identifier: Apache-2.0
// reduce_test.cpp: every kernel of every target that this CPU runs gives the bits of exec/reduce_scalar.hpp; and those
// are what they should be, by arithmetic of another kind.

#include "exec/reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "exec/copy.hpp"
#include "exec/reduce_scalar.hpp"

namespace hocket {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat64, DataType::kBfloat16,   DataType::kFloat16,
                               DataType::kInt32,   DataType::kInt64,   DataType::kInt8,       DataType::kUint8,
                               DataType::kUint32,  DataType::kUint64,  DataType::kFloat8E4M3, DataType::kFloat8E5M2};
static_assert(std::size(kTypes) == kDataTypeCount);
// A premultiplied sum adds as a sum does; a user's operator has no kernel.
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAverage};
constexpr const char* kTargets[] = {"baseline", "avx2", "avx512"};
constexpr int kMaxSources = 17;
constexpr std::size_t kGuard = 64;
constexpr std::byte kGuardByte{0xa5};

using Bytes = std::vector<std::byte>;
using Reference = void (*)(const std::vector<const std::byte*>& sources, std::byte* out, std::size_t count, bool finish,
                           int n);

template <DataType type, ReduceOp op>
void reference(const std::vector<const std::byte*>& sources, std::byte* out, std::size_t count, bool finish, int n) {
  using Stored = typename Element<type>::Stored;
  std::vector<Stored> values(sources.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t s = 0; s < sources.size(); ++s)
      std::memcpy(&values[s], sources[s] + i * sizeof(Stored), sizeof(Stored));
    const Stored result = reduce_element<type, op>(values.data(), static_cast<int>(values.size()), finish, n);
    std::memcpy(out + i * sizeof(Stored), &result, sizeof result);
  }
}

template <DataType type>
Reference reference_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return reference<type, ReduceOp::kSum>;
    case ReduceOp::kProduct: return reference<type, ReduceOp::kProduct>;
    case ReduceOp::kMin: return reference<type, ReduceOp::kMin>;
    case ReduceOp::kMax: return reference<type, ReduceOp::kMax>;
    case ReduceOp::kAverage: return reference<type, ReduceOp::kAverage>;
    case ReduceOp::kPremultipliedSum: return reference<type, ReduceOp::kPremultipliedSum>;
    case ReduceOp::kUser: break;
  }
  return nullptr;
}

Reference reference_of(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::kFloat32: return reference_of<DataType::kFloat32>(op);
    case DataType::kFloat64: return reference_of<DataType::kFloat64>(op);
    case DataType::kBfloat16: return reference_of<DataType::kBfloat16>(op);
    case DataType::kFloat16: return reference_of<DataType::kFloat16>(op);
    case DataType::kInt32: return reference_of<DataType::kInt32>(op);
    case DataType::kInt64: return reference_of<DataType::kInt64>(op);
    case DataType::kInt8: return reference_of<DataType::kInt8>(op);
    case DataType::kUint8: return reference_of<DataType::kUint8>(op);
    case DataType::kUint32: return reference_of<DataType::kUint32>(op);
    case DataType::kUint64: return reference_of<DataType::kUint64>(op);
    case DataType::kFloat8E4M3: return reference_of<DataType::kFloat8E4M3>(op);
    case DataType::kFloat8E5M2: return reference_of<DataType::kFloat8E5M2>(op);
  }
  return nullptr;
}

// Bits of an element: half of them anything at all (so NaN, infinity, denormals, overflow), the others near 1, or
// special.
std::uint64_t random_element(DataType type, std::mt19937_64& random) {
  const std::uint64_t bits = random();
  const int kind = static_cast<int>(random() % 16);
  if (kind < 4) return bits;
  const float value = static_cast<float>(static_cast<std::int64_t>(bits % 4001) - 2000) / 512.0f;
  switch (type) {
    case DataType::kFloat32:
      if (kind == 4) return bits & 0x80000000u;
      if (kind == 5) return bits & 0x807fffffu;
      return std::bit_cast<std::uint32_t>(value + static_cast<float>(bits >> 40) * 0x1p-24f);
    case DataType::kFloat64:
      if (kind == 4) return bits & (1ull << 63);
      if (kind == 5) return bits & 0x800fffffffffffffull;
      return std::bit_cast<std::uint64_t>(value + static_cast<double>(bits >> 12) * 0x1p-52);
    case DataType::kBfloat16:
      if (kind == 4) return bits & 0x8000u;
      if (kind == 5) return bits & 0x807fu;
      return float_to_bfloat16(value);
    case DataType::kFloat16:
      if (kind == 4) return bits & 0x8000u;
      if (kind == 5) return bits & 0x83ffu;
      return float_to_half(value);
    case DataType::kFloat8E4M3:
      if (kind == 4) return bits & 0x80u;
      if (kind == 5) return bits & 0x87u;
      return float_to_e4m3(value);
    case DataType::kFloat8E5M2:
      if (kind == 4) return bits & 0x80u;
      if (kind == 5) return bits & 0x83u;
      return float_to_e5m2(value);
    case DataType::kInt8: return kind == 4 ? 0x80u : kind < 8 ? bits % 21 - 10 : bits;
    case DataType::kUint8: return kind == 4 ? 0x80u : kind < 8 ? bits % 11 : bits;
    case DataType::kInt32: return kind == 4 ? 0x80000000u : bits % 2001 - 1000;
    case DataType::kUint32: return kind == 4 ? 0x80000000u : kind == 5 ? ~0u - bits % 100 : bits % 2001;
    case DataType::kInt64: return kind == 4 ? 1ull << 63 : bits % 2001 - 1000;
    case DataType::kUint64: return kind == 4 ? 1ull << 63 : kind == 5 ? ~0ull - bits % 100 : bits % 2001;
  }
  return 0;
}

Bytes random_elements(DataType type, std::size_t count, std::mt19937_64& random) {
  Bytes bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random_element(type, random);
    std::memcpy(bytes.data() + i * size_of(type), &bits, size_of(type));
  }
  return bytes;
}

// A buffer at any byte offset with guards around.
class Guarded {
 public:
  Guarded(std::size_t bytes, std::size_t offset) : bytes_(bytes), offset_(kGuard + offset) {
    memory_.assign(bytes + offset_ + kGuard + 64, kGuardByte);
    offset_ += (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64) % 64;
  }
  std::byte* data() { return memory_.data() + offset_; }
  bool guards_hold() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if ((i < offset_ || i >= offset_ + bytes_) && memory_[i] != kGuardByte) return false;
    }
    return true;
  }

 private:
  std::vector<std::byte> memory_;
  std::size_t bytes_;
  std::size_t offset_;
};

struct Case {
  DataType type;
  ReduceOp op;
  int sources;
  std::size_t count;
  int destinations;
  bool finish;
  int world_size;
  bool stream;
  std::uint32_t slots;
};

// Runs one case at random offsets, with or without a destination that is a source; true if all is well.
testing::AssertionResult run_case(const Case& c, const std::vector<Bytes>& inputs, const Bytes& expected,
                                  std::mt19937_64& random) {
  const std::size_t bytes = c.count * size_of(c.type);
  std::vector<Guarded> sources, destinations;
  std::vector<const void*> source_pointers;
  std::vector<void*> destination_pointers;
  std::vector<std::size_t> offsets;
  for (int s = 0; s < c.sources; ++s) {
    offsets.push_back(random() % 16);
    sources.emplace_back(bytes, offsets.back());
    if (bytes != 0) std::memcpy(sources.back().data(), inputs[static_cast<std::size_t>(s)].data(), bytes);
    source_pointers.push_back(sources.back().data());
  }
  const bool aligned = random() % 4 == 0;  // to each other: then all of them can be streamed
  const std::size_t first_offset = random() % 64;
  for (int d = 0; d < c.destinations; ++d) {
    offsets.push_back(aligned ? first_offset : random() % 64);
    destinations.emplace_back(bytes, offsets.back());
    destination_pointers.push_back(destinations.back().data());
  }
  int alias = -1;
  if (random() % 2 == 0) {
    alias = static_cast<int>(random() % static_cast<unsigned>(c.sources));
    destination_pointers[random() % destination_pointers.size()] = sources[static_cast<std::size_t>(alias)].data();
  }
  ReduceArgs args{
      source_pointers.data(), c.sources, destination_pointers.data(), c.destinations, c.count, c.finish, c.world_size};
  args.stream = c.stream;
  args.slot_destinations = c.slots;
  reduce_function(c.type, c.op)(args);

  auto failed = [&](const std::string& what) {
    std::string text = std::string(reduce_target()) + " " + std::string(to_string(c.type)) + " " +
                       std::string(to_string(c.op)) + ": " + what + "; sources " + std::to_string(c.sources) +
                       ", count " + std::to_string(c.count) + ", destinations " + std::to_string(c.destinations) +
                       ", finish " + std::to_string(c.finish) + ", world " + std::to_string(c.world_size) +
                       ", stream " + std::to_string(c.stream) + ", slots " + std::to_string(c.slots) + ", alias " +
                       std::to_string(alias) + ", offsets";
    for (std::size_t offset : offsets) text += " " + std::to_string(offset);
    return testing::AssertionFailure() << text;
  };
  for (void* destination : destination_pointers) {
    if (bytes == 0 || std::memcmp(destination, expected.data(), bytes) == 0) continue;
    std::size_t i = 0;
    const std::size_t size = size_of(c.type);
    while (std::memcmp(static_cast<std::byte*>(destination) + i * size, expected.data() + i * size, size) == 0) ++i;
    std::uint64_t got = 0, want = 0;
    std::memcpy(&got, static_cast<std::byte*>(destination) + i * size, size);
    std::memcpy(&want, expected.data() + i * size, size);
    char text[96];
    std::snprintf(text, sizeof text, "element %zu is %llx instead of %llx", i, static_cast<unsigned long long>(got),
                  static_cast<unsigned long long>(want));
    return failed(text);
  }
  for (int s = 0; s < c.sources; ++s) {
    Guarded& source = sources[static_cast<std::size_t>(s)];
    if (!source.guards_hold()) return failed("wrote around source " + std::to_string(s));
    if (s != alias && bytes != 0 &&
        std::memcmp(source.data(), inputs[static_cast<std::size_t>(s)].data(), bytes) != 0) {
      return failed("wrote source " + std::to_string(s));
    }
  }
  for (const Guarded& destination : destinations) {
    if (!destination.guards_hold()) return failed("wrote around a destination");
  }
  return testing::AssertionSuccess();
}

class ReduceTarget : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!set_reduce_target_for_test(GetParam())) GTEST_SKIP() << "this CPU does not run " << GetParam();
    ASSERT_EQ(reduce_target(), GetParam());
  }
  void TearDown() override { ASSERT_TRUE(set_reduce_target_for_test("")); }

  // All types and operations over the given shapes.
  void compare(const std::vector<int>& source_counts, const std::vector<std::size_t>& counts, int tries) {
    std::mt19937_64 random(2026);
    const std::size_t most = *std::max_element(counts.begin(), counts.end());
    for (DataType type : kTypes) {
      std::vector<Bytes> inputs;
      std::vector<const std::byte*> pointers;
      for (int s = 0; s < source_counts.back(); ++s) inputs.push_back(random_elements(type, most, random));
      for (ReduceOp op : kOps) {
        for (int sources : source_counts) {
          for (int world_size : {0, 8, 7, 300}) {  // 0: not the last Move; 300 is more than 8 bits hold
            if (world_size == 300 && size_of(type) != 1) continue;
            const bool finish = world_size != 0;
            if (op != ReduceOp::kAverage && finish) continue;
            Bytes expected(most * size_of(type));
            pointers.clear();
            for (int s = 0; s < sources; ++s) pointers.push_back(inputs[static_cast<std::size_t>(s)].data());
            reference_of(type, op)(pointers, expected.data(), most, finish, world_size);
            for (std::size_t count : counts) {
              for (int destinations = 1; destinations <= 3; ++destinations) {
                for (int k = 0; k < tries; ++k) {
                  Case c{type, op, sources, count, destinations, finish, world_size, random() % 2 == 0, 0};
                  if (random() % 2 == 0) c.slots = static_cast<std::uint32_t>(random() % (1u << destinations));
                  ASSERT_TRUE(run_case(c, inputs, expected, random));
                }
              }
            }
          }
        }
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(All, ReduceTarget, testing::ValuesIn(kTargets),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ReduceTarget, GivesTheBitsOfTheDefinitionForEverySmallCount) {
  std::vector<std::size_t> counts;
  for (std::size_t count = 0; count <= 70; ++count) counts.push_back(count);
  compare({1, 2, 3, 4, 5, 6, 7, 8, 9, kMaxSources}, counts, 1);
}

TEST_P(ReduceTarget, GivesTheBitsOfTheDefinitionAtEveryPairOfOffsetsOfTwoSources) {
  compare({2}, {1, 3, 4, 15, 16, 17, 31, 33, 63, 65, 70, 127, 129}, 40);
}

TEST_P(ReduceTarget, GivesTheBitsOfTheDefinitionForLargeOddCounts) {
  compare({1, 2, 3, kMaxSources}, {1023, 4097, 12289}, 2);
}

// Every 16-bit value through load and store, alone in a vector and in its lane: sum of one source.
TEST_P(ReduceTarget, ConvertsAll65536ValuesOfEach16BitType) {
  for (DataType type : {DataType::kBfloat16, DataType::kFloat16}) {
    std::vector<std::uint16_t> in(65536), out(65536), expected(65536);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint16_t>(i);
    const void* source = in.data();
    void* destination = out.data();
    reference_of(type, ReduceOp::kSum)({reinterpret_cast<const std::byte*>(in.data())},
                                       reinterpret_cast<std::byte*>(expected.data()), in.size(), false, 1);
    reduce_function(type, ReduceOp::kSum)({&source, 1, &destination, 1, in.size(), false, 1});
    EXPECT_EQ(out, expected) << to_string(type);
    for (std::size_t i = 0; i < in.size(); ++i) {
      source = &in[i];
      destination = &out[i];
      out[i] = 0x1234;
      reduce_function(type, ReduceOp::kSum)({&source, 1, &destination, 1, 1, false, 1});
    }
    EXPECT_EQ(out, expected) << to_string(type);
  }
}

TEST_P(ReduceTarget, ConvertsAll256ValuesOfEach8BitFloat) {
  for (DataType type : {DataType::kFloat8E4M3, DataType::kFloat8E5M2}) {
    std::vector<std::uint8_t> in(256), out(256), expected(256);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint8_t>(i);
    const void* source = in.data();
    void* destination = out.data();
    reference_of(type, ReduceOp::kSum)({reinterpret_cast<const std::byte*>(in.data())},
                                       reinterpret_cast<std::byte*>(expected.data()), in.size(), false, 1);
    reduce_function(type, ReduceOp::kSum)({&source, 1, &destination, 1, in.size(), false, 1});
    EXPECT_EQ(out, expected) << to_string(type);
    for (std::size_t i = 0; i < in.size(); ++i) {
      source = &in[i];
      destination = &out[i];
      out[i] = 0x12;
      reduce_function(type, ReduceOp::kSum)({&source, 1, &destination, 1, 1, false, 1});
    }
    EXPECT_EQ(out, expected) << to_string(type);
  }
}

// Every pair of 8-bit floats by every operation: rounding, saturation and special values in the vector code.
TEST_P(ReduceTarget, EveryPairOf8BitFloatsGivesTheBitsOfTheDefinition) {
  for (DataType type : {DataType::kFloat8E4M3, DataType::kFloat8E5M2}) {
    std::vector<std::uint8_t> a(65536), b(65536), out(65536), expected(65536);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<std::uint8_t>(i);
      b[i] = static_cast<std::uint8_t>(i >> 8);
    }
    const void* sources[] = {a.data(), b.data()};
    void* destination = out.data();
    for (ReduceOp op : kOps) {
      reference_of(type, op)(
          {reinterpret_cast<const std::byte*>(a.data()), reinterpret_cast<const std::byte*>(b.data())},
          reinterpret_cast<std::byte*>(expected.data()), out.size(), true, 3);
      reduce_function(type, op)({sources, 2, &destination, 1, out.size(), true, 3});
      EXPECT_EQ(out, expected) << to_string(type) << " " << to_string(op);
    }
  }
}

template <DataType type>
void expect_scaled(std::mt19937_64& random) {
  using Stored = typename Element<type>::Stored;
  using Accumulator = typename Element<type>::Accumulator;
  const ScaleFunction scale = scale_function(type);
  for (std::size_t count : {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100, 1000}) {
    const Bytes in = random_elements(type, count, random);
    for (const double factor : {0.0, 1.0, 3.0, -2.0, 0.3, 1e30}) {
      const bool whole = std::nearbyint(factor) == factor && factor >= 0 && factor < 100;
      if (std::is_integral_v<Accumulator> && !whole) continue;
      const auto exact = static_cast<Accumulator>(factor);
      std::uint64_t bits = 0;
      std::memcpy(&bits, &exact, sizeof exact);
      Guarded from(in.size(), random() % 16), to(in.size(), random() % 16);
      if (count != 0) std::memcpy(from.data(), in.data(), in.size());
      Bytes expected(in.size());
      for (std::size_t i = 0; i < count; ++i) {
        Stored value;
        std::memcpy(&value, in.data() + i * sizeof value, sizeof value);
        value = scale_element<type>(value, exact);
        std::memcpy(expected.data() + i * sizeof value, &value, sizeof value);
      }
      scale(from.data(), to.data(), count, bits);
      EXPECT_TRUE(count == 0 || std::memcmp(to.data(), expected.data(), in.size()) == 0)
          << to_string(type) << " " << factor << " count " << count;
      scale(from.data(), from.data(), count, bits);  // in place
      EXPECT_TRUE(count == 0 || std::memcmp(from.data(), expected.data(), in.size()) == 0)
          << to_string(type) << " " << factor << " count " << count;
      EXPECT_TRUE(from.guards_hold() && to.guards_hold());
    }
  }
}

TEST_P(ReduceTarget, ScalesToTheBitsOfTheDefinition) {
  std::mt19937_64 random(5);
  expect_scaled<DataType::kFloat32>(random);
  expect_scaled<DataType::kFloat64>(random);
  expect_scaled<DataType::kBfloat16>(random);
  expect_scaled<DataType::kFloat16>(random);
  expect_scaled<DataType::kInt32>(random);
  expect_scaled<DataType::kInt64>(random);
  expect_scaled<DataType::kInt8>(random);
  expect_scaled<DataType::kUint8>(random);
  expect_scaled<DataType::kUint32>(random);
  expect_scaled<DataType::kUint64>(random);
  expect_scaled<DataType::kFloat8E4M3>(random);
  expect_scaled<DataType::kFloat8E5M2>(random);
}

// What reproducible results rest on: an element's bits depend on its sources and nothing else.
TEST_P(ReduceTarget, AnElementIsTheSameWhateverItsLengthOffsetAlignmentAndTile) {
  std::mt19937_64 random(17);
  constexpr std::size_t kCount = 331;
  for (DataType type : kTypes) {
    const std::size_t size = size_of(type);
    std::vector<Bytes> inputs;
    for (int s = 0; s < 9; ++s) inputs.push_back(random_elements(type, kCount, random));
    for (ReduceOp op : kOps) {
      for (int sources = 1; sources <= 9; ++sources) {
        // Element by element first: no vector, no neighbour.
        Bytes alone(kCount * size);
        for (std::size_t i = 0; i < kCount; ++i) {
          std::vector<const void*> from;
          for (int s = 0; s < sources; ++s) from.push_back(inputs[static_cast<std::size_t>(s)].data() + i * size);
          void* to = alone.data() + i * size;
          reduce_function(type, op)({from.data(), sources, &to, 1, 1, true, sources});
        }
        for (int k = 0; k < 6; ++k) {
          // Anywhere in memory, cut into tiles of any length.
          const std::size_t shift = random() % 64;
          std::vector<Guarded> moved;
          for (int s = 0; s < sources; ++s) {
            moved.emplace_back(kCount * size, random() % 64);
            std::memcpy(moved.back().data(), inputs[static_cast<std::size_t>(s)].data(), kCount * size);
          }
          Guarded out(kCount * size, shift);
          for (std::size_t at = 0; at < kCount;) {
            const std::size_t tile = std::min<std::size_t>(1 + random() % (k == 0 ? kCount : 80), kCount - at);
            std::vector<const void*> from;
            for (Guarded& source : moved) from.push_back(source.data() + at * size);
            void* to = out.data() + at * size;
            reduce_function(type, op)({from.data(), sources, &to, 1, tile, true, sources});
            at += tile;
          }
          ASSERT_EQ(std::memcmp(out.data(), alone.data(), alone.size()), 0)
              << reduce_target() << " " << to_string(type) << " " << to_string(op) << " of " << sources;
        }
      }
    }
  }
}

// bfloat16 and float16 sums of up to 9 sources against float64: within half an ulp of the exact sum, and of the error
// that n - 1 additions in float32 can make.
TEST_P(ReduceTarget, SumsOf16BitTypesAreWithinTheirBoundOfTheExactSum) {
  std::mt19937_64 random(23);
  constexpr std::size_t kCount = 2000;
  for (DataType type : {DataType::kBfloat16, DataType::kFloat16}) {
    const int precision = type == DataType::kBfloat16 ? 8 : 11;
    auto to_bits = [&](float v) { return type == DataType::kBfloat16 ? float_to_bfloat16(v) : float_to_half(v); };
    auto from_bits = [&](std::uint16_t v) {
      return type == DataType::kBfloat16 ? bfloat16_to_float(v) : half_to_float(v);
    };
    for (int sources = 1; sources <= 9; ++sources) {
      for (const bool exact_sums : {true, false}) {
        std::vector<std::vector<std::uint16_t>> in(static_cast<std::size_t>(sources),
                                                   std::vector<std::uint16_t>(kCount));
        std::vector<double> exact(kCount), magnitude(kCount);
        std::vector<std::uint16_t> out(kCount);
        for (auto& source : in) {
          for (std::size_t i = 0; i < kCount; ++i) {
            const double unit = static_cast<double>(random() % 20001) / 10000 - 1;
            // All of one size: their float32 sum is exact. Of sizes up to 2^30 apart it is not.
            const double value = exact_sums ? unit : std::ldexp(unit, static_cast<int>(random() % 30) - 15);
            const float kept = exact_sums ? static_cast<float>(std::rint(unit * 256)) : static_cast<float>(value);
            source[i] = to_bits(kept);
            exact[i] += from_bits(source[i]);
            magnitude[i] += std::fabs(from_bits(source[i]));
          }
        }
        std::vector<const void*> from;
        for (auto& source : in) from.push_back(source.data());
        void* to = out.data();
        reduce_function(type, ReduceOp::kSum)({from.data(), sources, &to, 1, kCount, false, 1});
        for (std::size_t i = 0; i < kCount; ++i) {
          const double result = from_bits(out[i]);
          const int exponent = std::max(exact[i] == 0 ? -24 : std::ilogb(exact[i]) - (precision - 1), -24);
          const double half_ulp = std::ldexp(0.5, exponent);
          const double accumulated = exact_sums ? 0 : (sources - 1) * 0x1p-24 * magnitude[i];
          // The float32 error may carry the value over a power of two, where an ulp is twice as large.
          ASSERT_LE(std::fabs(result - exact[i]), (accumulated > 0 ? 2 : 1) * half_ulp + accumulated)
              << to_string(type) << " of " << sources << ", exact " << exact[i];
          if (exact_sums) {
            const double nearest = std::ldexp(std::rint(std::ldexp(exact[i], -exponent)), exponent);
            ASSERT_EQ(result, nearest);
          }
        }
      }
    }
  }
}

// 16-bit sums of 17 sources whose float32 sum is exact: the nearest 16-bit value of the exact sum, which one rounding
// per source would miss.
TEST_P(ReduceTarget, Rounds16BitTypesOncePerMove) {
  std::mt19937_64 random(7);
  for (DataType type : {DataType::kBfloat16, DataType::kFloat16}) {
    const int precision = type == DataType::kBfloat16 ? 8 : 11;
    auto to_bits = [&](float v) { return type == DataType::kBfloat16 ? float_to_bfloat16(v) : float_to_half(v); };
    auto from_bits = [&](std::uint16_t v) {
      return type == DataType::kBfloat16 ? bfloat16_to_float(v) : half_to_float(v);
    };
    constexpr std::size_t kCount = 500;
    std::vector<std::vector<std::uint16_t>> in(kMaxSources, std::vector<std::uint16_t>(kCount));
    std::vector<double> exact(kCount, 0.0);
    std::vector<std::uint16_t> out(kCount), stepwise(kCount);
    for (auto& source : in) {
      for (std::size_t i = 0; i < kCount; ++i) {
        const int bound = 1 << precision;
        source[i] =
            to_bits(static_cast<float>(static_cast<int>(random() % static_cast<unsigned>(2 * bound)) - bound / 2));
        exact[i] += from_bits(source[i]);
        stepwise[i] = to_bits(from_bits(stepwise[i]) + from_bits(source[i]));
      }
    }
    std::vector<const void*> sources;
    for (auto& source : in) sources.push_back(source.data());
    void* destination = out.data();
    reduce_function(type, ReduceOp::kSum)({sources.data(), kMaxSources, &destination, 1, kCount, false, 1});
    int differs = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      // Nearest even by double arithmetic: scale so that the unit in the last place is 1, and rint.
      const int exponent = exact[i] == 0 ? 0 : std::ilogb(exact[i]) - (precision - 1);
      const double nearest = std::ldexp(std::rint(std::ldexp(exact[i], -exponent)), exponent);
      EXPECT_EQ(from_bits(out[i]), nearest) << to_string(type) << " element " << i << " exact " << exact[i];
      differs += out[i] != stepwise[i];
    }
    EXPECT_GT(differs, 100) << "the inputs don't tell one rounding from many";
  }
}

TEST_P(ReduceTarget, MinAndMaxPropagateNanAndOrderZerosWhateverTheOrderOfSources) {
  const float nan = std::bit_cast<float>(0xffc12345u);
  const float pairs[][4] = {
      // a, b, min, max
      {1.0f, 2.0f, 1.0f, 2.0f},
      {0.0f, -0.0f, -0.0f, 0.0f},
      {-std::numeric_limits<float>::infinity(), 3.0f, -std::numeric_limits<float>::infinity(), 3.0f}};
  for (std::size_t count : {1u, 4u, 40u}) {
    std::vector<float> a(count), b(count), out(count);
    void* destination = out.data();
    for (const auto& pair : pairs) {
      for (int swap = 0; swap < 2; ++swap) {
        std::fill(a.begin(), a.end(), pair[swap]);
        std::fill(b.begin(), b.end(), pair[1 - swap]);
        const void* sources[] = {a.data(), b.data()};
        reduce_function(DataType::kFloat32, ReduceOp::kMin)({sources, 2, &destination, 1, count, false, 1});
        EXPECT_EQ(std::bit_cast<std::uint32_t>(out.back()), std::bit_cast<std::uint32_t>(pair[2]));
        reduce_function(DataType::kFloat32, ReduceOp::kMax)({sources, 2, &destination, 1, count, false, 1});
        EXPECT_EQ(std::bit_cast<std::uint32_t>(out.back()), std::bit_cast<std::uint32_t>(pair[3]));
      }
    }
    for (int where = 0; where < 3; ++where) {
      std::fill(a.begin(), a.end(), 1.0f);
      std::fill(b.begin(), b.end(), nan);
      const void* sources[] = {a.data(), a.data(), a.data()};
      sources[where] = b.data();
      for (ReduceOp op : kOps) {
        reduce_function(DataType::kFloat32, op)({sources, 3, &destination, 1, count, true, 3});
        EXPECT_EQ(std::bit_cast<std::uint32_t>(out.back()), 0x7fc00000u) << to_string(op) << " NaN in source " << where;
      }
    }
  }
}

TEST_P(ReduceTarget, KeepsDenormals) {
  const float tiny = std::bit_cast<float>(0x00000003u);
  std::vector<float> a(33, tiny), out(33);
  const void* sources[] = {a.data(), a.data()};
  void* destination = out.data();
  reduce_function(DataType::kFloat32, ReduceOp::kSum)({sources, 2, &destination, 1, a.size(), false, 1});
  for (float value : out) EXPECT_EQ(std::bit_cast<std::uint32_t>(value), 6u);
  reduce_function(DataType::kFloat32, ReduceOp::kAverage)({sources, 2, &destination, 1, a.size(), true, 2});
  for (float value : out) EXPECT_EQ(std::bit_cast<std::uint32_t>(value), 3u);
}

TEST(ReduceScalar, FloatAverageIsTheRoundedQuotient) {
  for (int n = 1; n < 200; ++n) {
    for (float value : {1.0f, 3.0f, 1e30f, 7.77f, -0.1f}) {
      const float expected = static_cast<float>(static_cast<double>(value) / n);  // 53 >= 2 * 24 + 2 bits: rounds once
      EXPECT_EQ((reduce_element<DataType::kFloat32, ReduceOp::kAverage>(&value, 1, true, n)), expected);
    }
  }
}

TEST(ReduceScalar, IntegersWrapAndAveragesTruncateTowardZero) {
  const std::int32_t edge[] = {std::numeric_limits<std::int32_t>::max(), 1};
  EXPECT_EQ((reduce_element<DataType::kInt32, ReduceOp::kSum>(edge, 2, false, 1)),
            std::numeric_limits<std::int32_t>::min());
  const std::int64_t odd[] = {-4, -3};
  EXPECT_EQ((reduce_element<DataType::kInt64, ReduceOp::kAverage>(odd, 2, true, 2)), -3);
  EXPECT_EQ((reduce_element<DataType::kInt64, ReduceOp::kAverage>(odd, 2, false, 2)), -7);
}

TEST(ReduceScalar, NarrowIntegersWrapInTheirOwnWidthAndAverageOverManyRanks) {
  const std::int8_t large[] = {100, 100};
  EXPECT_EQ((reduce_element<DataType::kInt8, ReduceOp::kSum>(large, 2, false, 1)), -56);
  EXPECT_EQ((reduce_element<DataType::kInt8, ReduceOp::kAverage>(large, 2, true, 2)), -28);
  EXPECT_EQ((reduce_element<DataType::kInt8, ReduceOp::kAverage>(large, 1, true, 256)), 0);
  const std::uint8_t bytes[] = {200, 100};
  EXPECT_EQ((reduce_element<DataType::kUint8, ReduceOp::kSum>(bytes, 2, false, 1)), 44);
  EXPECT_EQ((reduce_element<DataType::kUint8, ReduceOp::kProduct>(bytes, 2, false, 1)), 20000 % 256);
  const std::uint64_t huge[] = {~0ull, 3};
  EXPECT_EQ((reduce_element<DataType::kUint64, ReduceOp::kMax>(huge, 2, false, 1)), ~0ull);
  EXPECT_EQ((reduce_element<DataType::kUint64, ReduceOp::kAverage>(huge, 1, true, 2)), ~0ull >> 1);
}

// The codes of a format by their definition: sign, mantissa and exponent as numbers.
double value_of_code(int code, int mantissa_bits, int bias) {
  const int mantissa = code & ((1 << mantissa_bits) - 1), exponent = (code & 0x7f) >> mantissa_bits;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                         : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

TEST(Float8, EveryCodeIsTheNumberOfItsDefinitionAndComesBack) {
  for (int code = 0; code < 256; ++code) {
    const auto bits = static_cast<std::uint8_t>(code);
    if ((code & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(e4m3_to_float(bits)));
      EXPECT_EQ(float_to_e4m3(e4m3_to_float(bits)), 0x7f);
    } else {
      EXPECT_EQ(e4m3_to_float(bits), value_of_code(code, 3, 7)) << code;
      EXPECT_EQ(float_to_e4m3(e4m3_to_float(bits)), bits);
    }
    if ((code & 0x7f) > 0x7c) {
      EXPECT_TRUE(std::isnan(e5m2_to_float(bits)));
      EXPECT_EQ(float_to_e5m2(e5m2_to_float(bits)), 0x7e);
    } else if ((code & 0x7f) == 0x7c) {
      EXPECT_EQ(e5m2_to_float(bits), std::copysign(std::numeric_limits<float>::infinity(), code < 128 ? 1.0f : -1.0f));
      EXPECT_EQ(float_to_e5m2(e5m2_to_float(bits)), bits);
    } else {
      EXPECT_EQ(e5m2_to_float(bits), value_of_code(code, 2, 15)) << code;
      EXPECT_EQ(float_to_e5m2(e5m2_to_float(bits)), bits);
    }
  }
  EXPECT_EQ(e4m3_to_float(0x7e), 448.0f);
  EXPECT_EQ(e5m2_to_float(0x7b), 57344.0f);
  EXPECT_EQ(to_float(to_float8_e4m3(-1.5f)), -1.5f);
  EXPECT_EQ(to_float(to_float8_e5m2(0x1p-16f)), 0x1p-16f);
}

// Every float16 bit pattern widened, and the floats beside it: among them all ties of both formats.
TEST(Float8, ConversionsAreTheNearestCodeTiesToEvenAndSaturate) {
  const auto check = [](float value, int mantissa_bits, int bias, int largest_code, std::uint8_t got) {
    // The nearest of the finite codes by search; of two equally near, the one whose code is even.
    const double wanted = std::fabs(static_cast<double>(value));
    int low = 0, high = largest_code;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (value_of_code(middle, mantissa_bits, bias) <= wanted ? low : high) = middle;
    }
    const double below = wanted - value_of_code(low, mantissa_bits, bias);
    const double above = value_of_code(high, mantissa_bits, bias) - wanted;
    int nearest = below < above ? low : above < below ? high : (low % 2 == 0 ? low : high);
    if (wanted >= value_of_code(largest_code, mantissa_bits, bias)) nearest = largest_code;
    return got == (nearest | (std::signbit(value) ? 0x80 : 0));
  };
  for (std::uint32_t h = 0; h < 65536; ++h) {
    const float center = half_to_float(static_cast<std::uint16_t>(h));
    if (!std::isfinite(center)) continue;
    for (const float value : {center, std::nextafter(center, 1e9f), std::nextafter(center, -1e9f)}) {
      ASSERT_TRUE(check(value, 3, 7, 0x7e, float_to_e4m3(value))) << value;
      ASSERT_TRUE(check(value, 2, 15, 0x7b, float_to_e5m2(value))) << value;
    }
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float_to_e4m3(infinity), 0x7e);
  EXPECT_EQ(float_to_e4m3(-infinity), 0xfe);
  EXPECT_EQ(float_to_e4m3(1e38f), 0x7e);
  EXPECT_EQ(float_to_e5m2(1e38f), 0x7b);
  EXPECT_EQ(float_to_e5m2(-1e38f), 0xfb);
  EXPECT_EQ(float_to_e5m2(infinity), 0x7c);
  EXPECT_EQ(float_to_e5m2(-infinity), 0xfc);
  EXPECT_EQ(float_to_e4m3(std::bit_cast<float>(0xff800001u)), 0x7f);
  EXPECT_EQ(float_to_e5m2(std::bit_cast<float>(0xff800001u)), 0x7e);
  EXPECT_EQ(float_to_e4m3(std::bit_cast<float>(0x80000001u)), 0x80);
}

TEST(Float16, All65536CodesOfBothTypesAreTheNumberOfTheirDefinitionAndComeBack) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    const int sign = code >> 15 != 0 ? -1 : 1;
    const auto number = [&](int mantissa_bits, int bias) {
      const int mantissa = static_cast<int>(code & ((1u << mantissa_bits) - 1));
      const int exponent = static_cast<int>((code & 0x7fff) >> mantissa_bits);
      return sign * (exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                   : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits));
    };
    const float half = half_to_float(bits), bfloat16 = bfloat16_to_float(bits);
    if ((code & 0x7fff) > 0x7c00) {
      ASSERT_TRUE(std::isnan(half) && float_to_half(half) == 0x7e00);
    } else if ((code & 0x7fff) == 0x7c00) {
      ASSERT_TRUE(std::isinf(half) && std::signbit(half) == (sign < 0) && float_to_half(half) == bits);
    } else {
      ASSERT_EQ(half, number(10, 15)) << code;
      ASSERT_EQ(float_to_half(half), bits);
    }
    if ((code & 0x7fff) > 0x7f80) {
      ASSERT_TRUE(std::isnan(bfloat16) && float_to_bfloat16(bfloat16) == 0x7fc0);
    } else if ((code & 0x7fff) == 0x7f80) {
      ASSERT_TRUE(std::isinf(bfloat16) && float_to_bfloat16(bfloat16) == bits);
    } else {
      ASSERT_EQ(bfloat16, number(7, 127)) << code;
      ASSERT_EQ(float_to_bfloat16(bfloat16), bits);
    }
  }
}

TEST(Float16, HalfOfEveryFloatIsTheNearestByDoubleArithmetic) {
  std::mt19937 random(11);
  for (int i = 0; i < 300000; ++i) {
    std::uint32_t bits = static_cast<std::uint32_t>(random());
    if (i % 2 == 0) bits = (bits & 0x80ffffffu) | 0x33000000u | (static_cast<std::uint32_t>(random()) % 24 << 23);
    if (i % 5 == 0) bits &= ~0xfffu;  // ties
    const float value = std::bit_cast<float>(bits);
    const std::uint16_t half = float_to_half(value);
    if (std::isnan(value)) {
      EXPECT_EQ(half, 0x7e00);
      continue;
    }
    const double magnitude = std::fabs(static_cast<double>(value));
    const int exponent = magnitude < 0x1p-14 ? -24 : std::ilogb(magnitude) - 10;
    double nearest =
        std::isinf(magnitude) ? magnitude : std::ldexp(std::rint(std::ldexp(magnitude, -exponent)), exponent);
    if (nearest > 65504) nearest = std::numeric_limits<double>::infinity();
    EXPECT_EQ(half_to_float(half), std::copysign(nearest, value)) << std::hex << bits;
    EXPECT_EQ(half >> 15, static_cast<int>(bits >> 31));
  }
}

TEST(Float16, Bfloat16OfEveryFloatIsTheNearestEven) {
  EXPECT_EQ(float_to_bfloat16(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie to even, down
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // tie to even, up
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bfloat16(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x80000001u)), 0x8000);
  EXPECT_EQ(to_float(to_bfloat16(-2.5f)), -2.5f);
  EXPECT_EQ(to_float(to_half(0x1p-24f)), 0x1p-24f);
}

TEST(Types, EveryValueHasAName) {
  EXPECT_EQ(to_string(DataType::kBfloat16), "bfloat16");
  EXPECT_EQ(to_string(ReduceOp::kAverage), "average");
  EXPECT_EQ(to_string(Collective::kReduceScatter), "reduce_scatter");
  for (int i = 0; i < kDataTypeCount; ++i) EXPECT_NE(to_string(static_cast<DataType>(i)), "?");
  for (int i = 0; i < kReduceOpCount; ++i) EXPECT_NE(to_string(static_cast<ReduceOp>(i)), "?");
  for (int i = 0; i < kCollectiveCount; ++i) EXPECT_NE(to_string(static_cast<Collective>(i)), "?");
  EXPECT_EQ(to_string(static_cast<Collective>(kCollectiveCount)), "?");
}

TEST(ReduceDispatch, AnUnknownTargetIsRefused) {
  const auto before = reduce_target();
  EXPECT_FALSE(set_reduce_target_for_test("abacus"));
  EXPECT_EQ(reduce_target(), before);
}

TEST(Copy, EveryHintCopiesEveryLengthAtAnyOffsetAndNothingElse) {
  std::mt19937_64 random(3);
  for (CopyHint hint : {CopyHint::kCached, CopyHint::kSlot, CopyHint::kStream}) {
    for (std::size_t bytes : {0, 1, 7, 8, 63, 64, 65, 200, 4095, 4096, 5000, 70001, 600001}) {
      for (int k = 0; k < (bytes < 10000 ? 20 : 2); ++k) {
        Guarded from(bytes, random() % 16), to(bytes, random() % 64);
        for (std::size_t i = 0; i < bytes; ++i) from.data()[i] = static_cast<std::byte>(random());
        copy(to.data(), from.data(), bytes, hint);
        EXPECT_TRUE(bytes == 0 || std::memcmp(to.data(), from.data(), bytes) == 0);
        EXPECT_TRUE(to.guards_hold() && from.guards_hold());
      }
    }
  }
}

// Some processors take that for an overlap, so it is copied in another way.
TEST(Copy, WhereTheTargetLiesALittleAfterTheSourceModuloPages) {
  constexpr std::size_t kPages = 20 * 4096;
  std::vector<std::byte> memory(2 * kPages + 8192);
  std::byte* const base = memory.data() + (4096 - reinterpret_cast<std::uintptr_t>(memory.data()) % 4096);
  std::mt19937_64 random(5);
  for (CopyHint hint : {CopyHint::kCached, CopyHint::kSlot, CopyHint::kStream}) {
    for (std::size_t from : {0, 3, 60, 4095}) {
      for (std::size_t ahead : {1, 4, 31, 63}) {
        for (std::size_t bytes : {1000, 1024, 5003, 70001}) {
          for (std::byte& b : memory) b = static_cast<std::byte>(random());
          std::vector<std::byte> expected = memory;
          std::byte* const source = base + from;
          std::byte* const target = source + kPages + ahead;
          std::memcpy(expected.data() + (target - memory.data()), source, bytes);
          copy(target, source, bytes, hint);
          EXPECT_EQ(memory, expected) << from << " " << ahead << " " << bytes;
        }
      }
    }
  }
}

TEST(Copy, SeveralDestinationsWithDifferentHintsOneOfThemTheSource) {
  constexpr std::size_t kBytes = 100003;
  Guarded from(kBytes, 5), a(kBytes, 1), b(kBytes, 0), c(kBytes, 63);
  std::mt19937_64 random(4);
  for (std::size_t i = 0; i < kBytes; ++i) from.data()[i] = static_cast<std::byte>(random());
  const Bytes expected(from.data(), from.data() + kBytes);
  void* destinations[] = {a.data(), from.data(), b.data(), c.data()};
  const CopyHint hints[] = {CopyHint::kStream, CopyHint::kCached, CopyHint::kSlot, CopyHint::kCached};
  copy(destinations, hints, 4, from.data(), kBytes);
  for (void* destination : destinations) EXPECT_EQ(std::memcmp(destination, expected.data(), kBytes), 0);
  for (const Guarded* buffer : {&from, &a, &b, &c}) EXPECT_TRUE(buffer->guards_hold());
}

}  // namespace
}  // namespace hocket
