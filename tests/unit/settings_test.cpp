// SPDX-License-Identifier: Apache-2.0
#include "base/settings.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <regex>
#include <set>

namespace hocket {
namespace {

using namespace std::chrono_literals;

Result<Settings> parse(std::initializer_list<const char*> entries) {
  std::vector<const char*> block(entries);
  block.push_back(nullptr);
  return parse_environment(block.data());
}

class SettingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_callback([this](LogLevel, std::string_view line) { lines.emplace_back(line); });
  }
  void TearDown() override {
    set_log_callback({});
    set_log_level(LogLevel::kWarn);
  }
  std::vector<std::string> lines;
};

TEST_F(SettingsTest, AnEmptyEnvironmentGivesTheDefaultsOfTheHeader) {
  const Settings settings = parse({}).value();
  EXPECT_EQ(describe_changes(settings), "");
  EXPECT_EQ(settings.algo, "");
  EXPECT_EQ(settings.warn_after, 30s);
  EXPECT_EQ(settings.timeout, 0s);
  EXPECT_EQ(settings.start_timeout, 120s);
  EXPECT_EQ(settings.slot_bytes, 0u);
  EXPECT_EQ(settings.slots, 0);
  EXPECT_EQ(settings.lanes, 0);
  EXPECT_FALSE(settings.reproducible);
  EXPECT_EQ(settings.tile_bytes, 0u);
  EXPECT_EQ(settings.tuning, "");
  EXPECT_FALSE(settings.spin);
  EXPECT_FALSE(settings.log);
  EXPECT_EQ(settings.flight_recorder_entries, 1024u);
  EXPECT_FALSE(settings.fence_excluded);
  EXPECT_TRUE(validate(settings).ok());
}

TEST_F(SettingsTest, EveryVariableIsRead) {
  const Settings settings = parse({"PATH=/bin",
                                   "HOCKET_ALGO=ring,tree",
                                   "HOCKET_PROTO=^packet",
                                   "HOCKET_TRANSPORT=local,shm",
                                   "HOCKET_WARN_AFTER=0.5",
                                   "HOCKET_TIMEOUT=2",
                                   "HOCKET_START_TIMEOUT=1e1",
                                   "HOCKET_TILE_BYTES=4k",
                                   "HOCKET_SLOT_BYTES=1M",
                                   "HOCKET_SLOTS=2",
                                   "HOCKET_LANES=3",
                                   "HOCKET_SPIN=50",
                                   "HOCKET_HOST_ID=box 1",
                                   "NCCL_TOPO_FILE=/theirs.xml",
                                   "HOCKET_TOPO_FILE=/etc/topo.xml",
                                   "HOCKET_GPU=0000:3b:00.0",
                                   "NCCL_GRAPH_DUMP_FILE=/tmp/graph.xml",
                                   "NCCL_DEBUG=INFO",
                                   "HOCKET_INTERFACE=^docker",
                                   "HOCKET_PORTS=4000-4010",
                                   "HOCKET_TCP_STREAMS=4",
                                   "HOCKET_LINK_TIMEOUT=2.5",
                                   "HOCKET_LOG=Debug",
                                   "HOCKET_FLIGHT_RECORDER=16",
                                   "HOCKET_REPRODUCIBLE=1",
                                   "HOCKET_DRAIN=1",
                                   "HOCKET_TUNING=/etc/hocket tuning",
                                   "HOCKET_FENCE=1"})
                                .value();
  EXPECT_EQ(settings.algo, "ring,tree");
  EXPECT_EQ(settings.proto, "^packet");
  EXPECT_EQ(settings.transport, "local,shm");
  EXPECT_EQ(settings.warn_after, 500ms);
  EXPECT_EQ(settings.timeout, 2s);
  EXPECT_EQ(settings.start_timeout, 10s);
  EXPECT_EQ(settings.tile_bytes, 4096u);
  EXPECT_EQ(settings.slot_bytes, 1u << 20);
  EXPECT_EQ(settings.slots, 2);
  EXPECT_EQ(settings.lanes, 3);
  EXPECT_TRUE(settings.reproducible);
  EXPECT_TRUE(settings.drain);
  EXPECT_EQ(settings.tuning, "/etc/hocket tuning");
  EXPECT_EQ(settings.spin, 50us);
  EXPECT_EQ(settings.host_id, "box 1");
  EXPECT_EQ(settings.topo_file, "/etc/topo.xml");
  EXPECT_EQ(settings.gpu, "0000:3b:00.0");
  EXPECT_EQ(settings.graph_dump_file, "/tmp/graph.xml");
  EXPECT_EQ(settings.interfaces, "^docker");
  EXPECT_EQ(settings.ports, "4000-4010");
  EXPECT_EQ(settings.tcp_streams, 4);
  EXPECT_EQ(settings.link_timeout, 2500ms);
  EXPECT_EQ(settings.log, LogLevel::kDebug);
  EXPECT_EQ(settings.flight_recorder_entries, 16u);
  EXPECT_TRUE(settings.fence_excluded);
  EXPECT_TRUE(lines.empty());
  EXPECT_EQ(
      describe_changes(settings),
      "HOCKET_ALGO=ring,tree HOCKET_PROTO=^packet HOCKET_TRANSPORT=local,shm HOCKET_WARN_AFTER=0.5 HOCKET_TIMEOUT=2 "
      "HOCKET_START_TIMEOUT=10 HOCKET_TILE_BYTES=4096 HOCKET_SLOT_BYTES=1048576 HOCKET_SLOTS=2 HOCKET_LANES=3 "
      "HOCKET_REPRODUCIBLE=1 HOCKET_DRAIN=1 HOCKET_TUNING=/etc/hocket tuning HOCKET_SPIN=50 HOCKET_HOST_ID=box 1 "
      "HOCKET_TOPO_FILE=/etc/topo.xml HOCKET_GPU=0000:3b:00.0 HOCKET_GRAPH_DUMP_FILE=/tmp/graph.xml "
      "HOCKET_INTERFACE=^docker "
      "HOCKET_PORTS=4000-4010 "
      "HOCKET_TCP_STREAMS=4 HOCKET_LINK_TIMEOUT=2.5 "
      "HOCKET_LOG=debug "
      "HOCKET_FLIGHT_RECORDER=16 HOCKET_FENCE=1");
}

