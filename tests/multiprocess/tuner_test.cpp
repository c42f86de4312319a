// SPDX-License-Identifier: Apache-2.0
// tuner_test.cpp: a program's own tuner (hocket/tuner.hpp) on all ranks, or not quite the same one on some.
#include <gtest/gtest.h>

#include <atomic>

#include "support/ranks.hpp"

namespace hocket {
namespace {

using test::Wire;

std::shared_ptr<const Tuner> wants(std::string algorithm, std::string name = "test", std::uint64_t version = 1,
                                   int lanes = 0) {
  return std::make_shared<const Tuner>(
      Tuner{std::move(name), version, [algorithm, lanes](const TunerCall& call) -> std::optional<TunerChoice> {
              if (call.collective != Collective::kAllReduce) return std::nullopt;
              return TunerChoice{algorithm, "", lanes};
            }});
}

/// Threads as ranks whose tuners may differ.
void run_with(int size, const std::function<std::shared_ptr<const Tuner>(Rank)>& tuner_of,
              const std::function<void(Rank, Result<Communicator>&)>& body) {
  test::ThreadExchange exchange(size);
  EngineOptions options;
  options.arena_bytes = std::uint64_t{2} << 30;
  auto engine = EngineCore::create(std::move(options));
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  std::vector<std::thread> threads;
  for (Rank r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      Settings settings;
      settings.tuner = tuner_of(r);
      settings.timeout = std::chrono::seconds(30);  // a hang would be an error, too, but not the expected one
      auto comm = Communicator::create(r, size, exchange.of(r), settings, *engine);
      body(r, comm);
    });
  for (std::thread& thread : threads) thread.join();
}

Status sum(Communicator& comm, std::vector<float>& data) {
  return comm.all_reduce(std::span(data));
}

TEST(TunerOfRanks, ItsAlgorithmRunsAndIsExplained) {
  for (const std::string algorithm : {"ring", "tree", "one_shot", "halving_doubling"})
    run_with(
        4, [&](Rank) { return wants(algorithm); },
        [&](Rank, Result<Communicator>& comm) {
          ASSERT_TRUE(comm.ok()) << comm.status().to_string();
          std::vector<float> data(10000, 2.0F);
          ASSERT_OK(sum(*comm, data));
          EXPECT_EQ(data[77], 8.0F);
          const std::string text = comm->explain(Collective::kAllReduce, data.size(), DataType::kFloat32);
          EXPECT_NE(text.find("algorithm  " + algorithm + " "), std::string::npos) << text;
          EXPECT_NE(text.find("tuner      test version 1: its choice"), std::string::npos) << text;
          // No opinion of others; and what is made of it has the tuner, too.
          EXPECT_OK(comm->barrier());
          auto copy = comm->duplicate();
          ASSERT_TRUE(copy.ok()) << copy.status().to_string();
          ASSERT_OK(sum(*copy, data));
          EXPECT_EQ(data[77], 32.0F);
          EXPECT_NE(copy->explain(Collective::kAllReduce, 10, DataType::kFloat32).find("its choice"),
                    std::string::npos);
          EXPECT_NE(copy->explain(Collective::kAllGather, 10, DataType::kFloat32).find("no opinion"),
                    std::string::npos);
        });
}

TEST(TunerOfRanks, AskedOncePerShapeAndNotPerCall) {
  std::atomic<int> asked = 0;
  const auto counting = std::make_shared<const Tuner>(Tuner{"counting", 1, [&](const TunerCall&) {
                                                              ++asked;
                                                              return std::optional<TunerChoice>();
                                                            }});
  run_with(
      2, [&](Rank) { return counting; },
      [](Rank, Result<Communicator>& comm) {
        ASSERT_TRUE(comm.ok()) << comm.status().to_string();
        std::vector<float> data(100, 1.0F);
        for (int i = 0; i < 50; ++i) ASSERT_OK(sum(*comm, data));
      });
  EXPECT_EQ(asked, 2);
}

TEST(TunerOfRanks, AnotherNameOrVersionOrNoneIsAnErrorWhenTheyMeet) {
  const auto differs = [](const std::shared_ptr<const Tuner>& of_rank_1, std::string_view said) {
    run_with(
        3, [&](Rank r) { return r == 1 ? of_rank_1 : wants("ring"); },
        [&](Rank, Result<Communicator>& comm) {
          ASSERT_FALSE(comm.ok());
          EXPECT_EQ(comm.status().code(), Code::kMismatch);
          EXPECT_NE(comm.status().text().find("the tuner (Settings::tuner) is test version 1 on rank 0 and "),
                    std::string_view::npos)
              << comm.status().text();
          EXPECT_NE(comm.status().text().find(said), std::string_view::npos) << comm.status().text();
        });
  };
  differs(wants("ring", "other"), "other version 1 on rank 1");
  differs(wants("ring", "test", 2), "test version 2 on rank 1");
  differs(nullptr, "none on rank 1");
}

TEST(TunerOfRanks, AnotherChoiceOnOneRankIsAMismatchThatNamesBothAndTheTuner) {
  struct Case {
    std::shared_ptr<const Tuner> others, of_rank_1;
    const char* said;
  };
  const Case cases[] = {{wants("ring"), wants("two_shot"), "by two_shot"},
                        {wants("tree"), wants("one_shot"), "by one_shot"},
                        {wants("ring", "test", 1, 1), wants("ring", "test", 1, 2), "2 lanes"}};
  for (const Case& one : cases)
    run_with(
        3, [&](Rank r) { return r == 1 ? one.of_rank_1 : one.others; },
        [&](Rank, Result<Communicator>& comm) {
          ASSERT_TRUE(comm.ok()) << comm.status().to_string();
          std::vector<float> data(100000, 1.0F);
          Status status = sum(*comm, data);
          EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
          EXPECT_NE(status.text().find(one.said), std::string_view::npos) << status.text();
          EXPECT_NE(status.text().find("the tuner 'test'"), std::string_view::npos) << status.text();
        });
}

TEST(TunerOfRanks, AChoiceThatCannotBeUsedIsAnErrorOfTheCallAndLosesNothing) {
  run_with(
      2, [](Rank) { return wants("three_shot"); },
      [](Rank, Result<Communicator>& comm) {
        ASSERT_TRUE(comm.ok()) << comm.status().to_string();
        std::vector<float> data(10, 1.0F);
        const Status status = sum(*comm, data);
        EXPECT_EQ(status.code(), Code::kInvalidArgument);
        EXPECT_NE(status.text().find("the tuner 'test' wants three_shot"), std::string_view::npos) << status.text();
        EXPECT_OK(comm->barrier());
      });
}

TEST(TunerOfRanks, ABadNameIsRefused) {
  for (const std::string name : {"", "a=b", "new\nline"})
    run_with(
        2, [&](Rank) { return wants("ring", name); },
        [](Rank, Result<Communicator>& comm) {
          ASSERT_FALSE(comm.ok());
          EXPECT_EQ(comm.status().code(), Code::kInvalidArgument);
          EXPECT_NE(comm.status().text().find("a tuner needs a name"), std::string_view::npos) << comm.status().text();
        });
}

}  // namespace
}  // namespace hocket
