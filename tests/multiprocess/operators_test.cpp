// SPDX-License-Identifier: Apache-2.0
// operators_test.cpp: every element type by every operation in every collective that reduces, by each of its
// algorithms; sums premultiplied with a scalar a rank; operators of the caller's. Ranks are threads, over their common
// memory, over shared memory, and over peers that only puts reach.
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "algorithms/registry.hpp"
#include "core/communicator_state.hpp"
#include "exec/reduce_scalar.hpp"
#include "support/faults.hpp"
#include "support/processes.hpp"
#include "support/ranks.hpp"
#include "transport/faulty.hpp"

namespace hocket {
namespace {

using test::ThreadExchange;

enum class Reach { kLocal, kShm, kPosted };

std::string_view name_of(Reach reach) {
  return reach == Reach::kLocal ? "local" : reach == Reach::kShm ? "shm" : "posted";
}

void run_world(int size, Reach reach, const Settings& settings, const std::function<void(Communicator&)>& body) {
  if (reach != Reach::kPosted)
    return test::run_ranks(size, reach == Reach::kLocal ? test::Wire::kLocal : test::Wire::kShm, settings, body);
  ThreadExchange exchange(size);
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<EngineCore>> engines;
  for (int r = 0; r < size; ++r) {
    EngineOptions options;
    options.settings = settings;
    options.arena_bytes = std::uint64_t{2} << 30;
    options.wrap = [](std::shared_ptr<Endpoint> inner, EngineCore&,
                      const ProcessAddress&) -> std::shared_ptr<Endpoint> {
      if (inner->transport() == "local") return inner;
      return make_faulty(std::move(inner), FaultPlan{});
    };
    auto engine = EngineCore::create(std::move(options));
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    engines.push_back(*engine);
  }
  for (Rank r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      auto comm = Communicator::create(r, size, exchange.of(r), settings, engines[static_cast<std::size_t>(r)]);
      ASSERT_TRUE(comm.ok()) << comm.status().to_string();
      body(*comm);
    });
  for (std::thread& thread : threads) thread.join();
}

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat64, DataType::kBfloat16,   DataType::kFloat16,
                               DataType::kInt32,   DataType::kInt64,   DataType::kInt8,       DataType::kUint8,
                               DataType::kUint32,  DataType::kUint64,  DataType::kFloat8E4M3, DataType::kFloat8E5M2};
static_assert(std::size(kTypes) == kDataTypeCount);
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin,
                             ReduceOp::kMax, ReduceOp::kAverage, ReduceOp::kPremultipliedSum};

#if HOCKET_TEST_TSAN || defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kCounts[] = {0, 1, 13, 257};
#else
constexpr std::size_t kCounts[] = {0, 1, 2, 5, 12, 13, 48, 63, 64, 257, 1000, 4099};
#endif
constexpr std::size_t kMostCount = 4099;

/// Those that take a Reduction and equal counts.
bool is_tested(Collective c) {
  return c == Collective::kAllReduce || c == Collective::kReduceScatter || c == Collective::kReduce;
}

/// One call: what every rank gives, and what comes of it, as bytes. Runs `visit` for Element<type>.
template <class Visit>
auto with_type(DataType type, const Visit& visit) {
  switch (type) {
    case DataType::kFloat32: return visit(std::integral_constant<DataType, DataType::kFloat32>());
    case DataType::kFloat64: return visit(std::integral_constant<DataType, DataType::kFloat64>());
    case DataType::kBfloat16: return visit(std::integral_constant<DataType, DataType::kBfloat16>());
    case DataType::kFloat16: return visit(std::integral_constant<DataType, DataType::kFloat16>());
    case DataType::kInt32: return visit(std::integral_constant<DataType, DataType::kInt32>());
    case DataType::kInt64: return visit(std::integral_constant<DataType, DataType::kInt64>());
    case DataType::kInt8: return visit(std::integral_constant<DataType, DataType::kInt8>());
    case DataType::kUint8: return visit(std::integral_constant<DataType, DataType::kUint8>());
    case DataType::kUint32: return visit(std::integral_constant<DataType, DataType::kUint32>());
    case DataType::kUint64: return visit(std::integral_constant<DataType, DataType::kUint64>());
    case DataType::kFloat8E4M3: return visit(std::integral_constant<DataType, DataType::kFloat8E4M3>());
    case DataType::kFloat8E5M2: break;
  }
  return visit(std::integral_constant<DataType, DataType::kFloat8E5M2>());
}

