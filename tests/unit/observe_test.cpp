// SPDX-License-Identifier: Apache-2.0
// What HOCKET_TRACE and HOCKET_METRICS are made of: names of files, clocks, rings, JSON, percentiles.
#include "core/observe.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace hocket {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class TempFolder {
 public:
  TempFolder() {
    char name[] = "/tmp/hocket_observe_XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TempFolder() { (void)std::system(("rm -rf " + path_).c_str()); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

ReadyCall a_call(Collective collective, std::uint64_t count) {
  ReadyCall call;
  call.key.collective = collective;
  call.key.count = count;
  call.choice.algorithm = find_algorithm(collective, collective == Collective::kBarrier ? "dissemination" : "ring");
  call.record_what = pack_what(call.key, call.choice);
  call.record_root_tile = pack_root_tile(call.key, call.choice);
  return call;
}

TEST(FileOfRank, PutsTheRankWhereItIsAskedForOrBeforeTheEnding) {
  EXPECT_EQ(file_of_rank("trace.json", 3), "trace.3.json");
  EXPECT_EQ(file_of_rank("a.b/trace", 3), "a.b/trace.3");
  EXPECT_EQ(file_of_rank(".trace", 0), ".trace.0");
  EXPECT_EQ(file_of_rank("r{rank}/t.{rank}.json", 12), "r12/t.12.json");
  EXPECT_EQ(file_of_rank("t.{pid}", 3), "t." + std::to_string(::getpid()));
}

TEST(ClockBounds, FindsTheOffsetOfAnotherClockWithinItsOwnBound) {
  // This clock is 5,000,000 ns ahead; exchanges take 300 to 900 ns.
  constexpr std::int64_t kAhead = 5'000'000;
  ClockBounds bounds;
  EXPECT_EQ(bounds.error_ns(), -1);
  EXPECT_EQ(bounds.ahead_ns(), 0);
  std::int64_t their_now = 1'000'000, my_began = 0;
  for (int i = 0; i < 4; ++i) {
    const std::int64_t they_began = their_now, they_ended = their_now + 700 + i * 10;
    if (i > 0) bounds.they_ended(they_ended - 2000 - 10, my_began);  // of the exchange before
    my_began = their_now + kAhead + 100 * i;
    bounds.they_began(they_began, their_now + kAhead + 900 - i * 50);
    their_now += 2000;
  }
  ASSERT_GE(bounds.error_ns(), 0);
  EXPECT_LE(bounds.error_ns(), 1000);
  EXPECT_LE(std::abs(bounds.ahead_ns() - kAhead), bounds.error_ns());
}

TEST(ClockBounds, IgnoresWhatNoClockCanShow) {
  ClockBounds bounds;
  bounds.they_began(INT64_MIN, 1);
  bounds.they_began(INT64_MAX, 1);
  bounds.they_ended(-7, 1);
  EXPECT_EQ(bounds.error_ns(), -1);
}

TEST(Histogram, PercentilesAreWithinABucket) {
  Histogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), 0);
  for (int i = 1; i <= 1000; ++i) histogram.add(i * 1e6);
  for (const double share : {0.01, 0.1, 0.5, 0.9, 0.99})
    EXPECT_NEAR(histogram.quantile(share) / (share * 1e9), 1, 0.07) << share;
}

TEST(Histogram, BucketsFollowEachOtherAndHoldTheirMiddle) {
  for (int b = 0; b < Histogram::kBuckets; ++b) {
    EXPECT_EQ(Histogram::bucket_of(Histogram::value_of(b)), b);
    if (b > 0) {
      EXPECT_LT(Histogram::value_of(b - 1), Histogram::value_of(b));
    }
  }
  EXPECT_EQ(Histogram::bucket_of(0), 0);
  EXPECT_EQ(Histogram::bucket_of(std::nan("")), 0);
  EXPECT_EQ(Histogram::bucket_of(1e300), Histogram::kBuckets - 1);
}

TEST(TraceTrack, KeepsOrderBetweenTwoThreadsAndCountsWhatItDrops) {
  TraceTrack track;
  constexpr std::uint64_t kAll = 200'000;
  std::thread writer([&] {
    TraceSlice slice;
    for (std::uint64_t i = 0; i < kAll; ++i) {
      slice.number = i;
      track.put(slice);
    }
  });
  std::uint64_t taken = 0, last = 0;
  const auto drain = [&] {
    for (TraceSlice slice; track.take(&slice); ++taken) {
      if (taken > 0) {
        ASSERT_GT(slice.number, last);
      }
      last = slice.number;
    }
  };
  for (int i = 0; i < 1000; ++i) drain();
  writer.join();
  drain();
  EXPECT_EQ(taken + track.dropped(), kAll);
  EXPECT_EQ(track.size(), 0u);
}