TEST_F(SettingsTest, AMalformedValueNamesVariableValueAndWhatIsAccepted) {
  for (const char* entry : {"HOCKET_WARN_AFTER=soon", "HOCKET_WARN_AFTER=-1",
                            "HOCKET_WARN_AFTER=nan",  "HOCKET_TIMEOUT=inf",
                            "HOCKET_TIMEOUT=1s",      "HOCKET_TIMEOUT=1e300",
                            "HOCKET_TILE_BYTES=17",   "HOCKET_TILE_BYTES=-16",
                            "HOCKET_TILE_BYTES=8M",   "HOCKET_SLOT_BYTES=100000",
                            "HOCKET_SLOT_BYTES=2K",   "HOCKET_SLOT_BYTES=8M",
                            "HOCKET_SLOT_BYTES=K",    "HOCKET_SLOT_BYTES=99999999999G",
                            "HOCKET_SLOTS=1",         "HOCKET_SLOTS=65",
                            "HOCKET_SLOTS=4.0",       "HOCKET_SLOTS=99999999999999999999",
                            "HOCKET_LANES=-1",        "HOCKET_LANES=129",
                            "HOCKET_SPIN=often",      "HOCKET_SPIN=-5",
                            "HOCKET_LOG=loud",        "HOCKET_FLIGHT_RECORDER=15",
                            "HOCKET_FENCE=yes",       "HOCKET_REPRODUCIBLE=2",
                            "HOCKET_DRAIN=no",        "HOCKET_ALGO=ring\ntree"}) {
    const auto result = parse({entry});
    ASSERT_FALSE(result.ok()) << entry;
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    const std::string_view text = entry, name = text.substr(0, text.find('=')), value = text.substr(text.find('=') + 1);
    EXPECT_NE(result.status().text().find(name), std::string_view::npos) << result.status().text();
    EXPECT_NE(result.status().text().find(value), std::string_view::npos) << result.status().text();
    EXPECT_NE(result.status().text().find(" takes "), std::string_view::npos) << result.status().text();
  }
}

TEST_F(SettingsTest, AVariableSetToNothingCountsAsNotSet) {
  EXPECT_EQ(describe_changes(parse({"HOCKET_SLOTS=", "HOCKET_ALGO= ", "HOCKET_LOG="}).value()), "");
}

