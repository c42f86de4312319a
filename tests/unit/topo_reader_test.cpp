// SPDX-License-Identifier: Apache-2.0
// Machines read through hwloc (src/topo/hwloc_reader.cpp): made-up ones, XML files written here, this one.
//
// The XML below is the smallest that shows one difficulty each. Dumps of real machines are tried where
// HOCKET_TOPOLOGIES names a folder with hwloc-xml/*.xml.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "topo/hwloc_reader.hpp"
#include "topo/link_speed.hpp"
#include "unit/topo_files.hpp"

namespace hocket::topo {
namespace {

TEST(Synthetic, TreeIsPackageNumaL3Core) {
  const Result<Graph> graph = graph_from_synthetic("package:2 numa:1 l3:2 core:4 pu:2");
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(graph->count(NodeKind::kPackage), 2);
  EXPECT_EQ(graph->count(NodeKind::kNuma), 2);
  EXPECT_EQ(graph->count(NodeKind::kL3), 4);
  EXPECT_EQ(graph->count(NodeKind::kCore), 16);
  EXPECT_EQ(graph->cpus.allowed.count(), 32);
  const int core = graph->containing(NodeKind::kCore, 31);
  EXPECT_EQ(graph->ancestor(core, NodeKind::kL3), graph->l3_of(31));
  EXPECT_EQ(graph->ancestor(core, NodeKind::kNuma), graph->numa_of(31));
  EXPECT_EQ(graph->ancestor(core, NodeKind::kPackage), graph->package_of(31));
  EXPECT_EQ(graph->numa_of(31), graph->containing(NodeKind::kNuma, CpuSet::range(16, 31)));
  EXPECT_EQ(std::count_if(graph->edges.begin(), graph->edges.end(),
                          [](const Edge& e) { return e.kind == EdgeKind::kSocket; }),
            1);
}

TEST(Synthetic, TwoReadsAreEqual) {
  for (const char* description : {"package:2 numa:1 l3:2 core:4 pu:1", "package:4 numa:4 core:2 pu:2", "numa:1 pu:3",
                                  "package:1 l3:4 l2:2 core:2 pu:2"}) {
    const Result<Graph> a = graph_from_synthetic(description);
    const Result<Graph> b = graph_from_synthetic(description);
    ASSERT_TRUE(a.ok() && b.ok()) << description;
    EXPECT_EQ(*a, *b);
    EXPECT_EQ(a->digest(), b->digest());
    EXPECT_EQ(a->to_json(), b->to_json());
  }
}

TEST(Synthetic, SharedL2IsDividedAmongItsCores) {
  const Result<Graph> graph = graph_from_synthetic("package:1 l3:1 l2:2(size=4194304) core:4 pu:1");
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(graph->l2_bytes(), 1u << 20);
}

TEST(Synthetic, HardwareThreadsWithoutCoresStandForCores) {
  const Result<Graph> graph = graph_from_synthetic("numa:2 pu:3");
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(graph->count(NodeKind::kCore), 6);
}

TEST(Synthetic, NonsenseIsAnError) {
  EXPECT_EQ(graph_from_synthetic("nonsense").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(graph_from_synthetic("").status().code(), Code::kInvalidArgument);
}

// One package, 4 CPUs, and what `io` adds below it.
std::string xml_machine(const std::string& io, const std::string& version = "2.0", const std::string& after = "") {
  const std::string sets =
      R"( cpuset="0x0000000f" complete_cpuset="0x0000000f" nodeset="0x00000001" complete_nodeset="0x00000001")";
  std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n";
  xml += "<topology version=\"" + version + "\">\n<object type=\"Machine\" os_index=\"0\"" + sets +
         R"( allowed_cpuset="0x00000007" allowed_nodeset="0x00000001" gp_index="1">)" + "\n";
  xml += "<object type=\"Package\" os_index=\"0\"" + sets + " gp_index=\"2\">\n";
  xml += R"(<info name="CPUModel" value="Test &amp; CPU"/>)";
  xml += "<object type=\"NUMANode\" os_index=\"0\"" + sets + R"( gp_index="3" local_memory="1073741824"/>)" + "\n";
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string mask = std::to_string(1 << cpu);
    const std::string set = " cpuset=\"0x0000000" + mask + "\" complete_cpuset=\"0x0000000" + mask +
                            "\" nodeset=\"0x00000001\" complete_nodeset=\"0x00000001\"";
    const std::string index = std::to_string(cpu);
    xml += "<object type=\"Core\" os_index=\"" + index + "\"" + set + " gp_index=\"" + std::to_string(10 + cpu) + "\">";
    xml += "<object type=\"PU\" os_index=\"" + index + "\"" + set + " gp_index=\"" + std::to_string(20 + cpu) +
           "\"/></object>\n";
  }
  return xml + io + "</object>\n</object>\n" + after + "</topology>\n";
}

std::string bridge(int id, const std::string& bus, int depth, const std::string& inside) {
  return "<object type=\"Bridge\" gp_index=\"" + std::to_string(id) + "\" bridge_type=\"1-1\" depth=\"" +
         std::to_string(depth) + "\" bridge_pci=\"0000:[01-0f]\" pci_busid=\"" + bus +
         "\" pci_type=\"0604 [10b5:9781] [10b5:9781] b0 00\" pci_link_speed=\"15.753846\">\n" + inside + "</object>\n";
}

std::string host_bridge(const std::string& inside) {
  return "<object type=\"Bridge\" gp_index=\"100\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[00-0f]\">\n" +
         inside + "</object>\n";
}

std::string device(int id, const std::string& bus, const std::string& type, const std::string& speed,
                   const std::string& inside = "") {
  return "<object type=\"PCIDev\" gp_index=\"" + std::to_string(id) + "\" pci_busid=\"" + bus + "\" pci_type=\"" +
         type + "\" pci_link_speed=\"" + speed + "\">" + inside + "</object>\n";
}

std::string os_device(int id, const std::string& name, int type) {
  return "<object type=\"OSDev\" gp_index=\"" + std::to_string(id) + "\" name=\"" + name + "\" osdev_type=\"" +
         std::to_string(type) + "\"/>";
}

// A switch (upstream port, two downstream ports) with a GPU and a NIC, and devices that are neither.
std::string usual_io() {
  const std::string gpu =
      device(200, "0000:04:00.0", "0302 [10de:2330] [10de:16c1] a1 00", "63.015385", os_device(201, "nvml0", 1));
  const std::string nic = device(210, "0000:05:00.0", "0207 [15b3:1021] [15b3:0023] 00 00", "63.015385",
                                 os_device(211, "ib0", 2) + os_device(212, "mlx5_0", 3));
  const std::string inside = bridge(301, "0000:03:00.0", 3, gpu) + bridge(302, "0000:03:01.0", 3, nic);
  const std::string disk =
      device(220, "0000:06:00.0", "0108 [144d:a80a] [144d:a801] 00 00", "7.876923", os_device(221, "nvme0n1", 0));
  const std::string display = device(230, "0000:07:00.0", "0300 [1a03:2000] [1a03:2000] 41 00", "0.5");
  return host_bridge(bridge(300, "0000:00:01.0", 1, bridge(303, "0000:02:00.0", 2, inside)) +
                     bridge(304, "0000:00:02.0", 1, disk) + bridge(305, "0000:00:03.0", 1, display));
}

Graph read_xml(const std::string& text, const std::string& sysfs_root = "") {
  TemporaryTree tree;
  Result<Graph> graph = graph_from_hwloc_xml(tree.write("/machine.xml", text), sysfs_root);
  EXPECT_TRUE(graph.ok()) << graph.status().to_string();
  return graph.ok() ? std::move(*graph) : Graph();
}

const Node& only(const Graph& graph, NodeKind kind) {
  static const Node kNone;
  const std::vector<int> found = graph.of_kind(kind);
  EXPECT_EQ(found.size(), 1u) << to_string(kind);
  return found.empty() ? kNone : graph.nodes[static_cast<std::size_t>(found[0])];
}

const Edge* link_above(const Graph& graph, NodeKind kind) {
  const std::vector<int> found = graph.of_kind(kind);
  for (const Edge& edge : graph.edges) {
    if (!found.empty() && edge.kind == EdgeKind::kPcie && edge.to == found[0]) return &edge;
  }
  return nullptr;
}

TEST(HwlocXml, PortsAreLinksAndSwitchesAreNodes) {
  const Graph graph = read_xml(xml_machine(usual_io()));
  EXPECT_EQ(only(graph, NodeKind::kPciSwitch).name, "0000:02:00.0");
  const Node& gpu = only(graph, NodeKind::kGpu);
  EXPECT_EQ(gpu.name, "0000:04:00.0");
  EXPECT_EQ(gpu.get("vendor"), "10de");
  EXPECT_EQ(gpu.get("device"), "2330");
  EXPECT_EQ(gpu.get("devices"), "nvml0");
  const Node& nic = only(graph, NodeKind::kNic);
  EXPECT_EQ(nic.get("rdma"), "mlx5_0");
  EXPECT_EQ(nic.get("netdev"), "ib0");
  EXPECT_EQ(gpu.parent, nic.parent);
  EXPECT_EQ(only(graph, NodeKind::kHostBridge).parent, graph.numa_of(0));
  ASSERT_NE(link_above(graph, NodeKind::kGpu), nullptr);
  EXPECT_NEAR(link_above(graph, NodeKind::kGpu)->rate.bytes_per_second, 63.015e9, 1e6);
}

TEST(HwlocXml, AllowedCpusAndModelAreKept) {
  const Graph graph = read_xml(xml_machine(""));
  EXPECT_EQ(graph.cpus.allowed.to_string(), "0-2");
  EXPECT_EQ(graph.cpus.online.to_string(), "0-3");
  EXPECT_EQ(only(graph, NodeKind::kPackage).get("model"), "Test & CPU");
  EXPECT_EQ(only(graph, NodeKind::kNuma).bytes, 1u << 30);
  EXPECT_EQ(graph.host_id, "");
}

TEST(HwlocXml, ImplausibleLinkSpeedIsUnknownAndNoted) {
  for (const char* speed : {"-3.0", "5000.0", "0.01"}) {
    const Graph graph =
        read_xml(xml_machine(host_bridge(device(200, "0000:04:00.0", "0302 [10de:2330] [10de:16c1] a1 00", speed))));
    ASSERT_NE(link_above(graph, NodeKind::kGpu), nullptr);
    EXPECT_FALSE(link_above(graph, NodeKind::kGpu)->rate.known()) << speed;
    EXPECT_EQ(graph.notes.size(), 1u) << speed;
  }
}

// hwloc 3 writes a set of bits where hwloc 2 writes a number: 4 + 8 is GPU and co-processor, 16 + 32 network and verbs.
TEST(HwlocXml, VersionThreeGivesTheSameMachine) {
  std::string three = xml_machine(usual_io(), "3.0");
  const auto swap = [&three](const std::string& from, const std::string& to) {
    for (auto at = three.find(from); at != std::string::npos; at = three.find(from, at + to.size()))
      three.replace(at, from.size(), to);
  };
  swap("osdev_type=\"1\"", "osdev_type=\"12\"");
  swap("osdev_type=\"3\"", "osdev_type=\"48\"");
  swap("osdev_type=\"2\"", "osdev_type=\"16\"");
  swap("osdev_type=\"0\"", "osdev_type=\"1\"");
  EXPECT_EQ(read_xml(three).digest(), read_xml(xml_machine(usual_io())).digest());
}

TEST(HwlocXml, SysfsSpeedsReplaceThoseOfTheFile) {
  TemporaryTree sysfs;
  const std::string gpu = "/sys/bus/pci/devices/0000:04:00.0/";
  sysfs.write(gpu + "current_link_speed", "2.5 GT/s PCIe\n");  // idle
  sysfs.write(gpu + "current_link_width", "16\n");
  sysfs.write(gpu + "max_link_speed", "32.0 GT/s PCIe\n");
  const std::string nic = "/sys/bus/pci/devices/0000:05:00.0/";
  sysfs.write(nic + "current_link_speed", "8.0 GT/s PCIe\n");
  sysfs.write(nic + "current_link_width", "8\n");
  sysfs.write(nic + "max_link_speed", "32.0 GT/s PCIe\n");
  sysfs.write("/sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  sysfs.write("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  sysfs.write("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
  sysfs.write("/sys/class/infiniband/mlx5_0/ports/2/rate", "10 Gb/sec (4X SDR)\n");
  sysfs.write("/sys/class/infiniband/mlx5_0/ports/2/state", "1: DOWN\n");
  const Graph graph = read_xml(xml_machine(usual_io()), sysfs.root());
  EXPECT_NEAR(link_above(graph, NodeKind::kGpu)->rate.bytes_per_second, 63.015e9, 1e6);
  EXPECT_NEAR(link_above(graph, NodeKind::kNic)->rate.bytes_per_second, 7.877e9, 1e6);  // a NIC does not slow down
  EXPECT_EQ(only(graph, NodeKind::kNic).rate, (Rate{50e9, Origin::kReported}));
  EXPECT_EQ(only(graph, NodeKind::kNic).get("link_layer"), "InfiniBand");
  EXPECT_EQ(only(graph, NodeKind::kGpu).get("link_speed"), "2.5 GT/s PCIe");
}

TEST(HwlocXml, RoceUsesVersionTwoWithAnAddress) {
  TemporaryTree sysfs;
  const std::string port = "/sys/class/infiniband/mlx5_0/ports/1/";
  sysfs.write(port + "rate", "100 Gb/sec (4X EDR)\n");
  sysfs.write(port + "state", "4: ACTIVE\n");
  sysfs.write(port + "link_layer", "Ethernet\n");
  const char* const addresses[] = {"fe80:0000:0000:0000:0205:6cff:fe17:9e75", "fe80:0000:0000:0000:0205:6cff:fe17:9e75",
                                   "0000:0000:0000:0000:0000:ffff:0a00:3c03", "0000:0000:0000:0000:0000:ffff:0a00:3c03",
                                   "0000:0000:0000:0000:0000:0000:0000:0000"};
  for (int i = 0; i < 5; ++i) {
    sysfs.write(port + "gids/" + std::to_string(i), std::string(addresses[i]) + "\n");
    if (i < 4) sysfs.write(port + "gid_attrs/types/" + std::to_string(i), i % 2 ? "RoCE v2\n" : "IB/RoCE v1\n");
  }
  const Graph graph = read_xml(xml_machine(usual_io()), sysfs.root());
  EXPECT_EQ(only(graph, NodeKind::kNic).get("gid_index"), "3");
  EXPECT_EQ(only(graph, NodeKind::kNic).get("gid_version"), "2");
}

TEST(HwlocXml, InterfaceSpeedsThatMeanUnknownAreUnknown) {
  const std::string io =
      host_bridge(device(200, "0000:04:00.0", "0200 [1af4:1000] [1af4:0001] 00 00", "0.0", os_device(201, "eth0", 2)));
  for (const char* text : {"-1\n", "4294967295\n", "", "0\n", "fast\n", "nan\n"}) {
    TemporaryTree sysfs;
    sysfs.write("/sys/class/net/eth0/speed", text);
    EXPECT_FALSE(only(read_xml(xml_machine(io), sysfs.root()), NodeKind::kNic).rate.known()) << text;
  }
  TemporaryTree sysfs;
  sysfs.write("/sys/class/net/eth0/speed", "25000\n");
  EXPECT_EQ(only(read_xml(xml_machine(io), sysfs.root()), NodeKind::kNic).rate, (Rate{3.125e9, Origin::kReported}));
}

TEST(HwlocXml, NvlinkMatrixBecomesEdgesWithNoSelfLink) {
  const std::string io = host_bridge(
      device(200, "0000:04:00.0", "0302 [10de:1db8] [10de:131d] a1 00", "15.75", os_device(201, "nvml0", 1)) +
      device(210, "0000:05:00.0", "0302 [10de:1db8] [10de:131d] a1 00", "15.75", os_device(211, "nvml1", 1)));
  const std::string matrix =
      "<distances2hetero nbobjs=\"2\" kind=\"25\" name=\"NVLinkBandwidth\">\n"
      "<indexes length=\"20\">OSDev:201 OSDev:211 </indexes>\n"
      "<u64values length=\"28\">1000000 50000 50000 1000000 </u64values>\n</distances2hetero>\n";
  const Graph graph = read_xml(xml_machine(io, "2.0", matrix));
  const auto gpus = graph.of_kind(NodeKind::kGpu);
  ASSERT_EQ(gpus.size(), 2u);
  std::vector<Edge> links;
  for (const Edge& edge : graph.edges) {
    if (edge.kind == EdgeKind::kNvlink) links.push_back(edge);
  }
  ASSERT_EQ(links.size(), 1u);
  EXPECT_EQ(links[0].from, gpus[0]);
  EXPECT_EQ(links[0].to, gpus[1]);
  EXPECT_EQ(links[0].rate, (Rate{50e9, Origin::kReported}));
}

TEST(HwlocXml, MissingAndForeignFilesAreNamed) {
  const Result<Graph> missing = graph_from_hwloc_xml("/nonexistent/machine.xml");
  EXPECT_EQ(missing.status().code(), Code::kSystem);
  EXPECT_NE(missing.status().text().find("/nonexistent/machine.xml"), std::string_view::npos);
  TemporaryTree tree;
  for (const char* text :
       {"", "not xml", "<system version=\"1\"></system>", "<topology", "<topology version=\"9.0\">"}) {
    const std::string path = tree.write("/x.xml", text);
    const Result<Graph> graph = graph_from_hwloc_xml(path);
    EXPECT_EQ(graph.status().code(), Code::kInvalidArgument) << text;
    EXPECT_NE(graph.status().text().find(path), std::string_view::npos);
  }
  EXPECT_FALSE(graph_from_hwloc_xml(tree.root()).ok());  // a folder
}

TEST(HwlocXml, CutFilesNeverCrash) {
  const std::string whole = xml_machine(usual_io());
  TemporaryTree tree;
  for (std::size_t length = 0; length < whole.size(); length += 97) {
    const Result<Graph> graph = graph_from_hwloc_xml(tree.write("/cut.xml", whole.substr(0, length)));
    EXPECT_TRUE(!graph.ok() || graph->check().ok()) << length;
    if (!graph.ok() && length > 300) {
      EXPECT_NE(graph.status().text().find("cut off"), std::string_view::npos) << graph.status().text();
    }
  }
}

TEST(HwlocXml, BadSetIsNamedWithItsLine) {
  std::string text = xml_machine("");
  text.replace(text.find("0x0000000f"), 10, "0x00zz000f");
  TemporaryTree tree;
  const std::string path = tree.write("/x.xml", text);
  const Result<Graph> graph = graph_from_hwloc_xml(path);
  EXPECT_NE(graph.status().text().find(path + ":4: 'set=\"0x00zz000f\"'"), std::string_view::npos)
      << graph.status().text();
}

// hwloc 2.9 reads through a null pointer here; the caller must see an error and live.
TEST(HwlocXml, FileThatCrashesHwlocIsAnError) {
  std::string text = xml_machine("");
  const std::string core = "<object type=\"Core\" os_index=\"1\"";
  text.replace(text.find(core), core.size() + 48, core + " ");
  TemporaryTree tree;
  const Result<Graph> graph = graph_from_hwloc_xml(tree.write("/x.xml", text));
  EXPECT_EQ(graph.status().code(), Code::kInvalidArgument) << graph.status().to_string();
}

TEST(HwlocXml, RandomDamageNeverCrashes) {
  constexpr unsigned kSeed = 5;
  std::mt19937 random(kSeed);
  const std::string whole = xml_machine(usual_io());
  TemporaryTree tree;
  for (int round = 0; round < 100; ++round) {
    std::string text = whole;
    for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(32 + random() % 90); break;
        case 1: text.erase(at, 1 + random() % 40); break;
        default: text.insert(at, text.substr(random() % text.size(), random() % 100));
      }
    }
    const Result<Graph> graph = graph_from_hwloc_xml(tree.write("/x.xml", text));
    EXPECT_TRUE(!graph.ok() || graph->check().ok()) << "seed " << kSeed << " round " << round;
  }
}

TEST(PcieRate, KnowsRealLinksOnly) {
  EXPECT_NEAR(pcie_rate("16.0 GT/s PCIe", "16").bytes_per_second, 31.5e9, 1e8);
  EXPECT_NEAR(pcie_rate("8 GT/s", "4").bytes_per_second, 3.94e9, 1e7);
  EXPECT_EQ(pcie_rate("2.5 GT/s PCIe", "1").bytes_per_second, 250e6);
  EXPECT_GT(pcie_rate("64.0 GT/s PCIe", "16").bytes_per_second, 120e9);
  for (const auto& [speed, width] : {std::pair{"Unknown", "0"},
                                     {"16.0 GT/s PCIe", "0"},
                                     {"16.0 GT/s PCIe", "255"},
                                     {"16.0 GT/s PCIe", "3"},
                                     {"17.0 GT/s PCIe", "16"},
                                     {"16.0", "16"},
                                     {"", ""},
                                     {"32.0 GT/s PCIe", "16x"},
                                     {"1e400 GT/s", "16"},
                                     {"nan GT/s", "16"}})
    EXPECT_FALSE(pcie_rate(speed, width).known()) << speed << " x " << width;
}

TEST(HostId, OverrideThenBootIdThenANote) {
  TemporaryTree tree;
  std::vector<std::string> notes;
  EXPECT_EQ(read_host_id("", tree.root(), &notes), "");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("HOCKET_HOST_ID"), std::string::npos);
  tree.write("/proc/sys/kernel/random/boot_id", "11111111-2222\n");
  EXPECT_EQ(read_host_id("", tree.root(), &notes), "11111111-2222");
  EXPECT_EQ(read_host_id("mine", tree.root(), &notes), "mine");
  EXPECT_EQ(notes.size(), 1u);
}

TEST(LiveMachine, IsValidAndKnowsItsCpus) {
  const CpuSet before = *CpuSet::of_this_thread();
  const Graph graph = load_machine();
  EXPECT_EQ(*CpuSet::of_this_thread(), before);
  ASSERT_TRUE(graph.check().ok()) << graph.check().to_string();
  EXPECT_GE(graph.cpus.allowed.count(), 1);
  EXPECT_GT(graph.cpus.usable_cpus(), 0);
  EXPECT_GE(graph.containing(NodeKind::kCore, graph.cpus.allowed.first()), 0);
  EXPECT_EQ(*Graph::from_bytes(graph.to_bytes()), graph);
}

TEST(LiveMachine, AnEmptyFileSystemGivesNotesAndNoCrash) {
  TemporaryTree tree;
  ReaderOptions options;
  options.root = tree.root();
  const Graph graph = load_machine(options);
  ASSERT_TRUE(graph.check().ok()) << graph.check().to_string();
  EXPECT_GE(graph.notes.size(), 3u);  // online CPUs, quota, boot id
  EXPECT_GE(graph.cpus.allowed.count(), 1);
}

// Counts that topologies/INDEX.md states, and no crash on any file.
TEST(RealMachines, EveryDumpIsReadWithPlausibleCounts) {
  const char* folder = std::getenv("HOCKET_TOPOLOGIES");
  const std::filesystem::path files = std::filesystem::path(folder ? folder : "") / "hwloc-xml";
  if (!folder || !std::filesystem::is_directory(files))
    GTEST_SKIP() << "HOCKET_TOPOLOGIES names no folder with hwloc-xml/: dumps of real machines are not tried";
  struct Known {
    const char* name;
    int packages, gpus, switches_of_nvlink;
  };
  constexpr Known kKnown[] = {{"corona240-8mi50-rsmi-xgmi", 2, 8, 0},
                              {"cts1-pascal-2p100", 2, 2, 0},
                              {"dgx-spark-gb10", 1, 0, 0},
                              {"dgx2-16v100-nvswitch", 2, 16, 12},
                              {"epyc-corona-mi", 2, 4, 0},
                              {"power8-ea-4p100-hwloc1", 2, 4, 0},
                              {"power9-lassen-4v100", 2, 4, 0},
                              {"dell-2s-forced-pci-locality", 4, 0, 0},
                              {"westmere-2n-pci-oldgpu", 2, 3, 0},
                              {"xeon-4socket-96c-pci", 16, 0, 0}};
  int read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(files)) {
    if (entry.path().extension() != ".xml") continue;
    const Result<Graph> graph = graph_from_hwloc_xml(entry.path().string());
    ASSERT_TRUE(graph.ok()) << graph.status().to_string();
    ++read;
    EXPECT_TRUE(graph->check().ok());
    EXPECT_EQ(*Graph::from_bytes(graph->to_bytes()), *graph);
    EXPECT_GE(graph->count(NodeKind::kCore), 1) << entry.path();
    EXPECT_LE(graph->count(NodeKind::kCore), graph->cpus.online.count()) << entry.path();
    for (const int cpu : graph->cpus.allowed.to_vector()) {
      EXPECT_GE(graph->containing(NodeKind::kCore, cpu), 0) << entry.path() << " CPU " << cpu;
      EXPECT_GE(graph->numa_of(cpu), 0) << entry.path() << " CPU " << cpu;
    }
    for (const Known& known : kKnown) {
      if (entry.path().stem() != known.name) continue;
      EXPECT_EQ(graph->count(NodeKind::kPackage), known.packages) << known.name;
      EXPECT_EQ(graph->count(NodeKind::kGpu), known.gpus) << known.name;
      EXPECT_EQ(graph->count(NodeKind::kNvSwitch), known.switches_of_nvlink) << known.name;
    }
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace hocket::topo
