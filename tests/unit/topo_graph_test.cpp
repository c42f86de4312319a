// SPDX-License-Identifier: Apache-2.0
// The Graph as a value: order, queries, text, JSON and bytes (src/topo/graph*.cpp).
#include <gtest/gtest.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <random>

#include "topo/hash.hpp"
#include "topo/hwloc_reader.hpp"

namespace hocket::topo {
namespace {

// One package, two L3s of two cores, a switch with a GPU and a NIC, an empty bridge. `swapped` adds things in another
// order.
Graph small_machine(bool swapped = false) {
  Graph graph;
  const int host = graph.add(NodeKind::kHost, -1);
  const int package = graph.add(NodeKind::kPackage, host);
  const int numa = graph.add(NodeKind::kNuma, package);
  const auto node = [&graph](int i) -> Node& { return graph.nodes[static_cast<std::size_t>(i)]; };
  const CpuSet all = CpuSet::range(0, 3);
  for (const int i : {host, package, numa}) node(i).cpus = all;
  node(numa).bytes = 1ull << 30;
  for (int k = 0; k < 2; ++k) {
    const int part = swapped ? 1 - k : k;
    const int l3 = graph.add(NodeKind::kL3, numa);
    node(l3).cpus = CpuSet::range(2 * part, 2 * part + 1);
    node(l3).bytes = 8u << 20;
    for (int c = 0; c < 2; ++c) {
      const int core = graph.add(NodeKind::kCore, l3);
      const int cpu = 2 * part + (swapped ? 1 - c : c);
      node(core).cpus = CpuSet::range(cpu, cpu);
      node(core).bytes = (part == 1 ? 512u : 1024u) << 10;
    }
  }
  const int bridge = graph.add(NodeKind::kHostBridge, numa);
  node(bridge).name = "0000:00";
  const int pci = graph.add(NodeKind::kPciSwitch, bridge);
  node(pci).name = "0000:01:00.0";
  int gpu = 0;
  int nic = 0;
  const auto add_gpu = [&] {
    gpu = graph.add(NodeKind::kGpu, pci);
    node(gpu).name = "0000:02:00.0";
    node(gpu).set("vendor", "10de");
    node(gpu).set("model", "a \"fast\" one");
  };
  const auto add_nic = [&] {
    nic = graph.add(NodeKind::kNic, pci);
    node(nic).name = "0000:03:00.0";
    node(nic).rate = {12.5e9, Origin::kReported};
  };
  if (swapped) {
    add_nic();
    add_gpu();
  } else {
    add_gpu();
    add_nic();
  }
  const int empty = graph.add(NodeKind::kPciSwitch, bridge);
  node(empty).name = "0000:05:00.0";
  graph.edges.push_back({EdgeKind::kPcie, pci, gpu, 1, {31.5e9, Origin::kReported}, 0});
  graph.edges.push_back({EdgeKind::kPcie, nic, pci, 1, {}, 0});
  graph.edges.push_back({EdgeKind::kPcie, pci, nic, 1, {15.75e9, Origin::kReported}, 0});
  graph.edges.push_back({EdgeKind::kPcie, bridge, empty, 1, {}, 0});
  graph.host_id = "boot";
  graph.source = "test";
  graph.notes = {"a note"};
  graph.cpus = {all, CpuSet::range(0, 1), 1.5};
  graph.normalise();
  return graph;
}

TEST(Graph, OrderDoesNotDependOnHowItWasBuilt) {
  const Graph graph = small_machine();
  EXPECT_EQ(graph, small_machine(true));
  EXPECT_EQ(graph.digest(), small_machine(true).digest());
  EXPECT_TRUE(graph.check().ok()) << graph.check().to_string();
}

TEST(Graph, NormaliseTwiceChangesNothing) {
  Graph graph = small_machine();
  const Graph once = graph;
  graph.normalise();
  EXPECT_EQ(graph, once);
}

TEST(Graph, BridgesThatLeadNowhereAndDoubleEdgesGo) {
  const Graph graph = small_machine();
  EXPECT_EQ(graph.count(NodeKind::kPciSwitch), 1);
  ASSERT_EQ(graph.edges.size(), 2u);
  for (const Edge& edge : graph.edges) EXPECT_TRUE(edge.rate.known());
}

TEST(Graph, SaysWhatACpuBelongsTo) {
  const Graph graph = small_machine();
  EXPECT_NE(graph.l3_of(0), graph.l3_of(2));
  EXPECT_EQ(graph.l3_of(2), graph.l3_of(3));
  EXPECT_EQ(graph.numa_of(0), graph.numa_of(3));
  EXPECT_GE(graph.package_of(3), 0);
  EXPECT_EQ(graph.l3_of(4), -1);
  EXPECT_EQ(graph.containing(NodeKind::kL3, CpuSet::range(0, 1)), graph.l3_of(0));
  EXPECT_EQ(graph.containing(NodeKind::kL3, CpuSet::range(0, 2)), -1);
  EXPECT_EQ(graph.containing(NodeKind::kL3, CpuSet()), -1);
  const int gpu = graph.of_kind(NodeKind::kGpu).at(0);
  EXPECT_EQ(graph.ancestor(gpu, NodeKind::kNuma), graph.numa_of(0));
  EXPECT_EQ(graph.ancestor(gpu, NodeKind::kL3), -1);
  EXPECT_EQ(graph.children(graph.ancestor(gpu, NodeKind::kPciSwitch)).size(), 2u);
}

TEST(Graph, CacheSizesAreThoseOfAllowedCpusOnly) {
  Graph graph = small_machine();
  EXPECT_EQ(graph.l2_bytes(), 1u << 20);  // the smaller L2 is on CPUs that are not allowed
  EXPECT_EQ(graph.l3_bytes(), 8u << 20);
  graph.cpus.allowed = CpuSet::range(0, 3);
  EXPECT_EQ(graph.l2_bytes(), 512u << 10);
  EXPECT_EQ(Graph().l2_bytes(), 0u);
}

TEST(Graph, DigestSeesTheMachineAndNotItsName) {
  const Graph graph = small_machine();
  Graph other = graph;
  other.host_id = "another boot";
  other.source = "elsewhere";
  other.notes.clear();
  EXPECT_EQ(other.digest(), graph.digest());
  other.nodes.back().set("netdev", "eth0");
  EXPECT_NE(other.digest(), graph.digest());
  other = graph;
  other.cpus.quota_cpus = 2;
  EXPECT_NE(other.digest(), graph.digest());
  other = graph;
  other.edges[0].rate.bytes_per_second += 1;
  EXPECT_NE(other.digest(), graph.digest());
}

// The digest travels between machines: a change of the binary form has to be a decision (and a new version).
TEST(Graph, DigestIsStable) {
  EXPECT_EQ(small_machine().digest(), 0x23c2564dbfe0b09full);
}

TEST(Graph, BytesGiveTheSameGraphBack) {
  const Graph graph = small_machine();
  const Result<Graph> back = Graph::from_bytes(graph.to_bytes());
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(*back, graph);
  for (const char* description : {"package:2 numa:1 l3:2 core:4 pu:1", "pu:1", "numa:4 core:2 pu:8"}) {
    const Result<Graph> machine = graph_from_synthetic(description);
    ASSERT_TRUE(machine.ok()) << machine.status().to_string();
    EXPECT_EQ(*Graph::from_bytes(machine->to_bytes()), *machine) << description;
  }
}

TEST(Graph, EveryTruncationIsAnError) {
  const std::string bytes = small_machine().to_bytes();
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_EQ(Graph::from_bytes(bytes.substr(0, length)).status().code(), Code::kInvalidArgument) << length;
  EXPECT_FALSE(Graph::from_bytes(bytes + "x").ok());
}

TEST(Graph, EveryFlippedBitIsAnError) {
  std::string bytes = small_machine().to_bytes();
  for (std::size_t i = 0; i < bytes.size() * 8; ++i) {
    bytes[i / 8] = static_cast<char>(bytes[i / 8] ^ (1 << (i % 8)));
    EXPECT_FALSE(Graph::from_bytes(bytes).ok()) << "bit " << i;
    bytes[i / 8] = static_cast<char>(bytes[i / 8] ^ (1 << (i % 8)));
  }
}

// Damage with a matching hash: what a hostile or buggy sender could make. No crash, and what is accepted is valid.
TEST(Graph, DamageBehindAMatchingHashNeverCrashes) {
  constexpr unsigned kSeed = 20240611;
  std::mt19937 random(kSeed);
  const std::string good = small_machine().to_bytes();
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string payload = good.substr(0, good.size() - 8);
    const unsigned changes = 1 + random() % 4;
    for (unsigned c = 0; c < changes; ++c) {
      const std::size_t at = 5 + random() % (payload.size() - 5);
      switch (random() % 4) {
        case 0: payload[at] = static_cast<char>(payload[at] ^ (1 << (random() % 8))); break;
        case 1: payload[at] = static_cast<char>(random()); break;
        case 2: payload.erase(at, 1 + random() % 8); break;
        default: payload.insert(at, 1 + random() % 8, static_cast<char>(random()));
      }
      if (payload.size() < 6) break;
    }
    const std::uint64_t hash = hash_bytes(payload);
    for (int i = 0; i < 8; ++i) payload.push_back(static_cast<char>(hash >> (8 * i)));
    const Result<Graph> graph = Graph::from_bytes(payload);
    if (!graph.ok()) {
      EXPECT_EQ(graph.status().code(), Code::kInvalidArgument);
      continue;
    }
    ++accepted;
    EXPECT_TRUE(graph->check().ok());
    (void)graph->to_text();
    EXPECT_TRUE(nlohmann::json::accept(graph->to_json())) << "seed " << kSeed << " round " << round;
  }
  EXPECT_GT(accepted, 0);  // else the loop tested nothing but the hash
}

TEST(Graph, CheckNamesWhatIsOutOfRange) {
  Graph graph = small_machine();
  graph.nodes[3].parent = 3;
  EXPECT_NE(graph.check().text().find("node 3"), std::string_view::npos);
  graph = small_machine();
  graph.edges[0].to = 1000;
  EXPECT_NE(graph.check().text().find("edge 0"), std::string_view::npos);
  graph = small_machine();
  graph.edges[0].rate.bytes_per_second = std::bit_cast<double>(0x7ff8000000000000ull);
  EXPECT_FALSE(graph.check().ok());
  EXPECT_FALSE(Graph().check().ok());
}

TEST(Graph, JsonIsWhatAParserReads) {
  const Graph graph = small_machine();
  const nlohmann::json json = nlohmann::json::parse(graph.to_json());
  EXPECT_EQ(json["nodes"].size(), graph.nodes.size());
  EXPECT_EQ(json["edges"].size(), graph.edges.size());
  EXPECT_EQ(json["cpus"]["usable"], 1.5);
  EXPECT_EQ(json["cpus"]["allowed"], "0-1");
  EXPECT_EQ(json["notes"][0], "a note");
  const int gpu = graph.of_kind(NodeKind::kGpu).at(0);
  EXPECT_EQ(json["nodes"][static_cast<std::size_t>(gpu)]["attributes"]["model"], "a \"fast\" one");
}

TEST(Graph, JsonStringsSurviveAnyBytes) {
  for (const std::string& text : {std::string("plain"), std::string("q\"b\\n\n\t\r"), std::string("\x01\x1f\x7f"),
                                  std::string("\0x", 2), std::string("gr\xc3\xbc\xc3\x9f")})
    EXPECT_EQ(nlohmann::json::parse(json_string(text)), text);
  EXPECT_EQ(json_string("a\xff"), "\"a\\ufffd\"");
  EXPECT_EQ(json_string("\xc3"), "\"\\ufffd\"");                     // cut short
  EXPECT_EQ(json_string("\xed\xa0\x80").substr(0, 7), "\"\\ufffd");  // a surrogate
  std::mt19937 random(3);
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (unsigned left = random() % 12; left > 0; --left) text.push_back(static_cast<char>(random()));
    EXPECT_TRUE(nlohmann::json::accept(json_string(text)));
  }
}

