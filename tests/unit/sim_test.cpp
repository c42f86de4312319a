// SPDX-License-Identifier: Apache-2.0
// Tests of src/sim: shared links, routes, and agreement with formulas where those are exact.
#include <gtest/gtest.h>

#include "sim/formula.hpp"
#include "sim/simulate.hpp"
#include "unit/sim_graphs.hpp"

namespace hocket::sim {
namespace {

constexpr double kRate = 160e9;  // transfers; the line is 200e9

/// Nothing but latency and bandwidth of NVLink.
Costs plain_costs(double alpha) {
  Costs costs;
  costs.latency_seconds[static_cast<std::size_t>(Wire::kNvlink)] = alpha;
  costs.latency_seconds[static_cast<std::size_t>(Wire::kNetwork)] = alpha;
  costs.store_efficiency = 0.8;
  return costs;
}

TEST(FlowSet, UnequalFlowsGetMaxMinFairRates) {
  FlowSet flows({100, 10});
  const WeightedLink both[] = {{0, 1}, {1, 1}}, first[] = {{0, 1}};
  const int narrow = flows.add(0, 100, both, 0);
  const int wide = flows.add(0, 900, first, 1);
  flows.settle(0);
  EXPECT_DOUBLE_EQ(flows.end(narrow), 10);  // 10 a second: what its second link gives
  EXPECT_DOUBLE_EQ(flows.end(wide), 10);    // 90: the rest
}

TEST(FlowSet, AFlowThatEndsLeavesItsShare) {
  FlowSet flows({10});
  const WeightedLink link[] = {{0, 1}};
  const int one = flows.add(0, 50, link, 0);
  const int two = flows.add(0, 100, link, 1);
  flows.settle(0);
  EXPECT_DOUBLE_EQ(flows.end(one), 10);
  flows.remove(one);
  const auto changed = flows.settle(10);
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_DOUBLE_EQ(flows.end(two), 15);  // 50 left at 10 a second
}

TEST(FlowSet, WeightStandsForEqualFlows) {
  FlowSet flows({12});
  const WeightedLink thrice[] = {{0, 3}};
  const int flow = flows.add(0, 8, thrice, 0);
  flows.settle(0);
  EXPECT_DOUBLE_EQ(flows.end(flow), 2);
}

Result<Simulation> simulation_of(const Fabric& fabric, std::string_view algorithm, const Setup& setup) {
  return Simulation::make(fabric, plain_placement(fabric), Collective::kAllReduce, algorithm, setup);
}

TEST(Fabric, RanksOfAnotherRailAreReachedThroughTheGpuThatHasIt) {
  const topo::Graph graph = switched(4, kRate, 50e9);
  FabricOptions options{.hosts = 3, .network = {}};
  auto rails = Fabric::make(graph, options);
  ASSERT_TRUE(rails.ok()) << rails.status().text();
  EXPECT_EQ(rails->rails(), 4);
  EXPECT_EQ(rails->route(1, 4 + 1).hops[static_cast<int>(Wire::kNvlink)], 0);
  EXPECT_EQ(rails->route(1, 4 + 2).hops[static_cast<int>(Wire::kNvlink)], 1);
  options.network.kind = NetworkKind::kFatTree;
  auto tree = Fabric::make(graph, options);
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(tree->route(1, 4 + 2).hops[static_cast<int>(Wire::kNvlink)], 0);
}

TEST(Fabric, HostsWithoutNicsAreAnErrorThatSaysWhatToDo) {
  const auto fabric = Fabric::make(switched(4, kRate), {.hosts = 2, .network = {}});
  ASSERT_FALSE(fabric.ok());
  EXPECT_NE(fabric.status().text().find("--nic"), std::string_view::npos);
  FabricOptions options{.hosts = 2, .network = {}};
  options.network.nic_bytes_per_second = 50e9;
  EXPECT_TRUE(Fabric::make(switched(4, kRate), options).ok());
}

TEST(Simulator, RingOfOneTileIsTheFormula) {
  const Costs costs = plain_costs(2e-6);
  for (const int n : {2, 3, 4, 5, 8, 16}) {
    auto fabric = Fabric::make(switched(n, kRate), {});
    ASSERT_TRUE(fabric.ok());
    for (const bool full : {true, false}) {
      auto ring = simulation_of(*fabric, "ring", {.tiles_per_round = 1, .tile_bytes = 512 << 10, .full = full});
      ASSERT_TRUE(ring.ok()) << ring.status().text();
      for (const std::uint64_t chunk : {16u, 4096u, 262144u}) {
        const std::uint64_t bytes = chunk * static_cast<std::uint64_t>(n);
        auto price = ring->price(bytes, costs);
        ASSERT_TRUE(price.ok()) << price.status().text();
        const double formula = ring_all_reduce_seconds(n, static_cast<double>(bytes), {2e-6, kRate});
        EXPECT_NEAR(price->seconds, formula, 1e-9 * formula) << n << " ranks, " << bytes;
        EXPECT_NEAR(price->spent.total(), price->seconds, 1e-9 * formula);
      }
    }
  }
}

TEST(Simulator, LargeRingReachesTheLinksRate) {
  for (const int n : {2, 5, 8}) {
    auto fabric = Fabric::make(switched(n, kRate), {});
    ASSERT_TRUE(fabric.ok());
    auto ring = simulation_of(*fabric, "ring", {});
    ASSERT_TRUE(ring.ok());
    auto price = ring->price(std::uint64_t{16} << 30, plain_costs(1e-8));
    ASSERT_TRUE(price.ok());
    EXPECT_NEAR(price->busbw, kRate, 0.002 * kRate) << n;
    EXPECT_GT(price->busiest_load, 0.99);
  }
}

TEST(Simulator, TreeAgreesWithTheFormulasInBothLimits) {
  const Costs costs = plain_costs(2e-6);
  for (const int n : {4, 6, 8, 16, 32, 64}) {
    auto fabric = Fabric::make(switched(n, kRate), {});
    ASSERT_TRUE(fabric.ok());
    auto tree = simulation_of(*fabric, "tree", {});
    ASSERT_TRUE(tree.ok()) << tree.status().text();
    auto small = tree->price(32, costs);
    ASSERT_TRUE(small.ok()) << small.status().text();
    const double latency = tree_all_reduce_latency(n, {2e-6, kRate});
    EXPECT_NEAR(small->seconds, latency, 0.001 * latency) << n;
    const double bytes = 64.0 * (1 << 30);
    auto large = tree->price(std::uint64_t{64} << 30, costs);
    ASSERT_TRUE(large.ok());
    const double bandwidth = tree_all_reduce_bandwidth_seconds(bytes, {2e-6, kRate});
    EXPECT_NEAR(large->seconds, bandwidth, 0.02 * bandwidth) << n;
  }
}

TEST(Simulator, ASlowRankAndASlowLinkCostWhatTheySay) {
  auto fabric = Fabric::make(switched(4, kRate), {});
  ASSERT_TRUE(fabric.ok());
  ASSERT_TRUE(fabric->slow_link(1, 2, 0.5).ok());
  auto ring = simulation_of(*fabric, "ring", {});
  ASSERT_TRUE(ring.ok());
  auto price = ring->price(std::uint64_t{4} << 30, plain_costs(1e-6));
  ASSERT_TRUE(price.ok());
  EXPECT_NEAR(price->busbw, kRate / 2, 0.01 * kRate);
  EXPECT_FALSE(fabric->slow_link(1, 9, 0.5).ok());
  EXPECT_FALSE(fabric->slow_link(1, 2, 0).ok());
  EXPECT_FALSE(fabric->slow_rank(4, 0.5).ok());
}

TEST(Simulator, WhatIsNotThereIsAnErrorWithTheChoice) {
  auto fabric = Fabric::make(switched(4, kRate), {});
  ASSERT_TRUE(fabric.ok());
  const auto none = simulation_of(*fabric, "rings", {});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().text().find("halving_doubling"), std::string_view::npos);
  auto ring = simulation_of(*fabric, "ring", {.slots = 2, .tiles_per_round = 2});
  ASSERT_TRUE(ring.ok());
  EXPECT_FALSE(ring->price(1024, plain_costs(0)).ok());
}

}  // namespace
}  // namespace hocket::sim