TEST_F(SettingsTest, TheLeastFractionOfATimeIsNotNever) {
  EXPECT_GT(parse({"HOCKET_TIMEOUT=1e-12"})->timeout.count(), 0);
}

TEST_F(SettingsTest, ATileHasToFitASlot) {
  EXPECT_FALSE(parse({"HOCKET_TILE_BYTES=8K", "HOCKET_SLOT_BYTES=4K"}).ok());
  EXPECT_TRUE(parse({"HOCKET_TILE_BYTES=4K", "HOCKET_SLOT_BYTES=4K"}).ok());
}

TEST_F(SettingsTest, AnUnknownVariableIsWarnedAboutOnceWithTheNearestName) {
  ASSERT_TRUE(parse({"HOCKET_ALOG=ring"}).ok());
  ASSERT_TRUE(parse({"HOCKET_ALOG=ring"}).ok());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "unknown variable HOCKET_ALOG is ignored, the nearest known one is HOCKET_ALGO");
}

TEST_F(SettingsTest, OnlyOneProcessOfAHostWarnsOfAnUnknownVariable) {
  ASSERT_TRUE(parse({"HOCKET_ALGOS=ring", "HOCKET_LOCAL_RANK=1"}).ok());
  ASSERT_TRUE(parse({"HOCKET_ALGOS=ring", "HOCKET_RANK=3"}).ok());
  ASSERT_TRUE(parse({"HOCKET_ALGOS=ring", "OMPI_COMM_WORLD_LOCAL_RANK=7"}).ok());
  ASSERT_TRUE(parse({"HOCKET_ALGOS=ring", "LOCAL_RANK=1"}).ok());
  EXPECT_TRUE(lines.empty());
  // Started by `hocket run` inside task 5 of Slurm, it is the first of its own job.
  ASSERT_TRUE(parse({"SLURM_LOCALID=5", "HOCKET_ALGOS=ring", "HOCKET_RANK=8", "HOCKET_LOCAL_RANK=0"}).ok());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "unknown variable HOCKET_ALGOS is ignored, the nearest known one is HOCKET_ALGO");
}

// What is read somewhere is known, and what is known is read somewhere.
TEST_F(SettingsTest, TheListOfKnownVariablesIsThatOfTheSources) {
  const std::filesystem::path root = HOCKET_SOURCE_DIR;
  const std::regex read(R"re((?:getenv|is_set|text_of|number_of|repeats)\("(HOCKET_[A-Z0-9_]+)")re");
  std::set<std::string> found;
  for (const char* folder : {"src", "tools", "bench", "tests", "examples"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".hpp" && extension != ".cu") continue;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      for (std::sregex_iterator at(text.begin(), text.end(), read), end; at != end; ++at) {
        found.insert((*at)[1]);
        EXPECT_TRUE(is_known_variable((*at)[1].str())) << (*at)[1] << " is read in " << entry.path();
      }
    }
  }
  std::ifstream header(root / "include/hocket/settings.hpp");
  const std::string settings{std::istreambuf_iterator<char>(header), {}};
  for (const std::string_view name : known_variables()) {
    EXPECT_TRUE(settings.find("  /// " + std::string(name)) != std::string::npos || found.contains(std::string(name)))
        << name << " is neither described in settings.hpp nor read by name";
  }
  EXPECT_GT(found.size(), 10u);
}

TEST_F(SettingsTest, VariablesOfTestsAreKnown) {
  ASSERT_TRUE(parse({"HOCKET_TEST_PATIENCE=3", "HOCKET_FAULT_SEED=1", "HOCKET_DEV_FIXED_ADDRESSES=1"}).ok());
  EXPECT_TRUE(lines.empty());
}

TEST_F(SettingsTest, TheLogLevelOfTheEnvironmentHoldsForItsOwnWarnings) {
  ASSERT_TRUE(parse({"HOCKET_SLOT=1", "HOCKET_LOG=error"}).ok());
  EXPECT_TRUE(lines.empty());
  EXPECT_EQ(log_level(), LogLevel::kError);
}

