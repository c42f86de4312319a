// SPDX-License-Identifier: Apache-2.0
// group_test.cpp: calls that end together (hocket/group.hpp), and calls with unequal parts, over threads and shared
// memory.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "support/ranks.hpp"

namespace hocket {
namespace {

using test::run_ranks;
using test::Wire;
using namespace std::chrono_literals;
using Counts = std::vector<std::size_t>;

struct Where {
  int size;
  Wire wire;
};
class Together : public testing::TestWithParam<Where> {
 protected:
  void ranks(const std::function<void(Communicator&)>& body, const Settings& settings = {}) {
    run_ranks(GetParam().size, GetParam().wire, settings, body);
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Together,
                         testing::Values(Where{1, Wire::kLocal}, Where{2, Wire::kLocal}, Where{2, Wire::kShm},
                                         Where{3, Wire::kShm}, Where{4, Wire::kLocal}, Where{5, Wire::kLocal}),
                         [](const auto& p) {
                           return std::to_string(p.param.size) + (p.param.wire == Wire::kLocal ? "Local" : "Shm");
                         });

/// What rank `from` sends to rank `to` as message `m`: also its length is a function of these.
std::vector<std::int32_t> message(Rank from, Rank to, int m, std::uint32_t seed) {
  std::mt19937 random(seed + static_cast<std::uint32_t>(from * 1009 + to * 31 + m));
  std::vector<std::int32_t> values(random() % 3 == 0 ? random() % 3 : random() % 40000);
  std::iota(values.begin(), values.end(), from * 1000 + to * 100 + m);
  return values;
}

TEST_P(Together, SendsBeforeReceivesInACircleEnd) {
  ranks([](Communicator& comm) {
    const int n = comm.size();
    std::vector<std::int32_t> out(100000, comm.rank()), in(100000, -1);
    for (int round = 0; round < 5; ++round) {
      Group group;
      EXPECT_OK(comm.send(std::span<const std::int32_t>(out), (comm.rank() + 1) % n));
      EXPECT_OK(comm.receive(std::span(in), (comm.rank() + n - 1) % n));
      ASSERT_OK(group.end());
      EXPECT_EQ(in, std::vector<std::int32_t>(100000, (comm.rank() + n - 1) % n));
    }
  });
}

TEST_P(Together, RandomMessagesOfRandomLengthsComeInTheirOrder) {
  ranks([](Communicator& comm) {
    const int n = comm.size();
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
      // All ranks draw the same number of messages for each pair; each takes them up in an order of its own.
      std::mt19937 plan(seed);
      struct Item {
        Rank from, to;
        int m;
      };
      std::vector<std::vector<Item>> mine;  // by pair
      for (Rank from = 0; from < n; ++from)
        for (Rank to = 0; to < n; ++to) {
          std::vector<Item> pair;
          for (int m = 0, count = static_cast<int>(plan() % 4); m < count; ++m) pair.push_back({from, to, m});
          if (from == comm.rank()) mine.push_back(pair);
          if (to == comm.rank() && from != to) mine.push_back(pair);
          if (to == comm.rank() && from == to) mine.push_back(pair);
        }
      std::mt19937 order(seed * 7919 + static_cast<std::uint32_t>(comm.rank()));
      std::shuffle(mine.begin(), mine.end(), order);
      std::vector<std::vector<std::int32_t>> sent, received, expected;
      sent.reserve(1000), received.reserve(1000);
      Group group;
      int selves = 0;
      for (const auto& pair : mine) {
        const bool self = !pair.empty() && pair[0].from == pair[0].to;
        const bool receives = !pair.empty() && pair[0].to == comm.rank() && (!self || selves++ == 1);
        for (const Item& item : pair) {
          if (receives) {
            expected.push_back(message(item.from, item.to, item.m, seed));
            received.emplace_back(expected.back().size(), -1);
            EXPECT_OK(comm.receive(std::span(received.back()), item.from));
          } else {
            sent.push_back(message(item.from, item.to, item.m, seed));
            EXPECT_OK(comm.send(std::span<const std::int32_t>(sent.back()), item.to));
          }
        }
      }
      ASSERT_OK(group.end());
      EXPECT_EQ(received, expected) << "seed " << seed;
    }
  });
}

TEST_P(Together, AMessageOfAGroupMeetsOneThatIsAlone) {
  ranks([](Communicator& comm) {
    if (comm.size() < 2 || comm.rank() > 1) return;
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{13}, std::size_t{70000}}) {
      std::vector<double> out(count, 2.5), in(count, -1);
      if (comm.rank() == 0) {
        Group group;
        EXPECT_OK(comm.send(std::span<const double>(out), 1));
        EXPECT_OK(comm.receive(std::span(in), 1));
        EXPECT_OK(group.end());
      } else {
        EXPECT_OK(comm.receive(std::span(in), 0));
        EXPECT_OK(comm.send(std::span<const double>(out), 0));
      }
      EXPECT_EQ(in, out);
    }
  });
}