template <DataType type, ReduceOp op>
std::vector<std::byte> reduced_as(const std::vector<std::vector<std::byte>>& inputs) {
  using Stored = typename Element<type>::Stored;
  const int n = static_cast<int>(inputs.size());
  std::vector<std::byte> out(inputs[0].size());
  std::array<Stored, 64> values;
  for (std::size_t at = 0; at < out.size(); at += sizeof(Stored)) {
    for (int r = 0; r < n; ++r)
      std::memcpy(&values[static_cast<std::size_t>(r)], inputs[static_cast<std::size_t>(r)].data() + at,
                  sizeof(Stored));
    const Stored value = reduce_element<type, op>(values.data(), n, true, n);
    std::memcpy(out.data() + at, &value, sizeof value);
  }
  return out;
}

/// The reduction in rank order, by the definition.
std::vector<std::byte> reduced(DataType type, ReduceOp op, const std::vector<std::vector<std::byte>>& inputs) {
  return with_type(type, [&](auto t) {
    switch (op) {
      case ReduceOp::kProduct: return reduced_as<t(), ReduceOp::kProduct>(inputs);
      case ReduceOp::kMin: return reduced_as<t(), ReduceOp::kMin>(inputs);
      case ReduceOp::kMax: return reduced_as<t(), ReduceOp::kMax>(inputs);
      case ReduceOp::kAverage: return reduced_as<t(), ReduceOp::kAverage>(inputs);
      default: return reduced_as<t(), ReduceOp::kSum>(inputs);
    }
  });
}

std::vector<std::byte> scaled(DataType type, const std::vector<std::byte>& input, double scalar) {
  return with_type(type, [&](auto t) {
    using E = Element<t()>;
    std::vector<std::byte> out(input.size());
    for (std::size_t at = 0; at < out.size(); at += sizeof(typename E::Stored)) {
      typename E::Stored value;
      std::memcpy(&value, input.data() + at, sizeof value);
      value = scale_element<t()>(value, static_cast<typename E::Accumulator>(scalar));
      std::memcpy(out.data() + at, &value, sizeof value);
    }
    return out;
  });
}

/// Small whole numbers: every partial result is exact in any order, also in 8 bits.
std::vector<std::byte> whole_numbers(DataType type, ReduceOp op, Rank rank, std::size_t count) {
  return with_type(type, [&](auto t) {
    using E = Element<t()>;
    std::vector<std::byte> out(count * sizeof(typename E::Stored));
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t mixed = static_cast<std::size_t>(rank) * 7 + i * 3 + (i >> 5);
      const int number = op == ReduceOp::kProduct ? 1 + static_cast<int>(mixed % 2)
                         : accumulates_wider(type) && size_of(type) == 1
                             ? static_cast<int>(mixed % 3) - 1
                             : static_cast<int>(mixed % 11) - 4;  // wraps where it must
      const auto value = E::store(static_cast<typename E::Accumulator>(number));
      std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
    }
    return out;
  });
}

/// Any fractions.
std::vector<std::byte> fractions(DataType type, Rank rank, std::size_t count) {
  return with_type(type, [&](auto t) {
    using E = Element<t()>;
    std::vector<std::byte> out(count * sizeof(typename E::Stored));
    for (std::size_t i = 0; i < count; ++i) {
      const double number =
          static_cast<double>((i * 2654435761u + static_cast<std::size_t>(rank) * 40503u) % 10007) / 997 - 4;
      typename E::Accumulator accumulator;
      if constexpr (std::is_integral_v<typename E::Accumulator>) {
        accumulator = static_cast<typename E::Accumulator>(static_cast<std::int64_t>(number));  // unsigned ones wrap
      } else {
        accumulator = static_cast<typename E::Accumulator>(number);
      }
      const auto value = E::store(accumulator);
      std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
    }
    return out;
  });
}

/// A scalar element of a type, kept for as long as calls read it.
std::vector<std::byte> scalar_element(DataType type, double scalar) {
  return with_type(type, [&](auto t) {
    using E = Element<t()>;
    const auto value = E::store(static_cast<typename E::Accumulator>(scalar));
    std::vector<std::byte> bytes(sizeof value + 1);
    std::memcpy(bytes.data() + 1, &value, sizeof value);  // at an odd address
    return bytes;
  });
}

