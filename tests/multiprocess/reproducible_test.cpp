// SPDX-License-Identifier: Apache-2.0
// reproducible_test.cpp: with HOCKET_REPRODUCIBLE the bits of a reduction depend on its inputs alone: not on timing,
// transport, hosts, tiles, slots, protocol or algorithm, nor on where an element lies and how many there are. They are
// those of the sum in rank order, computed here. Without it, the same inputs do give other bits.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "matrix/world.hpp"
#include "support/processes.hpp"
#include "support/reproducible.hpp"

namespace hocket {
namespace {

using matrix::Wire;
using matrix::World;
using matrix::WorldOptions;
using test::kReproducibleCount;

WorldOptions reproducible(Wire wire, int ranks) {
  WorldOptions options;
  options.wire = wire;
  options.ranks = ranks;
  options.settings.reproducible = true;
  options.settings.timeout = std::chrono::seconds(60);
  return options;
}

#if HOCKET_TEST_TSAN || defined(__SANITIZE_ADDRESS__)
constexpr int kRuns = 5;  // slow, and after another kind of mistake
#else
constexpr int kRuns = 100;
#endif

/// All hashes that `runs` runs on every rank give; ranks come late at random if `late`.
std::set<std::uint64_t> hashes(const WorldOptions& options, int runs, bool late) {
  std::set<std::uint64_t> found;
  std::mutex mutex;
  World world(options);
  const Status status = world.run([&](Communicator& comm) -> Status {
    std::mt19937 random(static_cast<std::uint32_t>(options.seed) * 31 + static_cast<std::uint32_t>(comm.rank()));
    for (int run = 0; run < runs; ++run) {
      HOCKET_ASSIGN(const std::uint64_t hash, test::reproducible_run(comm, run % comm.size(), [&] {
                      if (late && random() % 8 == 0)
                        std::this_thread::sleep_for(std::chrono::microseconds(random() % 400));
                    }));
      const std::scoped_lock lock(mutex);
      found.insert(hash);
    }
    return comm.barrier();
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  return found;
}

class Transports : public testing::TestWithParam<Wire> {};
INSTANTIATE_TEST_SUITE_P(Every, Transports,
                         testing::Values(Wire::kLocal, Wire::kShm, Wire::kTcp, Wire::kTwoSided, Wire::kFaulty),
                         [](const auto& info) {
                           return info.param == Wire::kTwoSided ? "two_sided" : std::string(name_of(info.param));
                         });

TEST_P(Transports, AHundredRunsWithRandomDelaysGiveOneHash) {
  for (const int ranks : {2, 5}) {
    const auto wanted = std::set{test::reproducible_hash(ranks)};
    EXPECT_EQ(hashes(reproducible(GetParam(), ranks), kRuns, true), wanted) << ranks << " ranks";
  }
}

TEST_P(Transports, TilesSlotsAndProtocolsChangeNoBit) {
  const auto wanted = std::set{test::reproducible_hash(3)};
  const auto try_settings = [&](const std::function<void(Settings&)>& change, const char* name) {
    WorldOptions options = reproducible(GetParam(), 3);
    change(options.settings);
    EXPECT_EQ(hashes(options, 2, false), wanted) << name;
  };
  try_settings([](Settings& s) { s.tile_bytes = 16; }, "tiles of 16 bytes");
  try_settings([](Settings& s) { s.tile_bytes = 1040; }, "tiles of 1040 bytes");
  try_settings([](Settings& s) { s.slots = 2; }, "2 slots");
  try_settings([](Settings& s) { s.slots = 64, s.slot_bytes = 4096; }, "64 slots of 4 KiB");
  try_settings([](Settings& s) { s.lanes = 3; }, "3 lanes");
  try_settings([](Settings& s) { s.proto = "bulk"; }, "bulk");
  try_settings([](Settings& s) { s.proto = "first_line,bulk"; }, "first_line");
  for (const char* algo : {"all_reduce:one_shot", "all_reduce:two_shot"})
    try_settings([&](Settings& s) { s.algo = algo; }, algo);
  if (GetParam() == Wire::kLocal || GetParam() == Wire::kShm) {
    for (const char* algo : {"all_reduce:one_shot_board", "all_reduce:two_shot_board"})
      try_settings([&](Settings& s) { s.algo = algo; }, algo);
    try_settings([](Settings& s) { s.proto = "all_reduce:packet"; }, "packets");
  }
}

TEST(Reproducible, HostsChangeNoBit) {
  const auto wanted = std::set{test::reproducible_hash(5)};
  for (const char* hosts : {"aaabb", "abcde", "ababa"}) {
    WorldOptions options = reproducible(Wire::kTcp, 5);
    for (const char* host = hosts; *host != '\0'; ++host) options.hosts.emplace_back(1, *host);
    EXPECT_EQ(hashes(options, 10, true), wanted) << hosts;
  }
}

// Element i is reduced in a buffer of its own, at another place, in another count, in place and out of place.
template <class T>
Status moved(Communicator& comm) {
  const DataType type = data_type_of<T>();
  const auto check = [&](const std::byte* at, std::size_t index) -> Status {
    const T wanted = test::reproducible_sum<T>(comm.size(), index);
    if (std::memcmp(at, &wanted, sizeof(T)) == 0) return {};
    return error(Code::kInternal, "element {} of {} has other bits", index, to_string(type));
  };
  for (const std::size_t count : {1, 2, 3, 17, 100, 4099, 30'011}) {
    for (const std::size_t first : {0, 1, 7, 1000}) {
      for (const std::size_t offset : {0, 3}) {
        // Where the elements lie: `first` others before them.
        const std::size_t all = first % 16 + count;
        std::vector<std::byte> in(all * sizeof(T) + offset), out(in.size());
        for (std::size_t i = 0; i < all; ++i) {
          const T value = test::reproducible_input<T>(comm.rank(), first - first % 16 + i);
          std::memcpy(in.data() + offset + i * sizeof(T), &value, sizeof value);
        }
        HOCKET_TRY(comm.all_reduce(in.data() + offset, out.data() + offset, all, type, ReduceOp::kSum));
        for (std::size_t i = 0; i < all; ++i)
          HOCKET_TRY(check(out.data() + offset + i * sizeof(T), first - first % 16 + i));
        HOCKET_TRY(comm.all_reduce(in.data() + offset, in.data() + offset, all, type, ReduceOp::kSum));
        for (std::size_t i = 0; i < all; ++i)
          HOCKET_TRY(check(in.data() + offset + i * sizeof(T), first - first % 16 + i));
      }
    }
  }
  return comm.barrier();
}

TEST_P(Transports, AnElementMovedIntoALargerBufferKeepsItsBits) {
  World world(reproducible(GetParam(), 4));
  const Status status = world.run([](Communicator& comm) -> Status {
    HOCKET_TRY(moved<float>(comm));
    HOCKET_TRY(moved<double>(comm));
    HOCKET_TRY(moved<Bfloat16>(comm));
    HOCKET_TRY(moved<Half>(comm));
    HOCKET_TRY(moved<Float8E4M3>(comm));
    return moved<Float8E5M2>(comm);
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
}

// The test can fail: the order matters for these inputs, and an algorithm that keeps none gives other bits.
TEST(Reproducible, WithoutItOtherAlgorithmsGiveOtherBits) {
  WorldOptions options = reproducible(Wire::kLocal, 5);
  options.settings.reproducible = false;
  options.settings.algo = "all_reduce:ring";
  World world(options);
  const Status status = world.run([](Communicator& comm) -> Status {
    std::vector<float> in(kReproducibleCount), out(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = test::reproducible_input<float>(comm.rank(), i);
    HOCKET_TRY(comm.all_reduce(std::span<const float>(in), std::span(out)));
    std::size_t differ = 0;
    for (std::size_t i = 0; i < out.size(); ++i) differ += out[i] != test::reproducible_sum<float>(5, i);
    EXPECT_GT(differ, out.size() / 10);
    return comm.barrier();
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
}

// ---- How far from the true sum ----

template <class T>
double unit_in_the_last_place(double value);
template <>
double unit_in_the_last_place<Bfloat16>(double value) {
  return std::ldexp(1.0, std::max(std::ilogb(value), -126) - 7);
}
template <>
double unit_in_the_last_place<Half>(double value) {
  return std::ldexp(1.0, std::max(std::ilogb(value), -14) - 10);
}

// Inputs are multiples of 2^-12 below 8, so that float32 sums of a few are exact; or any.
template <class T>
Status errors_are_small(Communicator& comm, bool exact) {
  using R = test::Reproducible<T>;
  const auto value = [&](Rank rank, std::size_t i) {
    const T any = test::reproducible_input<T>(rank, i);
    if (!exact) return any;
    const double shrunk = std::fmod(static_cast<double>(to_float(any)), 8.0);
    return R::narrow(static_cast<float>(std::trunc(shrunk * 256) / 256));
  };
  std::vector<T> in(20'000), out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = value(comm.rank(), i);
  HOCKET_TRY(comm.all_reduce(in.data(), out.data(), in.size(), data_type_of<T>(), ReduceOp::kSum));
  for (std::size_t i = 0; i < in.size(); ++i) {
    double sum = 0, magnitudes = 0;
    for (Rank r = 0; r < comm.size(); ++r) {
      sum += static_cast<double>(to_float(value(r, i)));
      magnitudes += std::abs(static_cast<double>(to_float(value(r, i))));
    }
    const double got = static_cast<double>(to_float(out[i]));
    if (sum == 0 && got == 0) continue;
    // Half a unit for the one rounding to T; if float32 sums are not exact, each addition may add 2^-24 of what it
    // adds.
    const double bound = unit_in_the_last_place<T>(std::max(std::abs(sum), std::abs(got))) / 2 +
                         (exact ? 0 : (comm.size() - 1) * 0x1p-24 * magnitudes);
    if (std::abs(got - sum) > bound)
      return error(Code::kInternal, "element {}: {} is {} from {}, not within {}", i, got, got - sum, sum, bound);
  }
  return comm.barrier();
}

TEST_P(Transports, SmallFloatsAreWithinHalfAUnitOfTheTrueSum) {
  World world(reproducible(GetParam(), 5));
  const Status status = world.run([](Communicator& comm) -> Status {
    for (const bool exact : {true, false}) {
      HOCKET_TRY(errors_are_small<Bfloat16>(comm, exact));
      HOCKET_TRY(errors_are_small<Half>(comm, exact));
    }
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST(Reproducible, AnAlgorithmThatKeepsNoOrderIsRefusedWithBothSettings) {
  for (const char* algo : {"ring", "tree", "halving_doubling"}) {
    WorldOptions options = reproducible(Wire::kLocal, 3);
    options.settings.algo = std::string("all_reduce:") + algo;
    World world(options);
    const Status status = world.run([](Communicator& comm) -> Status {
      float value = 1;
      const Status refused = comm.all_reduce(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum);
      EXPECT_EQ(refused.code(), Code::kUnsupported);
      EXPECT_NE(refused.text().find("HOCKET_ALGO=all_reduce:"), std::string_view::npos) << refused.text();
      EXPECT_NE(refused.text().find("HOCKET_REPRODUCIBLE=1"), std::string_view::npos) << refused.text();
      EXPECT_TRUE(comm.barrier().ok()) << "nothing is lost by it";
      return {};
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
}

}  // namespace
}  // namespace hocket
