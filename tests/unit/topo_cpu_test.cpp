// SPDX-License-Identifier: Apache-2.0
// CPU sets and the CPU budget of a process (src/topo/cpu_set.cpp, cpu_budget.cpp), on trees made in a temporary folder.
#include <gtest/gtest.h>

#include <random>

#include "topo/cpu_budget.hpp"
#include "unit/topo_files.hpp"

namespace hocket::topo {
namespace {

TEST(CpuSet, ReadsWhatTheKernelWrites) {
  EXPECT_EQ(CpuSet::parse_list("0")->to_vector(), (std::vector<int>{0}));
  EXPECT_EQ(CpuSet::parse_list("3,5-7\n")->to_vector(), (std::vector<int>{3, 5, 6, 7}));
  EXPECT_EQ(CpuSet::parse_list(" 5-7 , 3 ")->to_string(), "3,5-7");
  EXPECT_EQ(CpuSet::parse_list("0-63,64,127-130")->to_string(), "0-64,127-130");
  EXPECT_TRUE(CpuSet::parse_list("")->empty());
  EXPECT_TRUE(CpuSet::parse_list("\n")->empty());
}

TEST(CpuSet, RejectsWhatIsNoList) {
  for (const char* text : {"a", "1,", ",1", "1-", "-1", "3-1", "1 2", "0x3", "1--2", "1-2-3", "99999999999", "16384"})
    EXPECT_EQ(CpuSet::parse_list(text).status().code(), Code::kInvalidArgument) << text;
}

TEST(CpuSet, ReadsMasksHighestGroupFirst) {
  EXPECT_EQ(CpuSet::parse_mask("ff")->to_string(), "0-7");
  EXPECT_EQ(CpuSet::parse_mask("00000001,80000000\n")->to_string(), "31-32");
  EXPECT_EQ(CpuSet::parse_mask("0x3,0x0")->to_string(), "32-33");
  EXPECT_TRUE(CpuSet::parse_mask("0")->empty());
  for (const char* text : {"", ",", "g", "1,", "123456789", "ff ff"})
    EXPECT_EQ(CpuSet::parse_mask(text).status().code(), Code::kInvalidArgument) << text;
}

TEST(CpuSet, EqualSetsCompareEqualHoweverTheyAreMade) {
  const CpuSet high = CpuSet::range(0, 200) & CpuSet::range(0, 3);
  EXPECT_EQ(high, CpuSet::range(0, 3));
  CpuSet one_by_one;
  for (const int cpu : {3, 1, 0, 2}) one_by_one.add(cpu);
  EXPECT_EQ(one_by_one, high);
  EXPECT_TRUE(CpuSet::range(5, 4).empty());
  EXPECT_EQ(CpuSet::range(0, 3).first(), 0);
  EXPECT_EQ(CpuSet::range(64, 128).last(), 128);
  EXPECT_EQ(CpuSet().last(), -1);
}

TEST(CpuSet, ListTextReadsBackForRandomSets) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    CpuSet set;
    const unsigned members = random() % 60;
    for (unsigned i = 0; i < members; ++i) set.add(static_cast<int>(random() % 300));
    const Result<CpuSet> back = CpuSet::parse_list(set.to_string());
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, set);
    EXPECT_EQ(static_cast<int>(set.to_vector().size()), set.count());
  }
}

TEST(CpuSet, ContainsAndIntersects) {
  const CpuSet eight = CpuSet::range(0, 7);
  EXPECT_TRUE(eight.contains(CpuSet::range(2, 3)));
  EXPECT_TRUE(eight.contains(CpuSet()));
  EXPECT_FALSE(eight.contains(CpuSet::range(7, 8)));
  EXPECT_TRUE(eight.intersects(CpuSet::range(7, 8)));
  EXPECT_FALSE(eight.intersects(CpuSet::range(8, 80)));
}

TEST(CpuSet, ThisProcessMayRunSomewhere) {
  const Result<CpuSet> process = CpuSet::of_this_process();
  ASSERT_TRUE(process.ok()) << process.status().to_string();
  EXPECT_GE(process->count(), 1);
  EXPECT_TRUE(process->contains(*CpuSet::of_this_thread()));
}

constexpr const char* kV2Mount = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";

double quota_of(const TemporaryTree& tree, std::vector<std::string>* notes = nullptr) {
  std::vector<std::string> own;
  return read_cpu_quota(tree.root(), notes ? notes : &own);
}