double scalar_of(Rank rank) {
  return rank % 3 == 1 ? 1 : 2;
}

/// Where a rank's calls read and write: plain memory, or memory that peers reach, for the plans that need it.
struct Buffers {
  std::byte* input;
  std::byte* output;
  std::vector<std::byte> plain;
  void* symmetric = nullptr;
};

Buffers buffers_for(Communicator& comm, bool symmetric, std::size_t bytes) {
  Buffers b;
  bytes = (bytes + 127) / 64 * 64;
  if (symmetric) {
    auto memory = comm.mem_alloc(2 * bytes);
    EXPECT_TRUE(memory.ok()) << memory.status().to_string();
    b.symmetric = memory.ok() ? *memory : nullptr;
    b.input = static_cast<std::byte*>(b.symmetric);
  } else {
    b.plain.resize(2 * bytes + 3);
    b.input = b.plain.data() + 3;  // unaligned
  }
  b.output = b.input + bytes;
  return b;
}

/// Runs one collective; the bytes that must be in the output of `rank`, given the reduction of the whole input.
Status reduce_call(Communicator& comm, Collective collective, const Buffers& b, std::size_t count, DataType type,
                   const Reduction& op, Rank root) {
  switch (collective) {
    case Collective::kAllReduce: return comm.all_reduce(b.input, b.output, count, type, op);
    case Collective::kReduceScatter: return comm.reduce_scatter(b.input, b.output, count, type, op);
    default: return comm.reduce(b.input, b.output, count, type, op, root);
  }
}

std::size_t input_count(Collective collective, int n, std::size_t count) {
  return collective == Collective::kReduceScatter ? count * static_cast<std::size_t>(n) : count;
}

/// Empty if right.
std::string wrong(const Communicator& comm, Collective collective, const Buffers& b, std::size_t count, DataType type,
                  Rank root, const std::vector<std::byte>& all) {
  if (collective == Collective::kReduce && comm.rank() != root) return {};
  const std::size_t bytes = count * size_of(type);
  const std::size_t from = collective == Collective::kReduceScatter ? bytes * static_cast<std::size_t>(comm.rank()) : 0;
  for (std::size_t i = 0; i < bytes; ++i)
    if (b.output[i] != all[from + i])
      return "element " + std::to_string(i / size_of(type)) + " of " + std::to_string(count) + " is wrong";
  return {};
}

class Operators : public testing::TestWithParam<std::tuple<int, Reach>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  Reach reach() const { return std::get<1>(GetParam()); }

  /// For each algorithm that reduces: a world that is held to it.
  void for_each_algorithm(const std::function<void(Communicator&, const Algorithm&)>& body) {
    for (const Algorithm& algorithm : algorithms()) {
      if (!is_tested(algorithm.collective)) continue;
      if (algorithm.max_world != 0 && size() > algorithm.max_world) continue;
      if (reach() == Reach::kPosted && size() > 1 && (algorithm.zero_copy || algorithm.boards)) continue;
      Settings settings;
      settings.algo = std::string(to_string(algorithm.collective)) + ":" + std::string(algorithm.name);
      SCOPED_TRACE(settings.algo);
      run_world(size(), reach(), settings, [&](Communicator& comm) { body(comm, algorithm); });
    }
  }
};

using Params = std::tuple<int, Reach>;
INSTANTIATE_TEST_SUITE_P(Worlds, Operators,
                         testing::Values(Params(1, Reach::kLocal), Params(2, Reach::kLocal), Params(3, Reach::kLocal),
                                         Params(4, Reach::kLocal), Params(5, Reach::kLocal), Params(2, Reach::kShm),
                                         Params(5, Reach::kShm), Params(3, Reach::kPosted), Params(4, Reach::kPosted)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_ranks_" +
                                  std::string(name_of(std::get<1>(info.param)));
                         });

