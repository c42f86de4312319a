// SPDX-License-Identifier: Apache-2.0
// Which ranks share what (src/topo/domains.cpp) and what links cost (src/topo/cost.cpp).
#include <gtest/gtest.h>

#include "topo/cost.hpp"
#include "topo/domains.hpp"
#include "topo/hash.hpp"
#include "topo/hwloc_reader.hpp"

namespace hocket::topo {
namespace {

// 2 packages x 1 NUMA x 2 L3 x 4 cores = CPUs 0..15.
const Graph& two_sockets() {
  static const Graph graph = graph_from_synthetic("package:2 numa:1 l3:2 core:4 pu:1").value();
  return graph;
}

Place at(std::string_view host, std::uint64_t process, int first, int last) {
  return place_of(two_sockets(), hash_of_host(host), process, CpuSet::range(first, last));
}

TEST(Domains, SharedPartsAreToldOnlyIfTheMaskLiesWithinOne) {
  const Domains d = domains_of(std::vector<Place>{
      at("a", 1, 0, 0),    // L3 0
      at("a", 2, 1, 3),    // L3 0
      at("a", 3, 4, 7),    // L3 1, same NUMA domain
      at("a", 4, 0, 7),    // one NUMA domain, either L3
      at("a", 5, 0, 15),   // anywhere
      at("a", 6, 12, 12),  // the other package
  });
  EXPECT_TRUE(d.same_l3(0, 1));
  EXPECT_FALSE(d.same_l3(0, 2));
  EXPECT_TRUE(d.same_numa(0, 2));
  EXPECT_TRUE(d.same_numa(0, 3));
  EXPECT_EQ(d.l3[3], -1);
  EXPECT_FALSE(d.same_l3(3, 3));
  EXPECT_EQ(d.numa[4], -1);
  EXPECT_FALSE(d.same_numa(4, 0));
  EXPECT_FALSE(d.same_package(0, 5));
  EXPECT_TRUE(d.same_host(4, 5));
  EXPECT_EQ(d.hosts, 1);
  EXPECT_EQ(d.processes, 6);
}

TEST(Domains, EqualPartsOfDifferentHostsAreDifferent) {
  const Domains d =
      domains_of(std::vector<Place>{at("a", 7, 0, 0), at("b", 7, 0, 0), at("b", 7, 1, 1), at("a", 7, 0, 0)});
  EXPECT_FALSE(d.same_host(0, 1));
  EXPECT_FALSE(d.same_process(0, 1));  // the same token by chance
  EXPECT_FALSE(d.same_l3(0, 1));
  EXPECT_TRUE(d.same_l3(1, 2));
  EXPECT_TRUE(d.same_process(0, 3));
  EXPECT_EQ(d.hosts, 2);
  EXPECT_EQ(d.ranks_of_host(0), (std::vector<int>{0, 3}));
  EXPECT_EQ(d.leader(2), 1);
  EXPECT_EQ(d.leader(3), 0);
  EXPECT_EQ(d.local_rank(2), 1);
  EXPECT_EQ(d.local_rank(3), 1);
  EXPECT_EQ(d.local_size(1), 2);
}

TEST(Domains, EqualPlacesGiveEqualValues) {
  std::vector<Place> places{at("a", 1, 0, 0), at("a", 1, 4, 4), at("b", 2, 0, 15)};
  const Domains d = domains_of(places);
  EXPECT_EQ(d, domains_of(places));
  EXPECT_EQ(d.digest(), domains_of(places).digest());
  std::swap(places[0], places[2]);
  EXPECT_NE(d, domains_of(places));
  EXPECT_NE(d.digest(), domains_of(places).digest());
  EXPECT_NE(d.to_text().find("rank 2  host 1  process 1  package ?  NUMA ?  L3 ?"), std::string::npos) << d.to_text();
}

TEST(Domains, NoRanksAndUnknownMachines) {
  EXPECT_EQ(domains_of({}).ranks(), 0);
  const Place nowhere = place_of(Graph(), hash_of_host("a"), 1, CpuSet::range(0, 0));
  const Domains d = domains_of(std::vector<Place>{nowhere, nowhere});
  EXPECT_TRUE(d.same_host(0, 1));
  EXPECT_FALSE(d.same_l3(0, 1));
}

TEST(Cost, NearWithinOneCacheAndFarAcross) {
  Graph graph = two_sockets();
  EXPECT_FALSE(host_cost(graph).one_l3);
  EXPECT_EQ(host_cost(graph).line_seconds, kLineFarSeconds);
  graph.cpus.allowed = CpuSet::range(0, 3);
  EXPECT_EQ(host_cost(graph).line_seconds, kLineNearSeconds);
  EXPECT_DOUBLE_EQ(host_cost(graph).usable_cpus, 4);
  EXPECT_LT(link_cost(graph, LinkKind::kShm).alpha_seconds, link_cost(two_sockets(), LinkKind::kShm).alpha_seconds);
}

TEST(Cost, AnyGraphHasFiniteCosts) {
  for (const Graph& graph : {Graph(), two_sockets()}) {
    for (const LinkKind kind :
         {LinkKind::kProcess, LinkKind::kShm, LinkKind::kNvlink, LinkKind::kPcie, LinkKind::kNet}) {
      const LinkCost cost = link_cost(graph, kind);
      EXPECT_GT(cost.alpha_seconds, 0);
      EXPECT_GT(cost.beta_bytes_per_second, 1e8);
      EXPECT_GT(cost.seconds(1 << 20), cost.seconds(8));
      EXPECT_EQ(cost, link_cost(graph, kind));
    }
    EXPECT_GT(host_cost(graph).usable_cpus, 0);
  }
}

TEST(Cost, FiguresOfTheGraphReplaceTheDefaults) {
  Graph graph;
  const int host = graph.add(NodeKind::kHost, -1);
  const int bridge = graph.add(NodeKind::kHostBridge, host);
  int gpus[3];
  for (int& gpu : gpus) gpu = graph.add(NodeKind::kGpu, bridge);
  graph.edges.push_back({EdgeKind::kPcie, bridge, gpus[0], 1, {31.5e9, Origin::kReported}, 0});
  graph.edges.push_back({EdgeKind::kPcie, bridge, gpus[1], 1, {15.75e9, Origin::kReported}, 0});
  graph.edges.push_back({EdgeKind::kNvlink, gpus[0], gpus[1], 1, {25e9, Origin::kReported}, 0});
  graph.edges.push_back({EdgeKind::kNvlink, gpus[1], gpus[2], 2, {50e9, Origin::kReported}, 0});
  const int nic = graph.add(NodeKind::kNic, bridge);
  graph.nodes[static_cast<std::size_t>(nic)].rate = {12.5e9, Origin::kReported};
  const int verbs = graph.add(NodeKind::kNic, bridge);
  graph.nodes[static_cast<std::size_t>(verbs)].set("rdma", "mlx5_0");
  graph.nodes[static_cast<std::size_t>(verbs)].rate = {5e9, Origin::kReported};
  EXPECT_EQ(link_cost(graph, LinkKind::kPcie).beta_bytes_per_second, 15.75e9);
  EXPECT_EQ(link_cost(graph, LinkKind::kNvlink).beta_bytes_per_second, 25e9);  // GPU 0 has no more than that
  EXPECT_EQ(link_cost(graph, LinkKind::kNet), (LinkCost{kVerbsSeconds, 5e9, Origin::kReported}));
}

TEST(Cost, TileBudgetIsAQuarterOfL2WithinBounds) {
  EXPECT_EQ(l2_tile_budget(1 << 20), 256u << 10);
  EXPECT_EQ(l2_tile_budget(512 << 10), 128u << 10);
  EXPECT_EQ(l2_tile_budget(1280 << 10), 256u << 10);
  EXPECT_EQ(l2_tile_budget(16 << 20), 256u << 10);
  EXPECT_EQ(l2_tile_budget(0), 16u << 10);
}

}  // namespace
}  // namespace hocket::topo
