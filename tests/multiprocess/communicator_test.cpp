// SPDX-License-Identifier: Apache-2.0
// Communicators end to end, ranks as threads over both wires: every collective, in and out of place, odd counts,
// streams, split, mem_alloc.
#include <gtest/gtest.h>

#include <numeric>
#include <tuple>

#include "support/ranks.hpp"

namespace hocket {
namespace {

using test::run_ranks;
using test::Wire;

float value(int rank, std::size_t i) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 11);
}

std::vector<float> filled(int rank, std::size_t count, std::size_t from = 0) {
  std::vector<float> v(count);
  for (std::size_t i = 0; i < count; ++i) v[i] = value(rank, from + i);
  return v;
}

std::vector<float> summed(int ranks, std::size_t count, std::size_t from = 0) {
  std::vector<float> v(count);
  for (std::size_t i = 0; i < count; ++i)
    for (int r = 0; r < ranks; ++r) v[i] += value(r, from + i);
  return v;
}

class Collectives : public testing::TestWithParam<std::tuple<int, Wire>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  Wire wire() const { return std::get<1>(GetParam()); }
};

constexpr std::size_t kCounts[] = {0, 1, 2, 3, 12, 13, 60, 64, 257, 1000, 5003, 70001};

TEST_P(Collectives, AllGiveTheRightElementsInAndOutOfPlace) {
  run_ranks(size(), wire(), {}, [&](Communicator& comm) {
    const int n = comm.size(), r = comm.rank();
    for (const std::size_t count : kCounts) {
      SCOPED_TRACE(count);
      const auto c = count * static_cast<std::size_t>(n);
      const std::size_t mine = count * static_cast<std::size_t>(r);
      {
        const auto in = filled(r, count);
        std::vector<float> out(count, -1), buffer = in;
        EXPECT_OK(comm.all_reduce(std::span<const float>(in), std::span(out)));
        EXPECT_EQ(out, summed(n, count));
        EXPECT_OK(comm.all_reduce(std::span(buffer)));
        EXPECT_EQ(buffer, summed(n, count));
      }
      {
        const auto in = filled(r, count);
        std::vector<float> out(c, -1), expected;
        for (int p = 0; p < n; ++p)
          for (const float v : filled(p, count)) expected.push_back(v);
        EXPECT_OK(comm.all_gather(std::span<const float>(in), std::span(out)));
        EXPECT_EQ(out, expected);
        std::vector<float> place(c, -1);
        std::copy(in.begin(), in.end(), place.begin() + static_cast<std::ptrdiff_t>(mine));
        EXPECT_OK(comm.all_gather(place.data() + mine, place.data(), count, DataType::kFloat32));
        EXPECT_EQ(place, expected);
      }
      {
        auto in = filled(r, c);
        std::vector<float> out(count, -1);
        EXPECT_OK(comm.reduce_scatter(std::span<const float>(in), std::span(out)));
        EXPECT_EQ(out, summed(n, count, mine));
        EXPECT_OK(comm.reduce_scatter(in.data(), in.data() + mine, count, DataType::kFloat32, ReduceOp::kSum));
        EXPECT_EQ(std::vector<float>(in.begin() + static_cast<std::ptrdiff_t>(mine),
                                     in.begin() + static_cast<std::ptrdiff_t>(mine + count)),
                  summed(n, count, mine));
      }
      {
        const auto in = filled(r, c);
        std::vector<float> out(c, -1), expected;
        for (int p = 0; p < n; ++p)
          for (const float v : filled(p, count, mine)) expected.push_back(v);
        EXPECT_OK(comm.all_to_all(std::span<const float>(in), std::span(out)));
        EXPECT_EQ(out, expected);
      }
      for (const Rank root : {0, n - 1}) {
        auto buffer = r == root ? filled(root, count) : std::vector<float>(count, -1);
        EXPECT_OK(comm.broadcast(std::span(buffer), root));
        EXPECT_EQ(buffer, filled(root, count));
        const auto in = filled(r, count);
        std::vector<float> out(count, -1);
        EXPECT_OK(comm.reduce(std::span<const float>(in), std::span(out), root));
        EXPECT_EQ(out, r == root ? summed(n, count) : std::vector<float>(count, -1));
      }
      EXPECT_OK(comm.barrier());
      if (n > 1) {
        const auto in = filled(r, count);
        std::vector<float> out(count, -1);
        // A send returns when it was taken: around a ring, somebody must receive first.
        if (r % 2 == 0) EXPECT_OK(comm.send(std::span<const float>(in), (r + 1) % n));
        EXPECT_OK(comm.receive(std::span(out), (r + n - 1) % n));
        if (r % 2 != 0) EXPECT_OK(comm.send(std::span<const float>(in), (r + 1) % n));
        EXPECT_EQ(out, filled((r + n - 1) % n, count));
      }
    }
  });
}

