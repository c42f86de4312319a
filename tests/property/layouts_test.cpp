// SPDX-License-Identifier: Apache-2.0
// layouts_test.cpp: every plan that follows a machine's links is proven: for each machine file of tests/topologies, and
// of the folder that HOCKET_TOPOLOGIES names, one rank a GPU, one to three such hosts, ranks dealt host by host and in
// turn, the algorithms that go by a layout, in several sizes.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "algorithms/layout.hpp"
#include "algorithms/select.hpp"
#include "checker/worlds.hpp"
#include "topo/machine_file.hpp"
#include "topo/paths.hpp"

namespace hocket {
namespace {

namespace fs = std::filesystem;

/// Larger worlds cost minutes; what differs between machines is inside a host.
constexpr std::size_t kMostRanks = 96;

bool goes_by_layout(const Algorithm& a) {
  return a.name == "ring" || a.name == "tree" || a.name == "chain";
}

class Prover {
 public:
  void machine(const fs::path& file) {
    const Result<topo::Graph> graph = topo::graph_from_file(file.string());
    if (!graph.ok()) return;  // graph files, and damaged ones
    const std::vector<int> gpus = topo::Paths(*graph).gpus();
    if (gpus.size() < 2) return;
    const topo::HostLayout host = host_layout(*graph, gpus);
    for (std::size_t hosts = 1; hosts <= 3; ++hosts) {
      const std::size_t n = hosts * gpus.size();
      if (n > kMostRanks) {
        ++too_large;
        continue;
      }
      for (const bool in_turn : {false, true}) {
        if (in_turn && hosts == 1) continue;
        std::vector<std::int32_t> of_rank;
        for (std::size_t r = 0; r < n; ++r)
          of_rank.push_back(static_cast<std::int32_t>(in_turn ? r % hosts : r / gpus.size()));
        const std::vector<topo::HostLayout> layouts(hosts, host);
        Result<Layout> layout = join_hosts(of_rank, layouts);
        ASSERT_TRUE(layout.ok()) << file << ": " << layout.status().to_string();
        for (std::size_t l = 0; l < layout->rings.size(); ++l)
          EXPECT_EQ(layout->crossings(static_cast<int>(l)), hosts == 1 ? 0 : static_cast<int>(hosts)) << file;
        // Machines of a kind have the same layout.
        layout->links = {};
        if (!proven_.insert(layout->digest()).second) continue;
        layouts_proven += 1;
        world(file, static_cast<int>(n), *layout);
      }
    }
  }

  std::size_t layouts_proven = 0, plans_proven = 0, too_large = 0;

 private:
  void world(const fs::path& file, int n, const Layout& layout) {
    const int rings = std::max(static_cast<int>(layout.rings.size()), 1);
    for (const Algorithm& a : algorithms()) {
      if (!goes_by_layout(a)) continue;
      std::set<int> lane_counts = {1};
      if (a.many_lanes) lane_counts.insert(std::min(rings, kMostLanes));
      for (const int lanes : lane_counts)
        for (const int root : a.rooted ? std::set<int>{0, n - 1, n / 2} : std::set<int>{0}) {
          const auto plans = plan_world(a, {.world = n, .root = root, .lanes = lanes, .layout = &layout});
          ASSERT_TRUE(plans.ok()) << file << " " << a.name << ": " << plans.status().text();
          for (const std::uint64_t count : {std::uint64_t{1}, static_cast<std::uint64_t>(2 * n + 3)}) {
            const std::uint64_t wanted = n > 32 && count > 1 ? static_cast<std::uint64_t>(n) / 4 : count;
            for (const bool posted : {false, true}) {
              // Large worlds take seconds: each plan once, in one of the ways.
              if (n > 24 && posted != ((plans_proven + count) % 2 == 0)) continue;
              if (n > 24 && count == 1) continue;
              CheckCall call{.plans = &*plans, .count = wanted};
              call.tiles_per_round = posted ? 2 : 1;
              call.tile = tile_for(*plans, call, posted ? 3 : 5);
              const CheckCall calls[] = {call, call};
              const auto report = checker_.check(
                  calls, {.slots = posted ? 3 : 2, .posted = posted, .order = Order::kShuffled, .seed = 7 + wanted});
              ASSERT_TRUE(report.ok()) << file << ", " << n << " ranks, " << to_string(a.collective) << " " << a.name
                                       << ", root " << root << ", " << lanes << " lanes, count " << wanted << ": "
                                       << report.status().text();
              if (a.collective == Collective::kAllReduce) {
                EXPECT_TRUE(report->equal_bits) << file << " " << a.name;
              }
              if (layout.hosts > 1 && a.name == "ring" && wanted > 1 && !posted)
                crosses_seldom(file, n, layout, *report);
            }
          }
          ++plans_proven;
        }
    }
  }