TEST_P(Together, CollectivesOfSeveralCommunicatorsInAnyOrder) {
  ranks([](Communicator& comm) {
    auto other = comm.duplicate();
    ASSERT_TRUE(other.ok()) << other.status().to_string();
    for (int round = 0; round < 10; ++round) {
      std::vector<std::int64_t> a(5000, comm.rank()), b(70000, 1), c(3, comm.rank() == 0 ? 7 : 0);
      std::vector<std::int64_t> in(3, 0);
      Communicator* order[] = {&comm, &*other};
      std::vector<std::int64_t>* buffers[] = {&a, &b};
      const int first = (comm.rank() + round) % 2;
      Group group;
      for (const int k : {first, 1 - first}) EXPECT_OK(order[k]->all_reduce(std::span(*buffers[k])));
      EXPECT_OK(comm.broadcast(std::span(c), 0));
      EXPECT_OK(other->send(std::span<const std::int64_t>(c.data(), 0), (comm.rank() + 1) % comm.size()));
      EXPECT_OK(other->receive(std::span(in.data(), 0), (comm.rank() + comm.size() - 1) % comm.size()));
      ASSERT_OK(group.end());
      const int n = comm.size();
      EXPECT_EQ(a, std::vector<std::int64_t>(5000, n * (n - 1) / 2));
      EXPECT_EQ(b, std::vector<std::int64_t>(70000, n));
      EXPECT_EQ(c, std::vector<std::int64_t>(3, 7));
    }
  });
}

TEST_P(Together, AGroupOnAStreamEndsThere) {
  ranks([](Communicator& comm) {
    Stream stream;
    const int n = comm.size();
    std::vector<std::int32_t> out(300, comm.rank()), in(300, -1), sum(10, 1);
    Group group;
    EXPECT_OK(comm.all_reduce(sum.data(), sum.data(), sum.size(), DataType::kInt32, ReduceOp::kSum, stream));
    EXPECT_OK(comm.send(out.data(), out.size(), DataType::kInt32, (comm.rank() + 1) % n, stream));
    EXPECT_OK(comm.receive(in.data(), in.size(), DataType::kInt32, (comm.rank() + n - 1) % n, stream));
    EXPECT_OK(group.end());
    EXPECT_OK(stream.synchronize());
    EXPECT_EQ(in[299], (comm.rank() + n - 1) % n);
    EXPECT_EQ(sum[9], n);
  });
}

TEST_P(Together, NestedGroupsAndDroppedOnes) {
  ranks([](Communicator& comm) {
    std::vector<std::int32_t> value(1, 1), untouched(1, 5);
    {
      Group dropped;
      EXPECT_OK(comm.all_reduce(std::span(untouched)));
    }
    EXPECT_EQ(untouched[0], 5) << "a group without end() runs nothing";
    Group outer;
    {
      Group inner;
      EXPECT_OK(comm.all_reduce(std::span(value)));
      EXPECT_OK(inner.end());
      EXPECT_EQ(value[0], 1) << "the outermost runs it";
    }
    EXPECT_OK(outer.end());
    EXPECT_EQ(value[0], comm.size());
    EXPECT_EQ(outer.end().code(), Code::kInvalidArgument);

    Group bad;
    EXPECT_OK(comm.all_reduce(std::span(untouched)));
    EXPECT_EQ(comm.send(nullptr, 4, DataType::kInt32, 0).code(), Code::kInvalidArgument);
    EXPECT_EQ(bad.end().code(), Code::kInvalidArgument);
    EXPECT_EQ(untouched[0], 5) << "a refused call keeps the group from running";
    EXPECT_OK(comm.barrier());
  });
}

