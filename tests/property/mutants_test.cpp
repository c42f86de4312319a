// SPDX-License-Identifier: Apache-2.0
// mutants_test.cpp: every single mistake in a registered plan is rejected, or leaves a correct plan of a closed class.
//
// One rank at a time, worlds 2, 3, 4, 5 and 8. A mutant runs alone, then twice and once right, in bulk, in packets and
// posted, in and out of place, with one tile and several.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>

#include "checker/mutants.hpp"
#include "checker/worlds.hpp"

namespace hocket {
namespace {

constexpr int kWorlds[] = {2, 3, 4, 5, 8};
/// A "slot is free" bound + 1 is S of these checks.
constexpr int kFewestSlots = 2;

struct Setting {
  int slots;
  int tiles_per_round;
  std::uint64_t tiles;
  bool in_place;
  Protocol protocol;
  bool posted;
  std::uint32_t unit;
};
constexpr Setting kSettings[] = {
    {2, 1, 5, false, Protocol::kBulk, false, 1},  {2, 1, 1, true, Protocol::kBulk, false, 1},
    {3, 2, 7, true, Protocol::kBulk, false, 1},   {3, 2, 3, false, Protocol::kBulk, true, 1},
    {4, 1, 2, true, Protocol::kBulk, true, 1},    {4, 3, 1, true, Protocol::kBulk, true, 1},
    {2, 1, 2, true, Protocol::kPacket, false, 1}, {2, 1, 2, false, Protocol::kBulk, false, 4},
};

struct Count {
  std::array<std::uint64_t, kMutantKindCount> rejected{};
  std::array<std::uint64_t, kMutantKindCount> accepted{};
  std::array<std::uint64_t, kSurvivorCount> survivors{};
  std::vector<std::string> unexplained;
};

class Hunt {
 public:
  Hunt(const Algorithm& algorithm, int n, int root, Count& count)
      : algorithm_(algorithm), n_(n), count_(count), good_(plan_world(algorithm, {.world = n, .root = root}).value()) {}

  void run() {
    for (const Setting& setting : kSettings)
      if (applies(setting)) {
        const Status status = check(good_, setting);
        ASSERT_TRUE(status.ok()) << status.text();
      }
    for (int r = 0; r < n_; ++r) {
      PlanWorld world = good_;
      for (const Mutant& mutant : mutants_of(good_.plan(r), kFewestSlots)) {
        if (mutant.kind == MutantKind::kDropCompletion && !good_.posted()) continue;
        judge(mutant, rejected(world, mutant));
      }
    }
  }

 private:
  bool applies(const Setting& setting) const {
    return (setting.protocol != Protocol::kPacket || good_.packets()) && (!setting.posted || good_.posted());
  }

  CheckCall call(const PlanWorld& world, const Setting& setting) const {
    CheckCall call{.plans = &world,
                   .count = static_cast<std::uint64_t>(7 * n_ + 3),
                   .unit = setting.unit,
                   .tiles_per_round = setting.tiles_per_round,
                   .in_place = setting.in_place && may_be_in_place(world.collective())};
    call.tile = tile_for(good_, call, setting.tiles);
    return call;
  }

  /// Twice the world, and then the right one.
  Status check(const PlanWorld& world, const Setting& setting) {
    const CheckCall calls[] = {call(world, setting), call(world, setting), call(good_, setting)};
    return checker_
        .check(calls, {.slots = setting.slots,
                       .protocol = setting.protocol,
                       .posted = setting.posted,
                       .order = static_cast<Order>(runs_++ % 3),
                       .seed = runs_})
        .status();
  }

  bool rejected(PlanWorld& world, const Mutant& mutant) {
    if (!world.replace(mutant.plan).ok()) return true;
    const CheckCall alone = call(world, kSettings[0]);
    if (!checker_.check({&alone, 1}, {.slots = kSettings[0].slots}).ok()) return true;
    for (const Setting& setting : kSettings)
      if (applies(setting) && !check(world, setting).ok()) return true;
    return false;
  }

