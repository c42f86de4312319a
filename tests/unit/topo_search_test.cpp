// SPDX-License-Identifier: Apache-2.0
// Paths, NICs, rings, trees and findings on small machines (src/topo/paths.cpp, nics.cpp, search.cpp, findings.cpp,
// nccl_graph.cpp). Real machines are tried by `hocket topo --corpus`, see the test topo_corpus.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "topo/nccl_graph.hpp"
#include "topo/nccl_reader.hpp"
#include "topo/near_cpus.hpp"
#include "topo/nics.hpp"
#include "topo/search.hpp"

namespace hocket::topo {
namespace {

// ---- A machine in NCCL's dialect, from parts

std::string pci(const std::string& bus, const std::string& attributes, const std::string& inside) {
  return "<pci busid=\"" + bus + "\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\" " + attributes + ">" + inside +
         "</pci>\n";
}

std::string bus_of(int gpu) {
  char bus[32];
  std::snprintf(bus, sizeof bus, "%04x:%02x:00.0", gpu / 256 + 1, gpu % 256);
  return bus;
}

// links[g] = text of <nvlink> elements of GPU g.
std::string gpu(int number, const std::string& links = "", const std::string& sm = "80") {
  return pci(bus_of(number), "class=\"0x030200\"",
             "<gpu dev=\"" + std::to_string(number) + "\" rank=\"" + std::to_string(number) + "\" sm=\"" + sm +
                 "\" gdr=\"1\">" + links + "</gpu>");
}

std::string link_to(int number, int count) {
  return "<nvlink target=\"" + bus_of(number) + "\" count=\"" + std::to_string(count) + "\" tclass=\"0x030200\"/>";
}
std::string to_switch(int count) {
  return "<nvlink target=\"fffffff:ff:ff.0\" count=\"" + std::to_string(count) + "\" tclass=\"0x068000\"/>";
}

std::string nic(const std::string& bus, const std::string& name, int speed = 200000) {
  return pci(
      bus, "class=\"0x020700\"",
      "<nic><net name=\"" + name + "\" dev=\"0\" port=\"1\" gdr=\"1\" speed=\"" + std::to_string(speed) + "\"/></nic>");
}

std::string bridge(const std::string& bus, const std::string& inside, const std::string& attributes = "") {
  return pci(bus, "class=\"0x060400\" " + attributes, inside);
}

std::string cpu(int numa, const std::string& inside, const std::string& attributes = "") {
  return "<cpu numaid=\"" + std::to_string(numa) + "\" arch=\"x86_64\" vendor=\"AuthenticAMD\" " + attributes + ">\n" +
         inside + "</cpu>\n";
}

Graph machine(const std::string& cpus) {
  Result<Graph> graph = graph_from_nccl_text("<system version=\"1\">\n" + cpus + "</system>\n", "m.xml");
  EXPECT_TRUE(graph.ok()) << graph.status().to_string();
  return graph.ok() ? std::move(*graph) : Graph();
}

int device(const Graph& graph, const std::string& name) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].name == name || graph.nodes[i].get("rdma") == name || graph.nodes[i].get("netdev") == name)
      return static_cast<int>(i);
  }
  ADD_FAILURE() << "no " << name;
  return 0;
}

// A search whose every set of rings and trees was checked.
SearchResult checked(const Paths& paths) {
  const SearchResult result = search(paths);
  for (const Island& island : result.islands) {
    if (island.gpus.size() < 2) continue;
    const Status bad = check_rings(paths, island.gpus, island.rings);
    EXPECT_TRUE(bad.ok()) << bad.to_string();
  }
  if (!result.machine.rings.empty()) {
    const Status bad = check_rings(paths, paths.gpus(), result.machine);
    EXPECT_TRUE(bad.ok()) << bad.to_string();
  }
  const Status bad = check_trees(paths, paths.gpus(), result.trees);
  EXPECT_TRUE(bad.ok()) << bad.to_string();
  return result;
}

double gigabytes(double value) {
  return value / 1e9;
}

// Two sockets; on the first two switches below one, each with two GPUs and a NIC; on the second two GPUs at the root.
Graph tree_machine() {
  return machine(
      cpu(0, bridge("0000:10:00.0", bridge("0000:11:00.0", gpu(0) + gpu(1) + nic("0000:12:00.0", "near0")) +
                                        bridge("0000:13:00.0", gpu(2) + gpu(3) + nic("0000:14:00.0", "near2")))) +
      cpu(1, gpu(4) + gpu(5) + nic("0000:15:00.0", "root")));
}