TEST_F(SettingsTest, VariablesOfOtherPartsAreKnown) {
  ASSERT_TRUE(parse({"HOCKET_RANK=0", "HOCKET_SIZE=2", "HOCKET_RUN_FD=3", "HOCKET_TOPOLOGIES=x", "HOCKET_RENDEZVOUS=x",
                     "HOCKET_PORT=1", "HOCKET_SECRET=x", "HOCKET_LOCAL_RANK=0"})
                  .ok());
  EXPECT_TRUE(lines.empty());
}

TEST_F(SettingsTest, SettingsMadeInCodeAreHeldToTheSameLimits) {
  const auto bad = [](const std::function<void(Settings&)>& change) {
    Settings settings;
    change(settings);
    return validate(settings);
  };
  EXPECT_EQ(bad([](Settings& s) { s.slots = 1; }).code(), Code::kInvalidArgument);
  EXPECT_EQ(bad([](Settings& s) { s.slots = 6; }).code(), Code::kInvalidArgument);
  EXPECT_EQ(bad([](Settings& s) { s.timeout = -1s; }).code(), Code::kInvalidArgument);
  EXPECT_EQ(bad([](Settings& s) { s.slot_bytes = 5000; }).code(), Code::kInvalidArgument);
  EXPECT_EQ(bad([](Settings& s) { s.slot_bytes = 64 << 10, s.tile_bytes = 1 << 20; }).code(), Code::kInvalidArgument);
  EXPECT_TRUE(bad([](Settings& s) { s.tile_bytes = 1 << 20; }).ok());  // the slots grow with it
  EXPECT_EQ(bad([](Settings& s) { s.log = static_cast<LogLevel>(9); }).code(), Code::kInvalidArgument);
  EXPECT_EQ(bad([](Settings& s) { s.host_id = std::string(256, 'x'); }).code(), Code::kInvalidArgument);
  EXPECT_TRUE(bad([](Settings& s) { s.log = LogLevel::kTrace; }).ok());
}

TEST_F(SettingsTest, DigestAndDifferenceCoverExactlyWhatMustAgree) {
  const std::vector<std::function<void(Settings&)>> agreed = {
      [](Settings& s) { s.algo = "ring"; },   [](Settings& s) { s.proto = "bulk"; },
      [](Settings& s) { s.tile_bytes = 64; }, [](Settings& s) { s.slot_bytes = 32768; },
      [](Settings& s) { s.slots = 8; },       [](Settings& s) { s.lanes = 2; }};
  for (const auto& change : agreed) {
    Settings settings;
    change(settings);
    EXPECT_NE(digest(settings), digest(Settings()));
    EXPECT_NE(describe_difference(settings, Settings()), "");
    EXPECT_EQ(digest(agreed_settings_from_text(agreed_settings_to_text(settings)).value()), digest(settings));
  }
  Settings own;
  own.timeout = 1s;
  own.host_id = "x";
  own.spin = 3us;
  own.transport = "shm";
  EXPECT_EQ(digest(own), digest(Settings()));
  EXPECT_EQ(describe_difference(own, Settings()), "");
}

TEST_F(SettingsTest, DifferenceNamesSettingAndBothValues) {
  Settings a, b;
  a.slots = 8;
  b.algo = "tree";
  EXPECT_EQ(describe_difference(a, b, "on rank 0", "on rank 3"),
            "algo (HOCKET_ALGO) is '' on rank 0 and 'tree' on rank 3; slots (HOCKET_SLOTS) is '8' on rank 0 and '0' on "
            "rank 3");
}

TEST_F(SettingsTest, AgreedTextFromAWireIsChecked) {
  EXPECT_FALSE(agreed_settings_from_text("HOCKET_SLOTS=1\n").ok());
  EXPECT_FALSE(agreed_settings_from_text("HOCKET_HOST_ID=x\n").ok());
  EXPECT_FALSE(agreed_settings_from_text("\n").ok());
  EXPECT_FALSE(agreed_settings_from_text("HOCKET_SLOTS").ok());
  EXPECT_TRUE(agreed_settings_from_text("").ok());
}

// ---- Lists of names ----

constexpr std::string_view kNames[] = {"ring", "tree", "chain"};
constexpr auto kAllReduce = Collective::kAllReduce;
constexpr auto kBroadcast = Collective::kBroadcast;