TEST_P(Together, LengthsThatDifferAreAMismatchOfThePair) {
  if (GetParam().size < 2) GTEST_SKIP() << "one rank has no pair";
  ranks([](Communicator& comm) {
    std::vector<std::int32_t> out(12), in(12);
    const int n = comm.size();
    Group group;
    EXPECT_OK(comm.send(out.data(), comm.rank() == 0 ? 10 : 8, DataType::kInt32, (comm.rank() + 1) % n));
    EXPECT_OK(comm.receive(in.data(), 8, DataType::kInt32, (comm.rank() + n - 1) % n));
    const Status status = group.end();
    if (comm.rank() != 1) return;  // others may have ended before
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
    EXPECT_NE(status.text().find("10 int32"), std::string_view::npos) << status.text();
    EXPECT_NE(status.text().find("8 int32"), std::string_view::npos) << status.text();
  });
}

// ---- Unequal parts ----

Counts random_counts(int n, std::mt19937& random) {
  Counts counts(static_cast<std::size_t>(n));
  for (std::size_t& c : counts) c = random() % 3 == 0 ? 0 : random() % (random() % 4 == 0 ? 50000 : 100);
  return counts;
}

TEST_P(Together, UnequalPartsAreGathered) {
  ranks([](Communicator& comm) {
    std::mt19937 random(11);
    const auto self = static_cast<std::size_t>(comm.rank());
    for (int round = 0; round < 30; ++round) {
      const Counts counts = random_counts(comm.size(), random);
      const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      std::vector<std::int32_t> in(counts[self], comm.rank() + 1), out(total + 1, -9), expected;
      for (std::size_t r = 0; r < counts.size(); ++r)
        expected.insert(expected.end(), counts[r], static_cast<std::int32_t>(r) + 1);
      expected.push_back(-9);
      ASSERT_OK(comm.all_gather_v(in.data(), out.data(), counts, DataType::kInt32));
      EXPECT_EQ(out, expected);
      // In place.
      std::vector<std::int32_t> both(total, -1);
      std::size_t at = 0;
      for (std::size_t r = 0; r < self; ++r) at += counts[r];
      std::copy(in.begin(), in.end(), both.begin() + static_cast<std::ptrdiff_t>(at));
      ASSERT_OK(comm.all_gather_v(both.data() + at, both.data(), counts, DataType::kInt32));
      expected.pop_back();
      EXPECT_EQ(both, expected);
    }
  });
}

TEST_P(Together, UnequalPartsAreReduced) {
  ranks([](Communicator& comm) {
    std::mt19937 random(12);
    const auto self = static_cast<std::size_t>(comm.rank());
    for (int round = 0; round < 30; ++round) {
      const Counts counts = random_counts(comm.size(), random);
      const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      std::vector<std::int64_t> in(total), out(counts[self] + 1, -9);
      for (std::size_t i = 0; i < total; ++i) in[i] = static_cast<std::int64_t>(i) * (comm.rank() + 1);
      ASSERT_OK(comm.reduce_scatter_v(in.data(), out.data(), counts, DataType::kInt64, ReduceOp::kSum));
      std::size_t at = 0;
      for (std::size_t r = 0; r < self; ++r) at += counts[r];
      const std::int64_t factor = comm.size() * (comm.size() + 1) / 2;
      for (std::size_t i = 0; i < counts[self]; ++i)
        ASSERT_EQ(out[i], static_cast<std::int64_t>(at + i) * factor) << "element " << i << " of round " << round;
      EXPECT_EQ(out.back(), -9);
    }
  });
}

// Symptom: with HOCKET_LANES=3 the parts of all_gather_v and reduce_scatter_v were mixed up.
TEST_P(Together, UnequalPartsAreDividedAmongLanes) {
  Settings settings;
  settings.lanes = 3;
  ranks(
      [](Communicator& comm) {
        const auto self = static_cast<std::size_t>(comm.rank());
        Counts counts;
        for (int r = 0; r < comm.size(); ++r) counts.push_back(1000 + 7 * static_cast<std::size_t>(r));
        const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
        std::vector<std::int32_t> all(total), mine(counts[self]), got(total), wanted(total);
        std::iota(wanted.begin(), wanted.end(), 0);
        for (std::size_t i = 0; i < total; ++i) all[i] = comm.rank() == 0 ? wanted[i] : 0;
        ASSERT_OK(comm.reduce_scatter_v(all.data(), mine.data(), counts, DataType::kInt32, ReduceOp::kSum));
        ASSERT_OK(comm.all_gather_v(mine.data(), got.data(), counts, DataType::kInt32));
        EXPECT_EQ(got, wanted);
      },
      settings);
}

