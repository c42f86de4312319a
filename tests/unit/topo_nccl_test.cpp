// SPDX-License-Identifier: Apache-2.0
// NCCL's and RCCL's topology XML (src/topo/nccl_reader.cpp, nccl_writer.cpp). Each file here is the smallest that shows
// one difficulty.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "topo/nccl_reader.hpp"
#include "unit/topo_files.hpp"

namespace hocket::topo {
namespace {

Graph read(const std::string& text) {
  Result<Graph> graph = graph_from_nccl_text(text, "m.xml");
  EXPECT_TRUE(graph.ok()) << graph.status().to_string();
  return graph.ok() ? std::move(*graph) : Graph();
}

std::string error_of(const std::string& text) {
  const Result<Graph> graph = graph_from_nccl_text(text, "m.xml");
  EXPECT_FALSE(graph.ok()) << text;
  EXPECT_EQ(graph.status().code(), Code::kInvalidArgument);
  return std::string(graph.status().text());
}

std::string gpu(const std::string& bus, const std::string& dev, const std::string& inside = "",
                const std::string& sm = "70") {
  return "<pci busid=\"" + bus + "\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"16\"><gpu dev=\"" + dev +
         "\" sm=\"" + sm + "\" rank=\"" + dev + "\" gdr=\"1\">" + inside + "</gpu></pci>\n";
}

std::string nvlink(const std::string& target, const std::string& count, const std::string& tclass = "0x030200") {
  return "<nvlink target=\"" + target + "\" count=\"" + count + "\" tclass=\"" + tclass + "\"/>";
}

std::string system(const std::string& inside) {
  return "<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"0000000f\" arch=\"x86_64\" vendor=\"AuthenticAMD\" "
         "familyid=\"143\" modelid=\"49\">\n" +
         inside + "</cpu>\n</system>\n";
}

std::vector<Edge> links(const Graph& graph, EdgeKind kind = EdgeKind::kNvlink) {
  std::vector<Edge> found;
  for (const Edge& edge : graph.edges) {
    if (edge.kind == kind) found.push_back(edge);
  }
  return found;
}

bool has_note(const Graph& graph, std::string_view text) {
  return std::any_of(graph.notes.begin(), graph.notes.end(),
                     [text](const std::string& note) { return note.find(text) != std::string::npos; });
}

TEST(NcclXml, TreeOfSwitchGpuAndNic) {
  const Graph graph = read(system(
      "<pci busid=\"0000:03:00.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">" +
      gpu("0000:06:00.0", "0") +
      "<pci busid=\"0000:07:00.0\" class=\"0x020700\" vendor=\"0x15b3\" link_speed=\"16.0 GT/s PCIe\" "
      "link_width=\"16\"><nic><net name=\"mlx5_0\" dev=\"0\" speed=\"200000\" port=\"1\" guid=\"0x1\" gdr=\"1\"/>"
      "</nic></pci></pci>"));
  ASSERT_EQ(graph.count(NodeKind::kGpu), 1);
  ASSERT_EQ(graph.count(NodeKind::kNic), 1);
  const Node& nic = graph.nodes[static_cast<std::size_t>(graph.of_kind(NodeKind::kNic)[0])];
  EXPECT_EQ(nic.get("rdma"), "mlx5_0");
  EXPECT_EQ(nic.rate, (Rate{25e9, Origin::kReported}));
  EXPECT_EQ(nic.parent, graph.of_kind(NodeKind::kPciSwitch)[0]);
  const Node& numa = graph.nodes[static_cast<std::size_t>(graph.of_kind(NodeKind::kNuma)[0])];
  EXPECT_EQ(numa.cpus.to_string(), "0-3");
  EXPECT_TRUE(graph.notes.empty()) << graph.notes[0];
}

TEST(NcclXml, BothEndsOfALinkAreOneEdge) {
  const Graph graph = read(system(gpu("0000:06:00.0", "0", nvlink("0000:07:00.0", "2")) +
                                  gpu("0000:07:00.0", "1", nvlink("0000:06:00.0", "2"))));
  const std::vector<Edge> found = links(graph);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].links, 2);
  EXPECT_EQ(found[0].rate, (Rate{40e9, Origin::kNominal}));
}

