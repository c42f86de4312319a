// SPDX-License-Identifier: Apache-2.0
// Matrices of nvidia-smi and rocm-smi (src/topo/smi_matrix.cpp, smi_reader.cpp), whole and as people paste them.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "topo/machine_file.hpp"
#include "topo/smi_matrix.hpp"
#include "topo/smi_reader.hpp"

namespace hocket::topo {
namespace {

Graph read(const std::string& text) {
  Result<Graph> graph = graph_from_smi_text(text, "m.txt");
  EXPECT_TRUE(graph.ok()) << graph.status().to_string() << "\n" << text;
  return graph.ok() ? std::move(*graph) : Graph();
}

const std::string kFour =
    "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tPIX\tNODE\tSYS\tPIX\t0-3,8-11\t0\t\tN/A\n"
    "GPU1\tPIX\t X \tNODE\tSYS\tPIX\t0-3,8-11\t0\t\tN/A\n"
    "GPU2\tNODE\tNODE\t X \tSYS\tNODE\t0-3,8-11\t0\t\tN/A\n"
    "GPU3\tSYS\tSYS\tSYS\t X \tSYS\t4-7\t1\t\tN/A\n"
    "NIC0\tPIX\tPIX\tNODE\tSYS\t X \t\t\t\t\n\n"
    "Legend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\n"
    "NIC Legend:\n\n  NIC0: mlx5_7\n";

// All pairs joined by the same number of links.
std::string all_pairs(int gpus, const std::string& cell) {
  std::string text;
  for (int i = 0; i < gpus; ++i) text += "\tGPU" + std::to_string(i);
  text += "\tCPU Affinity\tNUMA Affinity\n";
  for (int i = 0; i < gpus; ++i) {
    text += "GPU" + std::to_string(i);
    for (int j = 0; j < gpus; ++j) text += "\t" + (i == j ? std::string(" X ") : cell);
    text += "\t0-7\t0\n";
  }
  return text;
}

TEST(SmiMatrix, TreeExplainsTheCells) {
  const Graph graph = read(kFour);
  EXPECT_EQ(graph.count(NodeKind::kGpu), 4);
  EXPECT_EQ(graph.count(NodeKind::kNuma), 2);
  EXPECT_EQ(graph.count(NodeKind::kPciSwitch), 1);
  const std::vector<int> nics = graph.of_kind(NodeKind::kNic);
  ASSERT_EQ(nics.size(), 1u);
  const Node& nic = graph.nodes[static_cast<std::size_t>(nics[0])];
  EXPECT_EQ(nic.get("rdma"), "mlx5_7");
  EXPECT_EQ(nic.parent, graph.of_kind(NodeKind::kPciSwitch)[0]);
  EXPECT_EQ(graph.nodes[static_cast<std::size_t>(graph.numa_of(5))].os_index, 1);
}

// The same machine, through every way in which a paste was seen to go wrong.
TEST(SmiMatrix, PastesReadLikeTheOriginal) {
  const std::uint64_t whole = read(kFour).digest();
  const auto with = [](std::string text, const std::string& from, const std::string& to) {
    for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
    return text;
  };
  EXPECT_EQ(read(with(kFour, "\tGPU0\tGPU1", "\t\x1b[4mGPU0\tGPU1")).digest(), whole) << "colours";
  EXPECT_EQ(read(with(with(kFour, "NUMA ID\n", "NUMA ID\x1b[0m\n"), "\n", "\r\n")).digest(), whole) << "line ends";
  EXPECT_EQ(read(with(with(kFour, "\t\tN/A", "\tN/A"), "\t", "    ")).digest(), whole) << "blanks for tabs";
  EXPECT_EQ(read(with("> " + kFour, "\n", "\n> ")).digest(), whole) << "quoted";
  EXPECT_EQ(read(with(kFour, " X ", "\xc2\xa0X\xc2\xa0")).digest(), whole) << "no-break blanks";
  EXPECT_EQ(read("some words before\n" + kFour + "and after\n").digest(), whole) << "words around it";
  EXPECT_EQ(read(kFour.substr(1)).digest(), whole) << "no tab before the header";
}

TEST(SmiMatrix, LostCellsComeFromTheOtherHalf) {
  std::string text = kFour;
  text.replace(text.find("SYS\tPIX\t0-3,8-11\t0"), 18, "SYS\tPI0-3,8-11\t0");
  const Graph graph = read(text);
  EXPECT_EQ(graph.digest(), read(kFour).digest());
  EXPECT_EQ(graph.notes.size(), 1u);
  EXPECT_NE(graph.notes[0].find("m.txt:2: GPU0 and NIC0: 'PI0-3,8-11'"), std::string::npos) << graph.notes[0];
  // A row that the terminal cut off, and rows that are not there at all.
  std::string cut = kFour;
  cut.erase(cut.find("\tPIX\t X \tNODE") + 8, 30);
  EXPECT_EQ(read(cut).count(NodeKind::kPciSwitch), 1);
  EXPECT_EQ(read(kFour.substr(0, kFour.find("NIC0\tPIX"))).count(NodeKind::kNic), 1);
}

TEST(SmiMatrix, WrappedLinesAreOneRow) {
  std::string text = kFour;
  text.replace(text.find("SYS\tPIX\t0-3,8-11\t0"), 4, "\nSYS ");
  text.replace(text.find("\tGPU3\tNIC0"), 1, "\n");
  const Graph graph = read(text);
  EXPECT_EQ(graph.count(NodeKind::kGpu), 4);
  EXPECT_EQ(graph.count(NodeKind::kPciSwitch), 1);
}

TEST(SmiMatrix, EqualFullLinkCountsMeanASwitch) {
  const Graph eight = read(all_pairs(8, "NV12"));
  ASSERT_EQ(eight.count(NodeKind::kNvSwitch), 1);
  int links = 0;
  for (const Edge& edge : eight.edges) links += edge.kind == EdgeKind::kNvlink ? edge.links : 0;
  EXPECT_EQ(links, 8 * 12);  // 12 a GPU in all, not 12 to each peer
  EXPECT_EQ(read(all_pairs(4, "NV18")).count(NodeKind::kNvSwitch), 1);
  EXPECT_EQ(read(all_pairs(16, "NV6")).count(NodeKind::kNvSwitch), 1);  // 90 links would be more than any GPU has
}

TEST(SmiMatrix, BridgesAndMeshesAreNoSwitch) {
  EXPECT_EQ(read(all_pairs(4, "NV6")).count(NodeKind::kNvSwitch), 0);
  EXPECT_EQ(read(all_pairs(4, "NV4")).count(NodeKind::kNvSwitch), 0);
  EXPECT_EQ(read(all_pairs(2, "NV12")).count(NodeKind::kNvSwitch), 0);
}

TEST(SmiMatrix, HiddenLinksAreNotTakenForAbsent) {
  std::string text = kFour;
  const auto at = text.find("  NV#");
  text.erase(at, text.find('\n', at) - at + 1);
  const Graph graph = read(text);
  EXPECT_EQ(graph.nodes[0].get("nvlink"), "unknown");
  EXPECT_EQ(read(kFour).nodes[0].get("nvlink"), "");
}

TEST(SmiMatrix, NumaColumnTellsHalvesApart) {
  std::string text = all_pairs(4, "SYS");
  for (const char* row : {"GPU2", "GPU3"}) {
    const auto at = text.find("\t0-7\t0\n", text.find("\n" + std::string(row)));
    text.replace(at, 7, "\t8-15\t1\n");
  }
  const Graph graph = read(text);
  EXPECT_EQ(graph.count(NodeKind::kNuma), 2);
  EXPECT_EQ(graph.count(NodeKind::kHostBridge), 4);
  EXPECT_EQ(graph.notes.size(), 1u);
}

TEST(SmiMatrix, DeviceNearNobodyIsSysToAll) {
  const Graph graph = read("\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-3\t1\nNIC0\tSYS\t X \t\t\n");
  const Node& nic = graph.nodes[static_cast<std::size_t>(graph.of_kind(NodeKind::kNic)[0])];
  EXPECT_EQ(graph.ancestor(nic.parent, NodeKind::kNuma), -1);
}

TEST(SmiMatrix, RocmTablesGiveXgmiAndNuma) {
  const std::string head = "       GPU0         GPU1\n";
  const std::string text = "====== Weight between two GPUs ======\n" + head + "GPU0   0   15\nGPU1   15   0\n\n" +
                           "====== Hops between two GPUs ======\n" + head + "GPU0   0   1\nGPU1   1   0\n" +
                           "====== Link Type between two GPUs ======\n" + head + "GPU0   0   XGMI\nGPU1   XGMI   0\n" +
                           "====== Numa Nodes ======\nGPU[0]\t\t: (Topology) Numa Node: 0\n" +
                           "GPU[1]\t\t: (Topology) Numa Node: 1\n====== End ======\n";
  const Graph graph = read(text);
  EXPECT_EQ(graph.count(NodeKind::kNuma), 2);
  EXPECT_EQ(std::count_if(graph.edges.begin(), graph.edges.end(),
                          [](const Edge& edge) { return edge.kind == EdgeKind::kNvlink; }),
            1);
}

TEST(SmiMatrix, AmdSmiNamesDevicesByBusId) {
  const std::string head = "             0000:0c:00.0 0000:22:00.0 0000:38:00.0\n";
  const auto rows = [](const char* self, const char* one, const char* two) {
    const std::string a = self, b = one, c = two;
    return "0000:0c:00.0 " + a + " " + b + " " + c + "\n0000:22:00.0 " + b + " " + a + " " + c + "\n0000:38:00.0 " + c +
           " " + c + " " + a + "\n\n";
  };
  const std::string text = "ACCESS TABLE:\n" + head + rows("ENABLED", "ENABLED", "ENABLED") + "WEIGHT TABLE:\n" + head +
                           rows("0", "15", "52") + "HOPS TABLE:\n" + head + rows("0", "1", "3") + "LINK TYPE TABLE:\n" +
                           head + rows("SELF", "XGMI", "PCIE") + "NUMA BW TABLE:\n" + head +
                           rows("N/A", "50000-100000", "N/A");
  EXPECT_EQ(kind_of_text(text), FileKind::kSmiMatrix);
  const Graph graph = read(text);
  EXPECT_EQ(graph.count(NodeKind::kGpu), 3);
  EXPECT_EQ(graph.nodes[static_cast<std::size_t>(graph.of_kind(NodeKind::kGpu)[0])].name, "0000:0c:00.0");
  EXPECT_EQ(std::count_if(graph.edges.begin(), graph.edges.end(),
                          [](const Edge& edge) { return edge.kind == EdgeKind::kNvlink; }),
            1);
  EXPECT_EQ(graph.count(NodeKind::kNuma), 2);
}

TEST(SmiMatrix, ErrorsNameTheFileAndLine) {
  EXPECT_EQ(graph_from_smi_text("", "m.txt").status().code(), Code::kInvalidArgument);
  EXPECT_NE(graph_from_smi_text("nothing\n", "m.txt").status().text().find("m.txt: no header"), std::string_view::npos);
  EXPECT_NE(graph_from_smi_text("\tGPU0\tGPU1\tCPU Affinity\n", "m.txt").status().text().find("no row under it"),
            std::string_view::npos);
  EXPECT_NE(graph_from_smi_text("\tGPU0\tGPU0\tCPU Affinity\n", "m.txt").status().text().find("m.txt:1: "),
            std::string_view::npos);
}

TEST(SmiMatrix, RandomDamageNeverCrashes) {
  constexpr unsigned kSeed = 11;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    std::string text = kFour;
    for (unsigned changes = 1 + random() % 6; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random() % 256); break;
        case 1: text.erase(at, 1 + random() % 40); break;
        default: text.insert(at, text.substr(random() % text.size(), random() % 60));
      }
    }
    const Result<Graph> graph = graph_from_smi_text(text, "m.txt");
    ASSERT_TRUE(!graph.ok() || graph->check().ok()) << "seed " << kSeed << " round " << round;
  }
}

TEST(FileKind, ContentDecides) {
  EXPECT_EQ(kind_of_text("<?xml?><topology version=\"2.0\">"), FileKind::kHwlocXml);
  EXPECT_EQ(kind_of_text("<system version=\"1\">"), FileKind::kNcclXml);
  EXPECT_EQ(kind_of_text("<graphs version=\"1\">"), FileKind::kNcclGraph);
  EXPECT_EQ(kind_of_text(kFour), FileKind::kSmiMatrix);
  EXPECT_EQ(kind_of_text("hca_id:\tmlx5_0\n"), FileKind::kIbv);
  EXPECT_EQ(kind_of_text("hello"), FileKind::kUnknown);
}

}  // namespace
}  // namespace hocket::topo
