// SPDX-License-Identifier: Apache-2.0
// `hocket perf` of every collective, as processes and as threads: ends well, computes right, prints what is agreed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Outcome {
  int exit_code = -1;
  std::string text;  ///< stdout and stderr
};

Outcome shell(const std::string& command) {
  Outcome outcome;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "re");
  if (!pipe) return outcome;
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) outcome.text.append(buffer, n);
  const int status = ::pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

std::string tool(std::string_view name = "hocket") {
  return std::string(HOCKET_TOOL_DIR) + "/" + std::string(name);
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Few iterations: what is tested is that they are right.
constexpr const char* kQuick = " -b 8 -e 300000 -f 37 -n 2 -w 1 -m 2 ";

class PerfRanks : public ::testing::TestWithParam<std::tuple<const char*, int, const char*>> {};

TEST_P(PerfRanks, IsRightAtEverySizeInAndOutOfPlace) {
  const auto [collective, ranks, how] = GetParam();
  char csv[] = "/tmp/hocket_perf_XXXXXX";
  const int fd = ::mkstemp(csv);
  ASSERT_GE(fd, 0);
  ::close(fd);
  const std::string command =
      tool() + " perf " + collective + " --ranks " + std::to_string(ranks) + " " + how + kQuick + "--csv " + csv;
  const Outcome outcome = shell(command);
  EXPECT_EQ(outcome.exit_code, 0) << command << "\n" << outcome.text;
  EXPECT_NE(outcome.text.find("# Out of bounds values : 0 OK"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("# Avg bus bandwidth"), std::string::npos);
  const std::vector<std::string> lines = lines_of(csv);
  ::unlink(csv);
  const std::string_view name = collective;
  const bool in_place = !name.starts_with("all_to_all") && name != "sendrecv" && name != "barrier";
  const std::size_t sizes = name == "barrier" ? 1 : 3;
  EXPECT_EQ(lines.size(), 1 + sizes * (in_place ? 2 : 1));
  for (std::size_t i = 1; i < lines.size(); ++i) {
    EXPECT_TRUE(lines[i].starts_with(std::string(name) + ",float32,")) << lines[i];
    EXPECT_TRUE(lines[i].ends_with(",0")) << lines[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Each, PerfRanks,
                         ::testing::Combine(::testing::Values("all_reduce", "all_gather", "reduce_scatter",
                                                              "all_to_all", "broadcast", "reduce", "gather", "scatter",
                                                              "all_gather_v", "reduce_scatter_v", "all_to_all_v",
                                                              "sendrecv", "barrier"),
                                            ::testing::Values(1, 2, 3, 4), ::testing::Values("", "--threads")));

TEST(Perf, EveryTypeAndOperationIsRight) {
  const Outcome outcome = shell(tool() + " perf all_reduce --ranks 3 -d all -o all -b 1000 -e 1000 -n 1 -w 1 -m 1");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
}

TEST(Perf, ProcessesOfThreadsAreRight) {
  const Outcome outcome = shell(tool() + " perf all_gather --ranks 4 -t 2" + kQuick);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
}

TEST(Perf, SymmetricMemoryAndStreamsAreRight) {
  const Outcome outcome = shell(tool() + " perf all_reduce --ranks 2 --mem symmetric -z 0" + kQuick);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
}

TEST(Perf, UnderTheNamesOfNcclTestsItIsThatCollective) {
  const Outcome outcome = shell(tool("alltoall_perf") + " -t 2" + kQuick);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("perf: all_to_all, 2 ranks"), std::string::npos) << outcome.text;
}

TEST(Perf, RanksOfALauncherAreTaken) {
  const Outcome outcome = shell(tool() + " run --ranks 2 " + tool() + " perf broadcast -r -1" + kQuick);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("perf: broadcast, 2 ranks"), std::string::npos) << outcome.text;
}

TEST(Perf, CompareShowsAlgorithmsSideBySide) {
  const Outcome outcome = shell(tool() + " perf all_reduce --ranks 3 --compare" + kQuick);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("ring/"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("tree/"), std::string::npos) << outcome.text;
}

TEST(Perf, JsonIsAllThatIsPrinted) {
  const Outcome outcome = shell(tool() + " perf all_reduce --ranks 2 --json" + kQuick);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_TRUE(outcome.text.starts_with("{\"version\":")) << outcome.text;
  EXPECT_TRUE(outcome.text.ends_with("\"wrong\":0}\n")) << outcome.text;
}

TEST(Perf, ARootThatIsNoRankIsAnErrorOfAllRanks) {
  const Outcome outcome = shell(tool() + " perf reduce --ranks 2 -r 2" + kQuick);
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.text.find("-r 2: there are only ranks 0 to 1"), std::string::npos) << outcome.text;
}

TEST(Perf, OneRankAloneIsToldHowToGetMore) {
  const Outcome outcome = shell(tool() + " perf all_reduce -b 8 -e 8 -n 1 -w 1 -m 1");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("--ranks N"), std::string::npos) << outcome.text;
  EXPECT_EQ(shell(tool() + " perf all_reduce --ranks 1 -b 8 -e 8 -n 1 -w 1 -m 1").text.find("--ranks N"),
            std::string::npos);
}

TEST(Tool, AnUnknownVariableIsWarnedAboutOnceByAllRanks) {
  const Outcome outcome = shell("HOCKET_ALGOS=ring " + tool() + " perf barrier --ranks 3 -n 1 -w 1 -m 1");
  const std::string warning = "unknown variable HOCKET_ALGOS is ignored, the nearest known one is HOCKET_ALGO";
  const std::size_t first = outcome.text.find(warning);
  EXPECT_NE(first, std::string::npos) << outcome.text;
  EXPECT_EQ(outcome.text.find(warning, first + 1), std::string::npos) << outcome.text;
}

TEST(Tool, WrongUsageIsOneLineThatSaysWhereHelpIs) {
  for (const char* command : {"perf", "perf all_reduce --foo", "run", "run --ranks x y", "plan nope", "plan --ranks x",
                              "topo --foo", "tune --foo", "ps", "ps 0", "doctor --foo", "doctor --root /nonexistent"}) {
    const Outcome outcome = shell(tool() + " " + command);
    const std::string_view words = command;
    const std::string name = "hocket " + std::string(words.substr(0, words.find(' ')));
    EXPECT_EQ(outcome.exit_code, 2) << command;
    EXPECT_TRUE(outcome.text.starts_with(name + ": ")) << outcome.text;
    EXPECT_TRUE(outcome.text.ends_with("; see " + name + " --help\n")) << outcome.text;
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << outcome.text;
  }
}

TEST(Tool, HelpOfACommandIsThatOfItsFlag) {
  for (const char* command : {"perf", "run", "plan", "topo", "tune", "ps", "doctor"}) {
    const Outcome outcome = shell(tool() + " help " + command);
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_EQ(outcome.text, shell(tool() + " " + command + " --help").text);
    EXPECT_NE(outcome.text.find("--help"), std::string::npos) << outcome.text;
  }
  EXPECT_EQ(shell(tool() + " help nope").exit_code, 2);
}

TEST(Tool, AnUnknownCommandIsAnsweredWithTheNearest) {
  const Outcome outcome = shell(tool() + " pref");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.text.find("the nearest is perf"), std::string::npos) << outcome.text;
}

}  // namespace