TEST(Paths, TypesAreThoseOfTheTree) {
  const Graph graph = tree_machine();
  const Paths paths(graph);
  const std::vector<int>& g = paths.gpus();
  ASSERT_EQ(g.size(), 6u);
  EXPECT_EQ(paths.between(g[0], g[0]).type, PathType::kLoc);
  EXPECT_EQ(paths.between(g[0], g[1]).type, PathType::kPix);
  EXPECT_EQ(paths.between(g[0], g[2]).type, PathType::kPxb);
  EXPECT_EQ(paths.between(g[4], g[5]).type, PathType::kPhb);
  EXPECT_EQ(paths.between(g[0], g[4]).type, PathType::kSys);
  EXPECT_DOUBLE_EQ(gigabytes(paths.between(g[0], g[1]).bytes_per_second), 24);
  EXPECT_DOUBLE_EQ(gigabytes(paths.between(g[0], g[4]).bytes_per_second), 16);  // between AMD's sockets
  EXPECT_EQ(paths.between(g[0], g[2]).links.size(), 4u);
  EXPECT_EQ(paths.between(g[0], g[4]).links.size(), 5u);  // GPU, switch, switch, sockets, GPU
}

TEST(Paths, ForthAndBackAreDifferentLinks) {
  const Graph graph = tree_machine();
  const Paths paths(graph);
  const Path forth = paths.between(paths.gpus()[0], paths.gpus()[4]);
  const Path back = paths.between(paths.gpus()[4], paths.gpus()[0]);
  ASSERT_EQ(forth.links.size(), back.links.size());
  for (std::size_t i = 0; i < forth.links.size(); ++i) {
    const Link& one = paths.links()[static_cast<std::size_t>(forth.links[i])];
    const Link& other = paths.links()[static_cast<std::size_t>(back.links[back.links.size() - 1 - i])];
    EXPECT_EQ(one.from, other.to);
    EXPECT_EQ(one.to, other.from);
  }
}

TEST(Paths, NvlinkThenBridgeThenPci) {
  const Graph graph =
      machine(cpu(0, gpu(0, link_to(1, 2)) + gpu(1, link_to(0, 2) + link_to(2, 1)) + gpu(2, link_to(1, 1)) + gpu(3)));
  const Paths paths(graph);
  const std::vector<int>& g = paths.gpus();
  EXPECT_EQ(paths.between(g[0], g[1]).type, PathType::kNvl);
  EXPECT_DOUBLE_EQ(gigabytes(paths.between(g[0], g[1]).bytes_per_second), 40);
  EXPECT_EQ(paths.between(g[0], g[2]).type, PathType::kNvb);
  EXPECT_DOUBLE_EQ(gigabytes(paths.between(g[0], g[2]).bytes_per_second), 20);
  EXPECT_EQ(paths.between(g[0], g[3]).type, PathType::kPhb);
}

TEST(Paths, NicOfAPeerIsNearerThanTheOtherSocket) {
  const Graph graph = machine(cpu(0, bridge("0000:10:00.0", gpu(0, to_switch(12)) + nic("0000:12:00.0", "near0"))) +
                              cpu(1, gpu(1, to_switch(12))));
  const Paths paths(graph);
  const Path path = paths.between(paths.gpus()[1], device(graph, "near0"));
  EXPECT_EQ(path.type, PathType::kPxn);
  EXPECT_EQ(path.links.size(), 4u);
  EXPECT_EQ(paths.over_pci(paths.gpus()[1], device(graph, "near0")).type, PathType::kSys);
}

TEST(Paths, CoherentLinkIsTheWayToTheCpu) {
  const Graph graph = machine(cpu(0, gpu(0, "<c2c bw=\"40000\" count=\"5\"/>") + nic("0000:12:00.0", "n")));
  const Paths paths(graph);
  EXPECT_EQ(paths.between(paths.gpus()[0], graph.of_kind(NodeKind::kNuma)[0]).type, PathType::kC2c);
  EXPECT_DOUBLE_EQ(gigabytes(paths.between(paths.gpus()[0], graph.of_kind(NodeKind::kNuma)[0]).bytes_per_second), 200);
  EXPECT_EQ(paths.between(paths.gpus()[0], device(graph, "n")).type, PathType::kP2c);
}

