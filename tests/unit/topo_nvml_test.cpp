// SPDX-License-Identifier: Apache-2.0
// NVLinks by NVML (src/topo/nvml_reader.cpp), against support/fake_nvml.cpp.
#include <gtest/gtest.h>

#include <map>

#include "topo/nvml_reader.hpp"

namespace hocket::topo {
namespace {

Graph machine(const char* vendor = "10de") {
  Graph graph;
  const int host = graph.add(NodeKind::kHost, -1);
  const int numa = graph.add(NodeKind::kNuma, host);
  for (const char* bus : {"0000:04:00.0", "0000:05:00.0", "0000:06:00.0"}) {
    const int gpu = graph.add(NodeKind::kGpu, numa);
    graph.nodes[static_cast<std::size_t>(gpu)].name = bus;
    graph.nodes[static_cast<std::size_t>(gpu)].set("vendor", vendor);
  }
  graph.nodes[0].set("nvlink", "unknown");
  return graph;
}

TEST(Nvml, LinksOfBothEndsAndHiddenSwitchesAreFound) {
  Graph graph = machine();
  add_nvlinks(&graph, HOCKET_FAKE_NVML);
  graph.normalise();
  ASSERT_TRUE(graph.check().ok()) << graph.check().to_string();
  EXPECT_EQ(graph.count(NodeKind::kNvSwitch), 1);
  std::map<std::pair<NodeKind, NodeKind>, int> links;
  for (const Edge& edge : graph.edges) {
    if (edge.kind != EdgeKind::kNvlink) continue;
    links[{graph.nodes[static_cast<std::size_t>(edge.from)].kind,
           graph.nodes[static_cast<std::size_t>(edge.to)].kind}] += edge.links;
  }
  // Of the two links between GPUs one works at both ends.
  EXPECT_EQ((links[{NodeKind::kGpu, NodeKind::kGpu}]), 1);
  EXPECT_EQ((links[{NodeKind::kGpu, NodeKind::kNvSwitch}]), 8);
  ASSERT_EQ(graph.notes.size(), 1u);
  EXPECT_NE(graph.notes[0].find("report 2 and 1 links"), std::string::npos);
  const Node& gpu = graph.nodes[static_cast<std::size_t>(graph.of_kind(NodeKind::kGpu)[1])];
  EXPECT_EQ(gpu.os_index, 1);
  EXPECT_EQ(gpu.get("sm"), "90");
  EXPECT_EQ(graph.nodes[0].get("nvlink"), "");
}

TEST(Nvml, WithoutTheLibraryItIsSaid) {
  Graph graph = machine();
  add_nvlinks(&graph, "libnot-there.so.1");
  ASSERT_EQ(graph.notes.size(), 1u);
  EXPECT_NE(graph.notes[0].find("libnot-there.so.1 can't be loaded"), std::string::npos);
  EXPECT_EQ(graph.nodes[0].get("nvlink"), "unknown");
}

TEST(Nvml, IsNotLookedForWithoutSuchGpus) {
  Graph graph = machine("1002");
  add_nvlinks(&graph, HOCKET_FAKE_NVML);
  EXPECT_TRUE(graph.edges.empty());
  EXPECT_TRUE(graph.notes.empty());
}

}  // namespace
}  // namespace hocket::topo