// Symptom: in a world of one an offset counted twice.
TEST(UnevenAlone, AnOffsetCountsOnce) {
  run_ranks(1, Wire::kLocal, {}, [](Communicator& comm) {
    const Counts counts = {2}, offsets = {1};
    const std::vector<std::int32_t> in = {4, 5, 6};
    std::vector<std::int32_t> out(4, -1), part(2, -1);
    ASSERT_OK(comm.all_gather_v(in.data(), out.data(), counts, DataType::kInt32, offsets));
    EXPECT_EQ(out, (std::vector<std::int32_t>{-1, 4, 5, -1}));
    ASSERT_OK(comm.reduce_scatter_v(in.data(), part.data(), counts, DataType::kInt32, ReduceOp::kSum, offsets));
    EXPECT_EQ(part, (std::vector<std::int32_t>{5, 6}));
  });
}

TEST_P(Together, UnequalPartsGoFromAllToAll) {
  ranks([](Communicator& comm) {
    const int n = comm.size();
    const auto self = static_cast<std::size_t>(comm.rank());
    std::mt19937 random(13);
    for (int round = 0; round < 30; ++round) {
      std::vector<Counts> matrix;
      for (int r = 0; r < n; ++r) matrix.push_back(random_counts(n, random));
      Counts receive;
      for (int r = 0; r < n; ++r) receive.push_back(matrix[static_cast<std::size_t>(r)][self]);
      // With gaps between the parts of the output.
      Counts offsets;
      std::size_t end = 2;
      for (const std::size_t c : receive) offsets.push_back(end), end += c + 3;
      std::vector<std::uint16_t> in, out(end, 7);
      for (int p = 0; p < n; ++p)
        in.insert(in.end(), matrix[self][static_cast<std::size_t>(p)],
                  static_cast<std::uint16_t>(comm.rank() * 100 + p));
      ASSERT_OK(comm.all_to_all_v(in.data(), matrix[self], out.data(), receive, DataType::kFloat16, {}, offsets));
      std::vector<std::uint16_t> expected(end, 7);
      for (std::size_t p = 0; p < receive.size(); ++p)
        std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(offsets[p]), receive[p],
                    static_cast<std::uint16_t>(p * 100 + self));
      EXPECT_EQ(out, expected) << "round " << round;
    }
  });
}

TEST_P(Together, GatherAndScatterAreEachOthersOpposite) {
  ranks([](Communicator& comm) {
    const auto n = static_cast<std::size_t>(comm.size());
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{33}, std::size_t{40001}})
      for (Rank root = 0; root < comm.size(); ++root) {
        const bool is_root = comm.rank() == root;
        std::vector<float> part(count), whole(is_root ? n * count : 0), back(count, -1);
        for (std::size_t i = 0; i < count; ++i)
          part[i] = static_cast<float>(i % 1000) + static_cast<float>(comm.rank());
        ASSERT_OK(comm.gather(std::span<const float>(part), std::span(whole), root));
        for (std::size_t i = 0; i < whole.size(); ++i)
          ASSERT_EQ(whole[i], static_cast<float>(i % count % 1000 + i / count));
        ASSERT_OK(comm.scatter(std::span<const float>(whole), std::span(back), root));
        EXPECT_EQ(back, part);
      }
  });
}

TEST_P(Together, CountsThatDifferAreAMismatch) {
  if (GetParam().size < 2) GTEST_SKIP() << "one rank agrees with itself";
  ranks([](Communicator& comm) {
    Counts counts(static_cast<std::size_t>(comm.size()), 5);
    if (comm.rank() == 1) counts[0] = 6;
    std::vector<std::int32_t> in(6), out(6 * counts.size());
    const Status status = comm.all_gather_v(in.data(), out.data(), counts, DataType::kInt32);
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
  });
  ranks([](Communicator& comm) {
    Counts send(static_cast<std::size_t>(comm.size()), 5), receive = send;
    if (comm.rank() == 1) send[0] = 4;
    std::vector<std::int32_t> in(6 * send.size()), out(6 * send.size());
    const Status status = comm.all_to_all_v(in.data(), send, out.data(), receive, DataType::kInt32);
    if (comm.rank() == 0) {
      EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
      EXPECT_NE(status.text().find("4 of its elements, rank 0 expects 5"), std::string_view::npos) << status.text();
    }
  });
}

}  // namespace
}  // namespace hocket