TEST(NcclXml, EndsThatDisagreeGiveTheLesserAndANote) {
  const Graph graph = read(system(gpu("0000:06:00.0", "0", nvlink("0000:07:00.0", "2")) +
                                  gpu("0000:07:00.0", "1", nvlink("0000:06:00.0", "1"))));
  ASSERT_EQ(links(graph).size(), 1u);
  EXPECT_EQ(links(graph)[0].links, 1);
  EXPECT_TRUE(has_note(graph, "report 2 and 1 links"));
}

TEST(NcclXml, LinksToOneselfAndToNowhereAreLeftOut) {
  const Graph graph =
      read(system(gpu("0000:06:00.0", "0", nvlink("0000:06:00.0", "12") + nvlink("0000:99:00.0", "1"))));
  EXPECT_TRUE(links(graph).empty());
  EXPECT_TRUE(has_note(graph, "m.xml:3: <nvlink target=\"0000:06:00.0\">: a link to the GPU itself"));
  EXPECT_TRUE(has_note(graph, "1 links lead to devices that are not in the file"));
}

TEST(NcclXml, HiddenSwitchesAreOneSwitchForAll) {
  const std::string up = nvlink("fffffff:ff:ff.0", "18", "0x068000");
  const Graph graph = read(system(gpu("0000:06:00.0", "0", up, "90") + gpu("0000:07:00.0", "1", up, "90")));
  ASSERT_EQ(graph.count(NodeKind::kNvSwitch), 1);
  ASSERT_EQ(links(graph).size(), 2u);
  EXPECT_NEAR(links(graph)[0].rate.bytes_per_second, 18 * 20.6e9, 1);
}

TEST(NcclXml, ATargetOfSeveralGpusThatIsNotInTheFileIsASwitch) {
  const std::string up = "<nvlink target=\"0000:c0:00.0\" count=\"2\"/>";
  const Graph graph = read(system(gpu("0000:06:00.0", "0", up) + gpu("0000:07:00.0", "1", up)));
  EXPECT_EQ(graph.count(NodeKind::kNvSwitch), 1);
  const std::string gone = nvlink("0000:c0:00.0", "2");  // tclass says: a GPU, which was cut out of the file
  EXPECT_EQ(read(system(gpu("0000:06:00.0", "0", gone) + gpu("0000:07:00.0", "1", gone))).count(NodeKind::kNvSwitch),
            0);
}

TEST(NcclXml, TwoHostsOfOneNvlinkDomainKeepTheirBusIdsApart) {
  const std::string up = nvlink("fffffff:ff:ff.0", "18", "0x068000");
  const std::string cpu = "<cpu host_hash=\"0x1\" numaid=\"0\">" + gpu("0008:06:00.0", "0", up, "103") + "</cpu>";
  std::string other = cpu;
  other.replace(other.find("0x1"), 3, "0x2");
  const Graph graph = read("<system version=\"1\">" + cpu + other + "</system>");
  EXPECT_EQ(graph.count(NodeKind::kHost), 2);
  EXPECT_EQ(graph.count(NodeKind::kGpu), 2);
  EXPECT_EQ(graph.count(NodeKind::kNvSwitch), 1);
  EXPECT_EQ(links(graph).size(), 2u);
}

TEST(NcclXml, C2cIsALinkToTheCpu) {
  const Graph graph = read("<system version=\"1\"><cpu numaid=\"-1\" arch=\"arm64\">" +
                           gpu("000f:01:00.0", "0", "<c2c bw=\"43125\" count=\"8\"/>", "121") + "</cpu></system>");
  ASSERT_EQ(links(graph, EdgeKind::kC2c).size(), 1u);
  EXPECT_EQ(links(graph, EdgeKind::kC2c)[0].rate, (Rate{345e9, Origin::kReported}));
}

