// SPDX-License-Identifier: Apache-2.0
// property_test.cpp: every registered algorithm, in every world, proven by the checker.
//
// A case is (algorithm, collective, world, count, root, tiles); it is run in bulk in and out of place, in packets and
// with posted Moves where the plan allows them, each time with other slots, tiles a round, unit, lanes, schedule and
// plan in between, dealt by a hash of the case and the printed seed (HOCKET_TEST_SEED). Uneven forms get counts for
// each rank or pair, a third of them zero, and gaps between the chunks. Worlds up to 16 in full, above that one case an
// algorithm, or two, for all up to 64 and some up to 128. Groups of sends and receives are random: three different ones
// in a row.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "algorithms/dump.hpp"
#include "checker/worlds.hpp"

namespace hocket {
namespace {

constexpr int kFullWorlds = 16;
constexpr int kWorlds = 64;
/// And these, up to where one Move names all ranks.
constexpr int kLargeWorlds[] = {128, 97, 65};
/// A thin case's world times elements moved; one-shot forms at 64 ranks move 4096 times the count.
constexpr std::uint64_t kMostElements = 120'000;

std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* text = std::getenv("HOCKET_TEST_SEED");
    return text == nullptr ? std::uint64_t{20090501} : std::strtoull(text, nullptr, 10);
  }();
  return value;
}

/// Deals a number below `limit` from a running hash.
class Dealer {
 public:
  explicit Dealer(std::uint64_t start) : state_(start) {}
  std::uint64_t below(std::uint64_t limit) {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return (x ^ (x >> 31)) % limit;
  }

 private:
  std::uint64_t state_;
};

bool is_pair(const Algorithm& a) {
  return a.collective == Collective::kSend || a.collective == Collective::kReceive;
}
bool is_uneven(const Algorithm& a) {
  return a.collective == Collective::kAllGatherV || a.collective == Collective::kReduceScatterV ||
         a.collective == Collective::kAllToAllV;
}

/// Counts up to `most` for each rank or pair: a third of them zero, some the most.
UnevenCounts deal_counts(const Algorithm& a, int n, std::uint64_t most, Dealer& deal) {
  UnevenCounts uneven;
  const bool pairs = a.collective == Collective::kAllToAllV;
  std::vector<std::uint64_t>& counts = pairs ? uneven.pairs : uneven.ranks;
  counts.resize(static_cast<std::size_t>(pairs ? n * n : n));
  for (std::uint64_t& count : counts) {
    const std::uint64_t kind = deal.below(6);
    count = kind < 2 ? 0 : kind == 2 ? most : deal.below(most + 1);
  }
  uneven.gap = deal.below(2) * 3;
  return uneven;
}

/// One algorithm's plans for one world, root and number of lanes, with what ran of them.
struct World {
  const Algorithm* algorithm;
  int root;
  int lanes;
  PlanWorld plans;
  std::vector<std::uint8_t> ran;
};

struct Tally {
  std::uint64_t cases = 0;
  std::uint64_t runs = 0;
  std::uint64_t steps = 0;
};

/// All worlds of n ranks, proven one after the other by one thread.
class Prover {
 public:
  explicit Prover(int n) : n_(n) {}

  void run() {
    build();
    for (std::size_t w = 0; w < worlds_.size(); ++w) {
      if (n_ <= kFullWorlds) {
        full(worlds_[w]);
      } else {
        thin(worlds_[w]);
      }
      never_run(worlds_[w]);
    }
  }

  std::map<std::string, Tally> tallies;
  std::vector<std::string> failures;

 private:
  static std::string name(const Algorithm& a) {
    return std::string(to_string(a.collective)) + " " + std::string(a.name);
  }

  void build() {
    for (const Algorithm& a : algorithms()) {
      if ((a.max_world != 0 && n_ > a.max_world) || (is_pair(a) && n_ < 2)) continue;
      std::set<int> roots = {0};
      if (a.rooted) roots.insert({n_ - 1, n_ > 1 ? 1 : 0});
      if (is_pair(a)) roots.erase(0);
      for (const int root : roots)
        for (int lanes = 1; lanes <= (a.many_lanes && (n_ <= kFullWorlds || (n_ % 4 == 0 && n_ <= kWorlds)) ? 2 : 1);
             ++lanes) {
          auto plans = plan_world(a, {.world = n_, .root = root, .lanes = lanes});
          if (!plans.ok()) {
            failures.push_back(name(a) + ": " + plans.status().to_string());
            continue;
          }
          for (int r = 0; r < n_; ++r)
            if (const Plan& plan = plans->plan(r); !plan.lanes.empty() && plan.header.pieces != pieces_of(a, n_))
              failures.push_back(name(a) + ": the table has another number of pieces than the plan");
          World world{&a, root, lanes, std::move(plans).value(), {}};
          world.ran.resize(world.plans.steps());
          worlds_.push_back(std::move(world));
        }
    }
  }

