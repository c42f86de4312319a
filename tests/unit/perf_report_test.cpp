// SPDX-License-Identifier: Apache-2.0
// The numbers of hocket perf: bandwidths, statistics, rows as CSV and JSON, counts of sizes.
#include <gtest/gtest.h>

#include <cstring>
#include <sstream>
#include <thread>

#include "bench/perf/report.hpp"
#include "bench/perf/runner.hpp"
#include "bench/perf/thread_exchange.hpp"

namespace hocket::perf {
namespace {

TEST(PerfFormulas, BusBandwidthIsThatOfNcclTests) {
  const auto factor = [](const PerfCollective& collective, int ranks) { return collective.bus_factor(ranks); };
  EXPECT_DOUBLE_EQ(factor(kAllReducePerf, 4), 1.5);
  EXPECT_DOUBLE_EQ(factor(kAllGatherPerf, 4), 0.75);
  EXPECT_DOUBLE_EQ(factor(kReduceScatterPerf, 8), 0.875);
  EXPECT_DOUBLE_EQ(factor(kAllToAllPerf, 2), 0.5);
  for (const PerfCollective* collective : {&kBroadcastPerf, &kReducePerf, &kSendReceivePerf})
    EXPECT_DOUBLE_EQ(factor(*collective, 8), 1);
  EXPECT_DOUBLE_EQ(factor(kAllReducePerf, 1), 0);

  Row row;
  row.bytes = 1'000'000'000;
  row.median_us = 500'000;
  set_bandwidths(row, 1.5);
  EXPECT_DOUBLE_EQ(row.algbw, 2);
  EXPECT_DOUBLE_EQ(row.busbw, 3);
}

TEST(PerfFormulas, CountsAndSizesAreNotRoundedToSixteenBytes) {
  EXPECT_EQ(kAllReducePerf.count_of(11, DataType::kFloat32, 4), 2u);
  EXPECT_EQ(kAllReducePerf.bytes_of(2, DataType::kFloat32, 4), 8u);
  EXPECT_EQ(kAllGatherPerf.count_of(40, DataType::kFloat32, 4), 2u);
  EXPECT_EQ(kAllGatherPerf.bytes_of(2, DataType::kFloat32, 4), 32u);
  EXPECT_EQ(kReduceScatterPerf.bytes_of(3, DataType::kFloat64, 2), 48u);
  EXPECT_EQ(kAllToAllPerf.bytes_of(3, DataType::kFloat16, 4), 24u);
  EXPECT_EQ(kAllGatherPerf.count_of(8, DataType::kFloat32, 4), 1u) << "too small for one element each: rounded up";
  EXPECT_EQ(kAllReducePerf.count_of(3, DataType::kFloat32, 4), 1u);
  EXPECT_EQ(kAllGatherVPerf.count_of(8, DataType::kFloat32, 4), 1u);
  EXPECT_EQ(kAllGatherPerf.count_of(0, DataType::kFloat32, 4), 0u) << "asked for";
  EXPECT_EQ(kBarrierPerf.count_of(8, DataType::kFloat32, 4), 0u);
  EXPECT_EQ(kGatherPerf.bytes_of(2, DataType::kFloat32, 4), 32u);
  EXPECT_EQ(kScatterPerf.bytes_of(2, DataType::kFloat32, 4), 32u);
}

TEST(PerfFormulas, UnevenFormsDivideTheSizeInShares) {
  for (const PerfCollective* collective : {&kAllGatherVPerf, &kReduceScatterVPerf, &kAllToAllVPerf}) {
    EXPECT_EQ(collective->count_of(100, DataType::kFloat32, 4), 2u) << "25 elements for 10 shares";
    EXPECT_EQ(collective->bytes_of(2, DataType::kFloat32, 4), 80u);
    EXPECT_DOUBLE_EQ(collective->bus_factor(4), 0.75);
  }
  EXPECT_EQ(kAllGatherVPerf.input_count(4, 3, 2), 8u);
  EXPECT_EQ(kAllGatherVPerf.output_count(4, 3, 2), 20u);
  EXPECT_EQ(kReduceScatterVPerf.output_count(4, 0, 2), 2u);
  EXPECT_EQ(kAllToAllVPerf.input_count(4, 1, 2), 20u);
}

TEST(PerfFormulas, EveryElementOfAnOutputIsExpectedOnce) {
  constexpr std::size_t kCount = 5;
  for (const PerfCollective* collective : perf_collectives()) {
    if (collective->no_data) continue;
    for (const int ranks : {1, 2, 5}) {
      for (Rank me = 0; me < ranks; ++me) {
        std::vector<int> seen(collective->output_count(ranks, me, kCount));
        for (const Expected& part : collective->expected(ranks, me, 0, kCount)) {
          EXPECT_LE(part.input + part.count, collective->input_count(ranks, part.from < 0 ? me : part.from, kCount));
          for (std::size_t i = 0; i < part.count; ++i) ++seen.at(part.output + i);
        }
        const bool root_only = collective == &kReducePerf || collective == &kGatherPerf;
        const int times = root_only && me != 0 ? 0 : 1;
        for (const int n : seen) EXPECT_EQ(n, times) << collective->name;
      }
    }
  }
}

TEST(PerfStatistics, MedianAndP99AreOfTheSlowestRank) {
  const std::vector<double> two = {1, 2, 3, 4, 4, 1, 2, 9};  // iterations of rank 0, then of rank 1
  EXPECT_EQ(over_ranks(two, 2, OverRanks::kMaximum), (std::vector<double>{4, 2, 3, 9}));
  EXPECT_EQ(over_ranks(two, 2, OverRanks::kMinimum), (std::vector<double>{1, 1, 2, 4}));
  EXPECT_EQ(over_ranks(two, 2, OverRanks::kAverage), (std::vector<double>{2.5, 1.5, 2.5, 6.5}));
  EXPECT_EQ(over_ranks(two, 2, OverRanks::kRank0), (std::vector<double>{1, 2, 3, 4}));
  const Summary four = summary_of({4, 2, 3, 9});
  EXPECT_EQ(four.minimum, 2);
  EXPECT_EQ(four.median, 3.5);
  EXPECT_EQ(four.p99, 9);
  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back(i);
  EXPECT_EQ(summary_of(hundred).p99, 99);
  EXPECT_EQ(summary_of({7}).p99, 7);
  EXPECT_EQ(summary_of({}).median, 0);
}

TEST(PerfStatistics, BatchesAreLongEnoughForTheClockAndIterationsEnoughForTheTime) {
  EXPECT_EQ(calls_for(1.01e-6), 199);
  EXPECT_EQ(calls_for(1e-9), 400);
  EXPECT_EQ(calls_for(1), 1);
  EXPECT_EQ(iterations_for(200e-6), 250);
  EXPECT_EQ(iterations_for(1), 5);
  EXPECT_EQ(iterations_for(1e-9), 1000);
}

Row some_row() {
  Row row;
  row.collective = "all_reduce";
  row.type = "float32";
  row.op = "sum";
  row.ranks = 4;
  row.transport = "shm";
  row.algo = "ring";
  row.proto = "bulk";
  row.bytes = 1048576;
  row.count = 262144;
  row.in_place = true;
  row.min_us = 123.456789;
  row.median_us = 1234.56789;
  row.p99_us = 0.00123456789;
  row.algbw = 1.0 / 3;
  row.busbw = 0.5;
  row.wrong = 3;
  return row;
}

TEST(PerfReport, CsvHasExactlyTheAgreedColumnsAndSixDigits) {
  EXPECT_EQ(csv_header(),
            "collective,type,op,ranks,transport,algo,proto,bytes,count,place,min_us,median_us,p99_us,algbw_GBps,busbw_"
            "GBps,wrong");
  EXPECT_EQ(
      csv_line(some_row()),
      "all_reduce,float32,sum,4,shm,ring,bulk,1048576,262144,in,123.456789,1234.56789,0.00123456789,0.333333333,0.5,3");
  Row unchecked = some_row();
  unchecked.wrong.reset();
  EXPECT_TRUE(csv_line(unchecked).ends_with(",0.5,"));
}

TEST(PerfReport, SizesThatAreRoundedUpToTheSameAreOneRow) {
  Options options;
  options.collective = &kAllGatherPerf;
  options.min_bytes = 4;
  options.max_bytes = 64;
  options.step_factor = 2;
  EXPECT_EQ(counts_of(options, DataType::kFloat32, 4), (std::vector<std::size_t>{1, 2, 4}));
  options.min_bytes = options.max_bytes = 0;
  EXPECT_EQ(counts_of(options, DataType::kFloat32, 4), std::vector<std::size_t>{0});
}

TEST(PerfReport, ComparedAlgorithmsAreLinesOfAtMost120ColumnsAndTheFastestIsMarked) {
  std::vector<Row> rows;
  for (const bool in_place : {false, true}) {
    for (const char* algo : {"ring", "halving_doubling", "two_shot"}) {
      Row row = some_row();
      row.algo = algo;
      row.in_place = in_place;
      row.median_us = in_place == (row.algo == "ring") ? 9999.99 : 123456;
      row.bytes = std::size_t{1} << 40;
      row.wrong = 0;
      rows.push_back(row);
    }
  }
  rows.pop_back();  // not offered in place
  const std::vector<std::string> lines = compare_table(rows);
  ASSERT_EQ(lines.size(), 3u);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 120u) << line;
  EXPECT_NE(lines[0].find("ring/bulk"), std::string::npos);
  EXPECT_NE(lines[0].find("* 9999.99"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[0].find("*"), lines[0].rfind("*")) << lines[0];
  EXPECT_NE(lines[1].find("* 9999.99"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("N/A"), std::string::npos) << lines[2];
}

TEST(PerfReport, SaysWhereRanksShareACpuOrMayComeTo) {
  const auto rank = [](const char* host, std::initializer_list<int> cpus) {
    RankInfo info{};
    std::strcpy(info.host, host);
    for (const int cpu : cpus) CPU_SET(cpu, &info.allowed);
    return info;
  };
  EXPECT_EQ(placement_note({rank("a", {0}), rank("a", {1})}), "");
  EXPECT_EQ(placement_note({rank("a", {0, 1})}), "") << "one rank alone meets nobody";
  EXPECT_EQ(placement_note({rank("a", {0, 1}), rank("b", {0, 1})}), "");
  EXPECT_NE(placement_note({rank("a", {0, 1}), rank("a", {0, 1})}).find("--pin"), std::string::npos);
  EXPECT_EQ(placement_note({rank("a", {0}), rank("a", {0}), rank("b", {0})}).find("2 ranks share 1 CPU of a:"), 0u);
  EXPECT_EQ(placement_note({rank("a", {0, 1}), rank("a", {0, 1}), rank("a", {0, 1})}).find("3 ranks share 2 CPUs"), 0u);
}

TEST(PerfReport, JsonIsEscapedAndSaysNullForUnchecked) {
  Row row = some_row();
  row.algo = "a\"b\\";
  row.wrong.reset();
  const std::string json = json_object(row);
  EXPECT_NE(json.find(R"("algo":"a\"b\\")"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("wrong":null)"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("place":"in")"), std::string::npos) << json;
}

TEST(PerfReport, AFileThatCantBeWrittenIsNamed) {
  Options options;
  options.csv = "/nonexistent/file.csv";
  const auto report = Report::open(options, "0");
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.status().text().find("/nonexistent/file.csv"), std::string_view::npos);
}

TEST(ThreadExchange, GathersInRankOrderManyTimes) {
  constexpr int kThreads = 4;
  ThreadExchange exchange(kThreads, 1, nullptr);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&exchange, t] {
      const Exchange mine = exchange.of(t);
      for (int i = 0; i < 1000; ++i) {
        const int value = 10 * i + t;
        int all[kThreads];
        ASSERT_TRUE(mine(std::as_bytes(std::span(&value, 1)), std::as_writable_bytes(std::span(all))).ok());
        for (int r = 0; r < kThreads; ++r) ASSERT_EQ(all[r], 10 * i + r);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ThreadExchange, JoinsProcessesInRankOrder) {
  // This is process 1 of 3, and the others say the same as it does.
  ThreadExchange exchange(1, 3, [](std::span<const std::byte> mine, std::span<std::byte> all) {
    for (std::size_t p = 0; p < 3; ++p)
      std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(p * mine.size()));
    return Status();
  });
  const int value = 7;
  int all[3] = {};
  EXPECT_TRUE(exchange.of(0)(std::as_bytes(std::span(&value, 1)), std::as_writable_bytes(std::span(all))).ok());
  EXPECT_EQ(all[0] + all[1] + all[2], 21);
}

TEST(ThreadExchange, OneThatGivesUpEndsTheOthers) {
  ThreadExchange exchange(2, 1, nullptr);
  std::thread other([&] { exchange.fail(Status(Code::kUnsupported, "not today")); });
  const int value = 7;
  int all[2] = {};
  const Status status = exchange.of(0)(std::as_bytes(std::span(&value, 1)), std::as_writable_bytes(std::span(all)));
  EXPECT_EQ(status.text(), "not today");
  other.join();
}

}  // namespace
}  // namespace hocket::perf