TEST(CpuQuota, FractionOfACpuInVersionTwo) {
  TemporaryTree tree;
  tree.write("/proc/self/cgroup", "0::/job\n");
  tree.write("/proc/self/mountinfo", kV2Mount);
  tree.write("/sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(quota_of(tree), 1.5);
}

TEST(CpuQuota, TheTightestGroupAboveCounts) {
  TemporaryTree tree;
  tree.write("/proc/self/cgroup", "0::/pod/container/inner\n");
  tree.write("/proc/self/mountinfo", kV2Mount);
  tree.write("/sys/fs/cgroup/pod/cpu.max", "50000 100000\n");
  tree.write("/sys/fs/cgroup/pod/container/cpu.max", "max 100000\n");
  tree.write("/sys/fs/cgroup/pod/container/inner/cpu.max", "400000 100000\n");
  EXPECT_DOUBLE_EQ(quota_of(tree), 0.5);
}

TEST(CpuQuota, UnlimitedIsZero) {
  TemporaryTree tree;
  tree.write("/proc/self/cgroup", "0::/\n");
  tree.write("/proc/self/mountinfo", kV2Mount);
  EXPECT_EQ(quota_of(tree), 0);
  tree.write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(quota_of(tree), 0);
}

TEST(CpuQuota, VersionOneBesideAHybridVersionTwo) {
  TemporaryTree tree;
  tree.write("/proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/docker/abc\n0::/docker/abc\n");
  tree.write("/proc/self/mountinfo",
             "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
             "33 31 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  tree.write("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "250000\n");
  tree.write("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(quota_of(tree), 2.5);
  tree.write("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota_of(tree), 0);
}

TEST(CpuQuota, CpusetIsNotTheCpuController) {
  TemporaryTree tree;
  tree.write("/proc/self/cgroup", "3:cpuset:/x\n2:cpuacct:/x\n");
  tree.write("/proc/self/mountinfo", "32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
  tree.write("/sys/fs/cgroup/cpuset/x/cpu.cfs_quota_us", "1000\n");
  tree.write("/sys/fs/cgroup/cpuset/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota_of(tree), 0);
}

TEST(CpuQuota, MountThatStartsAtTheContainersOwnGroup) {
  TemporaryTree tree;
  tree.write("/proc/self/cgroup", "2:cpu:/docker/abc/sub\n");
  tree.write("/proc/self/mountinfo", "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
  tree.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "75000");
  tree.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000");
  EXPECT_DOUBLE_EQ(quota_of(tree), 1.5);
}

TEST(CpuQuota, UnreadableOrDamagedSourcesBecomeNotes) {
  TemporaryTree tree;
  std::vector<std::string> notes;
  EXPECT_EQ(quota_of(tree, &notes), 0);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("/proc/self/cgroup"), std::string::npos) << notes[0];

  for (const char* text : {"", "x y\n", "100000\n", "0 100000\n", "100000 0\n", "-5 100000\n", "9e9 100000\n",
                           "99999999999999999999 1\n", "1 2 3\n"}) {
    TemporaryTree damaged;
    notes.clear();
    damaged.write("/proc/self/cgroup", "garbage\n:\n0::/\n");
    damaged.write("/proc/self/mountinfo", std::string("short line\n- - -\n\n") + kV2Mount);
    damaged.write("/sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(quota_of(damaged, &notes), 0) << text;
    EXPECT_EQ(notes.size(), 1u) << text;
  }
}

TEST(CpuBudget, UsableIsTheTighterOfMaskAndQuota) {
  CpuBudget budget;
  budget.allowed = CpuSet::range(0, 3);
  EXPECT_DOUBLE_EQ(budget.usable_cpus(), 4);
  budget.quota_cpus = 2.5;
  EXPECT_DOUBLE_EQ(budget.usable_cpus(), 2.5);
  budget.quota_cpus = 16;
  EXPECT_DOUBLE_EQ(budget.usable_cpus(), 4);
}

TEST(CpuBudget, OnlineComesFromTheTreeAndAllowedFromTheKernel) {
  TemporaryTree tree;
  tree.write("/sys/devices/system/cpu/online", "0-3,8-11\n");
  std::vector<std::string> notes;
  const CpuBudget budget = read_cpu_budget(tree.root(), &notes);
  EXPECT_EQ(budget.online.count(), 8);
  EXPECT_EQ(budget.allowed, *CpuSet::of_this_process());
}

}  // namespace
}  // namespace hocket::topo