TEST(Paths, TwoLevelsOfOneChipAreOneSwitch) {
  const std::string chip =
      "vendor=\"0x1000\" device=\"0xc010\" subsystem_vendor=\"0x1000\" subsystem_device=\"0xa096\"";
  const auto type = [](const std::string& upper, const std::string& lower) {
    const Graph graph =
        machine(cpu(0, bridge("0000:10:00.0",
                              bridge("0000:11:00.0", gpu(0), lower) + bridge("0000:12:00.0", gpu(1), lower), upper)));
    const Paths paths(graph);
    return paths.between(paths.gpus()[0], paths.gpus()[1]).type;
  };
  EXPECT_EQ(type(chip, chip), PathType::kPix);
  EXPECT_EQ(type(chip, ""), PathType::kPxb);
  EXPECT_EQ(type("", chip), PathType::kPxb);
  const std::string gen5 = "vendor=\"0x1000\" device=\"0xc030\" subsystem_vendor=\"0x1000\" subsystem_device=\"0x";
  EXPECT_EQ(type(gen5 + "0100\"", gen5 + "1005\""), PathType::kPix);
  EXPECT_EQ(type(gen5 + "1005\"", gen5 + "1005\""), PathType::kPxb);
}

TEST(Paths, MaxFlowAddsUpAllWays) {
  const Graph graph = machine(cpu(0, gpu(0, link_to(1, 2) + link_to(2, 1)) + gpu(1, link_to(0, 2) + link_to(2, 1)) +
                                         gpu(2, link_to(0, 1) + link_to(1, 1))));
  const Paths paths(graph);
  const std::vector<int>& g = paths.gpus();
  EXPECT_NEAR(gigabytes(paths.max_flow(g[0], g[1])), 2 * 20 + 20 + 24, 1e-6);  // direct, over GPU 2, over PCI
}

// ---- NICs

TEST(Nics, NearestSharesTheSwitch) {
  const Graph graph = tree_machine();
  const Paths paths(graph);
  const NicPlan plan = plan_nics(paths);
  EXPECT_EQ(nic_name(graph, plan.gpus[0].chosen), "near0");
  EXPECT_EQ(plan.gpus[0].type, PathType::kPix);
  EXPECT_EQ(nic_name(graph, plan.gpus[3].chosen), "near2");
  EXPECT_EQ(nic_name(graph, plan.gpus[5].chosen), "root");
  EXPECT_EQ(plan.rails.size(), 3u);
  EXPECT_FALSE(plan.flat);
}

TEST(Nics, EquallyNearOnesAreSharedOut) {
  const Graph graph = machine(cpu(
      0, gpu(0) + gpu(1) + gpu(2) + nic("0000:12:00.0", "a") + nic("0000:13:00.0", "b") + nic("0000:14:00.0", "c")));
  const NicPlan plan = plan_nics(Paths(graph));
  EXPECT_TRUE(plan.flat);
  EXPECT_EQ(plan.rails.size(), 3u);
}

TEST(Nics, MadeUpSlowAndWirelessOnesAreSetAside) {
  const auto socket = [](const std::string& name, const std::string& speed) {
    return "<net name=\"" + name + "\" dev=\"" + std::to_string(name.size()) + "\" speed=\"" + speed +
           "\" port=\"0\" gdr=\"0\"/>";
  };
  const Graph graph =
      machine(cpu(0, gpu(0) + "<nic>" + socket("docker0", "10000") + socket("br-12345678", "10000") +
                         socket("cali123", "10000") + socket("eth7", "100000") + "</nic>" +
                         pci("0000:20:00.0", "class=\"0x028000\"", "<nic>" + socket("wlan0", "10000") + "</nic>") +
                         pci("0000:21:00.0", "class=\"0x020000\"", "<nic>" + socket("eno1", "1000") + "</nic>")));
  const Paths paths(graph);
  std::map<std::string, std::string> why;
  for (const NicUse& use : plan_nics(paths).nics) why[use.name] = use.aside;
  EXPECT_EQ(why["docker0"], "virtual");
  EXPECT_EQ(why["br-12345678"], "virtual");
  EXPECT_EQ(why["cali123"], "virtual");
  EXPECT_EQ(why["wlan0"], "wireless");
  EXPECT_EQ(why["eno1"], "far slower");
  EXPECT_EQ(why["eth7"], "");
}

TEST(Nics, MachineWithoutNicsHasNoRails) {
  const Graph graph = machine(cpu(0, gpu(0)));
  const NicPlan plan = plan_nics(Paths(graph));
  EXPECT_EQ(plan.gpus[0].chosen, -1);
  EXPECT_TRUE(plan.rails.empty());
}

