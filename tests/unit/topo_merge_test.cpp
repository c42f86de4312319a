// SPDX-License-Identifier: Apache-2.0
// The devices of a file on the CPUs of a machine (src/topo/merge.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "topo/hwloc_reader.hpp"
#include "topo/merge.hpp"
#include "topo/nccl_graph.hpp"
#include "topo/nccl_reader.hpp"
#include "topo/paths.hpp"
#include "unit/topo_files.hpp"

namespace hocket::topo {
namespace {

Graph machine() {
  Result<Graph> graph = graph_from_synthetic("package:2 numa:1 core:4 pu:1");
  EXPECT_TRUE(graph.ok()) << graph.status().to_string();
  return std::move(*graph);
}

Graph file(const std::string& text) {
  Result<Graph> graph = graph_from_nccl_text(text, "f.xml");
  EXPECT_TRUE(graph.ok()) << graph.status().to_string();
  return std::move(*graph);
}

const std::string kTwoGpus =
    "<system version=\"1\"><cpu numaid=\"1\" affinity=\"f0\"><pci busid=\"0000:10:00.0\" class=\"0x060400\">"
    "<pci busid=\"0000:11:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"/>"
    "<pci busid=\"0000:12:00.0\" class=\"0x020700\"/></pci></cpu>"
    "<cpu numaid=\"0\" affinity=\"0f\"><pci busid=\"0000:21:00.0\" class=\"0x030200\"/></cpu></system>";

int named(const Graph& graph, const std::string& name) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

// A device below the machine's first domain, as detection would find it.
int add_device(Graph* graph, NodeKind kind, const std::string& name, double rate) {
  const int numa = graph->of_kind(NodeKind::kNuma)[0];
  const int node = graph->add(kind, numa);
  graph->nodes[static_cast<std::size_t>(node)].name = name;
  graph->edges.push_back({EdgeKind::kPcie, numa, node, 1, {rate, Origin::kReported}, 0});
  return node;
}

TEST(Merge, DevicesHangAtTheDomainWithTheirNumber) {
  const Result<Graph> merged = with_devices_of(machine(), file(kTwoGpus));
  ASSERT_TRUE(merged.ok()) << merged.status().to_string();
  EXPECT_EQ(merged->count(NodeKind::kCore), 8);
  EXPECT_EQ(merged->count(NodeKind::kGpu), 2);
  const int far = merged->ancestor(named(*merged, "0000:11:00.0"), NodeKind::kNuma);
  EXPECT_EQ(merged->nodes[static_cast<std::size_t>(far)].os_index, 1);
  EXPECT_EQ(far, merged->numa_of(5));
  const Paths paths(*merged);
  EXPECT_EQ(paths.between(named(*merged, "0000:11:00.0"), named(*merged, "0000:12:00.0")).type, PathType::kPix);
  EXPECT_EQ(paths.between(named(*merged, "0000:11:00.0"), named(*merged, "0000:21:00.0")).type, PathType::kSys);
}

TEST(Merge, WhatTheFileLeavesOpenIsTakenFromTheMachine) {
  Graph found = machine();
  const int a = add_device(&found, NodeKind::kGpu, "0000:11:00.0", 31.5e9);
  const int b = add_device(&found, NodeKind::kGpu, "0000:21:00.0", 31.5e9);
  const int n = add_device(&found, NodeKind::kNic, "0000:12:00.0", 31.5e9);
  found.nodes[static_cast<std::size_t>(n)].set("rdma", "mlx5_0");
  found.nodes[static_cast<std::size_t>(n)].rate = {25e9, Origin::kReported};
  add_device(&found, NodeKind::kNic, "0000:99:00.0", 1e9);
  found.edges.push_back({EdgeKind::kNvlink, a, b, 12, {240e9, Origin::kNominal}, 0});
  found.normalise();
  const Result<Graph> merged = with_devices_of(found, file(kTwoGpus));
  ASSERT_TRUE(merged.ok()) << merged.status().to_string();
  EXPECT_EQ(merged->count(NodeKind::kGpu), 2);
  EXPECT_EQ(merged->count(NodeKind::kNic), 2);  // the one that the file doesn't name stays
  const Node& nic = merged->nodes[static_cast<std::size_t>(named(*merged, "0000:12:00.0"))];
  EXPECT_EQ(nic.get("rdma"), "mlx5_0");
  EXPECT_EQ(nic.rate, (Rate{25e9, Origin::kReported}));
  const Paths paths(*merged);
  EXPECT_EQ(paths.over_nvlink(named(*merged, "0000:11:00.0"), named(*merged, "0000:21:00.0")).type, PathType::kNvl);
}

TEST(Merge, DifferencesAreSaid) {
  Graph found = machine();
  add_device(&found, NodeKind::kGpu, "0000:11:00.0", 4e9);
  found.normalise();
  std::string crossed = kTwoGpus;
  crossed.replace(crossed.find("\"f0\""), 4, "\"0f\"");
  crossed.replace(crossed.rfind("\"0f\""), 4, "\"f0\"");
  const Result<Graph> merged = with_devices_of(found, file(crossed));
  ASSERT_TRUE(merged.ok());
  const auto said = [&](std::string_view text) {
    return std::any_of(merged->notes.begin(), merged->notes.end(),
                       [text](const std::string& note) { return note.find(text) != std::string::npos; });
  };
  EXPECT_TRUE(said("31.5 GB/s, on this machine 4: the file is believed"));
  EXPECT_TRUE(said("NUMA 1 has CPUs 0-3, on this machine 4-7: the machine is believed"));
}

TEST(Merge, FilesOfNoMachineOrOfSeveralAreErrors) {
  EXPECT_FALSE(with_devices_of(machine(), machine()).ok());
  EXPECT_FALSE(
      with_devices_of(machine(),
                      file("<system><cpu numaid=\"0\" host_hash=\"1\"/><cpu numaid=\"0\" host_hash=\"2\"/></system>"))
          .ok());
}

TEST(DumpNcclGraph, WritesAFileOrNamesIt) {
  const TemporaryTree tree;
  const Graph graph = file(kTwoGpus);
  const std::string path = tree.root() + "/graph.xml";
  ASSERT_TRUE(dump_nccl_graph(graph, path).ok());
  std::ifstream in(path);
  std::string first;
  std::getline(in, first);
  EXPECT_EQ(first, "<graphs version=\"1\">");
  const Status bad = dump_nccl_graph(graph, "/nonexistent/graph.xml");
  EXPECT_EQ(bad.code(), Code::kSystem);
  EXPECT_NE(bad.text().find("/nonexistent/graph.xml"), std::string_view::npos);
}

}  // namespace
}  // namespace hocket::topo
