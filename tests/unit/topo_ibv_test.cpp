// SPDX-License-Identifier: Apache-2.0
// ibv_devinfo and show_gids (src/topo/ibv_reader.cpp).
#include <gtest/gtest.h>

#include "topo/ibv_reader.hpp"

namespace hocket::topo {
namespace {

const Node& nic(const Graph& graph, std::size_t n) {
  return graph.nodes[static_cast<std::size_t>(graph.of_kind(NodeKind::kNic).at(n))];
}

TEST(IbvDevinfo, PortsOfOneDeviceAreApartAndKeepTheirCard) {
  const Result<Graph> graph = graph_from_ibv_text(
      "hca_id:\tmlx4_0\n\ttransport:\t\t\tInfiniBand (0)\n\tsys_image_guid:\t\t0200:0001\n\tvendor_id:\t\t\t0x119f\n"
      "\tphys_port_cnt:\t\t\t2\n\tDevice ports:\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n"
      "\t\t\tlink_layer:\t\tEthernet\n\n\t\tport:\t2\n\t\t\tstate:\t\t\tPORT_DOWN (1)\n\t\t\tlink_layer:\t\tEthernet\n",
      "d.txt");
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  ASSERT_EQ(graph->count(NodeKind::kNic), 2);
  EXPECT_EQ(nic(*graph, 0).get("state"), "active");
  EXPECT_EQ(nic(*graph, 1).get("state"), "down");
  EXPECT_EQ(nic(*graph, 1).get("guid"), "0200:0001");
  EXPECT_EQ(nic(*graph, 0).get("link_layer"), "Ethernet");
}

TEST(IbvDevinfo, VerboseFormTellsTheRate) {
  const Result<Graph> graph = graph_from_ibv_text(
      "hca_id:\tmlx5_0\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tactive_width:\t\t4X (2)\n"
      "\t\t\tactive_speed:\t\t50.0 Gbps (64)\n",
      "d.txt");
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(nic(*graph, 0).rate, (Rate{25e9, Origin::kReported}));
}

TEST(ShowGids, VersionTwoWithAnAddressWins) {
  const std::string text =
      "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n"
      "mlx5_0\t1\t0\tfe80:0000:0000:0000:0205:6cff:fe17:9e75\t\t\tv1\teth0\n"
      "mlx5_0\t1\t1\tfe80:0000:0000:0000:0205:6cff:fe17:9e75\t\t\tv2\teth0\n"
      "mlx5_0\t1\t2\t0000:0000:0000:0000:0000:ffff:0a00:3c03\t10.0.60.3  \tv1\teth0\n"
      "mlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:0a00:3c03\t10.0.60.3  \tv2\teth0\nn_gids_found=4\n";
  const Result<Graph> graph = graph_from_ibv_text(text, "g.txt");
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(nic(*graph, 0).get("gid_index"), "3");
  EXPECT_EQ(nic(*graph, 0).get("gid_version"), "2");
  EXPECT_EQ(nic(*graph, 0).get("netdev"), "eth0");
}

// A script printed 0.0.0.0 beside an address that has no IPv4 address inside.
TEST(ShowGids, TheAddressDecidesNotTheColumn) {
  const Result<Graph> graph = graph_from_ibv_text(
      "DEV\tPORT\tINDEX\tGID\tIPv4\tVER\tDEV\nmlx5_0\t1\t0\tfe80:0000:0000:0000:02a8:d3ff:fe83:ca36\t0.0.0."
      "0\tv1\tens1\n"
      "mlx5_0\t1\t1\tfe80:0000:0000:0000:02a8:d3ff:fe83:ca36\t192.0.2.8\tv2\tens1\n",
      "g.txt");
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(nic(*graph, 0).get("gid_index"), "1");
  EXPECT_EQ(nic(*graph, 0).get("gid_scope"), "local");
}

TEST(ShowGids, ACutTableIsSaid) {
  const std::string text =
      "DEV\tPORT\tINDEX\tGID\tIPv4\tVER\tDEV\n"
      "mlx5_0\t1\t0\tfe80:0000:0000:0000:0205:6cff:fe17:9e75\t\t\tv1\teth0\n"
      "mlx5_0\t1\t1\tfe80:0000:0000:0000:0205:6cff:fe17:9e75\t\t\tv2\teth0\n";
  const Result<Graph> whole = graph_from_ibv_text(text + "n_gids_found=2\n", "g.txt");
  const Result<Graph> cut = graph_from_ibv_text(text + "n_gids_found=4\n", "g.txt");
  ASSERT_TRUE(whole.ok() && cut.ok());
  EXPECT_TRUE(whole->notes.empty());
  ASSERT_EQ(cut->notes.size(), 1u);
  EXPECT_NE(cut->notes[0].find("2 rows of 4"), std::string::npos);
}

TEST(IbvDevinfo, ADeviceWithoutPortIsSaid) {
  const Result<Graph> graph = graph_from_ibv_text(
      "hca_id:\tmlx5_0\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\nhca_id:\tmlx5_1\n\tfw_ver:\t1\n", "d.txt");
  ASSERT_TRUE(graph.ok());
  ASSERT_EQ(graph->notes.size(), 1u);
  EXPECT_NE(graph->notes[0].find("d.txt:4: no port of mlx5_1"), std::string::npos) << graph->notes[0];
}

TEST(IbvDevinfo, VerboseFormTellsTheGids) {
  const Result<Graph> graph = graph_from_ibv_text(
      "hca_id:\tmlx5_0\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tlink_layer:\t\tEthernet\n"
      "\t\t\tGID[  0]:\t\tfe80::a00:1, RoCE v1\n\t\t\tGID[  1]:\t\tfe80::a00:1, RoCE v2\n"
      "\t\t\tGID[  2]:\t\t::ffff:10.0.0.1, RoCE v1\n\t\t\tGID[  3]:\t\t::ffff:10.0.0.1, RoCE v2\n",
      "d.txt");
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(nic(*graph, 0).get("gid_index"), "3");
  EXPECT_EQ(nic(*graph, 0).get("gid"), "0000:0000:0000:0000:0000:ffff:0a00:0001");
}

TEST(Ibv, OtherToolsTellTheSame) {
  const Result<Graph> stat = graph_from_ibv_text(
      "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n"
      "\t\tRate: 400\n\t\tLink layer: InfiniBand\nCA 'mlx5_1'\n\tPort 1:\n\t\tState: Down\n\t\tRate: 10\n",
      "s.txt");
  ASSERT_TRUE(stat.ok()) << stat.status().to_string();
  ASSERT_EQ(stat->count(NodeKind::kNic), 2);
  EXPECT_EQ(nic(*stat, 0).get("state"), "active");
  EXPECT_EQ(nic(*stat, 0).get("link_layer"), "InfiniBand");
  EXPECT_EQ(nic(*stat, 0).rate, (Rate{50e9, Origin::kReported}));
  EXPECT_EQ(nic(*stat, 1).get("state"), "down");
  const Result<Graph> names =
      graph_from_ibv_text("mlx5_0 port 1 ==> ib0 (Up)\nmlx5_1 port 1 ==> ib1 (Down)\n", "n.txt");
  ASSERT_TRUE(names.ok()) << names.status().to_string();
  EXPECT_EQ(nic(*names, 0).get("netdev"), "ib0");
  EXPECT_EQ(nic(*names, 1).get("state"), "down");
  const Result<Graph> rdma = graph_from_ibv_text(
      "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1f0 \nlink mlx5_1/1 state DOWN physical_state "
      "DISABLED "
      "netdev ens1f1 \n",
      "r.txt");
  ASSERT_TRUE(rdma.ok()) << rdma.status().to_string();
  EXPECT_EQ(nic(*rdma, 0).get("state"), "active");
  EXPECT_EQ(nic(*rdma, 1).get("state"), "down");
  EXPECT_EQ(nic(*rdma, 1).get("netdev"), "ens1f1");
}

TEST(Ibv, ForeignTextIsAnError) {
  EXPECT_EQ(graph_from_ibv_text("", "x").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(graph_from_ibv_text("hca_id:\n", "x").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(graph_from_ibv_text("DEV PORT INDEX GID\na b c d e\n", "x").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(best_gid({}), -1);
}

}  // namespace
}  // namespace hocket::topo
