// SPDX-License-Identifier: Apache-2.0
// Malformed launch variables are refused by name, and the connection breaks in an orderly way. What a launcher does is
// in tests/multiprocess/run_test.cpp.
#include "core/launch.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "base/os/unique_fd.hpp"

namespace hocket {
namespace {

using os::UniqueFd;

class Launch : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : {"HOCKET_RANK", "HOCKET_SIZE", "HOCKET_LOCAL_RANK", "HOCKET_RUN_FD"}) ::unsetenv(name);
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
  auto me = launched_from_environment(std::chrono::milliseconds(1));
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
