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

TEST(Ibv, ForeignTextIsAnError) {
  EXPECT_EQ(graph_from_ibv_text("", "x").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(graph_from_ibv_text("hca_id:\n", "x").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(graph_from_ibv_text("DEV PORT INDEX GID\na b c d e\n", "x").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(best_gid({}), -1);
}

}  // namespace
}  // namespace hocket::topo