AllowList list_of(std::string_view text) {
  return AllowList::parse(text, kNames, "HOCKET_ALGO").value();
}

TEST(AllowListTest, EmptyAllowsEverything) {
  for (const AllowList& list : {AllowList(), list_of(""), list_of("  ")}) {
    EXPECT_TRUE(list.allows(kAllReduce, "ring"));
    EXPECT_FALSE(list.restricts(kAllReduce));
  }
}

TEST(AllowListTest, ListAllowsOnlyItsNamesAndCaretAllButThem) {
  const AllowList some = list_of("ring, Tree");
  EXPECT_TRUE(some.allows(kAllReduce, "ring"));
  EXPECT_TRUE(some.allows(kAllReduce, "tree"));
  EXPECT_FALSE(some.allows(kAllReduce, "chain"));
  EXPECT_TRUE(some.restricts(kAllReduce));
  const AllowList others = list_of("^ring,tree");
  EXPECT_FALSE(others.allows(kBroadcast, "ring"));
  EXPECT_FALSE(others.allows(kBroadcast, "tree"));
  EXPECT_TRUE(others.allows(kBroadcast, "chain"));
}

TEST(AllowListTest, ACollectiveWithItsOwnListIgnoresTheCommonOneInEitherOrder) {
  for (const char* text : {"ring;broadcast:chain", "broadcast:chain;ring"}) {
    const AllowList list = list_of(text);
    EXPECT_TRUE(list.allows(kAllReduce, "ring"));
    EXPECT_FALSE(list.allows(kAllReduce, "chain"));
    EXPECT_TRUE(list.allows(kBroadcast, "chain"));
    EXPECT_FALSE(list.allows(kBroadcast, "ring"));
  }
}

TEST(AllowListTest, CollectivesHaveBothSpellings) {
  for (const char* text : {"allreduce:ring", "all_reduce:ring", "AllReduce : ring"}) {
    const AllowList list = list_of(text);
    EXPECT_FALSE(list.allows(kAllReduce, "tree"));
    EXPECT_TRUE(list.allows(kBroadcast, "tree"));
    EXPECT_FALSE(list.restricts(kBroadcast));
  }
  EXPECT_FALSE(list_of("sendrecv:ring").allows(Collective::kReceive, "tree"));
  EXPECT_FALSE(list_of("recv:ring").allows(Collective::kReceive, "tree"));
  EXPECT_TRUE(list_of("recv:ring").allows(Collective::kSend, "tree"));
}

TEST(AllowListTest, BadListsAreErrorsThatHelp) {
  const auto text_of = [](std::string_view text) {
    const auto result = AllowList::parse(text, kNames, "HOCKET_ALGO");
    EXPECT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    return std::string(result.status().text());
  };
  EXPECT_EQ(text_of("rnig"),
            "HOCKET_ALGO='rnig': unknown name 'rnig', the nearest is ring; there are ring, tree, chain");
  EXPECT_NE(text_of("allredcue:ring").find("the nearest is all_reduce"), std::string::npos);
  text_of("ring,");
  text_of("^");
  text_of(";");
  text_of("ring;");
  text_of("allreduce:");
  text_of(":ring");
  text_of("^ring,tree,chain");
  text_of("ring;tree");
  text_of("allreduce:ring;all_reduce:tree");
  text_of("ring,^tree");
}

TEST(NearestName, CountsChangedLetters) {
  EXPECT_EQ(nearest_name("TREE", kNames), "tree");
  EXPECT_EQ(nearest_name("chian", kNames), "chain");
  EXPECT_EQ(nearest_name("", kNames), "");
  // What is far from all of them was not meant to be one.
  EXPECT_EQ(nearest_name("rng", kNames), "ring");
  EXPECT_EQ(nearest_name("butterfly", kNames), "");
  EXPECT_EQ(nearest_name("xy", kNames), "");
  EXPECT_EQ(nearest_hint("chian", kNames), ", the nearest is chain");
  EXPECT_EQ(nearest_hint("butterfly", kNames), "");
  // What all variables begin with does not make them alike.
  EXPECT_EQ(nearest_variable_hint("HOCKET_ALOG"), ", the nearest known one is HOCKET_ALGO");
  EXPECT_EQ(nearest_variable_hint("HOCKET_BANANA"), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

}  // namespace
}  // namespace hocket