// The bridge that a file names for the CPU may have the bus id of a GPU, as on machines with POWER9.
TEST(NcclXml, LinksToTheCpuAreToldByTheirClassAndSavedSo) {
  const std::string a = "0004:03:00.0";
  const std::string b = "0004:04:00.0";
  const Graph graph = read(system(gpu(a, "0", nvlink(b, "3") + nvlink(b, "3", "0x068001")) +
                                  gpu(b, "1", nvlink(a, "3") + nvlink(b, "3", "0x068001"))));
  int peers = 0;
  int cpus = 0;
  for (const Edge& edge : graph.edges) {
    if (edge.kind == EdgeKind::kNvlink) peers += edge.links;
    if (edge.kind == EdgeKind::kC2c) cpus += edge.links;
  }
  EXPECT_EQ(peers, 3);
  EXPECT_EQ(cpus, 6);
  EXPECT_EQ(read(to_nccl_xml(graph)).digest(), graph.digest());
}

TEST(NcclXml, BusIdsMatchInAllTheirForms) {
  const Graph graph = read(system(gpu("1B:00.0", "0", nvlink("00000000:1C:00.0", "4")) +
                                  gpu("0000:1c:00.0", "1", nvlink("0000:1B:00.0", "4"))));
  int links = 0;
  for (const Edge& edge : graph.edges) links += edge.kind == EdgeKind::kNvlink ? edge.links : 0;
  EXPECT_EQ(links, 4);
  EXPECT_TRUE(graph.notes.empty());
}

TEST(NcclXml, EqualMasksAreNotTakenForExchanged) {
  const Graph graph = read("<system><cpu numaid=\"0\" affinity=\"ff\"/><cpu numaid=\"1\" affinity=\"ff\"/></system>");
  for (const std::string& note : graph.notes) EXPECT_EQ(note.find("exchanged"), std::string::npos) << note;
}

TEST(NcclXml, APartOfAGpuIsNoSecondGpu) {
  const Graph graph = read(system(
      "<pci busid=\"0000:1b:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"100\"/><gpu dev=\"1\" sm=\"100\"/></pci>"));
  ASSERT_EQ(graph.count(NodeKind::kGpu), 1);
  EXPECT_EQ(graph.nodes[static_cast<std::size_t>(graph.of_kind(NodeKind::kGpu)[0])].get("dev"), "0");
  ASSERT_EQ(graph.notes.size(), 1u);
  EXPECT_NE(graph.notes[0].find("a second <gpu>"), std::string::npos);
}

TEST(NcclXml, DevicesOfASkeletonAreToldByTheirClass) {
  const Graph graph =
      read(system("<pci busid=\"ffff:ff:01.0\" class=\"0x060400\"><pci busid=\"0001:00:00.0\" class=\"0x030200\"/>"
                  "<pci busid=\"0002:00:00.0\" class=\"0x120000\"/><pci busid=\"0101:00:00.0\" class=\"0x020700\"/>"
                  "<pci busid=\"0003:00:00.0\" class=\"0x010802\"/><pci busid=\"0004:00:00.0\"/>"
                  "<pci busid=\"0005:00:00.0\" class=\"0x030000\" vendor=\"0x1a03\"/></pci>"));
  EXPECT_EQ(graph.count(NodeKind::kGpu), 2);
  EXPECT_EQ(graph.count(NodeKind::kNic), 1);
  EXPECT_EQ(graph.count(NodeKind::kPciDevice), 1);
  EXPECT_EQ(graph.count(NodeKind::kPciSwitch), 1);
}

TEST(NcclXml, ARepeatedNetIsOneNicNearNoDomain) {
  const std::string cpu =
      "<cpu numaid=\"0\"><nic><net name=\"eth0\" dev=\"0\" speed=\"10000\" port=\"0\" gdr=\"0\"/>"
      "<net name=\"eth1\" dev=\"1\" port=\"0\" gdr=\"0\"/></nic></cpu>";
  std::string second = cpu;
  second.replace(second.find("\"0\""), 3, "\"1\"");
  const Graph once = read("<system>" + cpu + "</system>");
  EXPECT_EQ(once.count(NodeKind::kNic), 2);
  EXPECT_EQ(once.nodes[static_cast<std::size_t>(once.of_kind(NodeKind::kNic)[0])].parent,
            once.of_kind(NodeKind::kNuma)[0]);
  const Graph twice = read("<system>" + cpu + second + "</system>");
  ASSERT_EQ(twice.count(NodeKind::kNic), 2);
  for (const int nic : twice.of_kind(NodeKind::kNic)) EXPECT_EQ(twice.nodes[static_cast<std::size_t>(nic)].parent, 0);
}

