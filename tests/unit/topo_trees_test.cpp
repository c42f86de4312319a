// SPDX-License-Identifier: Apache-2.0
// Spanning trees (src/topo/tree_packer.cpp, and the TreeSet of search.cpp): known answers, the bound against all
// partitions of small graphs, machines of each kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "topo/disjoint_trees.hpp"
#include "topo/machine_file.hpp"
#include "topo/nccl_reader.hpp"
#include "topo/search.hpp"
#include "topo/tree_packer.hpp"

namespace hocket::topo {
namespace {

using Matrix = std::vector<std::vector<int>>;

Matrix complete(std::size_t n, int links) {
  Matrix matrix(n, std::vector<int>(n, links));
  for (std::size_t i = 0; i < n; ++i) matrix[i][i] = 0;
  return matrix;
}

void join(Matrix* matrix, int a, int b, int links) {
  (*matrix)[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] = links;
  (*matrix)[static_cast<std::size_t>(b)][static_cast<std::size_t>(a)] = links;
}

/// Each tree joins all, no link is in two, the bound is that of its partition.
void expect_valid(const Matrix& links, const DisjointTrees& found) {
  Matrix left = links;
  const int n = static_cast<int>(links.size());
  for (const auto& tree : found.trees) {
    ASSERT_EQ(tree.size() + 1, links.size());
    for (const auto& [a, b] : tree) {
      const int one = --left[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
      ASSERT_GE(one, 0) << a << " - " << b;
      left[static_cast<std::size_t>(b)][static_cast<std::size_t>(a)] = one;
    }
    const std::vector<int> parents = parents_of(tree, n);
    EXPECT_EQ(std::count(parents.begin(), parents.end(), -1), 1) << "n - 1 edges with one root: a tree";
  }
  EXPECT_LE(static_cast<double>(found.trees.size()), found.bound + 1e-9);
}

/// The least of (links between parts) / (parts - 1) over all partitions.
double least_ratio(const Matrix& links) {
  const std::size_t n = links.size();
  double least = std::numeric_limits<double>::infinity();
  std::vector<int> part(n, 0);
  const std::function<void(std::size_t, int)> rest = [&](std::size_t at, int parts) {
    if (at == n) {
      if (parts < 2) return;
      double between = 0;
      for (std::size_t u = 0; u < n; ++u)
        for (std::size_t v = u + 1; v < n; ++v)
          if (part[u] != part[v]) between += links[u][v];
      least = std::min(least, between / (parts - 1));
      return;
    }
    for (int p = 0; p <= parts; ++p) {
      part[at] = p;
      rest(at + 1, std::max(parts, p + 1));
    }
  };
  rest(0, 0);
  return least;
}

TEST(DisjointTrees, CompleteGraphsHaveHalfAsManyAsVertices) {
  for (std::size_t n = 2; n <= 20; ++n) {
    const DisjointTrees found = disjoint_trees(complete(n, 1));
    expect_valid(complete(n, 1), found);
    EXPECT_EQ(found.trees.size(), n / 2) << n;
    EXPECT_DOUBLE_EQ(found.bound, static_cast<double>(n) / 2);
    EXPECT_TRUE(found.best);
  }
}

TEST(DisjointTrees, ANarrowPlaceIsTheBound) {
  // Two complete graphs of four, two links each, joined by three links.
  Matrix links(8, std::vector<int>(8, 0));
  for (int half = 0; half < 2; ++half)
    for (int a = 0; a < 4; ++a)
      for (int b = a + 1; b < 4; ++b) join(&links, 4 * half + a, 4 * half + b, 2);
  for (int i = 0; i < 3; ++i) join(&links, i, 4 + i, 1);
  const DisjointTrees found = disjoint_trees(links);
  expect_valid(links, found);
  EXPECT_EQ(found.trees.size(), 3u);
  EXPECT_DOUBLE_EQ(found.bound, 3);
  EXPECT_NE(found.part[0], found.part[4]);
  EXPECT_TRUE(found.best);
}

TEST(DisjointTrees, WhatIsNotJoinedHasNone) {
  Matrix links(4, std::vector<int>(4, 0));
  join(&links, 0, 1, 3);
  join(&links, 2, 3, 3);
  const DisjointTrees found = disjoint_trees(links);
  EXPECT_TRUE(found.trees.empty());
  EXPECT_DOUBLE_EQ(found.bound, 0);
  EXPECT_TRUE(found.best);
}

TEST(DisjointTrees, AsManyAsThePoorestPartitionAllows) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const auto n = 2 + random() % 6;
    Matrix links(n, std::vector<int>(n, 0));
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = a + 1; b < n; ++b)
        if (random() % 3 != 0) join(&links, static_cast<int>(a), static_cast<int>(b), static_cast<int>(random() % 4));
    const DisjointTrees found = disjoint_trees(links);
    expect_valid(links, found);
    const double least = least_ratio(links);
    EXPECT_EQ(found.trees.size(), static_cast<std::size_t>(std::floor(least + 1e-9))) << "round " << round;
    EXPECT_TRUE(found.best);
    EXPECT_GE(found.bound, least - 1e-9);
    EXPECT_EQ(std::floor(found.bound + 1e-9), std::floor(least + 1e-9));
  }
}

