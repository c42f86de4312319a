// SPDX-License-Identifier: Apache-2.0
// promises_test.cpp: what the algorithms' heads promise: bytes and signals over each link, equal bits, residency,
// uneven counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "checker/worlds.hpp"

namespace hocket {
namespace {

constexpr int kMostRanks = 16;

/// One world and count, and what went over its links.
struct Case {
  int n;
  int root;
  std::uint64_t count;
  std::uint32_t unit;
  CheckReport report;

  const LinkUse& link(int from, int to) const { return report.links[static_cast<std::size_t>(from * n + to)]; }
  /// Elements of chunk c of an all-reduce over n chunks.
  std::uint64_t chunk(int c) const {
    const Shape shape{.count = count, .unit = unit};
    return chunk_of({CutKind::kEven, n}, shape, (c % n + n) % n, 0, 1).length;
  }
};

using Elements = std::function<std::uint64_t(const Case&, int from, int to)>;

std::uint64_t everybody(const Case& c, int, int) {
  return c.count;
}
std::uint64_t two_chunks(const Case& c, int from, int to) {
  return c.chunk(from) + c.chunk(to);
}
std::uint64_t ring_once(const Case& c, int from, int to) {
  return to == (from + 1) % c.n ? static_cast<std::uint64_t>(c.n - 1) * c.count : 0;
}
std::uint64_t ring_twice(const Case& c, int from, int to) {
  return to == (from + 1) % c.n ? 2 * c.count - c.chunk(from) - c.chunk(from + 1) : 0;
}
std::uint64_t from_root(const Case& c, int from, int) {
  return from == c.root ? c.count : 0;
}
std::uint64_t to_root(const Case& c, int, int to) {
  return to == c.root ? c.count : 0;
}
std::uint64_t along_chain(const Case& c, int from, int to) {
  return to == (from + 1) % c.n && to != c.root ? c.count : 0;
}
std::uint64_t against_chain(const Case& c, int from, int to) {
  return from == (to + 1) % c.n && from != c.root ? c.count : 0;
}
bool power_of_two(int x) {
  return (x & (x - 1)) == 0;
}
/// One chunk a rank: at a distance that is a power of two, those that the other does not have.
std::uint64_t log_step(const Case& c, int distance) {
  if (!power_of_two(distance)) return 0;
  std::uint64_t chunks = 0;
  for (int at = distance; at < c.n; at += 2 * distance) ++chunks;
  return chunks * c.count;
}
std::uint64_t log_step_gather(const Case& c, int from, int to) {
  return log_step(c, (to - from + c.n) % c.n);
}
std::uint64_t log_step_scatter(const Case& c, int from, int to) {
  return log_step(c, (from - to + c.n) % c.n);
}
std::uint64_t bruck(const Case& c, int from, int to) {
  const int distance = (to - from + c.n) % c.n;
  std::uint64_t chunks = 0;
  for (int j = 1; j < c.n && power_of_two(distance); ++j) chunks += (j & distance) != 0;
  return chunks * c.count;
}
/// A rank's whole subtree, over the edge to its parent.
std::uint64_t binomial(const Case& c, int child, int parent) {
  const int v = (child - c.root + c.n) % c.n;
  if (v == 0 || (parent - c.root + c.n) % c.n != (v & (v - 1))) return 0;
  return static_cast<std::uint64_t>(std::min(v & -v, c.n - v)) * c.count;
}
std::uint64_t binomial_down(const Case& c, int from, int to) {
  return binomial(c, to, from);
}
/// Partners at distance d exchange p/(2d) chunks on the way down, and as many on the way up.
std::uint64_t halving_doubling(const Case& c, int from, int to) {
  int p = 1;
  while (2 * p <= c.n) p *= 2;
  const int extra = c.n - p;
  const auto core = [&](int r) { return r >= 2 * extra ? r - extra : r % 2 == 0 ? r / 2 : -1; };
  const int a = core(from), b = core(to);
  if (a < 0 || b < 0) return from / 2 == to / 2 && from < 2 * extra && to < 2 * extra ? c.count : 0;
  const int d = a ^ b;
  if (!power_of_two(d)) return 0;
  const Shape shape{.count = c.count, .unit = c.unit};
  std::uint64_t elements = 0;
  for (int k = 0; k < p; ++k)
    for (const int keeper : {a, b})
      if (k % (2 * d) == keeper % (2 * d)) elements += chunk_of({CutKind::kEven, p}, shape, k, 0, 1).length;
  return elements;
}
std::uint64_t nothing(const Case&, int, int) {
  return 0;
}

/// Per link, exactly.
const std::map<std::pair<Collective, std::string_view>, Elements>& link_promises() {
  static const std::map<std::pair<Collective, std::string_view>, Elements> table = {
      {{Collective::kAllReduce, "one_shot"}, everybody},
      {{Collective::kAllReduce, "one_shot_board"}, everybody},
      {{Collective::kAllReduce, "two_shot"}, two_chunks},
      {{Collective::kAllReduce, "two_shot_board"}, two_chunks},
      {{Collective::kAllReduce, "two_shot_zero_copy"}, two_chunks},
      {{Collective::kAllReduce, "ring"}, ring_twice},
      {{Collective::kAllGather, "direct"}, everybody},
      {{Collective::kAllGather, "direct_zero_copy"}, everybody},
      {{Collective::kAllGather, "ring"}, ring_once},
      {{Collective::kReduceScatter, "direct"}, everybody},
      {{Collective::kReduceScatter, "direct_zero_copy"}, everybody},
      {{Collective::kReduceScatter, "ring"}, ring_once},
      {{Collective::kAllToAll, "direct_zero_copy"}, everybody},
      {{Collective::kAllToAll, "direct"}, everybody},
      {{Collective::kAllToAll, "pairwise"}, everybody},
      {{Collective::kAllToAll, "bruck"}, bruck},
      {{Collective::kAllReduce, "halving_doubling"}, halving_doubling},
      {{Collective::kAllGather, "log_step"}, log_step_gather},
      {{Collective::kReduceScatter, "log_step"}, log_step_scatter},
      {{Collective::kAllGatherV, "direct"}, everybody},
      {{Collective::kAllGatherV, "ring"}, ring_once},
      {{Collective::kReduceScatterV, "direct"}, everybody},
      {{Collective::kReduceScatterV, "ring"}, ring_once},
      {{Collective::kAllToAllV, "direct"}, everybody},
      {{Collective::kAllToAllV, "pairwise"}, everybody},
      {{Collective::kExchange, "pairwise"}, everybody},
      {{Collective::kGather, "direct"}, to_root},
      {{Collective::kGather, "binomial"}, binomial},
      {{Collective::kScatter, "direct"}, from_root},
      {{Collective::kScatter, "binomial"}, binomial_down},
      {{Collective::kReduce, "chain"}, against_chain},
      {{Collective::kBroadcast, "direct"}, from_root},
      {{Collective::kBroadcast, "direct_zero_copy"}, from_root},
      {{Collective::kBroadcast, "chain"}, along_chain},
      {{Collective::kReduce, "one_shot"}, to_root},
      {{Collective::kBarrier, "dissemination"}, nothing},
  };
  return table;
}

/// Trees: each edge of a tree carries its half once (all-reduce: once up, once down), and an inner node has at most two
/// children.
void check_tree(const Algorithm& a, const Case& c) {
  const auto n = static_cast<std::uint64_t>(c.n);
  const std::uint64_t edges = (n - 1) * c.count * (a.collective == Collective::kAllReduce ? 2 : 1);
  std::uint64_t all = 0;
  for (int r = 0; r < c.n; ++r) {
    std::uint64_t out = 0;
    std::uint64_t in = 0;
    for (int p = 0; p < c.n; ++p) {
      out += c.link(r, p).elements;
      in += c.link(p, r).elements;
    }
    all += out;
    // One rank in odd worlds, and in even ones the tops, carry half a count more than the rest.
    const std::uint64_t most = (a.collective == Collective::kAllReduce ? 3 : 2) * c.count + 2;
    EXPECT_LE(out, most) << "rank " << r << " of " << c.n;
    EXPECT_LE(in, most) << "rank " << r << " of " << c.n;
    if (a.collective == Collective::kBroadcast) {
      EXPECT_EQ(in, r == c.root ? 0 : c.count);
    } else if (a.collective == Collective::kReduce) {
      EXPECT_EQ(out, r == c.root ? 0 : c.count);
    }
  }
  EXPECT_EQ(all, edges) << a.name << " in a world of " << c.n;
}

TEST(EveryAlgorithm, MovesWhatItPromisesOverEachLink) {
  Checker checker;
  for (const Algorithm& a : algorithms()) {
    const bool pair = a.collective == Collective::kSend || a.collective == Collective::kReceive;
    for (int n = 2; n <= kMostRanks; ++n)
      for (const int root : a.rooted && !pair ? std::vector<int>{0, n - 1} : std::vector<int>{pair ? n - 1 : 0})
        for (const std::uint64_t count :
             {std::uint64_t{1}, static_cast<std::uint64_t>(n + 1), static_cast<std::uint64_t>(7 * n + 3)})
          for (const std::uint32_t unit : {1u, 4u}) {
            auto world = plan_world(a, {.world = n, .root = root});
            ASSERT_TRUE(world.ok()) << world.status().text();
            CheckCall call{.plans = &*world, .count = count, .unit = unit};
            call.tile = tile_for(*world, call, 3);
            auto report = checker.check({&call, 1}, {.slots = 3});
            ASSERT_TRUE(report.ok()) << report.status().text();
            const Case c{n, root, count, unit, std::move(report).value()};
            SCOPED_TRACE(std::string(to_string(a.collective)) + " " + std::string(a.name) + ", world " +
                         std::to_string(n) + ", count " + std::to_string(count));
            for (int from = 0; from < n; ++from)
              for (int to = 0; to < n; ++to) EXPECT_EQ(c.link(from, to).data_signals, c.link(from, to).credit_signals);
            if (a.name == "tree") {
              check_tree(a, c);
              continue;
            }
            Elements promise = [](const Case& k, int from, int to) { return from == 0 && to == k.root ? k.count : 0; };
            if (!pair) {
              const auto found = link_promises().find({a.collective, a.name});
              ASSERT_NE(found, link_promises().end()) << "an algorithm needs a promise in this table";
              promise = found->second;
            }
            for (int from = 0; from < n; ++from)
              for (int to = 0; to < n; ++to)
                EXPECT_EQ(c.link(from, to).elements, from == to ? 0 : promise(c, from, to))
                    << "from " << from << " to " << to;
          }
  }
}

TEST(Barrier, SignalsOnceInEachOfLogRounds) {
  Checker checker;
  for (int n = 1; n <= 64; ++n) {
    auto world = plan_world(*find_algorithm(Collective::kBarrier, "dissemination"), {.world = n});
    ASSERT_TRUE(world.ok());
    const CheckCall call{.plans = &*world, .count = 0};
    auto report = checker.check({&call, 1}, {});
    ASSERT_TRUE(report.ok()) << report.status().text();
    std::uint64_t rounds = 0;
    for (int reach = 1; reach < n; reach *= 2) ++rounds;
    for (int from = 0; from < n; ++from) {
      std::uint64_t signals = 0;
      for (int to = 0; to < n; ++to) signals += report->links[static_cast<std::size_t>(from * n + to)].data_signals;
      EXPECT_EQ(signals, rounds) << "rank " << from << " of " << n;
    }
  }
}

TEST(EveryAllReduce, GivesAllRanksEqualBits) {
  Checker checker;
  for (const Algorithm& a : algorithms()) {
    if (a.collective != Collective::kAllReduce) continue;
    for (int n = 1; n <= kMostRanks; ++n) {
      auto world = plan_world(a, {.world = n});
      ASSERT_TRUE(world.ok());
      CheckCall call{.plans = &*world, .count = static_cast<std::uint64_t>(7 * n + 3)};
      call.tile = tile_for(*world, call, 3);
      auto report = checker.check({&call, 1}, {});
      ASSERT_TRUE(report.ok()) << report.status().text();
      EXPECT_TRUE(report->equal_bits) << a.name << " in a world of " << n;
    }
  }
}

TEST(Residency, IsOneLaneButForTreesThatNeedTheWayUpAndDown) {
  for (const Algorithm& a : algorithms()) {
    if (a.collective == Collective::kSend || a.collective == Collective::kReceive) continue;
    for (const int n : {2, 3, 5, 8}) {
      auto world = plan_world(a, {.world = n, .lanes = a.many_lanes ? 3 : 1});
      ASSERT_TRUE(world.ok());
      auto lanes = resident(*world);
      ASSERT_TRUE(lanes.ok()) << lanes.status().text();
      const bool up_and_down = a.collective == Collective::kAllReduce && a.name == "tree";
      if (!up_and_down) {
        EXPECT_EQ(*lanes, 1) << to_string(a.collective) << " " << a.name << " in a world of " << n;
      } else {
        EXPECT_LE(*lanes, 2) << n;
      }
    }
  }
}

TEST(UnevenCounts, AreRightWhereACutAllowsThem) {
  const std::uint32_t seed = 77;
  std::mt19937 random(seed);
  Checker checker;
  int cases = 0;
  for (const Algorithm& a : algorithms()) {
    const bool by_rank = a.collective == Collective::kAllGather || a.collective == Collective::kAllGatherV ||
                         a.collective == Collective::kReduceScatter || a.collective == Collective::kReduceScatterV;
    const bool by_pair = a.collective == Collective::kAllToAll || a.collective == Collective::kAllToAllV;
    // Bruck's chunks travel by way of ranks that know nothing of their counts, and where a peer's row is read, only the
    // peer knows how it is cut.
    if ((!by_rank && !by_pair) || a.name == "bruck" || (by_pair && a.zero_copy)) continue;
    // A world of one copies its `count`; a caller with uneven counts passes that.
    for (int n = by_rank ? 1 : 2; n <= 9; ++n)
      for (int lanes = 1; lanes <= (a.many_lanes ? 2 : 1); ++lanes) {
        auto world = plan_world(a, {.world = n, .lanes = lanes});
        ASSERT_TRUE(world.ok());
        for (int draw = 0; draw < 12; ++draw) {
          UnevenCounts uneven;
          for (int p = 0; p < (by_rank ? n : n * n); ++p)
            (by_rank ? uneven.ranks : uneven.pairs).push_back(random() % 3 == 0 ? 0 : random() % 20);
          const int slots = 2 + draw % 3;
          CheckCall call{.plans = &*world,
                         .unit = draw % 2 == 0 ? 1u : 4u,
                         .tiles_per_round = 1 + draw % (slots - 1),
                         .in_place = by_rank && draw % 4 > 1,
                         .uneven = &uneven};
          call.tile = 1 + random() % 7;
          CheckCall last = call;
          last.tile += 3;
          const CheckCall calls[] = {call, call, last};
          for (const bool posted : {false, true}) {
            auto report =
                checker.check(calls, {.slots = slots, .posted = posted, .order = static_cast<Order>(draw % 3)});
            ASSERT_TRUE(report.ok()) << to_string(a.collective) << " " << a.name << ", world " << n << ", seed " << seed
                                     << ": " << report.status().text();
            ++cases;
          }
        }
      }
  }
  std::printf("%d uneven cases, seed %u\n", cases, seed);
}

}  // namespace
}  // namespace hocket
