// SPDX-License-Identifier: Apache-2.0
// Edge-disjoint rings (src/topo/disjoint_rings.cpp): known answers, and validity on random graphs.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "topo/disjoint_rings.hpp"

namespace hocket::topo {
namespace {

using Matrix = std::vector<std::vector<int>>;

Matrix complete(std::size_t n, int links) {
  Matrix matrix(n, std::vector<int>(n, links));
  for (std::size_t i = 0; i < n; ++i) matrix[i][i] = 0;
  return matrix;
}

Matrix both_ways(std::size_t n, const std::vector<std::array<int, 3>>& edges) {
  Matrix matrix(n, std::vector<int>(n, 0));
  for (const auto& [a, b, links] : edges)
    matrix[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] =
        matrix[static_cast<std::size_t>(b)][static_cast<std::size_t>(a)] = links;
  return matrix;
}

// Every ring visits all, no link is used twice, the bound holds.
void expect_valid(const Matrix& links, const DisjointRings& found) {
  Matrix left = links;
  for (const std::vector<int>& ring : found.rings) {
    std::vector<int> sorted = ring;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(sorted.size(), links.size());
    for (std::size_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], static_cast<int>(i));
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const auto from = static_cast<std::size_t>(ring[i]);
      const auto to = static_cast<std::size_t>(ring[(i + 1) % ring.size()]);
      ASSERT_GE(--left[from][to], 0) << from << " -> " << to;
    }
  }
  EXPECT_LE(static_cast<int>(found.rings.size()), found.bound);
}

int rings(const Matrix& links, bool* best = nullptr) {
  const DisjointRings found = disjoint_rings(links);
  expect_valid(links, found);
  if (best) *best = found.best;
  return static_cast<int>(found.rings.size());
}

// Tillson 1980: a complete directed graph of n vertices has n - 1 of them, but for n = 4 and n = 6.
TEST(DisjointRings, CompleteGraphsHaveTillsonsNumber) {
  for (const std::size_t n : {2, 3, 5, 7, 8, 9, 10, 12, 16})
    EXPECT_EQ(rings(complete(n, 1)), static_cast<int>(n) - 1) << n;
  bool best = false;
  EXPECT_EQ(rings(complete(4, 1), &best), 2);
  EXPECT_TRUE(best);
  EXPECT_EQ(rings(complete(6, 1)), 4);
  EXPECT_EQ(rings(complete(4, 2)), 6);
  EXPECT_EQ(rings(complete(4, 4)), 12);
}

TEST(DisjointRings, HybridCubeMeshUsesEveryLinkInSix) {
  const Matrix cube = both_ways(8, {{0, 1, 1},
                                    {0, 2, 1},
                                    {0, 3, 2},
                                    {0, 4, 2},
                                    {1, 2, 2},
                                    {1, 3, 1},
                                    {1, 5, 2},
                                    {2, 3, 2},
                                    {2, 6, 1},
                                    {3, 7, 1},
                                    {4, 5, 1},
                                    {4, 6, 1},
                                    {4, 7, 2},
                                    {5, 6, 2},
                                    {5, 7, 1},
                                    {6, 7, 2}});
  EXPECT_EQ(rings(cube), 6);
  // The same in any order of the GPUs.
  std::mt19937 random(3);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::size_t> name(8);
    for (std::size_t i = 0; i < 8; ++i) name[i] = i;
    std::shuffle(name.begin(), name.end(), random);
    Matrix renamed = cube;
    for (std::size_t a = 0; a < 8; ++a) {
      for (std::size_t b = 0; b < 8; ++b) renamed[name[a]][name[b]] = cube[a][b];
    }
    EXPECT_EQ(rings(renamed), 6);
  }
}

TEST(DisjointRings, ABareRingIsTwoDirectedOnes) {
  EXPECT_EQ(rings(both_ways(4, {{0, 1, 1}, {1, 2, 1}, {2, 3, 1}, {3, 0, 1}})), 2);
}

TEST(DisjointRings, SixOfSevenPeersGiveSix) {
  Matrix links = complete(8, 1);
  for (std::size_t i = 0; i < 8; i += 2) links[i][i + 1] = links[i + 1][i] = 0;
  EXPECT_EQ(rings(links), 6);
}

// A wide link between two GPUs helps rings in one direction only: 4 + 2 + 1 links do not carry 7 rings.
TEST(DisjointRings, WideLinksAreBoundByBothDirectionsTogether) {
  const Matrix links = both_ways(4, {{0, 1, 4}, {2, 3, 4}, {0, 2, 1}, {1, 3, 1}, {0, 3, 1}, {1, 2, 1}});
  const DisjointRings found = disjoint_rings(links);
  expect_valid(links, found);
  EXPECT_EQ(found.bound, 4);
}

TEST(DisjointRings, NoRingIsAnAnswerToo) {
  const DisjointRings path = disjoint_rings(both_ways(3, {{0, 1, 3}, {1, 2, 3}}));
  EXPECT_EQ(path.rings.size(), 0u);
  EXPECT_TRUE(path.best);
  EXPECT_EQ(rings(Matrix(4, std::vector<int>(4, 0))), 0);
}

TEST(DisjointRings, EveryRunGivesTheSame) {
  const Matrix links = complete(8, 2);
  EXPECT_EQ(disjoint_rings(links).rings, disjoint_rings(links).rings);
}

TEST(DisjointRings, RandomGraphsGiveValidRings) {
  std::mt19937 random(17);
  for (int round = 0; round < 60; ++round) {
    const std::size_t n = 2 + random() % 7;
    Matrix links(n, std::vector<int>(n, 0));
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) {
        if (a != b) links[a][b] = static_cast<int>(random() % 3);
      }
    }
    expect_valid(links, disjoint_rings(links, 200'000));
  }
}

}  // namespace
}  // namespace hocket::topo