TEST(Graph, TextIsATreeWithOneLinePerGroupOfEqualCores) {
  const std::string text = small_machine().to_text();
  EXPECT_NE(text.find("2 allowed (0-1) of 4 online (0-3), cgroup quota 1.50 CPUs"), std::string::npos) << text;
  EXPECT_NE(text.find("\n        cores 0-1  CPUs 0-1  L2 1 MiB\n"), std::string::npos) << text;
  EXPECT_NE(text.find("NIC 0  0000:03:00.0  port 12.5 GB/s  PCIe 15.8 GB/s each way"), std::string::npos) << text;
  EXPECT_NE(text.find("note  a note"), std::string::npos) << text;
}

TEST(GraphText, UnknownCpusAreNotZero) {
  Graph graph;
  graph.add(NodeKind::kHost, -1);
  EXPECT_NE(graph.to_text().find("CPUs  unknown"), std::string::npos) << graph.to_text();
  EXPECT_EQ(graph.to_text().find("()"), std::string::npos) << graph.to_text();
}

TEST(Graph, TextCarriesNoControlCharacterFromAName) {
  Graph graph = small_machine();
  graph.nodes.back().name = "evil\x1b[2J\n";
  EXPECT_EQ(graph.to_text().find('\x1b'), std::string::npos);
}

TEST(Graph, UnitsAreReadable) {
  EXPECT_EQ(bytes_to_text(1 << 20), "1 MiB");
  EXPECT_EQ(bytes_to_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_to_text(0), "unknown");
  EXPECT_EQ(bytes_to_text(~0ull), "16 EiB");
  EXPECT_EQ(rate_to_text({}), "unknown");
  EXPECT_EQ(rate_to_text({25e9, Origin::kReported}), "25 GB/s");
}

}  // namespace
}  // namespace hocket::topo
