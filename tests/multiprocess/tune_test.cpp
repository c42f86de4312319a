// SPDX-License-Identifier: Apache-2.0
// tune_test.cpp: `hocket tune` writes a table that HOCKET_TUNING loads.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "base/status.hpp"
#include "core/tuning_file.hpp"

namespace hocket {
namespace {

struct Outcome {
  int code = -1;
  std::string output;  ///< stdout and stderr
};

Outcome shell(const std::string& command) {
  Outcome outcome;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> piece;
  while (const std::size_t n = std::fread(piece.data(), 1, piece.size(), pipe)) outcome.output.append(piece.data(), n);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

const std::string kHocket = std::string(HOCKET_TOOL_DIR) + "/hocket";

class Tune : public testing::Test {
 protected:
  Tune() { std::filesystem::create_directory(folder_); }
  ~Tune() override { std::filesystem::remove_all(folder_); }
  const std::string folder_ = std::filesystem::temp_directory_path() / format("hocket-tune-test-{}", ::getpid());
};

TEST_F(Tune, WritesATableThatIsLoaded) {
  const std::string file = folder_ + "/table";
  const Outcome tuned = shell(kHocket +
                              " tune --ranks 2,3 --collectives all_reduce,scatter -b 64 -e 32K --rounds 2 "
                              "--measure-ms 0.1 -o " +
                              file);
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  const auto table = load_tuning(file);
  ASSERT_TRUE(table.ok()) << table.status().text();
  for (const Collective collective : {Collective::kAllReduce, Collective::kScatter})
    for (const int ranks : {2, 3}) {
      // Which place it is depends on the machine's cores; either has a row of exactly that many ranks and any size.
      bool found = false;
      for (const TuningRow& row : (*table)->rows())
        found |= row.collective == collective && row.max_ranks == static_cast<std::uint64_t>(ranks) &&
                 row.max_bytes == TuningRow::kAny && !row.any_protocol;
      EXPECT_TRUE(found) << to_string(collective) << " " << ranks << "\n" << (*table)->to_text();
    }
  // Rows that were not measured are still there.
  EXPECT_NE((*table)->find(Collective::kBroadcast, Where::kDirect, 8, 8), nullptr);
  const Outcome used = shell("HOCKET_LOG=info HOCKET_TUNING=" + file + " " + kHocket +
                             " perf all_reduce --ranks 2 -b 64 -e 64 -n 3 -w 1 -m 2");
  EXPECT_EQ(used.code, 0) << used.output;
  EXPECT_NE(used.output.find(format("tuning {} ({:016x})", file, (*table)->digest())), std::string::npos)
      << used.output;
}

TEST_F(Tune, RowsForMemAllocMemoryAreOfThatPlace) {
  const Outcome tuned = shell(kHocket +
                              " tune --ranks 2 --mem symmetric --collectives all_reduce -b 4K -e 4K --rounds 2 "
                              "--measure-ms 0.1");
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  EXPECT_NE(tuned.output.find("all_reduce        symmetric  2      any"), std::string::npos) << tuned.output;
}

TEST_F(Tune, WhatItCannotDoIsSaid) {
  Outcome outcome = shell(kHocket + " tune --collectives barrier");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.output.find("barrier has no choice by size"), std::string::npos) << outcome.output;
  outcome = shell(kHocket + " tune --ranks 1");
  EXPECT_EQ(outcome.code, 2);
  outcome = shell(kHocket + " tune -b 8x");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.output.find("8x is no size"), std::string::npos) << outcome.output;
  outcome = shell("HOCKET_ALGO=ring " + kHocket + " tune --ranks 2 --collectives all_reduce -b 8 -e 8 --rounds 2");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.output.find("must not be set here"), std::string::npos) << outcome.output;
  outcome = shell(kHocket + " tune --base /no/such/table");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.output.find("/no/such/table"), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace hocket