TEST_P(Operators, EveryTypeByEveryOperationIsExactByEveryAlgorithm) {
  const int n = size();
  std::atomic<int> calls{0};
  for_each_algorithm([&](Communicator& comm, const Algorithm& algorithm) {
    const Collective collective = algorithm.collective;
    const std::size_t most = input_count(collective, n, kMostCount);
    Buffers b = buffers_for(comm, algorithm.zero_copy, most * 8);
    if (b.input == nullptr) return;
    for (const DataType type : kTypes) {
      for (const ReduceOp op : kOps) {
        if (algorithm.zero_copy && op == ReduceOp::kPremultipliedSum) continue;
        std::vector<std::vector<std::byte>> inputs;
        for (Rank r = 0; r < n; ++r) inputs.push_back(whole_numbers(type, op, r, most));
        const std::vector<std::byte> mine = inputs[static_cast<std::size_t>(comm.rank())];
        Reduction reduction = op == ReduceOp::kPremultipliedSum ? Reduction::premultiplied(1.0) : Reduction(op);
        std::vector<std::byte> element;
        if (op == ReduceOp::kPremultipliedSum) {
          // Half of the ranks by value, half by pointer; and scalars differ.
          element = scalar_element(type, scalar_of(comm.rank()));
          reduction = comm.rank() % 2 == 0 ? Reduction::premultiplied(scalar_of(comm.rank()))
                                           : Reduction::premultiplied(element.data() + 1);
          for (Rank r = 0; r < n; ++r)
            inputs[static_cast<std::size_t>(r)] = scaled(type, inputs[static_cast<std::size_t>(r)], scalar_of(r));
        }
        const std::vector<std::byte> all = reduced(type, op, inputs);
        for (const std::size_t count : kCounts) {
          if (count == 0 && algorithm.zero_copy) continue;  // no buffer is of any memory then
          const Rank root = static_cast<Rank>(count % static_cast<std::size_t>(n));
          const std::size_t bytes = input_count(collective, n, count) * size_of(type);
          std::memcpy(b.input, mine.data(), bytes);
          std::memset(b.output, 0x7f, bytes);
          const Status status = reduce_call(comm, collective, b, count, type, reduction, root);
          ASSERT_TRUE(status.ok()) << status.to_string();
          ASSERT_EQ(wrong(comm, collective, b, count, type, root, all), "")
              << algorithm.name << " " << to_string(collective) << " " << to_string(type) << " " << to_string(op);
          ASSERT_EQ(std::memcmp(b.input, mine.data(), bytes), 0) << "the input was written";
          calls.fetch_add(1, std::memory_order_relaxed);
        }
      }
    }
  });
  RecordProperty("calls", calls.load());
  EXPECT_GT(calls.load(), 0);
}

// Products are rounded to the type before they are added: then every way through an algorithm gives the same bits, and
// where the sum is made by one Move in rank order, those of the definition.
TEST_P(Operators, PremultipliedWithFractionsGivesEqualBitsOnAllRanks) {
  const int n = size();
  constexpr std::size_t kCount = 1031;
  constexpr double kScalars[] = {0.3, -1.7, 1.0 / 3, 2, 0.01};
  std::vector<std::vector<std::byte>> results(static_cast<std::size_t>(n));
  std::barrier together(n);
  for_each_algorithm([&](Communicator& comm, const Algorithm& algorithm) {
    if (algorithm.collective != Collective::kAllReduce || algorithm.zero_copy) return;
    for (const DataType type : kTypes) {
      if (!accumulates_wider(type) && type != DataType::kFloat32 && type != DataType::kFloat64) continue;
      Buffers b = buffers_for(comm, false, kCount * size_of(type));
      std::vector<std::vector<std::byte>> inputs;
      for (Rank r = 0; r < n; ++r) inputs.push_back(fractions(type, r, kCount));
      std::memcpy(b.input, inputs[static_cast<std::size_t>(comm.rank())].data(), kCount * size_of(type));
      EXPECT_OK(comm.all_reduce(b.input, b.output, kCount, type, Reduction::premultiplied(kScalars[comm.rank()])));
      auto& mine = results[static_cast<std::size_t>(comm.rank())];
      mine.assign(b.output, b.output + kCount * size_of(type));
      together.arrive_and_wait();
      EXPECT_EQ(mine, results[0]) << algorithm.name << " " << to_string(type);
      if (algorithm.ordered) {
        for (Rank r = 0; r < n; ++r)
          inputs[static_cast<std::size_t>(r)] = scaled(type, inputs[static_cast<std::size_t>(r)], kScalars[r]);
        EXPECT_EQ(mine, reduced(type, ReduceOp::kSum, inputs)) << algorithm.name << " " << to_string(type);
      }
      together.arrive_and_wait();
    }
  });
}