TEST_P(Collectives, StreamsRunInOrderAndReportNothingWhenAllIsWell) {
  run_ranks(size(), wire(), {}, [&](Communicator& comm) {
    const int n = comm.size(), r = comm.rank();
    Stream stream;
    std::vector<std::vector<float>> buffers;
    for (int k = 0; k < 20; ++k) buffers.push_back(filled(r, 1000 + static_cast<std::size_t>(k)));
    for (auto& buffer : buffers)
      EXPECT_OK(
          comm.all_reduce(buffer.data(), buffer.data(), buffer.size(), DataType::kFloat32, ReduceOp::kSum, stream));
    std::vector<float> last = filled(r, 100);
    EXPECT_OK(comm.all_reduce(std::span(last)));  // blocking, after what is queued
    EXPECT_OK(stream.synchronize());
    for (const auto& buffer : buffers) EXPECT_EQ(buffer, summed(n, buffer.size()));
    EXPECT_EQ(last, summed(n, 100));
  });
}

TEST_P(Collectives, SplitMakesCommunicatorsThatWorkSideBySide) {
  run_ranks(size(), wire(), {}, [&](Communicator& comm) {
    const int r = comm.rank();
    auto half = comm.split(r % 2, -r);
    ASSERT_TRUE(half.ok()) << half.status().to_string();
    const int members = (comm.size() + (r % 2 == 0 ? 1 : 0)) / 2;
    EXPECT_EQ(half->size(), members);
    std::vector<std::int32_t> buffer(33, r);
    EXPECT_OK(half->all_reduce(std::span(buffer), ReduceOp::kMax));
    int largest = comm.size() - 1;
    if (largest % 2 != r % 2) --largest;
    EXPECT_EQ(buffer, std::vector<std::int32_t>(33, largest));
    EXPECT_OK(comm.barrier());
    auto none = comm.split(r == 0 ? 5 : -1, 0);
    ASSERT_TRUE(none.ok());
    EXPECT_EQ(none->size(), r == 0 ? 1 : 0);
  });
}

TEST_P(Collectives, SymmetricMemoryIsReachedWithoutStaging) {
  run_ranks(size(), wire(), {}, [&](Communicator& comm) {
    const int n = comm.size(), r = comm.rank();
    constexpr std::size_t kCount = 40001;
    auto memory = comm.mem_alloc(2 * kCount * sizeof(float) * static_cast<std::size_t>(n));
    ASSERT_TRUE(memory.ok()) << memory.status().to_string();
    auto* in = static_cast<float*>(*memory);
    float* out = in + kCount;
    for (int repeat = 0; repeat < 3; ++repeat) {
      const auto values = filled(r + repeat, kCount);
      std::copy(values.begin(), values.end(), in);
      EXPECT_OK(comm.all_reduce(in, out, kCount, DataType::kFloat32, ReduceOp::kSum));
      std::vector<float> expected(kCount);
      for (std::size_t i = 0; i < kCount; ++i)
        for (int p = 0; p < n; ++p) expected[i] += value(p + repeat, i);
      EXPECT_EQ(std::vector<float>(out, out + kCount), expected);
      EXPECT_OK(comm.all_gather(in, out, kCount, DataType::kFloat32));
      for (int p = 0; p < n; ++p)
        EXPECT_EQ(std::vector<float>(out + static_cast<std::size_t>(p) * kCount,
                                     out + static_cast<std::size_t>(p + 1) * kCount),
                  filled(p + repeat, kCount));
    }
    EXPECT_OK(comm.mem_free(*memory));
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, Collectives,
                         testing::Combine(testing::Values(1, 2, 3, 4, 5, 8), testing::Values(Wire::kLocal, Wire::kShm)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) == Wire::kLocal ? "Local" : "Shm");
                         });