  std::vector<std::uint64_t> counts() const {
    const auto n = static_cast<std::uint64_t>(n_);
    const std::set<std::uint64_t> different = {0, 1, n - 1, n, n + 1, 7 * n + 3};
    return {different.begin(), different.end()};
  }

  void full(World& world) {
    for (const std::uint64_t count : counts())
      for (int tiles = 0; tiles < 5; ++tiles) one_case(world, count, tiles);
  }

  void thin(World& world) {
    // Each root and number of lanes gets its share; small counts run all steps too.
    Dealer deal(seed() ^ static_cast<std::uint64_t>(n_ * 64 + world.root) ^
                (static_cast<std::uint64_t>(world.lanes) << 32));
    std::vector<std::uint64_t> counts = this->counts();
    const int cases = world.lanes == 1 && !world.algorithm->rooted ? 2 : 1;
    for (int c = 0; c < cases; ++c) {
      std::uint64_t count = counts[deal.below(counts.size())];
      // What one run moves grows with n^2 per element of the count, or with n^2 in all for a buffer that is divided.
      const std::uint64_t n2 = static_cast<std::uint64_t>(n_) * static_cast<std::uint64_t>(n_);
      if (world.algorithm->collective != Collective::kBroadcast && count * n2 > kMostElements)
        count = kMostElements / n2;
      one_case(world, count, static_cast<int>(deal.below(5)));
    }
  }

  void one_case(World& world, std::uint64_t count, int tiles) {
    Tally& tally = tallies[name(*world.algorithm)];
    if (cases_.emplace(world.algorithm, world.root, count, tiles).second) ++tally.cases;
    const auto hash = [&](std::uint64_t mode) {
      return seed() ^ (static_cast<std::uint64_t>(n_) << 56) ^ (static_cast<std::uint64_t>(world.root) << 48) ^
             (count << 16) ^ (static_cast<std::uint64_t>(tiles) << 8) ^ (mode << 4) ^
             static_cast<std::uint64_t>(world.lanes) ^
             (static_cast<std::uint64_t>(world.algorithm - algorithms().data()) << 40);
    };
    // Modes: bulk, bulk in place, packets, posted.
    Dealer pick(hash(15));
    std::vector<std::uint64_t> modes = {0};
    if (may_be_in_place(world.algorithm->collective)) modes.push_back(1);
    if (world.plans.packets()) modes.push_back(2);
    if (world.plans.posted()) modes.push_back(3);
    if (n_ > kFullWorlds) modes = {modes[pick.below(modes.size())]};
    for (const std::uint64_t mode : modes) {
      Dealer deal(hash(mode));
      const int slots = 2 + static_cast<int>(deal.below(3));
      const int tile_choices[5] = {1, 2, slots, slots + 1, 2 * slots + 1};
      std::optional<UnevenCounts> uneven;
      if (is_uneven(*world.algorithm)) uneven = deal_counts(*world.algorithm, n_, count, deal);
      CheckCall call{
          .plans = &world.plans,
          .count = count,
          .unit = deal.below(2) == 0 ? 1u : 4u,
          .tiles_per_round = slots == 2 ? 1 : 1 + static_cast<int>(deal.below(2)),
          .in_place = mode == 1 || (mode > 1 && may_be_in_place(world.algorithm->collective) && deal.below(2) == 1),
          .uneven = uneven ? &*uneven : nullptr,
          .ran = &world.ran};
      call.tile = tile_for(world.plans, call, static_cast<std::uint64_t>(tile_choices[tiles]));
      // For an algorithm that promises rank order, a plan that keeps it: then the whole sequence must.
      World* other = &worlds_[deal.below(worlds_.size())];
      while (world.algorithm->ordered && reduces(other->algorithm->collective) && !other->algorithm->ordered)
        other = &worlds_[deal.below(worlds_.size())];
      World& between_world = *other;
      CheckCall between{.plans = &between_world.plans,
                        .count = 1 + deal.below(n_ <= kFullWorlds ? 2 * static_cast<std::uint64_t>(n_) : 3)};
      between.tile = tile_for(between_world.plans, between, 1 + deal.below(3));
      CheckCall last = call;
      last.tile = call.tile + 1;
      last.tiles_per_round = slots - call.tiles_per_round > 1 ? slots - call.tiles_per_round : 1;
      const CheckCall calls[] = {call, call, between, last};
      CheckOptions options{.slots = slots,
                           .protocol = mode == 2 ? Protocol::kPacket : Protocol::kBulk,
                           .posted = mode == 3,
                           .order = static_cast<Order>(deal.below(3)),
                           .seed = hash(mode)};
      auto report = checker_.check(calls, options);
      ++tally.runs;
      if (!report.ok()) {
        char settings[256];
        std::snprintf(settings, sizeof settings,
                      "%s, world %d, root %d, %d lanes, count %llu, tile %llu, unit %u, %d slots, %d tiles a round, "
                      "mode %d, in place %d, "
                      "between %s: ",
                      name(*world.algorithm).c_str(), n_, world.root, world.lanes,
                      static_cast<unsigned long long>(count), static_cast<unsigned long long>(call.tile), call.unit,
                      slots, call.tiles_per_round, static_cast<int>(mode), call.in_place,
                      name(*between_world.algorithm).c_str());
        failures.push_back(settings + std::string(report.status().text()));
        continue;
      }
      tally.steps += report->steps;
      if (!report->equal_bits) failures.push_back(name(*world.algorithm) + ": ranks have different bits");
      if (world.algorithm->ordered && !report->ordered)
        failures.push_back(name(*world.algorithm) + ": an element is not reduced by one Move in rank order");
    }
  }