TEST_P(Operators, PremultipliedWorksInPlaceAndOnMemoryThatPeersReach) {
  const int n = size();
  run_world(n, reach(), {}, [&](Communicator& comm) {
    constexpr std::size_t kCount = 40000;
    auto memory = comm.mem_alloc(2 * kCount * sizeof(float));
    ASSERT_TRUE(memory.ok()) << memory.status().to_string();
    float* const shared = static_cast<float*>(*memory);
    std::vector<float> plain(kCount);
    const auto scalar = static_cast<double>(comm.rank() + 1);
    for (const std::size_t count : {std::size_t{1}, std::size_t{100}, kCount}) {
      float expected = 0;
      for (Rank r = 0; r < n; ++r) expected += static_cast<float>((r + 1) * (r + 2));
      for (float* in : {shared, plain.data()}) {
        float* const out = in == shared ? shared + kCount : in;
        for (float* to : {out, in}) {
          std::fill(in, in + count, static_cast<float>(comm.rank() + 2));
          EXPECT_OK(comm.all_reduce(in, to, count, DataType::kFloat32, Reduction::premultiplied(scalar)));
          EXPECT_EQ(std::vector<float>(to, to + count), std::vector<float>(count, expected));
        }
      }
    }
    EXPECT_OK(comm.mem_free(*memory));
  });
}

// In place, what an algorithm wrote is what it would read again: nothing may be scaled twice.
TEST_P(Operators, PremultipliedInPlaceScalesOnceByEveryAlgorithm) {
  const int n = size();
  for_each_algorithm([&](Communicator& comm, const Algorithm& algorithm) {
    if (algorithm.zero_copy) return;
    const Collective collective = algorithm.collective;
    for (const std::size_t count : {std::size_t{1}, std::size_t{13}, std::size_t{1000}, std::size_t{70001}}) {
      const std::size_t whole = input_count(collective, n, count);
      std::vector<std::int32_t> v(whole);
      for (std::size_t i = 0; i < whole; ++i) v[i] = static_cast<std::int32_t>(i) + comm.rank();
      const std::size_t from =
          collective == Collective::kReduceScatter ? count * static_cast<std::size_t>(comm.rank()) : 0;
      const Rank root = n - 1;
      const Buffers b{
          reinterpret_cast<std::byte*>(v.data()), reinterpret_cast<std::byte*>(v.data() + from), {}, nullptr};
      ASSERT_TRUE(
          reduce_call(comm, collective, b, count, DataType::kInt32, Reduction::premultiplied(comm.rank() + 2), root)
              .ok());
      if (collective == Collective::kReduce && comm.rank() != root) continue;
      for (std::size_t i = from; i < from + count; ++i) {
        std::int32_t expected = 0;
        for (Rank r = 0; r < n; ++r) expected += (r + 2) * (static_cast<std::int32_t>(i) + r);
        ASSERT_EQ(v[i], expected) << algorithm.name << " element " << i << " of " << count;
      }
    }
  });
}

// Affine maps x -> a * x + b modulo 2^32, a in the upper half of an element: composing them doesn't commute.
std::uint64_t affine(std::uint32_t a, std::uint32_t b) {
  return std::uint64_t{a} << 32 | b;
}
std::uint64_t composed(std::uint64_t first, std::uint64_t then) {
  const auto a1 = static_cast<std::uint32_t>(first >> 32), b1 = static_cast<std::uint32_t>(first);
  const auto a2 = static_cast<std::uint32_t>(then >> 32), b2 = static_cast<std::uint32_t>(then);
  return affine(a2 * a1, a2 * b1 + b2);
}
std::uint64_t map_of(Rank rank, std::size_t i) {
  return affine(3 + 2 * static_cast<std::uint32_t>(rank) + static_cast<std::uint32_t>(i),
                static_cast<std::uint32_t>(i * 7) + static_cast<std::uint32_t>(rank));
}