TEST(Communicators, OppositeOrderOnTwoStreamsMakesProgress) {
  run_ranks(2, Wire::kLocal, {}, [](Communicator& a) {
    auto b = a.split(0, a.rank());
    ASSERT_TRUE(b.ok());
    std::vector<float> x(100000, 1), y(100000, 2);
    Stream one, two;
    Communicator& first = a.rank() == 0 ? a : *b;
    Communicator& second = a.rank() == 0 ? *b : a;
    std::vector<float>& first_buffer = a.rank() == 0 ? x : y;
    std::vector<float>& second_buffer = a.rank() == 0 ? y : x;
    EXPECT_OK(first.all_reduce(first_buffer.data(), first_buffer.data(), first_buffer.size(), DataType::kFloat32,
                               ReduceOp::kSum, one));
    EXPECT_OK(second.all_reduce(second_buffer.data(), second_buffer.data(), second_buffer.size(), DataType::kFloat32,
                                ReduceOp::kSum, two));
    EXPECT_OK(one.synchronize());
    EXPECT_OK(two.synchronize());
    EXPECT_EQ(x, std::vector<float>(100000, 2));
    EXPECT_EQ(y, std::vector<float>(100000, 4));
  });
}

TEST(Communicators, BadArgumentsLoseNothing) {
  run_ranks(2, Wire::kLocal, {}, [](Communicator& comm) {
    std::vector<float> v(10, 1), w(10);
    EXPECT_EQ(comm.all_reduce(nullptr, w.data(), 10, DataType::kFloat32, ReduceOp::kSum).code(),
              Code::kInvalidArgument);
    EXPECT_EQ(comm.all_reduce(v.data(), v.data() + 1, 9, DataType::kFloat32, ReduceOp::kSum).code(),
              Code::kInvalidArgument);
    EXPECT_EQ(comm.all_reduce(v.data(), w.data(), 10, static_cast<DataType>(77), ReduceOp::kSum).code(),
              Code::kInvalidArgument);
    EXPECT_EQ(comm.all_reduce(v.data(), w.data(), 10, DataType::kFloat32, static_cast<ReduceOp>(9)).code(),
              Code::kInvalidArgument);
    EXPECT_EQ(comm.all_reduce(v.data(), w.data(), ~std::size_t{0}, DataType::kFloat32, ReduceOp::kSum).code(),
              Code::kInvalidArgument);
    EXPECT_EQ(comm.broadcast(v.data(), v.data(), 10, DataType::kFloat32, 2).code(), Code::kInvalidArgument);
    EXPECT_EQ(comm.broadcast(v.data(), v.data(), 10, DataType::kFloat32, -1).code(), Code::kInvalidArgument);
    EXPECT_EQ(comm.send(v.data(), 1, DataType::kFloat32, comm.rank()).code(), Code::kInvalidArgument);
    EXPECT_EQ(comm.mem_free(v.data()).code(), Code::kInvalidArgument);
    EXPECT_OK(comm.all_reduce(nullptr, nullptr, 0, DataType::kFloat32, ReduceOp::kSum));
    EXPECT_OK(comm.all_reduce(std::span(v)));
    EXPECT_EQ(v, std::vector<float>(10, 2));
    EXPECT_OK(comm.async_error());
    EXPECT_OK(comm.finalize());
    EXPECT_EQ(comm.all_reduce(std::span(v)).code(), Code::kInvalidArgument);
  });
}

}  // namespace
}  // namespace hocket