  /// Every step that is not in a repeat of count 0 has run for some count.
  void never_run(const World& world) {
    for (int r = 0; r < n_; ++r) {
      const Plan& plan = world.plans.plan(r);
      for (std::size_t l = 0; l < plan.lanes.size(); ++l) {
        const LaneProgram& lane = plan.lanes[l];
        for (std::uint32_t at = 0; at < lane.count; ++at) {
          const Step& step = plan.steps[lane.first + at];
          if (step.op == StepOp::kRepeat && step.count == 0) {
            at = step.jump - 1;
            continue;
          }
          if (step.op > StepOp::kWaitCredit || world.ran[world.plans.step_base(r) + lane.first + at] != 0) continue;
          failures.push_back(name(*world.algorithm) + ", world " + std::to_string(n_) + ", rank " + std::to_string(r) +
                             ", lane " + std::to_string(l) + ", step " + std::to_string(at) +
                             " never runs: " + step_text(plan.view(), lane, at));
        }
      }
    }
  }

  int n_;
  std::vector<World> worlds_;
  std::set<std::tuple<const Algorithm*, int, std::uint64_t, int>> cases_;  // counted once, whatever the lanes
  Checker checker_;
};

/// Messages between random pairs, up to three of a pair, in an order that the two ends have each for themselves.
UnevenCounts deal_group(int n, Dealer& deal) {
  UnevenCounts group;
  group.sends.resize(static_cast<std::size_t>(n));
  group.receives.resize(static_cast<std::size_t>(n));
  const auto insert = [&](std::vector<Message>& list, const std::vector<Message>& messages) {
    // Anywhere behind what the pair has already.
    std::size_t at = 0;
    for (const Message& message : messages) {
      at += deal.below(list.size() - at + 1);
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(at++), message);
    }
  };
  const std::uint64_t density = 1 + deal.below(6);
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < n; ++to) {
      if (deal.below(n <= kFullWorlds ? 6 : static_cast<std::uint64_t>(n)) >= density) continue;
      std::vector<Message> messages(deal.below(4) == 0 ? 1 + deal.below(3) : 1, Message{to, 0});
      for (Message& message : messages) message.count = deal.below(3) == 0 ? 0 : deal.below(20);
      insert(group.sends[static_cast<std::size_t>(from)], messages);
      for (Message& message : messages) message.peer = from;
      insert(group.receives[static_cast<std::size_t>(to)], messages);
    }
  if (deal.below(8) == 0) group.gap = 2;
  // Somebody must take part.
  group.sends[0].push_back({n - 1, 5});
  group.receives[static_cast<std::size_t>(n - 1)].push_back({0, 5});
  return group;
}