TEST(NcclXml, OddLinkSpeedsAreAssumedOnceAndSaid) {
  const Graph graph =
      read(system("<pci busid=\"0000:06:00.0\" class=\"0x020700\" link_speed=\"32 GT/s PCIe/s\" "
                  "link_width=\"8\"/><pci busid=\"0000:07:00.0\" class=\"0x020700\" link_speed=\"32 GT/s "
                  "PCIe/s\" link_width=\"8\"/>"));
  ASSERT_EQ(graph.notes.size(), 1u);
  EXPECT_NE(graph.notes[0].find("(2 times)"), std::string::npos);
  for (const Edge& edge : links(graph, EdgeKind::kPcie)) {
    EXPECT_EQ(edge.rate.origin, Origin::kNominal);
    EXPECT_NEAR(edge.rate.bytes_per_second, 7.877e9, 1e6);
  }
}

TEST(NcclXml, UnknownWidthIsSixteenLanes) {
  const Graph graph =
      read(system("<pci busid=\"0000:06:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"0\"/>"));
  EXPECT_NEAR(links(graph, EdgeKind::kPcie)[0].rate.bytes_per_second, 63.015e9, 1e6);
}

TEST(NcclXml, CrossedMasksAreNoticed) {
  const Graph graph = read("<system><cpu numaid=\"0\" affinity=\"f0\">" + gpu("0000:06:00.0", "0") +
                           "</cpu><cpu numaid=\"1\" affinity=\"0f\">" + gpu("0000:07:00.0", "1") + "</cpu></system>");
  EXPECT_TRUE(has_note(graph, "the masks may be exchanged"));
}

TEST(NcclXml, ErrorsNameLineAndElement) {
  EXPECT_NE(error_of("<system>\n<cpu numaid=\"0\">\n</system>").find("m.xml:3:"), std::string::npos);
  EXPECT_NE(error_of("<system>\n<cpu numaid=\"0\">\n").find("cut off"), std::string::npos);
  for (const char* cut : {"<system>\n<cpu numaid=\"0\"", "<system>\n<cpu num", "<system>\n<cpu numaid=\"0\"/>\n</sys"})
    EXPECT_NE(error_of(cut).find("cut off"), std::string::npos) << cut;
  EXPECT_EQ(error_of("<system>\n<cpu numaid=0>\n</system>").find("cut off"), std::string::npos);
  EXPECT_NE(error_of("<graphs/>").find("<graphs>"), std::string::npos);
  EXPECT_NE(error_of("<system version=\"1\"></system>").find("no <cpu>"), std::string::npos);
  error_of("");
  error_of("not XML");
  std::string deep = "<system><cpu numaid=\"0\">";
  for (int i = 0; i < 100; ++i) deep += "\n<pci busid=\"0000:00:00.0\">";
  for (int i = 0; i < 100; ++i) deep += "</pci>";
  EXPECT_NE(error_of(deep + "</cpu></system>").find("nested deeper"), std::string::npos);
  EXPECT_NE(error_of(deep + "</cpu></system>").find("m.xml:6"), std::string::npos);
}

TEST(NcclXml, OneBadElementDoesNotCostTheFile) {
  const Graph graph = read(system("<surprise/>" + gpu("06:00", "0") +
                                  gpu("0000:07:00.0", "x", nvlink("0000:08:00.0", "-4") + "<c2c bw=\"x\"/>") +
                                  gpu("0000:07:00.0", "2")));
  EXPECT_EQ(graph.count(NodeKind::kGpu), 2);
  EXPECT_TRUE(has_note(graph, "<surprise>: not known here"));
  EXPECT_TRUE(has_note(graph, "\"06:00\" is no PCI bus id"));
  EXPECT_TRUE(has_note(graph, "count \"-4\" is no number of links"));
  EXPECT_TRUE(has_note(graph, "stands in the file twice"));
}

