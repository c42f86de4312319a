// SPDX-License-Identifier: Apache-2.0
// Malformed launch variables are refused by name, and the connection breaks in an orderly way. What a launcher does is
// in tests/multiprocess/run_test.cpp.
#include "core/launch.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <initializer_list>
#include <string>
#include <thread>

#include "base/os/unique_fd.hpp"
#include "hocket/unique_id.hpp"

namespace hocket {
namespace {

using os::UniqueFd;

Settings patient_for(std::chrono::nanoseconds time) {
  Settings settings;
  settings.start_timeout = time;
  return settings;
}

class Launch : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : {"HOCKET_RANK",
                             "HOCKET_SIZE",
                             "HOCKET_LOCAL_RANK",
                             "HOCKET_RUN_FD",
                             "HOCKET_UNIQUE_ID",
                             "HOCKET_ROOT",
                             "HOCKET_PORT",
                             "HOCKET_SECRET",
                             "HOCKET_RENDEZVOUS",
                             "HOCKET_JOB_ID",
                             "JOB_COMPLETION_INDEX",
                             "RANK",
                             "WORLD_SIZE",
                             "LOCAL_RANK",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "PMI_FD",
                             "PMI_RANK",
                             "PMI_SIZE",
                             "PMIX_NAMESPACE",
                             "PMIX_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_RANK",
                             "MPI_LOCALRANKID",
                             "SLURM_PROCID",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_LOCALID",
                             "SLURM_JOB_ID",
                             "SLURM_STEP_ID"})
      ::unsetenv(name);
  }
  static void set(const std::string& rank, const std::string& size, const std::string& fd) {
    ::setenv("HOCKET_RANK", rank.c_str(), 1);
    ::setenv("HOCKET_SIZE", size.c_str(), 1);
    ::setenv("HOCKET_RUN_FD", fd.c_str(), 1);
  }
  static void expect_refused(const std::string& part) {
    const auto launched = launched_from_environment();
    ASSERT_FALSE(launched.ok());
    EXPECT_EQ(launched.status().code(), Code::kInvalidArgument);
    EXPECT_NE(launched.status().text().find(part), std::string_view::npos) << launched.status().text();
  }
  // A rank 0 of `size` and the launcher's end of its connection.
  static UniqueFd launch(int size) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    set("0", std::to_string(size), std::to_string(ends[1]));
    return UniqueFd(ends[0]);
  }
  static LaunchHeader read_request(const UniqueFd& launcher, std::size_t bytes) {
    LaunchHeader header;
    EXPECT_EQ(::recv(launcher.get(), &header, sizeof header, MSG_WAITALL), static_cast<ssize_t>(sizeof header));
    std::string data(bytes, ' ');
    EXPECT_EQ(::recv(launcher.get(), data.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
    return header;
  }
  static void answer(const UniqueFd& launcher, LaunchHeader header, std::string_view bytes) {
    header.bytes = bytes.size();
    EXPECT_EQ(::write(launcher.get(), &header, sizeof header), static_cast<ssize_t>(sizeof header));
    EXPECT_EQ(::write(launcher.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  static Status exchange(const LaunchedRank& me, std::string mine, std::string& all) {
    return me.exchange(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  }
};

TEST_F(Launch, WithoutVariablesNobodyStartedUs) {
  const auto launched = launched_from_environment();
  ASSERT_TRUE(launched.ok());
  EXPECT_FALSE(launched->has_value());
}

TEST_F(Launch, AMissingVariableIsNamed) {
  ::setenv("HOCKET_RANK", "0", 1);
  expect_refused("HOCKET_SIZE is not set");
  ::setenv("HOCKET_SIZE", "2", 1);
  expect_refused("HOCKET_RUN_FD is not set");
  ::unsetenv("HOCKET_RANK");
  expect_refused("HOCKET_RANK is not set");
}

TEST_F(Launch, BadNumbersAreNamedWithTheirRange) {
  for (const char* size : {"0", "-1", "two", "4097", "99999999999", "2x", " 2"}) {
    set("0", size, "3");
    expect_refused("HOCKET_SIZE='" + std::string(size) + "'");
  }
  for (const char* rank : {"2", "-1", "1.0", "0x1"}) {
    set(rank, "2", "3");
    expect_refused("HOCKET_RANK='" + std::string(rank) + "' is no number from 0 to 1");
  }
  for (const char* fd : {"2", "-1", "a"}) {
    set("0", "2", fd);
    expect_refused("HOCKET_RUN_FD='" + std::string(fd) + "'");
  }
}

// Sets variables and asks who this is.
struct Variable {
  const char* name;
  const char* value;
};
Result<std::optional<LaunchedRank>> with(std::initializer_list<Variable> variables, const Settings& settings = {}) {
  for (const Variable& v : variables) ::setenv(v.name, v.value, 1);
  return launched_from_environment(settings);
}
void expect_rank(const Result<std::optional<LaunchedRank>>& launched, Rank rank, int size, int local_rank,
                 std::string_view launcher) {
  ASSERT_TRUE(launched.ok()) << launched.status().to_string();
  ASSERT_TRUE(launched->has_value());
  EXPECT_EQ((*launched)->rank, rank);
  EXPECT_EQ((*launched)->size, size);
  EXPECT_EQ((*launched)->local_rank, local_rank);
  EXPECT_EQ((*launched)->launcher, launcher);
  EXPECT_TRUE((*launched)->exchange);
}

TEST_F(Launch, TorchrunsVariablesAreARank) {
  expect_rank(with({{"RANK", "5"},
                    {"WORLD_SIZE", "8"},
                    {"LOCAL_RANK", "1"},
                    {"MASTER_ADDR", "node1"},
                    {"MASTER_PORT", "29500"}}),
              5, 8, 1, "torchrun's variables");
  ::unsetenv("MASTER_PORT");
  expect_refused("MASTER_PORT is not set");
  ::setenv("HOCKET_PORT", "40000", 1);
  expect_rank(launched_from_environment(), 5, 8, 1, "torchrun's variables");
  ::unsetenv("MASTER_ADDR");
  expect_refused("MASTER_ADDR is not set");
  ::setenv("RANK", "8", 1);
  expect_refused("RANK='8' is no number from 0 to 7");
  ::unsetenv("WORLD_SIZE");  // RANK alone may mean anything
  EXPECT_FALSE(launched_from_environment()->has_value());
}

TEST_F(Launch, AKubernetesIndexIsTheRank) {
  EXPECT_FALSE(with({{"JOB_COMPLETION_INDEX", "2"}})->has_value());  // of a job that is no job of hocket's
  expect_rank(with({{"HOCKET_SIZE", "4"}, {"HOCKET_ROOT", "hocket-0.hocket-ranks"}}), 2, 4, 0, "a Kubernetes Job");
  ::setenv("JOB_COMPLETION_INDEX", "4", 1);
  expect_refused("JOB_COMPLETION_INDEX='4'");
}

TEST_F(Launch, WaysToMeetExcludeEachOther) {
  const std::string id = UniqueId::create()->to_string();
  expect_rank(with({{"HOCKET_RANK", "1"}, {"HOCKET_SIZE", "2"}, {"HOCKET_UNIQUE_ID", id.c_str()}}), 1, 2, 0,
              "HOCKET_UNIQUE_ID");
  ::setenv("HOCKET_ROOT", "node1", 1);
  expect_refused("HOCKET_UNIQUE_ID and HOCKET_ROOT are set");
  ::unsetenv("HOCKET_ROOT");
  ::setenv("HOCKET_UNIQUE_ID", id.substr(1).c_str(), 1);
  expect_refused("HOCKET_UNIQUE_ID: an id has 256 hexadecimal digits");
  EXPECT_EQ(launched_from_environment().status().text().find(id.substr(100, 20)), std::string_view::npos)
      << "an error must not show the secret";
}

TEST_F(Launch, TheInnerLauncherCounts) {
  // torchrun in a task of Slurm: its workers are the ranks.
  expect_rank(with({{"RANK", "5"},
                    {"WORLD_SIZE", "8"},
                    {"MASTER_ADDR", "node1"},
                    {"MASTER_PORT", "29500"},
                    {"SLURM_PROCID", "1"},
                    {"SLURM_STEP_NUM_TASKS", "2"},
                    {"PMIX_NAMESPACE", "x"},
                    {"PMIX_RANK", "1"}}),
              5, 8, 5, "torchrun's variables");
}

TEST_F(Launch, SlurmAloneSaysWhatIsMissing) {
  const auto launched = with({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  ASSERT_EQ(launched.status().code(), Code::kUnsupported);
  for (const std::string_view part : {"--mpi=pmix", "--mpi=pmi2", "HOCKET_RENDEZVOUS", "task 1 of 2"})
    EXPECT_NE(launched.status().text().find(part), std::string_view::npos) << launched.status().text();
  ::setenv("SLURM_STEP_NUM_TASKS", "1", 1);
  ::setenv("SLURM_PROCID", "0", 1);
  EXPECT_FALSE(launched_from_environment()->has_value());
}

TEST_F(Launch, PmiNamesWhatIsWrong) {
  ::setenv("PMI_FD", "987654", 1);
  expect_refused("PMI_SIZE is not set");
  ::setenv("PMI_SIZE", "2", 1);
  ::setenv("PMI_RANK", "2", 1);
  expect_refused("PMI_RANK='2'");
  ::setenv("PMI_RANK", "1", 1);
  expect_refused("PMI_FD=987654: no such descriptor is open");
}

TEST_F(Launch, AStaleFileIsNotTaken) {
  char directory[] = "/tmp/hocket-launch-XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  const std::string path = std::string(directory) + "/id", id = UniqueId::create()->to_string();
  const auto write = [&](const std::string& text, mode_t mode = 0600) {
    ::unlink(path.c_str());
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, mode));
    ASSERT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::fchmod(file.get(), mode);
  };
  int attempt = 0;
  const auto join = [&](std::string_view part) {
    // Each attempt is a rank of its own: a meeting is kept for the process.
    const std::string rank = std::to_string(++attempt);
    auto me = with({{"HOCKET_RENDEZVOUS", path.c_str()}, {"HOCKET_SIZE", "16"}, {"HOCKET_RANK", rank.c_str()}},
                   patient_for(std::chrono::milliseconds(50)));
    ASSERT_TRUE(me.ok()) << me.status().to_string();
    std::string all(16, ' ');
    const Status status = exchange(**me, "x", all);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.text().find(part), std::string_view::npos) << status.to_string();
  };
  join("it is not there");
  write("hocket rendezvous 1\njob other\nsize 16\nid " + id + "\n");
  join("is of another job (job other size 16");
  write("hocket rendezvous 1\njob \nsize 8\nid " + id + "\n");
  join("is of another job (job  size 8");
  write("hocket rendezvous 1\njob \nsize 16\nid " + id + "\n", 0644);
  join("readable by nobody else");
  write("something else");
  join("is no rendezvous file");
  write("hocket rendezvous 1\njob \nsize 16\nid 00\n");
  join("an id has 256 hexadecimal digits");
  write("hocket rendezvous 1\njob \nsize 16\nid " + id + "\n");
  const timespec old[2] = {{::time(nullptr) - 3600, 0}, {::time(nullptr) - 3600, 0}};
  ::utimensat(AT_FDCWD, path.c_str(), old, 0);
  join("older than this process");
  ::unlink(path.c_str());
  ::rmdir(directory);
  ::setenv("HOCKET_RENDEZVOUS", "id", 1);
  expect_refused("must begin with /");
}

TEST_F(Launch, ADescriptorThatIsClosedOrNoSocketIsRefusedAndLeftAlone) {
  set("0", "2", "987654");
  expect_refused("HOCKET_RUN_FD=987654: no such descriptor is open");
  UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  set("0", "2", std::to_string(file.get()));
  expect_refused("no Unix stream socket");
  EXPECT_GE(::fcntl(file.get(), F_GETFD), 0);
  UniqueFd datagrams(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  set("0", "2", std::to_string(datagrams.get()));
  expect_refused("no Unix stream socket");
  EXPECT_GE(::fcntl(datagrams.get(), F_GETFD), 0);
}

TEST_F(Launch, TheAnswerIsWhatTheLauncherSaysOnceMore) {
  const UniqueFd launcher = launch(2);
  auto me = launched_from_environment();
  ASSERT_TRUE(me.ok());
  std::thread serving([&] {
    for (std::uint64_t i = 0; i < 3; ++i) {
      const LaunchHeader header = read_request(launcher, 3);
      EXPECT_EQ(header.sequence, i);
      EXPECT_EQ(header.bytes, 3u);
      answer(launcher, header, "abcdef");
    }
  });
  for (int i = 0; i < 3; ++i) {
    std::string all(6, ' ');
    EXPECT_TRUE(exchange(**me, "abc", all).ok());
    EXPECT_EQ(all, "abcdef");
  }
  serving.join();
}

TEST_F(Launch, RoomForTheWrongNumberOfRanksIsRefused) {
  const UniqueFd launcher = launch(2);
  auto me = launched_from_environment();
  ASSERT_TRUE(me.ok());
  std::string all(5, ' ');
  EXPECT_EQ(exchange(**me, "abc", all).code(), Code::kInvalidArgument);
}

TEST_F(Launch, AnErrorOfTheLauncherArrivesWithItsCodeAndTextAndTheNextExchangeWorks) {
  const UniqueFd launcher = launch(1);
  auto me = launched_from_environment();
  ASSERT_TRUE(me.ok());
  std::thread serving([&] {
    LaunchHeader header = read_request(launcher, 1);
    header.code = static_cast<std::uint32_t>(Code::kPeerLost);
    answer(launcher, header, "rank 7 is gone");
    answer(launcher, read_request(launcher, 1), "y");
  });
  std::string all(1, ' ');
  const Status lost = exchange(**me, "x", all);
  EXPECT_EQ(lost.code(), Code::kPeerLost);
  EXPECT_EQ(lost.text(), "rank 7 is gone");
  EXPECT_TRUE(exchange(**me, "x", all).ok());
  EXPECT_EQ(all, "y");
  serving.join();
}

TEST_F(Launch, TheDeathOfTheLauncherEndsThisExchangeAndAllThatFollow) {
  UniqueFd launcher = launch(1);
  auto me = launched_from_environment();
  ASSERT_TRUE(me.ok());
  launcher.reset();
  std::string all(1, ' ');
  EXPECT_EQ(exchange(**me, "x", all).code(), Code::kPeerLost);
  EXPECT_EQ(exchange(**me, "x", all).code(), Code::kPeerLost);
}

TEST_F(Launch, TheStartTimeoutEndsAnExchangeAndTheConnection) {
  const UniqueFd launcher = launch(2);
  auto me = launched_from_environment(patient_for(std::chrono::milliseconds(1)));
  ASSERT_TRUE(me.ok());
  std::string all(2, ' ');
  const Status late = exchange(**me, "x", all);
  EXPECT_EQ(late.code(), Code::kTimeout);
  EXPECT_NE(late.text().find("exchange 0"), std::string_view::npos);
  EXPECT_EQ(exchange(**me, "x", all).code(), Code::kTimeout);
}

TEST_F(Launch, AnswersThatDoNotFitAreRefused) {
  const auto wrong = [](auto change, std::string_view part) {
    const UniqueFd launcher = launch(1);
    auto me = launched_from_environment();
    ASSERT_TRUE(me.ok());
    std::thread serving([&] {
      LaunchHeader header = read_request(launcher, 1);
      change(header);
      ::send(launcher.get(), &header, sizeof header, MSG_NOSIGNAL);
    });
    std::string all(1, ' ');
    const Status status = exchange(**me, "x", all);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.text().find(part), std::string_view::npos) << status.text();
    serving.join();
  };
  wrong([](LaunchHeader& h) { h.magic = 1; }, "magic 0x1");
  wrong([](LaunchHeader& h) { h.version = 9; }, "version 9");
  wrong([](LaunchHeader& h) { h.sequence = 5; }, "exchange 5");
  wrong([](LaunchHeader& h) { h.bytes = 2; }, "2 bytes instead of 1");
  wrong([](LaunchHeader& h) { h.code = 1, h.bytes = ~std::uint64_t{0}; }, "announces an error");
}

}  // namespace
}  // namespace hocket
