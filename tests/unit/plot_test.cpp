// SPDX-License-Identifier: Apache-2.0
// The picture of `hocket perf --plot`: well-formed, one line for each algorithm, everything inside of it.
#include "bench/perf/plot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <string>
#include <vector>

namespace hocket::perf {
namespace {

Row row(const std::string& algo, std::size_t bytes, double busbw, bool in_place = false) {
  Row row;
  row.type = "float32";
  row.op = "sum";
  row.algo = algo;
  row.bytes = bytes;
  row.busbw = busbw;
  row.in_place = in_place;
  return row;
}

// Each element that opens closes, in order.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z]+)[^<>]*?(/?)>");
  std::size_t signs = 0;
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), tag); at != std::sregex_iterator(); ++at) {
    ++signs;
    const std::string name = (*at)[2];
    if ((*at)[1].length() != 0) {
      ASSERT_FALSE(open.empty()) << name;
      EXPECT_EQ(open.back(), name);
      open.pop_back();
    } else if ((*at)[3].length() == 0) {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(static_cast<std::size_t>(std::count(svg.begin(), svg.end(), '<')), signs);
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Plot, HasOneLineForEachAlgorithmAndAPointForEachSize) {
  std::vector<Row> rows;
  for (const char* algo : {"ring", "tree"})
    for (std::size_t bytes = 8; bytes <= 1 << 20; bytes *= 4) {
      rows.push_back(row(algo, bytes, static_cast<double>(bytes) / 1e5));
      rows.push_back(row(algo, bytes, 1, true));  // in place: left out
    }
  const std::string svg = plot_svg("all_reduce <&>", "node7", rows);
  expect_well_formed(svg);
  EXPECT_NE(svg.find("all_reduce &lt;&amp;&gt;"), std::string::npos);
  EXPECT_EQ(count(svg, ">ring</text>"), 1);
  EXPECT_EQ(count(svg, ">tree</text>"), 1);
  EXPECT_EQ(count(svg, "<circle"), 2 * 9);
  EXPECT_NE(svg.find("bus bandwidth (GB/s)"), std::string::npos);
  EXPECT_NE(svg.find(">size</text>"), std::string::npos);
  EXPECT_NE(svg.find(">8 B</text>"), std::string::npos);
  EXPECT_NE(svg.find(">512 KiB</text>"), std::string::npos);
}

TEST(Plot, StaysInsideWhateverIsPlotted) {
  const std::vector<std::vector<Row>> cases = {
      {},
      {row("ring", 8, 0)},
      {row("ring", 1, 1e-6), row("ring", 3, 2e-6)},
      {row("ring", std::size_t{1} << 40, 12345), row("ring", 8, 0.001)},
      {row("ring", 1000, 7, true)},
  };
  for (const auto& rows : cases) {
    const std::string svg = plot_svg("t", "s", rows);
    expect_well_formed(svg);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    const std::regex circle("cx=\"([-0-9.]+)\" cy=\"([-0-9.]+)\"");
    int points = 0;
    for (auto at = std::sregex_iterator(svg.begin(), svg.end(), circle); at != std::sregex_iterator(); ++at) {
      ++points;
      const double x = std::stod((*at)[1]), y = std::stod((*at)[2]);
      EXPECT_TRUE(x >= 70 && x <= 750 && y >= 70 && y <= 476) << x << " " << y;
    }
    EXPECT_EQ(points, static_cast<int>(rows.size()));
  }
}

TEST(Plot, TypesGetLinesOfTheirOwn) {
  std::vector<Row> rows = {row("ring", 8, 1), row("ring", 8, 2)};
  rows[1].type = "float64";
  const std::string svg = plot_svg("t", "s", rows);
  EXPECT_EQ(count(svg, ">ring float32</text>"), 1);
  EXPECT_EQ(count(svg, ">ring float64</text>"), 1);
}

}  // namespace
}  // namespace hocket::perf