  /// Pairs of ranks on different hosts that a ring's data goes between: as many as hosts, for each order.
  void crosses_seldom(const fs::path& file, int n, const Layout& layout, const CheckReport& report) {
    std::size_t pairs = 0;
    for (int a = 0; a < n; ++a)
      for (int b = 0; b < n; ++b)
        pairs += layout.host[static_cast<std::size_t>(a)] != layout.host[static_cast<std::size_t>(b)] &&
                 report.links[static_cast<std::size_t>(a * n + b)].data_signals > 0;
    EXPECT_LE(pairs, static_cast<std::size_t>(layout.hosts) * std::max<std::size_t>(layout.rings.size(), 1)) << file;
  }

  std::set<std::uint64_t> proven_;
  Checker checker_;
};

void prove_folder(const fs::path& folder) {
  Prover prover;
  std::size_t files = 0;
  std::set<fs::path> sorted;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && !entry.path().string().ends_with(".tar.bz2")) sorted.insert(entry.path());
  for (const fs::path& file : sorted) {
    ++files;
    prover.machine(file);
    if (::testing::Test::HasFatalFailure()) return;
  }
  std::printf("proven: %zu plans of %zu layouts, from %zu files; %zu worlds of more than %zu ranks left out\n",
              prover.plans_proven, prover.layouts_proven, files, prover.too_large, kMostRanks);
  EXPECT_GT(prover.layouts_proven, 0u);
}

TEST(Layouts, OfTheProjectsMachinesMakeRightPlans) {
  prove_folder(fs::path(HOCKET_SOURCE_DIR) / "tests/topologies/machines");
}

TEST(Layouts, OfRealMachinesMakeRightPlans) {
  const char* set = std::getenv("HOCKET_TOPOLOGIES");
  const fs::path folder = set != nullptr ? fs::path(set) : fs::path(HOCKET_SOURCE_DIR) / "../shared/topologies";
  std::error_code missing;
  if (!fs::is_directory(folder, missing))
    GTEST_SKIP() << "HOCKET_TOPOLOGIES names no folder of machine files, so real machines are not tried";
  prove_folder(folder);
}

/// The checker would see a ring that leaves out a rank, or a tree with one edge wrong.
TEST(Layouts, WrongOnesAreNotProven) {
  Layout layout;
  layout.host = {0, 0, 0, 0};
  layout.rings = {{0, 2, 1, 3}};
  layout.trees = {{-1, 0, 0, 1}, {1, 3, 3, -1}};
  const auto proves = [&](std::string_view name, const Layout& first, const Layout& second) {
    const Algorithm& a = *find_algorithm(Collective::kAllReduce, name);
    std::vector<Plan> plans;
    for (int r = 0; r < 4; ++r) {
      Result<Plan> plan = plan_of(a, {.world = 4, .rank = r, .layout = r == 2 ? &second : &first});
      EXPECT_TRUE(plan.ok());
      plans.push_back(std::move(*plan));
    }
    const auto world = PlanWorld::of(std::move(plans));
    if (!world.ok()) return false;
    const CheckCall call{.plans = &*world, .count = 9, .tile = 4};
    Checker checker;
    return checker.check(std::span(&call, 1), {}).ok();
  };
  EXPECT_TRUE(proves("ring", layout, layout));
  EXPECT_TRUE(proves("tree", layout, layout));
  Layout other = layout;
  other.rings = {{0, 1, 2, 3}};
  EXPECT_FALSE(proves("ring", layout, other)) << "ranks that follow different orders";
  other = layout;
  other.trees[1] = {3, 3, 1, -1};
  EXPECT_FALSE(proves("tree", layout, other)) << "ranks that follow different trees";
}

}  // namespace
}  // namespace hocket