TEST(NearCpus, AreThoseOfTheDomainThatAreAllowed) {
  Graph graph = machine(cpu(0, gpu(0), "affinity=\"0f\"") + cpu(1, gpu(1), "affinity=\"f0\"") + cpu(2, gpu(2)));
  const std::vector<int> gpus = Paths(graph).gpus();
  graph.cpus.allowed = CpuSet::range(2, 3);
  EXPECT_EQ(near_cpus(graph, gpus[0]).to_string(), "2-3");
  EXPECT_EQ(near_cpus(graph, gpus[1]).to_string(), "2-3");  // none of its own is allowed
  EXPECT_EQ(near_cpus(graph, gpus[2]).to_string(), "2-3");  // its domain's CPUs are unknown
  graph.cpus.allowed = CpuSet::range(0, 7);
  EXPECT_EQ(near_cpus(graph, gpus[1]).to_string(), "4-7");
}

// ---- Search

TEST(Search, CrossbarCarriesItsPoorestGpusLinks) {
  std::string gpus;
  for (int i = 0; i < 8; ++i) gpus += gpu(i, to_switch(i == 5 ? 16 : 18), "90");
  const Graph graph = machine(cpu(0, gpus));
  const Paths paths(graph);
  const SearchResult result = checked(paths);
  EXPECT_TRUE(result.direct());
  EXPECT_EQ(result.machine.rings.size(), 16u);
  EXPECT_TRUE(result.machine.best);
  ASSERT_EQ(result.findings.size(), 1u);
  EXPECT_NE(result.findings[0].find("GPU 5 has 16 NVLinks, its like have 18"), std::string::npos);
  EXPECT_EQ(structure_text(paths, result), "switch, 16 links");
}

// Pairs of GPUs with three direct links, and one link of each to a switch, which all hops between pairs share.
TEST(Search, DirectLinksBesideASwitchShareTheSwitchsLinks) {
  const Graph graph = machine(cpu(0, gpu(0, link_to(1, 3) + to_switch(1)) + gpu(1, link_to(0, 3) + to_switch(1))) +
                              cpu(1, gpu(2, link_to(3, 3) + to_switch(1)) + gpu(3, link_to(2, 3) + to_switch(1))));
  const Paths paths(graph);
  const SearchResult result = checked(paths);
  ASSERT_EQ(result.islands.size(), 1u);
  EXPECT_EQ(result.islands[0].kind, IslandKind::kMixed);
  EXPECT_TRUE(result.direct());
  // Two ways round: each ring leaves a pair over one GPU's link and comes back over the other's.
  EXPECT_NEAR(gigabytes(result.machine.bytes_per_second), 40, 1);
  EXPECT_FALSE(result.trees.trees.empty());
  EXPECT_EQ(structure_text(paths, result), "switch and direct links of 4, 4 links");
}

// The same where one GPU hangs on its neighbour only.
TEST(Search, AGpuWithoutTheSwitchIsReachedThroughItsNeighbour) {
  const Graph graph = machine(cpu(0, gpu(0, link_to(1, 3)) + gpu(1, link_to(0, 3) + to_switch(1))) +
                              cpu(1, gpu(2, link_to(3, 3) + to_switch(1)) + gpu(3, link_to(2, 3) + to_switch(1))));
  const Paths paths(graph);
  const SearchResult result = checked(paths);
  ASSERT_EQ(result.islands.size(), 1u);
  EXPECT_FALSE(result.direct());
  EXPECT_FALSE(result.machine.rings.empty());
  EXPECT_GT(gigabytes(result.machine.bytes_per_second), 19);
  EXPECT_GT(gigabytes(result.trees.bytes_per_second), 19);
}

// Two trays on one NVLink switch; one GPU of the second has lost its links and drops the whole job.
TEST(Search, AGpuWithoutItsLinksIsFoundAmongSeveralHosts) {
  const auto tray = [](const std::string& hash, bool broken) {
    std::string gpus;
    for (int i = 0; i < 4; ++i)
      gpus += gpu(i, (broken && i == 1 ? "" : to_switch(18)) + "<c2c bw=\"44712\" count=\"5\"/>", "103");
    return cpu(0, gpus, "host_hash=\"" + hash + "\"");
  };
  const Graph healthy = machine(tray("0x1", false) + tray("0x2", false));
  const Paths healthy_paths(healthy);
  const SearchResult good = checked(healthy_paths);
  EXPECT_EQ(good.machine.rings.size(), 18u);
  EXPECT_EQ(good.machine.rings[0].gpus.size(), 8u);
  EXPECT_TRUE(good.findings.empty());

  const Graph broken = machine(tray("0x1", false) + tray("0x2", true));
  const Paths broken_paths(broken);
  const SearchResult bad = checked(broken_paths);
  ASSERT_EQ(bad.islands.size(), 2u);
  EXPECT_EQ(bad.islands[0].gpus.size(), 7u);
  ASSERT_EQ(bad.findings.size(), 1u);
  EXPECT_NE(bad.findings[0].find("GPU 1.1 has 0 NVLinks, its like have 18"), std::string::npos) << bad.findings[0];
}

