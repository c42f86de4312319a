// SPDX-License-Identifier: Apache-2.0
// HOCKET_TRACE and HOCKET_METRICS of whole communicators: every call is there, waits name whom they are for.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "support/ranks.hpp"

namespace hocket {
namespace {

using test::run_ranks;
using test::Wire;

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class Observed : public testing::Test {
 protected:
  Observed() {
    char name[] = "/tmp/hocket_observe_XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~Observed() override { (void)std::system(("rm -rf " + folder_).c_str()); }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  nlohmann::json events(int rank) const {
    return nlohmann::json::parse(contents(file("t." + std::to_string(rank) + ".json")))["traceEvents"];
  }

 private:
  std::string folder_;
};

TEST_F(Observed, EachCallIsASliceAndAWaitNamesWhoIsLate) {
  Settings settings;
  settings.trace = file("t.json");
  constexpr int kCalls = 10;
  run_ranks(3, Wire::kShm, settings, [&](Communicator& comm) {
    std::vector<float> values(1000, 1);
    for (int i = 0; i < kCalls; ++i) {
      // Rank 2 is late, by more than anything else could be.
      if (comm.rank() == 2 && i == 5) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      EXPECT_OK(comm.all_reduce(std::span(values)));
    }
    Stream stream;
    EXPECT_OK(comm.broadcast(values.data(), values.data(), values.size(), DataType::kFloat32, 1, stream));
    EXPECT_OK(stream.synchronize());
    EXPECT_OK(comm.finalize());
  });
  for (int r = 0; r < 3; ++r) {
    std::map<std::string, int> calls;
    std::vector<std::pair<double, double>> spans;
    double late = 0;
    int number = 0;
    for (const auto& event : events(r)) {
      if (event.value("cat", "") == "call") {
        calls[event["name"]]++;
        EXPECT_EQ(event["args"]["sequence"], number++);
        EXPECT_EQ(event["args"]["count"], 1000);
        EXPECT_EQ(event["args"]["ended"], "done");
        spans.emplace_back(event["ts"], event["ts"].get<double>() + event["dur"].get<double>());
      }
      if (event.value("cat", "") == "wait" && event["args"]["peer"] == 2)
        late = std::max(late, event["dur"].get<double>());
    }
    EXPECT_EQ(calls["all_reduce"], kCalls);
    EXPECT_EQ(calls["broadcast"], 1);
    // One after the other, on one clock.
    for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_LE(spans[i - 1].second, spans[i].first + 0.001);
    if (r != 2) {
      EXPECT_GT(late, 50'000.0) << "rank " << r;
    }
  }
}

TEST_F(Observed, AFailedCallIsWrittenWithoutAnEnd) {
  Settings settings;
  settings.trace = file("t.json");
  settings.metrics = file("m.{rank}.prom");
  run_ranks(2, Wire::kShm, settings, [&](Communicator& comm) {
    std::vector<float> values(10, 1);
    EXPECT_OK(comm.all_reduce(std::span(values)));
    const Status status = comm.rank() == 0 ? comm.all_reduce(std::span(values)) : comm.barrier();
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
    // Within the thread's next look; how long that takes is up to the machine.
    for (int i = 0; i < 2000; ++i) {
      if (contents(file("t." + std::to_string(comm.rank()) + ".json")).find("\"failed\"") != std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << "the failed call of rank " << comm.rank() << " is not in the trace";
  });
  const std::string text = contents(file("m.0.prom"));
  EXPECT_NE(text.find("hocket_failed_calls_total{collective=\"all_reduce\""), std::string::npos) << text;
}

TEST_F(Observed, MetricsCountCallsAndBytesOfEachCommunicator) {
  Settings settings;
  settings.metrics = file("m.{rank}.prom");
  run_ranks(2, Wire::kShm, settings, [&](Communicator& comm) {
    std::vector<double> values(1 << 17, 1);
    for (int i = 0; i < 7; ++i) EXPECT_OK(comm.all_reduce(std::span(values)));
    auto half = comm.split(comm.rank(), 0);
    ASSERT_TRUE(half.ok()) << half.status().to_string();
    for (int i = 0; i < 3; ++i) EXPECT_OK(half->all_reduce(std::span(values)));
  });
  for (int r = 0; r < 2; ++r) {
    const std::string text = contents(file("m." + std::to_string(r) + ".prom"));
    // Each line is a comment or a sample.
    std::istringstream lines(text);
    bool pair = false, alone = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("#")) continue;
      const std::size_t space = line.rfind("} ");
      ASSERT_NE(space, std::string::npos) << line;
      EXPECT_NO_THROW((void)std::stod(line.substr(space + 2))) << line;
      if (!line.starts_with("hocket_bytes_total{collective=\"all_reduce\"")) continue;
      if (line.find("size=\"2\"") != std::string::npos) pair = line.ends_with("} " + std::to_string(7 << 20));
      if (line.find("size=\"1\"") != std::string::npos) alone = line.ends_with("} " + std::to_string(3 << 20));
    }
    EXPECT_TRUE(pair && alone) << text;
    EXPECT_NE(text.find("hocket_busbw_bytes_per_second{quantile=\"0.5\",collective=\"all_reduce\""), std::string::npos);
  }
}

TEST_F(Observed, AFileThatCannotBeWrittenIsAnErrorOfAllRanks) {
  test::ThreadExchange exchange(2);
  std::vector<std::thread> threads;
  for (Rank r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      Settings settings;
      if (r == 1) settings.trace = "/no/such/folder/t.json";
      auto engine = Engine::create();
      ASSERT_TRUE(engine.ok());
      auto comm = Communicator::create(r, 2, exchange.of(r), settings, *engine);
      ASSERT_FALSE(comm.ok());
      EXPECT_NE(comm.status().text().find("HOCKET_TRACE: /no/such/folder/t.1.json"), std::string::npos)
          << comm.status().to_string();
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hocket