TEST_P(Operators, UsersOperatorsAreCombinedInRankOrderWhereTheyDoNotCommute) {
  const int n = size();
  for_each_algorithm([&](Communicator& comm, const Algorithm& algorithm) {
    const Collective collective = algorithm.collective;
    Buffers b = buffers_for(comm, algorithm.zero_copy, input_count(collective, n, kMostCount) * 8);
    if (b.input == nullptr) return;
    const Reduction compose = Reduction::user<std::uint64_t>("compose", composed, Commutative::kNo);
    const bool in_order = algorithm.ordered;
    for (const std::size_t count : kCounts) {
      if (count == 0 && algorithm.zero_copy) continue;  // no buffer is of any memory then
      const std::size_t inputs = input_count(collective, n, count);
      std::vector<std::uint64_t> mine(inputs), expected(inputs);
      for (std::size_t i = 0; i < inputs; ++i) {
        mine[i] = map_of(comm.rank(), i);
        expected[i] = map_of(0, i);
        for (Rank r = 1; r < n; ++r) expected[i] = composed(expected[i], map_of(r, i));
      }
      if (inputs != 0) std::memcpy(b.input, mine.data(), inputs * 8);
      std::vector<std::byte> all(inputs * 8);
      if (!all.empty()) std::memcpy(all.data(), expected.data(), all.size());
      const Rank root = static_cast<Rank>(count % static_cast<std::size_t>(n));
      const Status status = reduce_call(comm, collective, b, count, DataType::kUint64, compose, root);
      if (!in_order) {
        ASSERT_EQ(status.code(), Code::kUnsupported) << algorithm.name << " " << status.to_string();
        ASSERT_NE(status.text().find("order"), std::string_view::npos) << status.to_string();
        continue;
      }
      ASSERT_TRUE(status.ok()) << algorithm.name << " " << status.to_string();
      ASSERT_EQ(wrong(comm, collective, b, count, DataType::kUint64, root, all), "") << algorithm.name;
    }
  });
}

TEST_P(Operators, UsersOperatorsThatCommuteRunByEveryAlgorithmAndType) {
  const int n = size();
  for_each_algorithm([&](Communicator& comm, const Algorithm& algorithm) {
    const Collective collective = algorithm.collective;
    for (const DataType type : kTypes) {
      const std::size_t most = input_count(collective, n, kMostCount);
      Buffers b = buffers_for(comm, algorithm.zero_copy, most * size_of(type));
      if (b.input == nullptr) return;
      // Exclusive or of the bits, on memory that is aligned to the element.
      const std::size_t element = size_of(type);
      const Reduction exclusive_or =
          Reduction::user("exclusive or", type, [element](const void* in, void* in_out, std::size_t count) {
            if (reinterpret_cast<std::uintptr_t>(in) % element != 0) throw std::runtime_error("in is not aligned");
            if (reinterpret_cast<std::uintptr_t>(in_out) % element != 0) throw std::runtime_error("in_out is not");
            const auto* from = static_cast<const std::byte*>(in);
            auto* to = static_cast<std::byte*>(in_out);
            for (std::size_t i = 0; i < count * element; ++i) to[i] ^= from[i];
          });
      std::vector<std::vector<std::byte>> inputs;
      std::vector<std::byte> all(most * element);
      for (Rank r = 0; r < n; ++r) {
        inputs.push_back(fractions(type, r, most));
        for (std::size_t i = 0; i < all.size(); ++i) all[i] ^= inputs.back()[i];
      }
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{13}, std::size_t{70}, kMostCount}) {
        if (count == 0 && algorithm.zero_copy) continue;
        const Rank root = static_cast<Rank>(count % static_cast<std::size_t>(n));
        std::memcpy(b.input, inputs[static_cast<std::size_t>(comm.rank())].data(),
                    input_count(collective, n, count) * element);
        const Status status = reduce_call(comm, collective, b, count, type, exclusive_or, root);
        ASSERT_TRUE(status.ok()) << algorithm.name << " " << status.to_string();
        ASSERT_EQ(wrong(comm, collective, b, count, type, root, all), "") << algorithm.name << " " << to_string(type);
      }
      if (b.symmetric != nullptr) {
        ASSERT_TRUE(comm.mem_free(b.symmetric).ok());
      }
    }
  });
}

