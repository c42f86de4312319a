// SPDX-License-Identifier: Apache-2.0
// Matrices of nvidia-smi and rocm-smi (src/topo/smi_matrix.cpp, smi_reader.cpp), whole and as people paste them.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "topo/machine_file.hpp"
#include "topo/paste.hpp"
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

// What tools put before, around and between the cells on the way.
TEST(SmiMatrix, MarksTablesAndMarkupReadLikeTheOriginal) {
  const std::string plain =
      "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\n"
      "GPU0\tX\tNV4\tNV4\t0-15\t0\nGPU1\tNV4\tX\tNV4\t0-15\t0\nGPU2\tNV4\tNV4\tX\t16-31\t1\n";
  const std::uint64_t whole = read(plain).digest();
  const auto each_line = [&plain](const std::string& mark, char cell, const std::string& end) {
    std::string out = mark;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      out += plain[i] == '\n' ? end + "\n" : std::string(1, plain[i] == '\t' ? cell : plain[i]);
      if (plain[i] == '\n' && i + 1 < plain.size()) out += mark;
    }
    return out;
  };
  EXPECT_EQ(read(each_line("0: ", '\t', "")).digest(), whole) << "srun -l";
  EXPECT_EQ(read(each_line("[1,0]<stdout>:", '\t', "")).digest(), whole) << "mpirun --tag-output";
  EXPECT_EQ(read(each_line("2024-03-01T10:00:01.5Z stdout F ", '\t', "")).digest(), whole) << "a container's log";
  EXPECT_EQ(read(each_line("+", '\t', "")).digest(), whole) << "a patch";
  EXPECT_EQ(read(each_line("| ", '|', " |")).digest(), whole) << "a table in Markdown";
  EXPECT_EQ(read(each_line("\"", '\t', "\"")).digest(), whole) << "quotes";
  std::string html = "<table>";
  std::string words;
  for (const char c : plain) html += c == '\t' ? "</td><td>" : c == '\n' ? "</td></tr><tr><td>" : std::string(1, c);
  EXPECT_EQ(read(html).digest(), whole) << "HTML";
  std::string escaped;
  for (const char c : plain) escaped += c == '\t' ? "\\t" : c == '\n' ? "\\n" : std::string(1, c);
  EXPECT_EQ(read(escaped).digest(), whole) << "tabs as \\t";
  std::string dashes;
  for (const char c : plain) dashes += c == '-' ? "\xe2\x80\x93" : std::string(1, c);
  EXPECT_EQ(read(dashes).digest(), whole) << "wide dashes";
  EXPECT_EQ(read(each_line("", ' ', "")).digest(), whole) << "blanks for tabs";
  std::string one_line = plain;
  std::replace(one_line.begin(), one_line.end(), '\n', ' ');
  EXPECT_EQ(read(one_line).digest(), whole) << "ends of lines lost";
  std::string apart;
  for (const char c : plain) apart += c == 'U' && apart.ends_with("GP") ? "U " : std::string(1, c);
  EXPECT_EQ(read(apart).digest(), whole) << "GPU 0";
  std::string boxes = each_line("|", '|', "|");
  for (auto at = boxes.find('|'); at != std::string::npos; at = boxes.find('|', at + 3))
    boxes.replace(at, 1, "\xe2\x94\x82");
  EXPECT_EQ(read(boxes).digest(), whole) << "a table of line characters";
  EXPECT_EQ(read("[4m" + plain + "[0m").digest(), whole) << "colours whose escape character was lost";
  EXPECT_EQ(read("GPU0 and GPU1 hang:\n" + plain).digest(), whole) << "a sentence that begins like a header";
  const Graph without = read(plain.substr(plain.find('\n') + 1));
  EXPECT_EQ(without.digest(), whole) << "no header";
  ASSERT_EQ(without.notes.size(), 1u);
  EXPECT_NE(without.notes[0].find("taken from the rows"), std::string::npos);
}

TEST(SmiMatrix, Utf16IsText) {
  std::string wide = "\xff\xfe";
  for (const char c : kFour) wide += {c, '\0'};
  EXPECT_EQ(read(utf8_of(wide)).digest(), read(kFour).digest());
  EXPECT_EQ(utf8_of(std::string("\xff\xfe\x3d\xd8\x00\xde", 6)), "\xf0\x9f\x98\x80");
  EXPECT_EQ(utf8_of("plain"), "plain");
}

TEST(SmiMatrix, RowsThatAreMissingAreSaid) {
  const std::string text = all_pairs(8, "NV12");
  const Graph cut = read(text.substr(0, text.find("GPU1\tNV12")));
  EXPECT_EQ(cut.count(NodeKind::kNvSwitch), 1) << "one row tells that it is a switch";
  ASSERT_EQ(cut.notes.size(), 1u);
  EXPECT_NE(cut.notes[0].find("no row of GPU1, GPU2"), std::string::npos) << cut.notes[0];
  EXPECT_NE(cut.notes[0].find("21 pairs"), std::string::npos) << cut.notes[0];
  EXPECT_TRUE(read(text).notes.empty());
}

TEST(SmiMatrix, AGpuThatLostLinksIsStillOnTheSwitch) {
  std::string text = all_pairs(8, "NV18");
  std::size_t row = 0;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1, ++row) {
    std::size_t column = 0;
    for (std::size_t i = at; i < text.size() && text[i] != '\n'; ++i) {
      column += text[i] == '\t';
      if (row > 0 && text.compare(i, 4, "NV18") == 0 && (row == 4) != (column == 4)) text[i + 3] = '6';
    }
    if (text.find('\n', at) == std::string::npos) break;
  }
  const Graph graph = read(text);
  EXPECT_EQ(graph.count(NodeKind::kNvSwitch), 1);
  int links = 0;
  for (const Edge& edge : graph.edges) links += edge.kind == EdgeKind::kNvlink ? edge.links : 0;
  EXPECT_EQ(links, 7 * 18 + 16);
}

TEST(SmiMatrix, WhatWorksIsNoDistance) {
  const Result<Graph> graph = graph_from_smi_text(" \tGPU0\tGPU1\t\nGPU0\tX\tOK\t\nGPU1\tOK\tX\t\n", "m.txt");
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.status().text().find("m.txt:2: 'OK'"), std::string_view::npos) << graph.status().text();
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

// A card of two dies, each a GPU: 4 links between them, 1 to the other card's.
TEST(SmiMatrix, BandwidthTellsHowManyLinks) {
  std::string text = "====== Link Type between two GPUs ======\n GPU0 GPU1 GPU2 GPU3\n";
  std::string rates = "====== Bandwidth ======\n GPU0 GPU1 GPU2 GPU3\n";
  for (int i = 0; i < 4; ++i) {
    text += "GPU" + std::to_string(i);
    rates += "GPU" + std::to_string(i);
    for (int j = 0; j < 4; ++j) {
      text += i == j ? " 0" : " XGMI";
      rates += i == j ? " N/A" : i / 2 == j / 2 ? " 50000-200000" : i % 2 == j % 2 ? " 50000-50000" : " 0-0";
    }
    text += "\n";
    rates += "\n";
  }
  const Graph graph = read(text + rates + "Format: min-max; Units: mps\n");
  std::vector<int> links;
  for (const Edge& edge : graph.edges)
    if (edge.kind == EdgeKind::kNvlink) links.push_back(edge.links);
  std::sort(links.begin(), links.end());
  EXPECT_EQ(links, (std::vector<int>{1, 1, 4, 4}));
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
