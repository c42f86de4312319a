// SPDX-License-Identifier: Apache-2.0
// The folded simulation against the full one, event by event over all ranks: equal within 1 %, on every machine file of
// tests/topologies (and of the folder that HOCKET_TOPOLOGIES names), up to 256 ranks, also with one link at half speed
// and with one slow rank.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/format.hpp"
#include "sim/simulate.hpp"
#include "topo/machine_file.hpp"
#include "unit/sim_graphs.hpp"

namespace hocket::sim {
namespace {

enum class Trouble { kNone, kSlowLink, kSlowNic, kSlowRank };

struct Machine {
  std::string name;
  topo::Graph graph;
};

std::vector<Machine> machines() {
  std::vector<Machine> found;
  std::vector<std::string> folders = {HOCKET_SOURCE_DIR "/tests/topologies/machines"};
  if (const char* real = std::getenv("HOCKET_TOPOLOGIES")) folders.emplace_back(real);
  for (const std::string& folder : folders) {
    if (!std::filesystem::is_directory(folder)) continue;
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) {
      auto graph = topo::graph_from_file(file);
      if (graph.ok() && graph->count(topo::NodeKind::kGpu) > 1) found.push_back({file, std::move(*graph)});
    }
  }
  return found;
}

Result<Fabric> fabric_of(const topo::Graph& graph, int hosts, Trouble trouble) {
  FabricOptions options{.hosts = hosts, .network = {}};
  auto fabric = Fabric::make(graph, options);
  if (!fabric.ok() && hosts > 1) {
    options.network.nic_bytes_per_second = 25e9;
    fabric = Fabric::make(graph, options);
  }
  if (!fabric.ok()) return fabric;
  const int rank = fabric->ranks() / 3;
  Status status;
  if (trouble == Trouble::kSlowLink) status = fabric->slow_link(rank, rank + 1, 0.5);
  if (trouble == Trouble::kSlowNic)
    status = fabric->slow_link(rank, (rank + fabric->ranks_per_host()) % fabric->ranks(), 0.5);
  if (trouble == Trouble::kSlowRank) status = fabric->slow_rank(rank, 0.5);
  if (!status.ok()) return status;
  return fabric;
}

/// Says which machines are left out, once each.
void skip(const std::string& name, std::string_view why) {
  static std::set<std::string> said;
  if (said.insert(name).second) print(stderr, "[ LEFT OUT ] {}: {}\n", name, why);
}

void compare(const Machine& machine, int hosts, Trouble trouble, std::string_view algorithm, bool copies,
             std::initializer_list<std::uint64_t> sizes, const Setup& setup = {}, double within = 0.01) {
  auto fabric = fabric_of(machine.graph, hosts, trouble);
  if (!fabric.ok()) {  // islands that no known link joins; topo says so
    skip(machine.name, fabric.status().text());
    return;
  }
  const topo::Paths paths(machine.graph);
  const Placement placement = copies ? best_placement(*fabric, paths, search(paths), 8) : plain_placement(*fabric);
  auto full = Simulation::make(*fabric, placement, Collective::kAllReduce, algorithm, {.full = true});
  auto folded = Simulation::make(*fabric, placement, Collective::kAllReduce, algorithm, setup);
  ASSERT_TRUE(full.ok()) << full.status().text();
  ASSERT_TRUE(folded.ok()) << folded.status().text();
  for (const std::uint64_t bytes : sizes) {
    auto exact = full->price(bytes, gpu_costs(false));
    auto reduced = folded->price(bytes, gpu_costs(false));
    ASSERT_TRUE(exact.ok()) << exact.status().text();
    ASSERT_TRUE(reduced.ok()) << reduced.status().text();
    EXPECT_NEAR(reduced->seconds, exact->seconds, within * exact->seconds)
        << machine.name << ", " << hosts << " hosts, " << algorithm << ", " << bytes << " bytes, trouble "
        << static_cast<int>(trouble) << ", " << folded->classes() << " classes of " << full->classes();
    EXPECT_NEAR(reduced->spent.total(), reduced->seconds, 0.02 * reduced->seconds);
  }
}

constexpr Trouble kTroubles[] = {Trouble::kNone, Trouble::kSlowLink, Trouble::kSlowRank};

TEST(FoldedSimulation, EqualsTheFullOneOnEveryMachine) {
  const std::vector<Machine> all = machines();
  ASSERT_GE(all.size(), 8u);
  for (const Machine& machine : all)
    for (const Trouble trouble : kTroubles)
      for (const std::string_view algorithm : {"ring", "tree"})
        compare(machine, 1, trouble, algorithm, true, {4096, 64 << 20});
}

TEST(FoldedSimulation, EqualsTheFullOneOnSeveralHosts) {
  for (const Machine& machine : machines()) {
    if (machine.graph.count(topo::NodeKind::kGpu) > 16) continue;
    for (const Trouble trouble : kTroubles)
      for (const std::string_view algorithm : {"ring", "tree", "halving_doubling", "hierarchical"})
        compare(machine, 4, trouble, algorithm, false, {1024, 4 << 20});
  }
}

TEST(FoldedSimulation, EqualsTheFullOneWith256Ranks) {
  const Machine machine{"8 GPUs on a switch", switched(8, 360e9, 50e9)};
  for (const Trouble trouble : kTroubles) {
    compare(machine, 32, trouble, "ring", false, {65536, 32 << 20});
    for (const std::string_view algorithm : {"tree", "halving_doubling", "log_step", "hierarchical"})
      compare(machine, 32, trouble, algorithm, false, {1024, 4 << 20});
  }
  compare(machine, 16, Trouble::kNone, "tree", true, {4 << 20});
}

// What worlds of thousands of ranks get, where no symmetry is left: coarser, and more so around a trouble.
TEST(FoldedSimulation, IsNearTheFullOneWithAveragedLinks) {
  const Machine machine{"8 GPUs on a switch", switched(8, 360e9, 50e9)};
  for (const Trouble trouble : {Trouble::kNone, Trouble::kSlowLink, Trouble::kSlowNic, Trouble::kSlowRank}) {
    compare(machine, 32, trouble, "tree", false, {1024, 16 << 20, 256 << 20}, {.average = true, .most_near = 64}, 0.02);
    // Long calls around a slow rank are chaotic: a last digit moves the full simulation, too, by 3 %.
    compare(machine, 32, trouble, "hierarchical", false, {1024, 16 << 20, 256 << 20},
            {.average = true, .most_near = 64}, trouble == Trouble::kSlowRank ? 0.1 : 0.05);
  }
}

// The same from the size on where it is what everybody gets, up to 1024 ranks, which can still be run in full.
TEST(FoldedSimulation, IsNearTheFullOneBeyond256Ranks) {
  const Machine machine{"8 GPUs on a switch", switched(8, 360e9, 50e9)};
  for (const Trouble trouble : {Trouble::kNone, Trouble::kSlowLink, Trouble::kSlowNic, Trouble::kSlowRank})
    for (const std::string_view algorithm : {"tree", "hierarchical"})
      compare(machine, 64, trouble, algorithm, false, {1024, 16 << 20}, {}, 0.02);
  compare(machine, 128, Trouble::kSlowNic, "hierarchical", false, {16 << 20}, {}, 0.02);
  compare(machine, 128, Trouble::kSlowRank, "tree", false, {16 << 20}, {}, 0.02);
  // With few classes the nearest rank stands for others, which a slow rank holds up over the network.
  for (const Trouble trouble : kTroubles)
    for (const std::string_view algorithm : {"halving_doubling", "log_step"})
      compare(machine, 64, trouble, algorithm, false, {256 << 10}, {.most_near = 128},
              trouble == Trouble::kSlowRank ? 0.12 : 0.05);
}

// Among thousands nothing can be run in full, but: bytes need their time, a trouble helps nobody, and what passes a
// link at half speed takes twice as long.
TEST(FoldedSimulation, IsNeverFasterThanTheBusiestLinkNorForATrouble) {
  const topo::Graph graph = switched(8, 360e9, 50e9);
  for (const std::string_view algorithm : {"ring", "tree", "hierarchical", "halving_doubling", "log_step"}) {
    const bool rounds = algorithm == "halving_doubling" || algorithm == "log_step";
    const std::uint64_t bytes = rounds ? 16 << 20 : 256 << 20;
    double untroubled = 0;
    for (const Trouble trouble : {Trouble::kNone, Trouble::kSlowLink, Trouble::kSlowNic, Trouble::kSlowRank}) {
      auto fabric = fabric_of(graph, 256, trouble);
      ASSERT_TRUE(fabric.ok());
      auto simulation = Simulation::make(*fabric, plain_placement(*fabric), Collective::kAllReduce, algorithm, {});
      ASSERT_TRUE(simulation.ok()) << simulation.status().text();
      auto price = simulation->price(bytes, gpu_costs(false));
      ASSERT_TRUE(price.ok()) << price.status().text();
      SCOPED_TRACE(format("{}, trouble {}: {} s, at least {} s, without {} s, {} classes", algorithm,
                          static_cast<int>(trouble), price->seconds, price->least_seconds, untroubled,
                          simulation->classes()));
      // Not because it was put right afterwards.
      EXPECT_LT(price->doubt, 0.05);
      EXPECT_GE(price->seconds, price->least_seconds);
      EXPECT_GE(price->seconds, 0.998 * untroubled);
      if (trouble == Trouble::kNone) untroubled = price->seconds;
      if (algorithm != "hierarchical") continue;
      // Up and down, an eighth of the bytes at 46 GB/s.
      const double nic = 2.0 * static_cast<double>(bytes) / 8 / 46e9;
      EXPECT_GE(price->least_seconds, 0.99 * (trouble == Trouble::kSlowNic ? 2 * nic : nic));
      if (trouble == Trouble::kSlowNic) {
        EXPECT_LT(price->seconds, 1.1 * price->least_seconds);
      }
    }
  }
}

// What thousands of ranks get around a trouble: few classes, and the first of a ring's many steps.
TEST(FoldedSimulation, IsNearTheFullOneInTheFirstOfManySteps) {
  const Machine machine{"8 GPUs on a switch", switched(8, 360e9, 50e9)};
  for (const Trouble trouble : kTroubles)
    compare(machine, 32, trouble, "ring", false, {65536, 32 << 20}, {.most_near = 32, .most_work = 1}, 0.02);
}

TEST(FoldedSimulation, AreFewerStepsAndClassesAroundATrouble) {
  for (const Trouble trouble : {Trouble::kSlowLink, Trouble::kSlowRank}) {
    auto fabric = fabric_of(switched(8, 360e9, 50e9), 256, trouble);
    ASSERT_TRUE(fabric.ok());
    auto ring = Simulation::make(*fabric, plain_placement(*fabric), Collective::kAllReduce, "ring",
                                 {.most_near = 64, .most_work = 1e5});
    ASSERT_TRUE(ring.ok()) << ring.status().text();
    EXPECT_LE(ring->classes(), 192u);  // of 2,048: those near, and the others by distance
    auto price = ring->price(32 << 20, gpu_costs(false));
    ASSERT_TRUE(price.ok()) << price.status().text();
    EXPECT_TRUE(price->extrapolated);
    EXPECT_LT(price->moves, 80u * 2046);
  }
}

TEST(FoldedSimulation, RefusesWhatWouldTakeHours) {
  auto fabric = fabric_of(switched(8, 360e9, 50e9), 256, Trouble::kNone);
  ASSERT_TRUE(fabric.ok());
  auto ring = Simulation::make(*fabric, plain_placement(*fabric), Collective::kAllReduce, "ring",
                               {.tile_bytes = 16, .full = true});
  ASSERT_TRUE(ring.ok()) << ring.status().text();
  auto price = ring->price(std::uint64_t{16} << 30, gpu_costs(false));
  ASSERT_FALSE(price.ok());
  EXPECT_NE(price.status().text().find("--tile"), std::string::npos) << price.status().text();
}

TEST(FoldedSimulation, FewActorsStandForMany) {
  auto fabric = fabric_of(switched(8, 360e9, 50e9), 512, Trouble::kNone);
  ASSERT_TRUE(fabric.ok());
  for (const std::string_view algorithm : {"ring", "halving_doubling", "log_step", "hierarchical", "tree"}) {
    auto folded = Simulation::make(*fabric, plain_placement(*fabric), Collective::kAllReduce, algorithm, {});
    ASSERT_TRUE(folded.ok()) << folded.status().text();
    EXPECT_LE(folded->classes(), 1400u) << algorithm;
  }
}

}  // namespace
}  // namespace hocket::sim