TEST(TraceFile, IsWholeJsonAfterEachWrite) {
  const TempFolder folder;
  const std::string path = folder / "t.json";
  auto file = TraceFile::create(path, 3, "rank 3 (\"quoted\"\n)");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(nlohmann::json::parse(contents(path))["traceEvents"].size(), 2u);

  const ReadyCall call = a_call(Collective::kAllReduce, 1000);
  TraceSlice slice{.begin_ns = 10'500, .end_ns = 20'750, .number = 17, .count = 1000};
  slice.what = call.record_what;
  slice.root_tile = call.record_root_tile;
  (*file)->name_track(1, "communicator 1f, rank 3 of 4");
  (*file)->add(1, slice, 500);
  ASSERT_TRUE((*file)->write().ok());
  TraceSlice wait{.begin_ns = 11'000, .end_ns = 12'000, .number = 17};
  wait.peer = 2;
  wait.is_wait = wait.for_data = true;
  (*file)->add(1, wait, 500);
  (*file)->add_dropped(1, 9, 30'000);
  ASSERT_TRUE((*file)->write().ok());
  ASSERT_TRUE((*file)->write().ok());

  const auto events = nlohmann::json::parse(contents(path))["traceEvents"];
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0]["args"]["name"], "rank 3 (\"quoted\"\n)");
  EXPECT_EQ(events[3]["name"], "all_reduce");
  EXPECT_EQ(events[3]["ph"], "X");
  EXPECT_EQ(events[3]["pid"], 3);
  EXPECT_DOUBLE_EQ(events[3]["ts"].get<double>(), 10.0);
  EXPECT_DOUBLE_EQ(events[3]["dur"].get<double>(), 10.25);
  EXPECT_EQ(events[3]["args"]["sequence"], 17);
  EXPECT_EQ(events[3]["args"]["count"], 1000);
  EXPECT_EQ(events[3]["args"]["type"], "float32");
  EXPECT_EQ(events[3]["args"]["algorithm"], "ring");
  EXPECT_EQ(events[4]["name"], "wait for rank 2");
  EXPECT_EQ(events[4]["args"]["for"], "data");
  EXPECT_EQ(events[5]["name"], "9 slices were dropped");
}

TEST(TraceFile, ACallClaimsOnlyWhatItHas) {
  const TempFolder folder;
  auto file = TraceFile::create(folder / "t.json", 0, "");
  ASSERT_TRUE(file.ok());
  for (const Collective collective : {Collective::kBarrier, Collective::kAllGather, Collective::kAllReduce}) {
    const ReadyCall call = a_call(collective, 8);
    TraceSlice slice{.begin_ns = 1, .end_ns = 2, .number = 0, .count = 8};
    slice.what = call.record_what;
    slice.root_tile = call.record_root_tile;
    (*file)->add(1, slice, 0);
  }
  ASSERT_TRUE((*file)->write().ok());
  const auto events = nlohmann::json::parse(contents(folder / "t.json"))["traceEvents"];
  ASSERT_EQ(events.size(), 5u);
  const auto has = [&](int event, const char* key) { return events[event]["args"].contains(key); };
  for (const char* key : {"count", "type", "op"}) EXPECT_FALSE(has(2, key)) << "a barrier has no " << key;
  EXPECT_TRUE(has(3, "type"));
  EXPECT_FALSE(has(3, "op")) << "an all_gather reduces nothing";
  EXPECT_TRUE(has(4, "op"));
}

TEST(TraceFile, IsNotSharedByTwoWriters) {
  const TempFolder folder;
  auto first = TraceFile::create(folder / "t.json", 0, "");
  ASSERT_TRUE(first.ok());
  const auto second = TraceFile::create(folder / "t.json", 0, "");
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().text().find("{pid}"), std::string::npos) << second.status().text();
  EXPECT_EQ(nlohmann::json::parse(contents(folder / "t.json"))["traceEvents"].size(), 2u);
  first = Status(Code::kAborted, "closed");
  EXPECT_TRUE(TraceFile::create(folder / "t.json", 0, "").ok());
}

TEST(TraceFile, AFolderThatIsNotThereIsNamed) {
  const auto file = TraceFile::create("/no/such/folder/t.json", 0, "");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), Code::kSystem);
  EXPECT_NE(file.status().text().find("HOCKET_TRACE: /no/such/folder/t.json"), std::string::npos);
}

TEST(CallMetrics, CountsEveryCallAndTimesAllLargeOnes) {
  CallMetrics metrics(1, 4);
  metrics.set_id(0x1f);
  const CallKey small = a_call(Collective::kAllReduce, 2).key, large = a_call(Collective::kAllReduce, 1 << 20).key;
  EXPECT_FALSE(metrics.always_timed(small));
  for (int i = 0; i < 62; ++i) metrics.of(Collective::kAllReduce).count(bytes_of(small, 4));
  for (int i = 0; i < 2; ++i) metrics.ended(small, true, 1000);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(metrics.always_timed(large));
    metrics.ended(large, true, 1'000'000);
  }
  metrics.ended(large, false, 5);
  const MetricsEntry entry{.metrics = &metrics, .waiting_seconds = 1.5, .waiting_for = 2};
  const std::string text = metrics_text(std::span(&entry, 1), "host=\"h\"");
  const std::string labels = "{collective=\"all_reduce\",communicator=\"1f\",rank=\"1\",size=\"4\",host=\"h\"} ";
  EXPECT_NE(text.find("hocket_calls_total" + labels + "68\n"), std::string::npos) << text;
  EXPECT_NE(text.find("hocket_failed_calls_total" + labels + "1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("hocket_bytes_total" + labels + std::to_string(64 * 8 + 3 * (4 << 20)) + "\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("hocket_timed_calls_total" + labels + "5\n"), std::string::npos) << text;
  EXPECT_NE(
      text.find("hocket_waiting_seconds{peer=\"2\",communicator=\"1f\",rank=\"1\",size=\"4\",host=\"h\"} 1.500\n"),
      std::string::npos)
      << text;
  // 4 MiB in 1 ms, times 2 * 3/4.
  EXPECT_NEAR(metrics.of(Collective::kAllReduce).busbw.quantile(0.9) / (1.5 * (4 << 20) / 1e-3), 1, 0.07);
}

TEST(CallMetrics, BusBandwidthIsAsNcclTestsDefinesIt) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kBroadcast, 4), 1);
  CallKey key = a_call(Collective::kAllGather, 10).key;
  EXPECT_EQ(bytes_of(key, 4), 160u);
  key = a_call(Collective::kAllReduce, 10).key;
  EXPECT_EQ(bytes_of(key, 4), 40u);
}

}  // namespace
}  // namespace hocket
