// SPDX-License-Identifier: Apache-2.0
// What hocket doctor concludes of a machine's facts, and what it reads of saved /proc and /sys trees.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/status.hpp"
#include "tools/doctor/checks.hpp"
#include "tools/doctor/facts.hpp"
#include "tools/doctor/report.hpp"

namespace hocket::doctor {
namespace {

os::NetCandidate address(const char* text, const char* interface, os::NetReach reach) {
  return {os::parse_net_address(text).value(), interface, reach, "as a test has it"};
}

// A host with two GPUs, an RDMA NIC and a network, and nothing to say about it.
Facts healthy() {
  Facts facts;
  facts.host = "node1";
  facts.settings = std::string();
  facts.job = std::string();
  facts.communicator = true;
  facts.kernel = std::string("6.1.0");
  facts.memfd = true;
  facts.pidfd = true;
  Limits limits;
  limits.files = {65536, 65536};
  facts.limits = limits;
  facts.shm = FileSystem{std::uint64_t{8} << 30, std::uint64_t{8} << 30, true};
  facts.memory_free_bytes = std::uint64_t{64} << 30;
  facts.memory_group_bytes = Limit::kNone;
  topo::CpuBudget cpus;
  cpus.online = cpus.allowed = topo::CpuSet::range(0, 15);
  facts.cpus = cpus;
  facts.throttling = Throttling{};
  facts.huge_pages = std::string("madvise");
  facts.interfaces =
      std::vector<Interface>{{.name = "eth0", .up = true, .carrier = true, .physical = true, .megabits = 100'000}};
  facts.addresses = std::vector<os::NetCandidate>{address("10.0.0.7", "eth0", os::NetReach::kRoutable)};
  facts.rdma = std::vector<RdmaPort>{{"mlx5_0", 1, "ACTIVE", "InfiniBand", 400, 1, 0}};
  PciDevice gpu;
  gpu.bus_id = "0000:17:00.0";
  gpu.gpu = true;
  gpu.vendor = "0x10de";
  gpu.driver = "nvidia";
  gpu.speed = gpu.most_speed = "32.0 GT/s PCIe";
  gpu.lanes = gpu.most_lanes = 16;
  gpu.numa_node = 0;
  PciDevice nic = gpu;
  nic.bus_id = "0000:18:00.0";
  nic.gpu = false;
  nic.driver = "mlx5_core";
  facts.devices = std::vector<PciDevice>{gpu, nic};
  facts.bridges = std::vector<Bridge>{{"0000:16:00.0", false}};
  facts.iommu = false;
  facts.nvidia_driver = std::string("550.54");
  facts.gpu_direct = true;
  facts.peer_access = std::vector<PeerAccess>{{0, 1, ""}, {1, 0, ""}};
  facts.link_findings = std::vector<std::string>{};
  return facts;
}

std::string all_of(const std::vector<Finding>& findings) {
  return report_text("test", findings);
}

TEST(DoctorChecks, AHealthyMachineIsFineInEveryRespect) {
  const std::vector<Finding> findings = run_checks(healthy());
  for (const Finding& one : findings) EXPECT_EQ(one.severity, Severity::kFine) << one.check << ": " << one.seen;
  for (const Check& check : checks())
    EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.check == check.name; }))
        << check.name;
  EXPECT_EQ(exit_status(findings), 0);
}

TEST(DoctorChecks, WhatCantBeReadIsUnknownAndLeadsToNothingElse) {
  Facts facts;
  facts.root = "/saved";
  const std::vector<Finding> findings = run_checks(facts);
  EXPECT_GT(findings.size(), 8u);
  for (const Finding& one : findings) EXPECT_EQ(one.severity, Severity::kUnknown) << one.check << ": " << one.seen;
  EXPECT_EQ(exit_status(findings), 0);
}

// One thing wrong with a healthy machine: exactly one finding, that says it and how to mend it.
struct Case {
  const char* name;
  const char* check;
  Severity severity;
  std::function<void(Facts&)> harm;
  const char* seen;
  const char* mend;
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

template <class T>
void change(Fact<T>& fact, const std::function<void(T&)>& how) {
  how(*fact.value);
}

const Case kCases[] = {
    {"malformed", "settings", Severity::kError,
     [](Facts& f) { f.settings = Status(Code::kInvalidArgument, "HOCKET_SLOTS='x' is not understood"); },
     "HOCKET_SLOTS='x'", "unset"},
    {"refused", "settings", Severity::kError,
     [](Facts& f) { f.setting_problems = {"HOCKET_TUNING=/none: can't be opened"}; }, "HOCKET_TUNING=/none",
     "unset HOCKET_TUNING"},
    {"half_a_job", "job", Severity::kError,
     [](Facts& f) { f.job = Status(Code::kInvalidArgument, "HOCKET_SIZE is not set"); }, "HOCKET_SIZE is not set",
     "unset what is left"},
    {"no_rank", "communicator", Severity::kError,
     [](Facts& f) { f.communicator = Status(Code::kSystem, "no address of this host can be used"); },
     "can't be started: no address", "HOCKET_LOG"},
    {"mistyped", "settings", Severity::kWarning,
     [](Facts& f) { f.unknown_variables = {"HOCKET_ALGOS, the nearest known one is HOCKET_ALGO"}; },
     "unknown variable HOCKET_ALGOS, the nearest", "unset HOCKET_ALGOS, "},
    {"memfd", "kernel", Severity::kError,
     [](Facts& f) { f.memfd = Status(Code::kSystem, "memfd_create: Function not implemented"); }, "not implemented",
     "seccomp"},
    {"pidfd", "kernel", Severity::kError,
     [](Facts& f) { f.pidfd = Status(Code::kSystem, "pidfd_open: Function not implemented"); }, "pidfd_open", "5.4"},
    {"quota", "cpus", Severity::kWarning,
     [](Facts& f) { change<topo::CpuBudget>(f.cpus, [](auto& c) { c.quota_cpus = 1.5; }); }, "1.50 CPUs, of 16",
     "at most 1 rank "},
    {"affinity", "cpus", Severity::kNote,
     [](Facts& f) { change<topo::CpuBudget>(f.cpus, [](auto& c) { c.allowed = topo::CpuSet::range(0, 3); }); },
     "0-3 (4 of 16", "taskset"},
    {"throttled", "cpus", Severity::kWarning,
     [](Facts& f) {
       f.throttling = Throttling{100, 40};
     },
     "40 of 100", "cpu.max"},
    {"memory", "memory", Severity::kWarning, [](Facts& f) { f.memory_group_bytes = std::uint64_t{8} << 20; },
     "8 MiB of memory are left in the cgroup", "--memory"},
    {"shm_small", "shm", Severity::kNote,
     [](Facts& f) {
       f.shm = FileSystem{1 << 20, 1 << 20, true};
     },
     "1 MiB", "remount"},
    {"shm_full", "shm", Severity::kNote,
     [](Facts& f) {
       f.shm = FileSystem{std::uint64_t{8} << 30, 0, true};
     },
     "/dev/shm", "ls "},
    {"shm_gone", "shm", Severity::kNote, [](Facts& f) { f.shm = Status(Code::kSystem, "/dev/shm: none"); }, "none",
     "mount"},
    {"huge_pages", "huge pages", Severity::kNote, [](Facts& f) { f.huge_pages = std::string("never"); }, "never",
     "echo madvise"},
    {"files", "open files", Severity::kWarning,
     [](Facts& f) { change<Limits>(f.limits, [](auto& l) {
                      l.files = {128, 65536};
                    }); }, "only 128",
     "ulimit -n 65536"},
    {"files_hard", "open files", Severity::kError,
     [](Facts& f) { change<Limits>(f.limits, [](auto& l) {
                      l.files = {64, 64};
                    }); }, "only 64", "as root"},
    {"address_space", "address space", Severity::kError,
     [](Facts& f) { change<Limits>(f.limits, [](auto& l) { l.address_space_bytes.soft = std::uint64_t{64} << 30; }); },
     "64 GiB", "ulimit -v unlimited"},
    {"file_size", "address space", Severity::kError,
     [](Facts& f) { change<Limits>(f.limits, [](auto& l) { l.file_bytes.soft = 1 << 20; }); }, "1 MiB",
     "ulimit -f unlimited"},
    {"locked", "locked memory", Severity::kWarning,
     [](Facts& f) { change<Limits>(f.limits, [](auto& l) {
                      l.locked_bytes = {64 << 10, 64 << 10};
                    }); }, "64 KiB",
     "memlock"},
    {"dead_bridge", "network", Severity::kNote,
     [](Facts& f) {
       f.interfaces.value->push_back({.name = "br0", .up = true, .carrier = true, .bridge = true});
       f.addresses.value->insert(f.addresses.value->begin(), address("172.17.0.1", "br0", os::NetReach::kVirtual));
     },
     "bridge br0 has an address, and no port", "ip link delete br0"},
    {"down", "network", Severity::kNote,
     [](Facts& f) { f.interfaces.value->push_back({.name = "eth1", .physical = true}); }, "eth1 is down",
     "ip link set eth1 up"},
    {"no_address", "network", Severity::kNote,
     [](Facts& f) { f.interfaces.value->push_back({.name = "eth1", .up = true, .carrier = true, .physical = true}); },
     "no address", "dev eth1"},
    {"slow_first", "network", Severity::kWarning,
     [](Facts& f) {
       f.interfaces.value->push_back(
           {.name = "eth1", .up = true, .carrier = true, .physical = true, .megabits = 400'000});
       f.addresses.value->push_back(address("10.1.0.7", "eth1", os::NetReach::kRoutable));
     },
     "eth0 (100000 Mb/s) is offered", "HOCKET_INTERFACE==eth1"},
    {"only_loopback", "network", Severity::kWarning,
     [](Facts& f) {
       f.interfaces.value->clear();
       f.addresses = std::vector{address("127.0.0.1", "lo", os::NetReach::kLoopback)};
     },
     "no address that another host", "ip link"},
    {"only_virtual", "network", Severity::kWarning,
     [](Facts& f) {
       f.interfaces.value->clear();
       f.addresses = std::vector{address("10.9.0.1", "docker0", os::NetReach::kVirtual)};
     },
     "10.9.0.1 on docker0", "HOCKET_INTERFACE=docker0"},
    {"port_down", "rdma", Severity::kWarning, [](Facts& f) { f.rdma.value->front().state = "DOWN"; },
     "mlx5_0 port 1 is DOWN", "ibstat mlx5_0"},
    {"no_gid", "rdma", Severity::kWarning, [](Facts& f) { f.rdma.value->front().gids = 0; }, "no GID", "show_gids"},
    {"roce_v1", "rdma", Severity::kWarning, [](Facts& f) { f.rdma.value->front().link_layer = "Ethernet"; }, "RoCE v2",
     "cma_roce_mode"},
    {"lanes", "pcie", Severity::kWarning, [](Facts& f) { f.devices.value->back().lanes = 8; },
     "0000:18:00.0 runs on 8 of 16", "lspci"},
    {"nic_speed", "pcie", Severity::kWarning, [](Facts& f) { f.devices.value->back().speed = "8.0 GT/s PCIe"; },
     "8.0 GT/s", "lspci"},
    {"gpu_speed", "pcie", Severity::kNote, [](Facts& f) { f.devices.value->front().speed = "2.5 GT/s PCIe"; },
     "2.5 GT/s", "while it works"},
    {"no_driver", "gpus", Severity::kWarning, [](Facts& f) { f.devices.value->front().driver = ""; }, "no driver",
     "NVIDIA driver"},
    {"nvml", "gpus", Severity::kWarning, [](Facts& f) { f.topology_notes = {"NVML: no answer"}; }, "NVML: no answer",
     "nvidia-smi"},
    {"nvlink", "gpu links", Severity::kWarning,
     [](Facts& f) { f.link_findings = std::vector<std::string>{"GPU 3 has 0 NVLinks"}; }, "GPU 3", "nvlink -s"},
    {"peers", "peer access", Severity::kWarning,
     [](Facts& f) { f.peer_access.value->front().problem = "it is disabled by a driver setting"; }, "GPUs 0-1",
     "topo -p2p"},
    {"iommu", "iommu", Severity::kWarning, [](Facts& f) { f.devices.value->front().iommu = "DMA-FQ"; }, "DMA-FQ",
     "iommu=pt"},
    {"acs", "iommu", Severity::kWarning, [](Facts& f) { f.bridges.value->front().redirects = true; },
     "1 PCIe bridge above", "setpci -s 0000:16:00.0"},
    {"acs_unread", "iommu", Severity::kUnknown,
     [](Facts& f) { f.bridges.value->front().redirects = Status(Code::kUnsupported, "only the superuser"); },
     "only the superuser", ""},
    {"peermem", "gpudirect", Severity::kNote, [](Facts& f) { f.gpu_direct = false; }, "nvidia_peermem",
     "modprobe nvidia_peermem"},
};

class DoctorCase : public ::testing::TestWithParam<Case> {};

TEST_P(DoctorCase, IsTheOneFinding) {
  const Case& wrong = GetParam();
  Facts facts = healthy();
  wrong.harm(facts);
  const std::vector<Finding> findings = run_checks(facts);
  std::vector<Finding> bad;
  for (const Finding& one : findings)
    if (one.severity != Severity::kFine) bad.push_back(one);
  ASSERT_EQ(bad.size(), 1u) << all_of(findings);
  EXPECT_EQ(bad[0].check, wrong.check);
  EXPECT_EQ(bad[0].severity, wrong.severity) << all_of(bad);
  EXPECT_NE(bad[0].seen.find(wrong.seen), std::string::npos) << all_of(bad);
  EXPECT_NE(bad[0].mend.find(wrong.mend), std::string::npos) << all_of(bad);
  if (wrong.severity != Severity::kUnknown) {
    EXPECT_FALSE(bad[0].cost.empty());
    EXPECT_FALSE(bad[0].mend.empty());
  }
  EXPECT_EQ(exit_status(findings), wrong.severity == Severity::kError     ? 2
                                   : wrong.severity == Severity::kWarning ? 1
                                                                          : 0);
}

INSTANTIATE_TEST_SUITE_P(Each, DoctorCase, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DoctorChecks, WithoutAGpuThatIsSaidAndTheRestIsChecked) {
  Facts facts = healthy();
  facts.devices = std::vector<PciDevice>{};
  facts.rdma = std::vector<RdmaPort>{};
  facts.limits.value->locked_bytes = {64 << 10, 64 << 10};
  const std::vector<Finding> findings = run_checks(facts);
  const std::string text = all_of(findings);
  EXPECT_NE(text.find("no GPU: host memory only"), std::string::npos) << text;
  EXPECT_EQ(worst_of(findings), Severity::kNote) << text;
  EXPECT_EQ(text.find("iommu"), std::string::npos) << text;
}

TEST(DoctorFacts, LimitsAreReadAsTheKernelWritesThem) {
  const auto limits = parse_limits(
      "Limit                     Soft Limit           Hard Limit           Units     \n"
      "Max cpu time              unlimited            unlimited            seconds   \n"
      "Max file size             unlimited            unlimited            bytes     \n"
      "Max processes             95913                95913                processes \n"
      "Max open files            64                   1048576              files     \n"
      "Max locked memory         65536                65536                bytes     \n"
      "Max address space         1000                 unlimited            bytes     \n");
  ASSERT_TRUE(limits.ok()) << limits.status().text();
  EXPECT_EQ(limits->files, (Limit{64, 1048576}));
  EXPECT_EQ(limits->locked_bytes, (Limit{65536, 65536}));
  EXPECT_EQ(limits->address_space_bytes, (Limit{1000, Limit::kNone}));
  EXPECT_EQ(limits->file_bytes, Limit{});
  EXPECT_FALSE(parse_limits("").ok());
  EXPECT_FALSE(parse_limits("Max open files            many                 1048576              files     \n").ok());
}

TEST(DoctorFacts, AChoiceIsTheWordInBrackets) {
  EXPECT_EQ(parse_choice("always [madvise] never\n").value(), "madvise");
  EXPECT_FALSE(parse_choice("always").ok());
  EXPECT_FALSE(parse_choice("]x[").ok());
}

TEST(DoctorFacts, AcsIsFoundInTheListOfCapabilities) {
  std::string bytes(4096, '\0');
  const auto put = [&bytes](std::size_t at, std::uint32_t value) {
    for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
  };
  EXPECT_FALSE(parse_acs(bytes).value()) << "no capability";
  put(0x100, 0x14810001);  // AER, next at 0x148
  put(0x148, 0x0001000d);  // ACS, the last
  put(0x14c, 0x001d'007fu);
  EXPECT_TRUE(parse_acs(bytes).value());
  put(0x14c, 0x0001'007fu);  // source validation alone
  EXPECT_FALSE(parse_acs(bytes).value());
  put(0x148, 0x10010002);  // a ring of capabilities
  EXPECT_FALSE(parse_acs(bytes).value());
  put(0x148, 0xfff1000d);
  bytes.resize(0x14a);
  EXPECT_FALSE(parse_acs(bytes).value()) << "cut";
  EXPECT_FALSE(parse_acs(bytes.substr(0, 64)).ok()) << "who is not root sees 64 bytes";
}

TEST(DoctorFacts, PeerAccessIsAskedOfTheDriver) {
  const auto found = read_peer_access(HOCKET_FAKE_NVML);
  ASSERT_TRUE(found.ok()) << found.status().text();
  ASSERT_EQ(found->size(), 6u);
  for (const PeerAccess& one : *found) EXPECT_EQ(one.problem.empty(), one.from != 2 && one.to != 2);
  Facts facts = healthy();
  facts.peer_access = *found;
  const std::string text = all_of(run_checks(facts));
  EXPECT_NE(text.find("GPUs 0-2, 1-2, 2-0, 2-1 do not reach"), std::string::npos) << text;
  EXPECT_NE(text.find("driver setting"), std::string::npos) << text;
  EXPECT_FALSE(read_peer_access("/nonexistent.so").ok());
}

// A tree as /proc and /sys have it.
class Tree {
 public:
  Tree() {
    char name[] = "/tmp/hocket_doctor_XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Tree() { std::filesystem::remove_all(path_); }
  void file(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = path_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void link(const std::string& name, const std::string& to) const {
    const std::filesystem::path path = path_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::create_symlink(to, path);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(DoctorFacts, ASavedTreeIsReadAndNothingOfThisMachine) {
  const Tree tree;
  tree.file("proc/sys/kernel/hostname", "saved\n");
  tree.file("proc/sys/kernel/osrelease", "5.10.0\n");
  tree.file("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:   64 kB\n");
  tree.file("proc/self/status", "Name:\tx\nCpus_allowed_list:\t2-3\n");
  tree.file("sys/devices/system/cpu/online", "0-7\n");
  tree.file("proc/self/cgroup", "0::/job\n");
  tree.file("sys/fs/cgroup/job/memory.max", "max\n");
  tree.file("sys/fs/cgroup/job/memory.current", "4096\n");
  tree.file("sys/fs/cgroup/memory.max", "1048576\n");
  tree.file("sys/fs/cgroup/memory.current", "524288\n");
  tree.file("sys/fs/cgroup/job/cpu.stat", "usage_usec 1\nnr_periods 10\nnr_throttled 3\n");
  tree.file("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  tree.file("sys/class/net/bonding_masters", "\n");
  tree.file("sys/class/net/eth0/operstate", "down\n");
  tree.file("sys/class/net/eth0/flags", "0x1003\n");
  tree.file("sys/class/net/eth0/device/vendor", "0x15b3\n");
  tree.file("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
  tree.file("sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
  tree.file("sys/class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n");
  tree.file("sys/class/infiniband/mlx5_0/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n");
  tree.file("sys/class/infiniband/mlx5_0/ports/1/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n");
  tree.file("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0", "RoCE v2\n");
  const std::string gpu = "sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0/";
  tree.file(gpu + "class", "0x030200\n");
  tree.file(gpu + "vendor", "0x10de\n");
  tree.file(gpu + "current_link_speed", "16.0 GT/s PCIe\n");
  tree.file(gpu + "max_link_speed", "16.0 GT/s PCIe\n");
  tree.file(gpu + "current_link_width", "8\n");
  tree.file(gpu + "max_link_width", "16\n");
  tree.file(gpu + "numa_node", "0\n");
  tree.file("sys/devices/pci0000:16/0000:16:01.0/config", std::string(64, '\0'));
  tree.link("sys/bus/pci/devices/0000:17:00.0", "../../../devices/pci0000:16/0000:16:01.0/0000:17:00.0");

  const Facts facts = read_facts(tree.path());
  EXPECT_EQ(facts.host, "saved");
  EXPECT_EQ(*facts.kernel, "5.10.0");
  EXPECT_FALSE(facts.memfd);
  EXPECT_FALSE(facts.limits);
  EXPECT_NE(facts.limits.why.find("/proc/self/limits"), std::string::npos) << facts.limits.why;
  EXPECT_FALSE(facts.shm);
  EXPECT_FALSE(facts.addresses);
  EXPECT_EQ(*facts.memory_free_bytes, 64u << 10);
  EXPECT_EQ(*facts.memory_group_bytes, 512u << 10) << "the tightest above it";
  ASSERT_TRUE(facts.cpus) << facts.cpus.why;
  EXPECT_EQ(facts.cpus->allowed.to_string(), "2-3");
  EXPECT_EQ(facts.cpus->online.to_string(), "0-7");
  EXPECT_EQ(facts.throttling->throttled, 3u);
  EXPECT_EQ(*facts.huge_pages, "never");
  ASSERT_TRUE(facts.interfaces) << facts.interfaces.why;
  ASSERT_EQ(facts.interfaces->size(), 1u);
  EXPECT_TRUE(facts.interfaces->front().up);
  EXPECT_FALSE(facts.interfaces->front().carrier);
  EXPECT_TRUE(facts.interfaces->front().physical);
  ASSERT_EQ(facts.rdma->size(), 1u);
  const RdmaPort& port = facts.rdma->front();
  EXPECT_EQ(port.state, "DOWN");
  EXPECT_EQ(port.gigabits, 100);
  EXPECT_EQ(port.gids, 1);
  EXPECT_EQ(port.gids_v2, 1);
  ASSERT_EQ(facts.devices->size(), 1u);
  EXPECT_TRUE(facts.devices->front().gpu);
  EXPECT_EQ(facts.devices->front().driver, "");
  EXPECT_EQ(facts.devices->front().lanes, 8);
  ASSERT_EQ(facts.bridges->size(), 1u);
  EXPECT_EQ(facts.bridges->front().bus_id, "0000:16:01.0");
  EXPECT_FALSE(facts.bridges->front().redirects);
  EXPECT_FALSE(facts.peer_access);

  const std::string text = report_text(facts.host, run_checks(facts));
  for (const char* part : {"runs on 8 of 16 PCIe lanes", "mlx5_0 port 1 is DOWN", "eth0 has no carrier", "no driver",
                           "ACS of 1 PCIe bridge: not readable", "3 of 10 periods"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(DoctorFacts, ACgroupWithoutASlashIsNoEndlessWay) {
  const Tree tree;
  tree.file("proc/self/cgroup", "0::job\n");
  EXPECT_FALSE(read_facts(tree.path()).throttling);
}

TEST(DoctorFacts, OfAnEmptyTreeNothingIsKnown) {
  const Tree tree;
  for (const Finding& one : run_checks(read_facts(tree.path())))
    EXPECT_EQ(one.severity, Severity::kUnknown) << one.check << ": " << one.seen;
}

TEST(DoctorReport, TheWorstComesFirstInLinesThatFit) {
  Facts facts = healthy();
  facts.huge_pages = std::string("never");
  facts.limits.value->files = {64, 64};
  facts.rdma.value->front().state = "DOWN";
  const std::string text = report_text("node1", run_checks(facts));
  EXPECT_LT(text.find("error    open files"), text.find("warning  rdma")) << text;
  EXPECT_LT(text.find("warning  rdma"), text.find("note     huge pages")) << text;
  EXPECT_LT(text.find("note     huge pages"), text.find("fine ")) << text;
  EXPECT_NE(text.find("node1: 1 error, 1 warning, 1 note, 0 not readable\n"), std::string::npos) << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(DoctorChecks, WhatStopsARankIsToldOnce) {
  Facts facts = healthy();
  facts.limits.value->address_space_bytes = {1 << 30, 1 << 30};
  facts.communicator = Status(Code::kOutOfMemory, "1 GiB of address space can't be had");
  const std::string text = all_of(run_checks(facts));
  EXPECT_NE(text.find("error    address space"), std::string::npos) << text;
  EXPECT_EQ(text.find("can't be started"), std::string::npos) << text;
  EXPECT_NE(text.find(": 1 error,"), std::string::npos) << text;
}

TEST(DoctorReport, NamesOfTheSystemDoNotReachATerminalAsCommands) {
  Facts facts = healthy();
  facts.host = "node\x1b]0;title\x07";
  facts.interfaces.value->front().name =
      "e\x1b[2J\xc2\x9b"
      "31m\x9bx";
  facts.interfaces.value->front().up = false;
  facts.communicator = Status(Code::kSystem, "no address:\n  lo, \xc3\x9f");
  const std::string text = report_text(facts.host, run_checks(facts));
  for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= ' ') << text;
  EXPECT_NE(text.find("interface e\\x1b[2J\\xc2\\x9b31m\\x9bx is down"), std::string::npos) << text;
  EXPECT_NE(text.find("node\\x1b]0;title\\x07: "), std::string::npos) << text;
  // Letters and lines of its own stay.
  EXPECT_NE(text.find("no address:\n" + std::string(25, ' ')), std::string::npos) << text;
  EXPECT_NE(text.find("lo, \xc3\x9f"), std::string::npos) << text;
}

TEST(DoctorReport, JsonHasTheFieldsOfItsSchema) {
  Facts facts = healthy();
  facts.devices.value->front().driver = "";
  facts.devices.value->front().bus_id = "a\"b\\\n";
  const auto json = nlohmann::json::parse(report_json("node\"1", "0.1.0", run_checks(facts)));
  EXPECT_EQ(json["schema"], "hocket doctor 1");
  EXPECT_EQ(json["version"], "0.1.0");
  EXPECT_EQ(json["host"], "node\"1");
  EXPECT_EQ(json["worst"], "warning");
  EXPECT_EQ(json["exit_status"], 1);
  ASSERT_GT(json["findings"].size(), 10u);
  for (const auto& one : json["findings"]) {
    EXPECT_EQ(one.size(), 5u);
    for (const char* field : {"check", "severity", "seen", "cost", "mend"}) EXPECT_TRUE(one[field].is_string());
  }
}

}  // namespace
}  // namespace hocket::doctor
