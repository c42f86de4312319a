// SPDX-License-Identifier: Apache-2.0
// tuning_file_test.cpp: tuning tables of ranks (HOCKET_TUNING): equal ones are used, different ones are a mismatch.
#include "core/tuning_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/status.hpp"
#include "hocket/engine.hpp"
#include "support/ranks.hpp"

namespace hocket {
namespace {

class TuningFile : public testing::Test {
 protected:
  TuningFile() { std::filesystem::create_directory(folder_); }
  ~TuningFile() override { std::filesystem::remove_all(folder_); }

  std::string write(std::string_view name, std::string_view rows) {
    const std::string file = folder_ + "/" + std::string(name);
    std::FILE* out = std::fopen(file.c_str(), "w");
    EXPECT_NE(out, nullptr);
    print(out, "hocket-tuning 1\n{}\n", rows);
    std::fclose(out);
    return file;
  }

  /// Two ranks as threads, each with its file.
  static void run(const std::string& file_0, const std::string& file_1,
                  const std::function<void(Rank, Result<Communicator>&)>& body) {
    test::ThreadExchange exchange(2);
    auto engine = Engine::create();
    ASSERT_TRUE(engine.ok());
    std::vector<std::thread> ranks;
    for (Rank r = 0; r < 2; ++r)
      ranks.emplace_back([&, r] {
        Settings settings;
        settings.tuning = r == 0 ? file_0 : file_1;
        auto comm = Communicator::create(r, 2, exchange.of(r), settings, *engine);
        body(r, comm);
      });
    for (std::thread& rank : ranks) rank.join();
  }

 private:
  const std::string folder_ = std::filesystem::temp_directory_path() / format("hocket-tuning-file-{}", ::getpid());
};

TEST_F(TuningFile, EqualRowsInFilesOfAnyNameAreUsedAndShown) {
  const std::string rows =
      "all_reduce direct any any two_shot auto 4096\nall_reduce crowded any any two_shot auto 4096\n"
      "all_reduce symmetric any any two_shot auto 4096";
  const std::string a = write("a", rows), b = write("b", "# the same\n" + rows);
  run(a, b, [&](Rank r, Result<Communicator>& comm) {
    ASSERT_TRUE(comm.ok()) << comm.status().text();
    const std::string text = comm->explain(Collective::kAllReduce, 1 << 20, DataType::kFloat32);
    EXPECT_NE(text.find("algorithm  two_shot"), std::string::npos) << text;
    EXPECT_NE(text.find("tile 4096 bytes"), std::string::npos) << text;
    const std::string digest = format("{:016x}", (*load_tuning(a))->digest());
    EXPECT_NE(text.find(format("tuning     {}, digest {}\n", r == 0 ? a : b, digest)), std::string::npos) << text;
    const std::string other = comm->explain(Collective::kAllGather, 1 << 20, DataType::kFloat32);
    EXPECT_NE(other.find("no row for this: by rule"), std::string::npos) << other;
    float value = 1;
    EXPECT_TRUE(comm->all_reduce(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum).ok());
    EXPECT_EQ(value, 2);
    // What is made of it has its table, whatever became of the file.
    EXPECT_TRUE(comm->barrier().ok());
    if (r == 0) std::filesystem::remove(b);
    EXPECT_TRUE(comm->barrier().ok());
    auto child = comm->duplicate();
    ASSERT_TRUE(child.ok()) << child.status().text();
    EXPECT_NE(child->explain(Collective::kAllReduce, 1 << 20, DataType::kFloat32).find(digest), std::string::npos);
  });
}

TEST_F(TuningFile, DifferentTablesAreAMismatchThatNamesBothDigests) {
  const std::string a = write("a", "all_reduce direct any any two_shot auto auto");
  run(a, "", [&](Rank, Result<Communicator>& comm) {
    ASSERT_FALSE(comm.ok());
    EXPECT_EQ(comm.status().code(), Code::kMismatch);
    const std::string text(comm.status().text());
    EXPECT_NE(text.find("HOCKET_TUNING"), std::string::npos) << text;
    EXPECT_NE(text.find(format("{:016x} on rank 0", (*load_tuning(a))->digest())), std::string::npos) << text;
    EXPECT_NE(text.find(format("{:016x} on rank 1", default_tuning().digest())), std::string::npos) << text;
  });
}

TEST_F(TuningFile, AFileThatIsNoTableIsAnErrorOnAllRanksWithItsLine) {
  const std::string bad = write("bad", "\nall_reduce direct 2 any no_such auto auto");
  run("", bad, [&](Rank r, Result<Communicator>& comm) {
    ASSERT_FALSE(comm.ok());
    EXPECT_EQ(comm.status().code(), Code::kInvalidArgument);
    const std::string text(comm.status().text());
    EXPECT_NE(text.find(r == 0 ? "rank 1 on " : "HOCKET_TUNING"), std::string::npos) << text;
    EXPECT_NE(text.find(bad + ", line 3"), std::string::npos) << text;
  });
}

}  // namespace
}  // namespace hocket