TEST(DisjointTrees, ABudgetEndsTheSearchWithWhatThereIs) {
  const DisjointTrees found = disjoint_trees(complete(40, 4), 200'000);
  expect_valid(complete(40, 4), found);
  EXPECT_FALSE(found.best);
  EXPECT_GE(found.trees.size(), 1u);
}

TEST(DisjointTrees, MoreLinksThanAnyMachineHasAreNotSearched) {
  const DisjointTrees found = disjoint_trees(complete(3, 1'000'000'000));
  EXPECT_TRUE(found.trees.empty());
  EXPECT_FALSE(found.best);
}

TEST(DisjointTrees, HungUpWhereItIsLeastDeep) {
  const std::vector<std::pair<int, int>> chain = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}};
  const std::vector<int> parents = parents_of(chain, 7);
  EXPECT_EQ(parents[3], -1);
  EXPECT_EQ(parents[0], 1);
  EXPECT_EQ(parents[6], 5);
}

// Machines.

Graph switched(int gpus, int links) {
  std::string text = "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">";
  for (int g = 0; g < gpus; ++g) {
    char bus[32];
    std::snprintf(bus, sizeof bus, "%04x:01:00.0", g + 1);
    text += std::string("<pci busid=\"") + bus +
            "\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"" + std::to_string(g) +
            "\" rank=\"" + std::to_string(g) + "\" sm=\"90\" gdr=\"1\"><nvlink target=\"fffffff:ff:ff.0\" count=\"" +
            std::to_string(links) + "\" tclass=\"0x068000\"/></gpu></pci>";
  }
  Result<Graph> graph = graph_from_nccl_text(text + "</cpu></system>", "switch.xml");
  EXPECT_TRUE(graph.ok()) << graph.status().to_string();
  return *graph;
}

TEST(TreesOfMachines, ASwitchCarriesAllItCanOrNearlyWithFewHops) {
  for (const int n : {2, 3, 4, 5, 8, 9, 16, 36, 72}) {
    const Graph graph = switched(n, 18);
    const Paths paths(graph);
    const SearchResult result = search(paths);
    ASSERT_TRUE(check_trees(paths, paths.gpus(), result.trees).ok());
    if (n <= 8) {
      EXPECT_NEAR(result.trees.gap(), 0, 1e-9) << n;
      EXPECT_TRUE(result.trees.best);
    } else {
      EXPECT_EQ(result.trees.trees.size(), 2u);
      EXPECT_LE(result.trees.gap(), 1.0 / n + 1e-9) << n;
      for (const Tree& tree : result.trees.trees) EXPECT_LE(depth_of(tree), 2 + std::log2(n)) << n;
    }
  }
}

TEST(TreesOfMachines, EveryMachineOfTheTestsHasTreesThatHold) {
  for (const char* name : {"bridged-pairs.xml", "cube-mesh-renamed.xml", "deep-switches.xml", "matrix-uneven-tree.txt",
                           "switch-one-gpu-short.xml", "two-hives-rccl.xml"}) {
    const Result<Graph> graph = graph_from_file(std::string(HOCKET_SOURCE_DIR) + "/tests/topologies/machines/" + name);
    ASSERT_TRUE(graph.ok()) << graph.status().to_string();
    const Paths paths(*graph);
    const SearchResult result = search(paths);
    const Status holds = check_trees(paths, paths.gpus(), result.trees);
    EXPECT_TRUE(holds.ok()) << name << ": " << holds.to_string();
    EXPECT_FALSE(result.trees.trees.empty()) << name;
    // A reduction and a broadcast by trees are one all-reduce: by rings it takes each link's bytes once, by trees
    // twice.
    EXPECT_GE(result.trees.bytes_per_second, 0.4 * result.machine.bytes_per_second) << name;
  }
}

TEST(TreesOfMachines, CheckSeesWrongTrees) {
  const Graph graph = switched(4, 4);
  const Paths paths(graph);
  const TreeSet good = search(paths).trees;
  const auto fails = [&](const std::function<void(TreeSet&)>& change) {
    TreeSet set = good;
    change(set);
    return check_trees(paths, paths.gpus(), set).code() == Code::kInternal;
  };
  EXPECT_FALSE(fails([](TreeSet&) {}));
  EXPECT_TRUE(fails([](TreeSet& set) { set.trees[0].gpus.pop_back(); }));
  EXPECT_TRUE(fails([](TreeSet& set) { set.trees[0].parent.assign(4, -1); }));
  EXPECT_TRUE(fails([](TreeSet& set) { set.trees[0].parent = {1, 2, 1, -1}; }));
  EXPECT_TRUE(fails([](TreeSet& set) { set.trees[0].parent[0] = 17; }));
  EXPECT_TRUE(fails([](TreeSet& set) { set.trees[0].bytes_per_second = 0; }));
  EXPECT_TRUE(fails([](TreeSet& set) { set.trees[0].bytes_per_second *= 3; }));
  EXPECT_TRUE(fails([](TreeSet& set) { set.bound_bytes_per_second /= 2; }));
}

}  // namespace
}  // namespace hocket::topo