// Every protocol cuts a transfer otherwise: lines of 48 and 56 bytes.
TEST_P(Operators, PremultipliedAndUsersOperatorsRunInEveryProtocol) {
  const int n = size();
  for (const char* protocol : {"bulk", "first_line", "packet"}) {
    if (reach() == Reach::kPosted && std::string_view(protocol) == "packet") continue;
    Settings settings;
    settings.proto = protocol;
    settings.algo = "all_reduce:one_shot,ring";
    SCOPED_TRACE(protocol);
    run_world(n, reach(), settings, [&](Communicator& comm) {
      const Reduction gcd =
          Reduction::user<std::uint32_t>("gcd", [](std::uint32_t a, std::uint32_t b) { return std::gcd(a, b); });
      for (const std::size_t count : {1u, 12u, 13u, 40u, 200u, 1001u}) {
        std::vector<std::uint8_t> bytes(count, static_cast<std::uint8_t>(comm.rank() + 1));
        EXPECT_OK(comm.all_reduce(std::span(bytes), Reduction::premultiplied(3)));
        EXPECT_EQ(bytes, std::vector<std::uint8_t>(count, static_cast<std::uint8_t>(3 * n * (n + 1) / 2)));
        std::vector<std::uint32_t> numbers(count);
        for (std::size_t i = 0; i < count; ++i)
          numbers[i] = static_cast<std::uint32_t>((i + 1) * static_cast<std::size_t>(2 + comm.rank()));
        EXPECT_OK(comm.all_reduce(std::span(numbers), gcd));
        for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(numbers[i], (i + 1) * (n == 1 ? 2 : 1));
      }
    });
  }
}

TEST(UserOperators, DifferentNamesAreAMismatchThatShowsBoth) {
  for (const Reach reach : {Reach::kLocal, Reach::kShm}) {
    std::barrier together(3);
    run_world(3, reach, {}, [&](Communicator& comm) {
      std::vector<std::int32_t> v(100, 1);
      const auto add = [](std::int32_t a, std::int32_t b) { return a + b; };
      EXPECT_OK(comm.all_reduce(std::span(v), Reduction::user<std::int32_t>("plus", add)));
      together.arrive_and_wait();
      const char* name = comm.rank() == 1 ? "minus\n" : "plus";
      Status status = comm.all_reduce(std::span(v), Reduction::user<std::int32_t>(name, add));
      if (status.ok()) status = comm.barrier();
      EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
      EXPECT_NE(status.text().find("'plus'"), std::string_view::npos) << status.to_string();
      EXPECT_NE(status.text().find("'minus?'"), std::string_view::npos) << status.to_string();
    });
  }
}

TEST(UserOperators, CommutativeOrNotIsAMismatchToo) {
  std::barrier together(2);
  run_world(2, Reach::kLocal, {}, [&](Communicator& comm) {
    std::vector<std::int32_t> v(100, 1);
    together.arrive_and_wait();
    Status status = comm.all_reduce(
        std::span(v),
        Reduction::user<std::int32_t>("plus", std::plus<>(), comm.rank() == 0 ? Commutative::kNo : Commutative::kYes));
    if (status.ok()) status = comm.barrier();
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
  });
}

TEST(UserOperators, WhatOneThrowsEndsTheCommunicatorOnAllRanksWithItsText) {
  for (const Reach reach : {Reach::kLocal, Reach::kShm, Reach::kPosted}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{300000}}) {
      run_world(3, reach, {}, [&](Communicator& comm) {
        std::vector<std::int32_t> v(count, 1);
        const bool throws = comm.rank() == 1;
        const Reduction sum = Reduction::user<std::int32_t>("brittle", [throws](std::int32_t a, std::int32_t b) {
          if (throws) throw std::runtime_error("a bad element");
          return a + b;
        });
        Status status = comm.all_reduce(std::span(v), sum);
        if (status.ok()) status = comm.barrier();
        EXPECT_EQ(status.code(), Code::kAborted) << status.to_string();
        EXPECT_NE(status.text().find("a bad element"), std::string_view::npos) << status.to_string();
        EXPECT_NE(status.text().find("rank 1"), std::string_view::npos) << status.to_string();
      });
    }
  }
  run_world(2, Reach::kLocal, {}, [&](Communicator& comm) {
    std::vector<std::int32_t> v(10, 1);
    const Reduction odd = Reduction::user<std::int32_t>("odd", [](std::int32_t a, std::int32_t) -> std::int32_t {
      if (a != 0) throw 7;
      return a;
    });
    EXPECT_EQ(comm.all_reduce(std::span(v), odd).code(), Code::kAborted);
  });
}

TEST(UserOperators, ANonCommutativeOneBeyondTheWorldsThatKeepTheOrderIsRefused) {
  const Reduction compose = Reduction::user<std::uint64_t>("compose", composed, Commutative::kNo);
  World world;
  world.size = 65;
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}) {
    const auto choice =
        choose(collective, 1 << 20, DataType::kUint64, false, world, nullptr, needs_of(compose.op(), true));
    if (choice.ok()) {
      EXPECT_TRUE(choice->algorithm->max_world == 0 || choice->algorithm->max_world >= 65);
    } else {
      EXPECT_EQ(choice.status().code(), Code::kUnsupported);
    }
  }
}

