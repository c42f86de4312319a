// SPDX-License-Identifier: Apache-2.0
#include "algorithms/tuning.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "algorithms/select.hpp"
#include "base/status.hpp"
#include "core/tuning_file.hpp"

namespace hocket {
namespace {

constexpr std::string_view kTable =
    "hocket-tuning 1\n"
    "# measured somewhere\n"
    "\n"
    "all_reduce  direct     2    1024  one_shot  first_line  auto   # small\n"
    "all_reduce  direct     2    any   two_shot  bulk        32768\n"
    "all_reduce  symmetric  any  any   two_shot_zero_copy auto auto\n"
    "broadcast\tcrowded\t8\t65536\ttree\tauto\tauto\r\n";

std::string why(std::string_view text) {
  const auto table = Tuning::parse(text, "t.txt");
  EXPECT_FALSE(table.ok()) << text;
  EXPECT_EQ(table.status().code(), Code::kInvalidArgument);
  return table.ok() ? "" : std::string(table.status().text());
}

std::string with(std::string_view row) {
  return "hocket-tuning 1\n\n" + std::string(row) + "\n";
}

TEST(Tuning, ReadsWhatItPrints) {
  const auto table = Tuning::parse(kTable, "t.txt");
  ASSERT_TRUE(table.ok()) << table.status().text();
  ASSERT_EQ(table->rows().size(), 4u);
  EXPECT_EQ(table->rows()[1].algorithm->name, "two_shot");
  EXPECT_EQ(table->rows()[1].tile_bytes, 32768u);
  EXPECT_FALSE(table->rows()[1].any_protocol);
  EXPECT_EQ(table->rows()[2].max_ranks, TuningRow::kAny);
  const auto again = Tuning::parse(table->to_text({"another comment"}), "again");
  ASSERT_TRUE(again.ok()) << again.status().text();
  EXPECT_EQ(again->rows(), table->rows());
  EXPECT_EQ(again->digest(), table->digest());
  EXPECT_NE(table->digest(), 0u);
}

// Symptom, found by fuzzing: a number as wide as its column ran into the next one.
TEST(Tuning, LongNumbersStayApart) {
  const auto table =
      Tuning::parse(with("all_reduce direct 18446744073709551614 18446744073709551614 one_shot auto auto"), "t");
  ASSERT_TRUE(table.ok()) << table.status().text();
  const auto again = Tuning::parse(table->to_text(), "again");
  ASSERT_TRUE(again.ok()) << again.status().text();
  EXPECT_EQ(again->rows(), table->rows());
}

TEST(Tuning, DigestsOfDifferentRowsDiffer) {
  const auto one = Tuning::parse(with("all_reduce direct 2 any one_shot auto auto"), "a");
  const auto two = Tuning::parse(with("all_reduce direct 2 any one_shot auto 65536"), "a");
  const auto none = Tuning::parse("hocket-tuning 1\n", "a");
  ASSERT_TRUE(one.ok() && two.ok() && none.ok());
  EXPECT_NE(one->digest(), two->digest());
  EXPECT_EQ(none->digest(), 0u);
}

TEST(Tuning, WhatIsWrongIsSaidWithItsLine) {
  const auto says = [](std::string_view row, std::string_view words) {
    const std::string text = why(with(row));
    EXPECT_NE(text.find("t.txt, line 3: "), std::string::npos) << text;
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  says("all_reduce direct 2 any one_shot auto", "6 words where 7 are needed");
  says("all_reduce direct 2 any one_shot auto auto more", "more words where 7");
  says("all_redcue direct 2 any one_shot auto auto", "nearest is all_reduce");
  says("all_reduce somewhere 2 any one_shot auto auto", "there are direct, crowded, symmetric, puts");
  says("all_reduce direct 0 any one_shot auto auto", "'0' is no number of ranks");
  says("all_reduce direct -2 any one_shot auto auto", "'-2' is no number of ranks");
  says("all_reduce direct 2 1K one_shot auto auto", "'1K' is no number of bytes");
  says("all_reduce direct 2 18446744073709551615 one_shot auto auto", "no number of bytes");
  says("all_reduce direct 2 99999999999999999999 one_shot auto auto", "no number of bytes");
  says("all_reduce direct 2 any pairwise auto auto", "unknown algorithm of all_reduce 'pairwise'");
  says("all_reduce direct 2 any one_shot bulky auto", "nearest is bulk");
  says("all_reduce direct 2 any one_shot auto any", "no number of bytes, nor 'auto'");
  says("all_reduce direct 2 any one_shot auto 100", "multiple of 16 bytes");
  says("all_reduce direct 2 any one_shot auto 8388608", "up to 4194304");
  says("all_reduce direct 2 any two_shot_zero_copy auto auto", "mem_alloc");
  says("all_reduce puts 2 any one_shot_board auto auto", "needs peers' memory");
  says("all_reduce puts 2 any one_shot packet auto", "packets need peers' memory");
  says("all_reduce direct 2 any one_shot_board packet auto", "in bulk");
  says(std::string("all_reduce dir\x01\xff") + std::string(100, 'x') + " 2 any one_shot auto auto", "'dir??xxx");
}

TEST(Tuning, OnlyTablesOfThisVersionAreRead) {
  EXPECT_NE(why("").find("t.txt: this is no tuning table"), std::string::npos);
  EXPECT_NE(why("# nothing\n\n").find("no tuning table"), std::string::npos);
  EXPECT_NE(why("all_reduce direct 2 any one_shot auto auto\n").find("line 1"), std::string::npos);
  EXPECT_NE(why("hocket-tuning 2\n").find("version '2', this hocket reads version 1"), std::string::npos);
  EXPECT_NE(why("hocket-tuning\n").find("line 1"), std::string::npos);
  EXPECT_NE(why(std::string(Tuning::kMostBytes + 1, '#')).find("no tuning table"), std::string::npos);
}

TEST(Tuning, RowsThatHideOthersAreRefused) {
  const std::string twice =
      why(with("all_reduce direct 2 any one_shot auto auto\nall_reduce direct 2 any two_shot auto auto"));
  EXPECT_NE(twice.find("line 4: rows of a table rise"), std::string::npos) << twice;
  const std::string falling =
      why(with("all_reduce direct 4 any one_shot auto auto\nall_reduce direct 2 any two_shot auto auto"));
  EXPECT_NE(falling.find("line 4"), std::string::npos) << falling;
}

TEST(Tuning, TheFirstRowThatHoldsIsTaken) {
  const auto table = Tuning::parse(kTable, "t.txt");
  ASSERT_TRUE(table.ok());
  const auto name = [&](Collective collective, Where where, int ranks, std::uint64_t bytes) -> std::string_view {
    const TuningRow* row = table->find(collective, where, ranks, bytes);
    return row == nullptr ? "none" : row->algorithm->name;
  };
  EXPECT_EQ(name(Collective::kAllReduce, Where::kDirect, 2, 0), "one_shot");
  EXPECT_EQ(name(Collective::kAllReduce, Where::kDirect, 2, 1024), "one_shot");
  EXPECT_EQ(name(Collective::kAllReduce, Where::kDirect, 2, 1025), "two_shot");
  EXPECT_EQ(name(Collective::kAllReduce, Where::kDirect, 3, 8), "none");
  EXPECT_EQ(name(Collective::kAllReduce, Where::kCrowded, 2, 8), "none");
  EXPECT_EQ(name(Collective::kBroadcast, Where::kCrowded, 5, 65536), "tree");
  EXPECT_EQ(name(Collective::kBroadcast, Where::kCrowded, 5, 65537), "none");
}

TEST(Tuning, RowsAreAddedAtTheirPlace) {
  Tuning table;
  TuningRow row;
  row.algorithm = find_algorithm(Collective::kAllReduce, "one_shot");
  row.max_ranks = 4;
  ASSERT_TRUE(table.add(row).ok());
  row.max_ranks = 2;
  ASSERT_TRUE(table.add(row).ok());
  EXPECT_FALSE(table.add(row).ok());  // there is one
  row.max_ranks = 3;
  row.collective = Collective::kBroadcast;
  EXPECT_FALSE(table.add(row).ok());  // another collective's algorithm
  EXPECT_EQ(table.rows().front().max_ranks, 2u);
  EXPECT_TRUE(Tuning::parse(table.to_text(), "t").ok());
}

TEST(Tuning, TheBuiltInTableIsRead) {
  EXPECT_FALSE(default_tuning().rows().empty());
  EXPECT_EQ(default_tuning().name(), "default");
  EXPECT_TRUE(Tuning::parse(default_tuning().to_text(), "again").ok());
}

TEST(Tuning, ChoicesFollowTheTableWhereItHasARowAndMayTakeIt) {
  World world;
  world.size = 2;
  world.tuning = std::make_shared<const Tuning>(*Tuning::parse(kTable, "t.txt"));
  auto choice = choose(Collective::kAllReduce, 100, DataType::kFloat32, false, world);
  ASSERT_TRUE(choice.ok());
  EXPECT_TRUE(choice->measured);
  EXPECT_EQ(choice->algorithm->name, "one_shot");
  EXPECT_EQ(choice->protocol, Protocol::kFirstLine);
  choice = choose(Collective::kAllReduce, 1 << 20, DataType::kFloat32, false, world);
  EXPECT_EQ(choice->algorithm->name, "two_shot");
  EXPECT_EQ(choice->tile_bytes, 32768u);
  EXPECT_EQ(choose(Collective::kAllReduce, 100, DataType::kFloat32, true, world)->algorithm->name,
            "two_shot_zero_copy");
  // Settings win over the table.
  world.tile_bytes = 4096;
  EXPECT_EQ(choose(Collective::kAllReduce, 1 << 20, DataType::kFloat32, false, world)->tile_bytes, 4096u);
  world.tile_bytes = 0;
  const auto names = algorithm_names();
  world.algorithms = *AllowList::parse("^two_shot", names, "HOCKET_ALGO");
  choice = choose(Collective::kAllReduce, 1 << 20, DataType::kFloat32, false, world);
  ASSERT_TRUE(choice.ok());
  EXPECT_NE(choice->algorithm->name, "two_shot");
  EXPECT_FALSE(choice->measured);
  EXPECT_NE(choice->tile_bytes, 32768u);
  // No row: by rule.
  EXPECT_FALSE(choose(Collective::kAllGather, 100, DataType::kFloat32, false, world)->measured);
  // A row for peers that load and store says nothing of a network.
  world.algorithms = {};
  world.direct = false;
  EXPECT_FALSE(choose(Collective::kAllReduce, 100, DataType::kFloat32, false, world)->measured);
}

TEST(Tuning, FilesAreReadOrRefusedWithTheirName) {
  const std::string folder = std::filesystem::temp_directory_path() / format("hocket-tuning-{}", ::getpid());
  std::filesystem::create_directory(folder);
  const std::string file = folder + "/table";
  std::FILE* out = std::fopen(file.c_str(), "w");
  ASSERT_NE(out, nullptr);
  std::fwrite(kTable.data(), 1, kTable.size(), out);
  std::fclose(out);
  const auto table = load_tuning(file);
  ASSERT_TRUE(table.ok()) << table.status().text();
  EXPECT_EQ((*table)->rows().size(), 4u);
  EXPECT_EQ((*table)->name(), file);
  for (const std::string& bad : {folder + "/absent", folder, std::string("/dev/zero")}) {
    const auto none = load_tuning(bad);
    ASSERT_FALSE(none.ok()) << bad;
    EXPECT_EQ(none.status().code(), Code::kInvalidArgument);
    EXPECT_NE(none.status().text().find(bad), std::string_view::npos) << none.status().text();
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hocket
