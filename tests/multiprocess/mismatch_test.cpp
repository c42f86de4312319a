// SPDX-License-Identifier: Apache-2.0
// mismatch_test.cpp: one rank makes another call than the rest. Every rank gets an error that shows both calls, from
// this call or its next, and no rank hangs.
#include <gtest/gtest.h>

#include <barrier>

#include "support/faults.hpp"
#include "support/ranks.hpp"

namespace hocket {
namespace {

using test::run_ranks;
using test::Wire;

enum class Field { kCount, kType, kOperation, kRoot, kRootOfReduce, kCollective, kBarrier, kOrder, kMemory };
constexpr Field kFields[] = {Field::kCount,   Field::kType,         Field::kOperation,
                             Field::kRoot,    Field::kRootOfReduce, Field::kCollective,
                             Field::kBarrier, Field::kOrder,        Field::kMemory};

std::string name_of(Field field) {
  switch (field) {
    case Field::kCount: return "Count";
    case Field::kType: return "Type";
    case Field::kOperation: return "Operation";
    case Field::kRoot: return "Root";
    case Field::kRootOfReduce: return "RootOfReduce";
    case Field::kCollective: return "Collective";
    case Field::kBarrier: return "Barrier";
    case Field::kOrder: return "Order";
    case Field::kMemory: return "Memory";
  }
  return "?";
}

constexpr std::size_t kCount = 300;

/// The call of this rank; `odd`: the one that differs.
Status make_call(Communicator& comm, Field field, bool odd, std::int32_t* buffer, std::int32_t* symmetric) {
  std::int32_t* out = buffer + kCount * 16;
  switch (field) {
    case Field::kCount:
      return comm.all_reduce(buffer, out, odd ? kCount + 1 : kCount, DataType::kInt32, ReduceOp::kSum);
    case Field::kType:
      return comm.all_reduce(buffer, out, kCount, odd ? DataType::kFloat32 : DataType::kInt32, ReduceOp::kSum);
    case Field::kOperation:
      return comm.all_reduce(buffer, out, kCount, DataType::kInt32, odd ? ReduceOp::kMax : ReduceOp::kSum);
    case Field::kRoot: return comm.broadcast(buffer, out, kCount, DataType::kInt32, odd ? 1 : 0);
    case Field::kRootOfReduce: return comm.reduce(buffer, out, kCount, DataType::kInt32, ReduceOp::kSum, odd ? 1 : 0);
    case Field::kCollective:
      return odd ? comm.all_gather(buffer, out, kCount, DataType::kInt32)
                 : comm.all_reduce(buffer, out, kCount, DataType::kInt32, ReduceOp::kSum);
    case Field::kBarrier:
      return odd ? comm.barrier() : comm.all_reduce(buffer, out, kCount, DataType::kInt32, ReduceOp::kSum);
    case Field::kOrder: {
      const auto one = [&] { return comm.all_to_all(buffer, out, kCount, DataType::kInt32); };
      const auto other = [&] { return comm.broadcast(buffer, out, kCount, DataType::kInt32, 0); };
      const Status first = odd ? one() : other();
      return first.ok() ? (odd ? other() : one()) : first;
    }
    case Field::kMemory:
      return odd ? comm.all_reduce(buffer, out, kCount, DataType::kInt32, ReduceOp::kSum)
                 : comm.all_reduce(symmetric, symmetric + kCount, kCount, DataType::kInt32, ReduceOp::kSum);
  }
  return {};
}

/// How many different calls ("all_reduce #3 of 300 int32, sum, …") a text shows.
int calls_in(std::string_view text) {
  int found = 0;
  for (const std::string_view word : {" is in ", " was in "}) {
    for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
      const std::string_view rest = text.substr(at + word.size(), text.find(';', at) - at - word.size());
      found += rest.find(" #") != std::string_view::npos;
    }
  }
  return found;
}

/// The call of a rank ended in `first`; if that was success, what its next call says. kMismatch with both calls, and
/// soon.
void expect_mismatch(Communicator& comm, Status first, std::int64_t since_ns) {
  const bool later = first.ok();
  const Status status = later ? comm.barrier() : first;
  const double seconds = static_cast<double>(os::now_ns() - since_ns) / 1e9;
  EXPECT_EQ(status.code(), Code::kMismatch) << (later ? "(in its next call) " : "") << status.to_string();
  EXPECT_EQ(calls_in(status.text()), 2) << status.to_string();
  EXPECT_EQ(status.text().find("a different call"), std::string_view::npos) << status.to_string();
  EXPECT_LT(seconds, 1.0 * test::patience());
  EXPECT_EQ(comm.async_error().code(), Code::kMismatch);
  EXPECT_EQ(comm.barrier().code(), Code::kMismatch);
}

class Mismatch : public testing::TestWithParam<std::tuple<Field, Wire>> {};

TEST_P(Mismatch, OfOneRankIsAnErrorOnAllThatShowsBothCalls) {
  const auto [field, wire] = GetParam();
  // Each engine maps the arenas of all others, and the thread sanitizer leaves no room for 64 of them.
  const int most = (HOCKET_TEST_TSAN && wire == Wire::kShm) || wire == Wire::kTcp ? 5 : 8;
  for (int n = 2; n <= most; ++n) {
    for (const int odd : {0, n - 1}) {
      if (n > 4 && odd == 0 && n % 2 != 0) continue;  // half of them tell as much
      SCOPED_TRACE(testing::Message() << n << " ranks, rank " << odd << " differs");
      std::barrier together(n);  // out of band: nobody errs while others are still in a call before
      run_ranks(n, wire, {}, [&, field = field, wire = wire](Communicator& comm) {
        std::vector<std::int32_t> buffer(kCount * 40, comm.rank());
        std::int32_t* symmetric = nullptr;
        if (field == Field::kMemory) {
          auto memory = comm.mem_alloc(2 * kCount * sizeof(std::int32_t));
          ASSERT_TRUE(memory.ok()) << memory.status().to_string();
          symmetric = static_cast<std::int32_t*>(*memory);
        }
        EXPECT_OK(comm.barrier());
        together.arrive_and_wait();
        const std::int64_t since = os::now_ns();
        const Status status = make_call(comm, field, comm.rank() == odd, buffer.data(), symmetric);
        if (field == Field::kMemory && wire != Wire::kShm) {
          // Nobody reaches it by loads, or everybody reaches any: so it is memory like any other.
          EXPECT_OK(status);
          EXPECT_OK(comm.barrier());
          return;
        }
        expect_mismatch(comm, status, since);
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fields, Mismatch,
                         testing::Combine(testing::ValuesIn(kFields), testing::ValuesIn(test::kWires)),
                         [](const auto& info) {
                           return name_of(std::get<0>(info.param)) + "_" + test::name_of(std::get<1>(info.param));
                         });

/// Two ranks that both take themselves for the root: neither waits for anything.
class TwoRoots : public testing::TestWithParam<Wire> {};

TEST_P(TwoRoots, AreNoticedWhileBothMakeNoOtherCall) {
  run_ranks(2, GetParam(), {}, [&](Communicator& comm) {
    std::vector<std::int32_t> buffer(4, comm.rank());
    EXPECT_OK(comm.barrier());
    const Status status = comm.broadcast(buffer.data(), buffer.data(), 4, DataType::kInt32, comm.rank());
    EXPECT_TRUE(status.ok() || status.code() == Code::kMismatch) << status.to_string();
    EXPECT_TRUE(test::eventually([&] { return comm.async_error().code() == Code::kMismatch; }));
    EXPECT_EQ(calls_in(comm.async_error().text()), 2) << comm.async_error().to_string();
  });
}

TEST_P(TwoRoots, AreToldByTheVeryCallWithDrain) {
  Settings settings;
  settings.drain = true;
  run_ranks(2, GetParam(), settings, [&](Communicator& comm) {
    std::vector<std::int32_t> buffer(4, comm.rank());
    EXPECT_OK(comm.barrier());
    const Status status = comm.broadcast(buffer.data(), buffer.data(), 4, DataType::kInt32, comm.rank());
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
  });
}

INSTANTIATE_TEST_SUITE_P(Wires, TwoRoots, testing::ValuesIn(test::kWires),
                         [](const auto& info) { return test::name_of(info.param); });

class MessageMismatch : public testing::TestWithParam<Wire> {};

TEST_P(MessageMismatch, InCountOrTypeIsAnErrorOnBothSidesAndOnTheRest) {
  struct Sides {
    std::size_t sent, received;
    DataType sent_type, received_type;
  };
  for (const Sides sides :
       {Sides{10, 8, DataType::kInt32, DataType::kInt32}, Sides{10, 12, DataType::kInt32, DataType::kInt32},
        Sides{10, 10, DataType::kInt32, DataType::kFloat32}, Sides{0, 10, DataType::kInt32, DataType::kInt32},
        Sides{100000, 8, DataType::kInt32, DataType::kInt32}}) {
    SCOPED_TRACE(testing::Message() << "send " << sides.sent << ", receive " << sides.received);
    std::barrier together(3);
    run_ranks(3, GetParam(), {}, [&](Communicator& comm) {
      std::vector<std::int32_t> buffer(100000, comm.rank());
      EXPECT_OK(comm.barrier());
      together.arrive_and_wait();
      const std::int64_t since = os::now_ns();
      Status status;
      if (comm.rank() == 0) status = comm.send(buffer.data(), sides.sent, sides.sent_type, 1);
      if (comm.rank() == 1) {
        status = comm.receive(buffer.data(), sides.received, sides.received_type, 0);
        EXPECT_FALSE(status.ok()) << "what was received is not what was sent";
      }
      expect_mismatch(comm, status, since);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Wires, MessageMismatch, testing::ValuesIn(test::kWires),
                         [](const auto& info) { return test::name_of(info.param); });

}  // namespace
}  // namespace hocket