TEST(Reductions, WhatCannotBeIsRefusedAndLosesNothing) {
  run_world(2, Reach::kLocal, {}, [&](Communicator& comm) {
    std::vector<std::int32_t> v(10, 1);
    const auto code = [&](const Reduction& reduction) {
      const Status status = comm.all_reduce(v.data(), v.data(), v.size(), DataType::kInt32, reduction);
      return status.code();
    };
    const auto none = [](const void*, void*, std::size_t) {};
    EXPECT_EQ(code(ReduceOp::kPremultipliedSum), Code::kInvalidArgument);
    EXPECT_EQ(code(ReduceOp::kUser), Code::kInvalidArgument);
    EXPECT_EQ(code(static_cast<ReduceOp>(99)), Code::kInvalidArgument);
    EXPECT_EQ(code(Reduction::premultiplied(nullptr)), Code::kInvalidArgument);
    EXPECT_EQ(code(Reduction::premultiplied(0.5)), Code::kInvalidArgument);
    EXPECT_EQ(code(Reduction::premultiplied(2147483648.0)), Code::kInvalidArgument);
    EXPECT_EQ(code(Reduction::premultiplied(std::numeric_limits<double>::quiet_NaN())), Code::kInvalidArgument);
    EXPECT_EQ(code(Reduction::user("", DataType::kInt32, none)), Code::kInvalidArgument);
    EXPECT_EQ(code(Reduction::user("x", DataType::kInt32, nullptr)), Code::kInvalidArgument);
    EXPECT_EQ(code(Reduction::user("x", DataType::kFloat32, none)), Code::kInvalidArgument);
    EXPECT_NE(comm.explain(Collective::kAllReduce, 10, DataType::kInt32, ReduceOp::kUser).find("Reduction::user"),
              std::string::npos);
    EXPECT_OK(comm.all_reduce(std::span(v), Reduction::premultiplied(-2147483648.0)));
    EXPECT_OK(comm.async_error());
  });
}

TEST(Reductions, AScalarByPointerIsReadWhenTheCallRuns) {
  std::barrier together(2);
  run_world(2, Reach::kShm, {}, [&](Communicator& comm) {
    Stream stream;
    float scalar = 100;
    std::vector<float> v(1000, 1);
    // Nothing of the stream runs before the other rank came to the barrier.
    if (comm.rank() == 0) EXPECT_OK(comm.barrier(stream));
    if (comm.rank() == 0)
      EXPECT_OK(
          comm.all_reduce(v.data(), v.data(), v.size(), DataType::kFloat32, Reduction::premultiplied(&scalar), stream));
    scalar = static_cast<float>(comm.rank() + 2);
    together.arrive_and_wait();
    if (comm.rank() == 1) {
      EXPECT_OK(comm.barrier(stream));
      EXPECT_OK(
          comm.all_reduce(v.data(), v.data(), v.size(), DataType::kFloat32, Reduction::premultiplied(&scalar), stream));
    }
    EXPECT_OK(stream.synchronize());
    EXPECT_EQ(v, std::vector<float>(1000, 5.0f));
  });
}

// The queue of a stream keeps the operator itself: the caller's Reduction may be gone.
TEST(Reductions, AQueuedOperatorOutlivesTheCallersObject) {
  run_world(2, Reach::kLocal, {}, [&](Communicator& comm) {
    Stream stream;
    std::vector<std::vector<std::int32_t>> v(20, std::vector<std::int32_t>(100, 1));
    for (std::size_t i = 0; i < v.size(); ++i)
      EXPECT_OK(comm.all_reduce(
          v[i].data(), v[i].data(), v[i].size(), DataType::kInt32,
          Reduction::user<std::int32_t>("plus and", [extra = static_cast<std::int32_t>(i)](
                                                        std::int32_t a, std::int32_t b) { return a + b + extra; }),
          stream));
    EXPECT_OK(stream.synchronize());
    for (std::size_t i = 0; i < v.size(); ++i)
      EXPECT_EQ(v[i], std::vector<std::int32_t>(100, static_cast<std::int32_t>(2 + i)));
  });
}

}  // namespace
}  // namespace hocket