TEST(NcclXml, TooManyDevicesAreAnError) {
  std::string many = "<system><cpu numaid=\"0\">";
  for (int i = 0; i < 20000; ++i) {
    char bus[32];
    std::snprintf(bus, sizeof bus, "%04x:%02x:00.0", i / 256, i % 256);
    many += std::string("<pci busid=\"") + bus + "\" class=\"0x030200\"/>\n";
  }
  EXPECT_NE(error_of(many + "</cpu></system>").find("no machine has so many"), std::string::npos);
}

TEST(NcclXml, WhatIsSavedReadsBackEqual) {
  const std::string up = nvlink("fffffff:ff:ff.0", "18", "0x068000");
  for (const std::string& text :
       {system(gpu("0000:06:00.0", "0", nvlink("0000:07:00.0", "2")) +
               gpu("0000:07:00.0", "1", nvlink("0000:06:00.0", "2") + "<c2c bw=\"43125\" count=\"2\"/>") +
               "<nic><net name=\"a&amp;b\" dev=\"0\" speed=\"10000\" port=\"0\"/></nic>"),
        system("<pci busid=\"0000:03:00.0\" class=\"0x060400\" link_speed=\"\" link_width=\"0\">" +
               gpu("0000:06:00.0", "0", up) + "</pci>"),
        std::string("<system version=\"2\"><cpu numaid=\"3\"><pci busid=\"0000:06:00.0\" class=\"0x038000\"><gpu "
                    "dev=\"0\" sm=\"104\" gcn=\"910\" rank=\"0\"><xgmi target=\"0000:07:00.0\" count=\"4\" "
                    "tclass=\"0x038000\"/></gpu></pci><pci busid=\"0000:07:00.0\" class=\"0x038000\"><gpu dev=\"1\" "
                    "gcn=\"910\" rank=\"1\"><xgmi target=\"0000:06:00.0\" count=\"4\"/></gpu></pci></cpu></system>")}) {
    const Graph graph = read(text);
    const Graph again = read(to_nccl_xml(graph));
    EXPECT_EQ(again.digest(), graph.digest()) << to_nccl_xml(graph);
  }
}

TEST(NcclXml, APartWithoutItsSystemIsRead) {
  const Graph graph = read("<cpu numaid=\"0\">\n" + gpu("0000:06:00.0", "0") + "</cpu>\n<cpu numaid=\"1\">\n" +
                           gpu("0000:07:00.0", "1") + "</cpu>\n");
  EXPECT_EQ(graph.count(NodeKind::kGpu), 2);
  EXPECT_TRUE(has_note(graph, "a part of a file"));
  EXPECT_NE(error_of("<cpu numaid=\"0\">\n<pci>\n").find("m.xml:3"), std::string::npos);
}

TEST(NcclXml, MissingFileIsASystemError) {
  EXPECT_EQ(graph_from_nccl_xml("/nonexistent/m.xml").status().code(), Code::kSystem);
}

TEST(NcclXml, RandomDamageNeverCrashes) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  const std::string whole = system(gpu("0000:06:00.0", "0", nvlink("0000:07:00.0", "2")) +
                                   gpu("0000:07:00.0", "1", nvlink("fffffff:ff:ff.0", "2", "0x068000")) +
                                   "<nic><net name=\"eth0\" dev=\"0\"/></nic>");
  for (int round = 0; round < 2000; ++round) {
    std::string text = whole;
    for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random() % 256); break;
        case 1: text.erase(at, 1 + random() % 40); break;
        default: text.insert(at, text.substr(random() % text.size(), random() % 100));
      }
    }
    const Result<Graph> graph = graph_from_nccl_text(text, "m.xml");
    ASSERT_TRUE(!graph.ok() || graph->check().ok()) << "seed " << kSeed << " round " << round;
  }
}

}  // namespace
}  // namespace hocket::topo