TEST(Search, TreeRingEntersEachBranchOnce) {
  std::string first;
  std::string second;
  for (int i = 0; i < 4; ++i) {
    char bus[32];
    std::snprintf(bus, sizeof bus, "0000:%02x:00.0", 0x20 + i);
    (i < 2 ? first : second) += bridge(bus, gpu(2 * i) + gpu(2 * i + 1));
  }
  const Graph graph = machine(cpu(0, bridge("0000:10:00.0", first)) + cpu(1, bridge("0000:11:00.0", second)));
  const Paths paths(graph);
  const SearchResult result = checked(paths);
  ASSERT_EQ(result.machine.rings.size(), 1u);
  EXPECT_TRUE(result.machine.best);
  EXPECT_DOUBLE_EQ(gigabytes(result.machine.bytes_per_second), 16);
  const std::vector<int>& ring = result.machine.rings[0].gpus;
  int crossings = 0;
  for (std::size_t i = 0; i < ring.size(); ++i)
    crossings += paths.between(ring[i], ring[(i + 1) % ring.size()]).type == PathType::kSys;
  EXPECT_EQ(crossings, 2);
}

TEST(Search, BridgedPairsAreJoinedBothWaysRound) {
  const Graph graph = machine(cpu(0, gpu(0, link_to(1, 12))) + cpu(1, gpu(1, link_to(0, 12))) +
                              cpu(2, gpu(2, link_to(3, 12))) + cpu(3, gpu(3, link_to(2, 12))));
  const Paths paths(graph);
  const SearchResult result = checked(paths);
  ASSERT_EQ(result.islands.size(), 2u);
  EXPECT_EQ(result.islands[0].rings.rings.size(), 12u);
  EXPECT_DOUBLE_EQ(gigabytes(result.machine.bytes_per_second), 48);
  EXPECT_DOUBLE_EQ(gigabytes(result.machine.bound_bytes_per_second), 48);
}

// One ring uses one of the links between four domains; several rings in other orders use them all.
TEST(Search, MoreRingsUseMoreSockets) {
  const Graph graph = machine(cpu(0, gpu(0)) + cpu(1, gpu(1)) + cpu(2, gpu(2)) + cpu(3, gpu(3)));
  const Paths paths(graph);
  const SearchResult result = checked(paths);
  EXPECT_DOUBLE_EQ(gigabytes(result.machine.bytes_per_second), 24);
  EXPECT_TRUE(result.machine.best);
}

// hwloc may know domains and no packages, or a GPU whose place is unknown.
TEST(Search, PlacesThatNoKnownLinkJoinsAreNoLimit) {
  Graph graph;
  const int host = graph.add(NodeKind::kHost, -1);
  const int first = graph.add(NodeKind::kNuma, host);
  const int second = graph.add(NodeKind::kNuma, host);
  for (const int parent : {first, second, host}) {
    const int gpu = graph.add(NodeKind::kGpu, parent);
    graph.edges.push_back({EdgeKind::kPcie, parent, gpu, 1, {}, 0});
  }
  graph.normalise();
  const Paths paths(graph);
  const SearchResult result = checked(paths);
  EXPECT_DOUBLE_EQ(gigabytes(result.machine.bytes_per_second), 12);
  EXPECT_TRUE(result.machine.best);
}

TEST(Search, NoGpuAndOneGpuAreAnswers) {
  const Graph none = machine(cpu(0, ""));
  const Paths of_none(none);
  EXPECT_TRUE(search(of_none).islands.empty());
  EXPECT_EQ(structure_text(of_none, search(of_none)), "no GPU");
  const Graph one = machine(cpu(0, gpu(0)));
  const Paths of_one(one);
  EXPECT_TRUE(search(of_one).machine.rings.empty());
  EXPECT_EQ(structure_text(of_one, search(of_one)), "one GPU");
}