  void judge(const Mutant& mutant, bool rejected) {
    const auto kind = static_cast<std::size_t>(mutant.kind);
    if (rejected) {
      ++count_.rejected[kind];
      return;
    }
    ++count_.accepted[kind];
    const std::optional<Survivor> survivor = classify(good_.plan(mutant.plan.header.rank), mutant);
    if (survivor) {
      ++count_.survivors[static_cast<std::size_t>(*survivor)];
    } else {
      count_.unexplained.push_back(std::string(to_string(algorithm_.collective)) + " " + std::string(algorithm_.name) +
                                   ", world " + std::to_string(n_) + ", " + std::string(to_string(mutant.kind)) + ": " +
                                   mutant.text);
    }
  }

  const Algorithm& algorithm_;
  int n_;
  Count& count_;
  PlanWorld good_;
  Checker checker_;
  std::uint64_t runs_ = 0;
};

TEST(EveryMutant, IsRejectedOrACorrectPlanOfAClosedClass) {
  struct Task {
    const Algorithm* algorithm;
    int n;
    int root;
  };
  std::vector<Task> tasks;
  for (const Algorithm& a : algorithms()) {
    if (a.collective == Collective::kReceive) continue;  // is in the world of send
    for (const int n : kWorlds) {
      if (a.collective == Collective::kSend) {
        tasks.push_back({&a, n, n - 1});
        continue;
      }
      tasks.push_back({&a, n, 0});
      if (a.rooted) tasks.push_back({&a, n, n - 1});
    }
  }
  Count all;
  std::mutex mutex;
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    Count count;
    for (std::size_t t = next++; t < tasks.size(); t = next++)
      Hunt(*tasks[t].algorithm, tasks[t].n, tasks[t].root, count).run();
    const std::lock_guard lock(mutex);
    for (std::size_t k = 0; k < kMutantKindCount; ++k) {
      all.rejected[k] += count.rejected[k];
      all.accepted[k] += count.accepted[k];
    }
    for (std::size_t s = 0; s < kSurvivorCount; ++s) all.survivors[s] += count.survivors[s];
    all.unexplained.insert(all.unexplained.end(), count.unexplained.begin(), count.unexplained.end());
  };
  std::thread other(work);
  work();
  other.join();
  std::uint64_t rejected = 0;
  std::uint64_t accepted = 0;
  for (std::size_t k = 0; k < kMutantKindCount; ++k) {
    std::printf("%-24s %8llu rejected %8llu accepted\n", std::string(to_string(static_cast<MutantKind>(k))).c_str(),
                static_cast<unsigned long long>(all.rejected[k]), static_cast<unsigned long long>(all.accepted[k]));
    rejected += all.rejected[k];
    accepted += all.accepted[k];
  }
  for (std::size_t s = 0; s < kSurvivorCount; ++s)
    std::printf("accepted, correct by class: %-26s %8llu\n", std::string(to_string(static_cast<Survivor>(s))).c_str(),
                static_cast<unsigned long long>(all.survivors[s]));
  std::printf("mutants: %llu, rejected %llu, accepted in closed classes %llu, unexplained %zu\n",
              static_cast<unsigned long long>(rejected + accepted), static_cast<unsigned long long>(rejected),
              static_cast<unsigned long long>(accepted - all.unexplained.size()), all.unexplained.size());
  for (std::size_t u = 0; u < all.unexplained.size() && u < 20; ++u) ADD_FAILURE() << all.unexplained[u];
  // Without exception.
  for (const MutantKind kind :
       {MutantKind::kDropMove, MutantKind::kDropSignal, MutantKind::kDropWaitData, MutantKind::kDropSource,
        MutantKind::kDropDestination, MutantKind::kDoubleSignal, MutantKind::kWrongPiece, MutantKind::kWrongChunk,
        MutantKind::kRepeatLess, MutantKind::kFlipFinish, MutantKind::kDropGrant}) {
    EXPECT_EQ(all.accepted[static_cast<std::size_t>(kind)], 0u) << to_string(kind);
    EXPECT_GT(all.rejected[static_cast<std::size_t>(kind)], 0u) << to_string(kind);
  }
}

}  // namespace
}  // namespace hocket