TEST(Exchange, RandomGroupsInARowAreProven) {
  std::printf("seed %llu (HOCKET_TEST_SEED)\n", static_cast<unsigned long long>(seed()));
  Checker checker;
  std::uint64_t groups = 0, messages = 0, runs = 0;
  for (int n = 1; n <= kWorlds; n += n < kFullWorlds ? 1 : 8) {
    for (int draw = 0; draw < (n <= kFullWorlds ? 60 : 3); ++draw) {
      Dealer deal(seed() ^ (static_cast<std::uint64_t>(n) << 32) ^ static_cast<std::uint64_t>(draw));
      std::vector<UnevenCounts> three;
      std::vector<PlanWorld> worlds;
      for (int g = 0; g < 3; ++g) {
        three.push_back(deal_group(n, deal));
        auto world = exchange_world(three.back(), 1 + static_cast<int>(deal.below(2)),
                                    deal.below(2) == 0 ? ExchangeForm::kInterleaved : ExchangeForm::kSideBySide);
        ASSERT_TRUE(world.ok()) << world.status().text();
        worlds.push_back(std::move(world).value());
        for (const auto& list : three.back().sends) messages += list.size();
        ++groups;
      }
      const int slots = 2 + static_cast<int>(deal.below(3));
      std::vector<CheckCall> calls;
      // One tile size for all: what two ranks exchange in one group, others may in the next.
      const std::uint64_t tile = 1 + deal.below(12);
      for (std::size_t g = 0; g < 3; ++g)
        calls.push_back(
            {.plans = &worlds[g], .count = 0, .tile = tile, .unit = deal.below(2) == 0 ? 1u : 4u, .uneven = &three[g]});
      for (int mode = 0; mode < 3; ++mode) {
        const CheckOptions options{.slots = slots,
                                   .protocol = mode == 1 ? Protocol::kPacket : Protocol::kBulk,
                                   .posted = mode == 2,
                                   .order = static_cast<Order>(deal.below(3)),
                                   .seed = deal.below(1 << 30)};
        const auto report = checker.check(calls, options);
        ASSERT_TRUE(report.ok()) << "world " << n << ", draw " << draw << ", mode " << mode << ": "
                                 << report.status().text();
        ++runs;
      }
    }
  }
  std::printf("proven: %llu random groups of %llu messages, three in a row, in %llu runs\n",
              static_cast<unsigned long long>(groups), static_cast<unsigned long long>(messages),
              static_cast<unsigned long long>(runs));
}

TEST(EveryAlgorithm, IsProvenInEveryWorld) {
  std::printf("seed %llu (HOCKET_TEST_SEED)\n", static_cast<unsigned long long>(seed()));
  std::mutex mutex;
  std::map<std::string, Tally> tallies;
  std::vector<std::string> failures;
  std::vector<int> worlds(std::begin(kLargeWorlds), std::end(kLargeWorlds));
  for (int n = kWorlds; n >= 1; --n) worlds.push_back(n);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t at = next++; at < worlds.size(); at = next++) {
      Prover prover(worlds[at]);
      prover.run();
      const std::lock_guard lock(mutex);
      for (const auto& [algorithm, tally] : prover.tallies) {
        tallies[algorithm].cases += tally.cases;
        tallies[algorithm].runs += tally.runs;
        tallies[algorithm].steps += tally.steps;
      }
      failures.insert(failures.end(), prover.failures.begin(), prover.failures.end());
    }
  };
  std::thread other(work);
  work();
  other.join();
  Tally all;
  for (const auto& [algorithm, tally] : tallies) {
    std::printf("%-34s %8llu cases %8llu runs %12llu steps\n", algorithm.c_str(),
                static_cast<unsigned long long>(tally.cases), static_cast<unsigned long long>(tally.runs),
                static_cast<unsigned long long>(tally.steps));
    all.cases += tally.cases;
    all.runs += tally.runs;
    all.steps += tally.steps;
  }
  std::printf("proven: %llu (algorithm, collective, world, count, root, tiles) cases in %llu runs of %llu steps\n",
              static_cast<unsigned long long>(all.cases), static_cast<unsigned long long>(all.runs),
              static_cast<unsigned long long>(all.steps));
  for (std::size_t f = 0; f < failures.size() && f < 20; ++f) ADD_FAILURE() << failures[f];
  EXPECT_EQ(failures.size(), 0u);
  EXPECT_EQ(tallies.size(), algorithms().size());
}

}  // namespace
}  // namespace hocket