TEST(Search, CheckSeesWrongRings) {
  const Graph graph = tree_machine();
  const Paths paths(graph);
  RingSet set = search(paths).machine;
  RingSet missing = set;
  missing.rings[0].gpus.pop_back();
  EXPECT_FALSE(check_rings(paths, paths.gpus(), missing).ok());
  RingSet twice = set;
  twice.rings.insert(twice.rings.end(), set.rings.begin(), set.rings.end());
  EXPECT_FALSE(check_rings(paths, paths.gpus(), twice).ok());
}

// What no machine has, and a file may claim, is answered at once.
TEST(Search, HugeClaimsAreNotSearched) {
  std::string gpus;
  for (int i = 0; i < 700; ++i) gpus += gpu(i, to_switch(18));
  const Graph many = machine(cpu(0, gpus));
  const SearchResult result = search(Paths(many));
  EXPECT_TRUE(result.islands.empty());
  ASSERT_EQ(result.findings.size(), 1u);
  EXPECT_NE(result.findings[0].find("700 GPUs are more than are searched"), std::string::npos);
}

// Large machines stay bounded in work; the time itself is measured elsewhere.
TEST(Search, SeventyTwoGpusOnPciAndOnASwitch) {
  std::string switched;
  std::string plain;
  for (int numa = 0; numa < 4; ++numa) {
    std::string inside;
    std::string alone;
    for (int i = 0; i < 18; ++i) {
      inside += gpu(numa * 18 + i, to_switch(18), "100");
      alone += gpu(numa * 18 + i);
    }
    switched += cpu(numa, inside);
    plain += cpu(numa, alone);
  }
  const Graph fast = machine(switched);
  EXPECT_EQ(checked(Paths(fast)).machine.rings.size(), 18u);
  const Graph slow = machine(plain);
  EXPECT_GT(checked(Paths(slow)).machine.bytes_per_second, 15e9);
}

// ---- NCCL's graph XML

TEST(NcclGraphXml, WhatIsWrittenReadsBack) {
  const Graph graph = tree_machine();
  const Paths paths(graph);
  const SearchResult result = search(paths);
  const std::string text = to_nccl_graph_xml(paths, result, plan_nics(paths));
  const auto graphs = parse_nccl_graphs(text, "g.xml");
  ASSERT_TRUE(graphs.ok()) << graphs.status().to_string() << text;
  ASSERT_EQ(graphs->size(), 2u);
  EXPECT_EQ((*graphs)[0].pattern, 4);
  ASSERT_EQ((*graphs)[0].channels.size(), result.machine.rings.size());
  EXPECT_EQ((*graphs)[0].channels[0].gpus.size(), 6u);
  EXPECT_EQ((*graphs)[0].channels[0].nets.size(), 2u);
  EXPECT_NEAR((*graphs)[0].intra_bytes_per_second, result.machine.rings[0].bytes_per_second, 1);
}

TEST(NcclGraphXml, BothDialectsOfDeviceNumbersAreRead) {
  const auto graphs = parse_nccl_graphs(
      "<graphs version=\"1\"><graph id=\"0\" pattern=\"4\" nchannels=\"1\" speedintra=\"22\"><channel><gpu "
      "dev=\"10\"/><gpu dev=\"0xa\"/><gpu dev=\"0x0100000000000003\"/></channel></graph><graph id=\"2\" "
      "nchannels=\"0\"/></graphs>",
      "g.xml");
  ASSERT_TRUE(graphs.ok()) << graphs.status().to_string();
  const std::vector<NcclDevice>& gpus = (*graphs)[0].channels[0].gpus;
  EXPECT_EQ(gpus[0], (NcclDevice{0, 10}));
  EXPECT_EQ(gpus[1], (NcclDevice{0, 10}));
  EXPECT_EQ(gpus[2], (NcclDevice{1, 3}));
}

TEST(NcclGraphXml, ErrorsNameLineAndElement) {
  const auto text_of = [](const std::string& text) {
    return std::string(parse_nccl_graphs(text, "g.xml").status().text());
  };
  EXPECT_NE(text_of("<graphs>\n<graph id=\"0\" nchannels=\"2\"><channel/></graph></graphs>")
                .find("g.xml:2: <graph id=\"0\">"),
            std::string::npos);
  EXPECT_NE(
      text_of("<graphs><graph id=\"0\">\n<channel>\n<gpu dev=\"x\"/></channel></graph></graphs>").find("g.xml:3:"),
      std::string::npos);
  EXPECT_FALSE(parse_nccl_graphs("<system/>", "g.xml").ok());
}

}  // namespace
}  // namespace hocket::topo
