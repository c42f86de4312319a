// SPDX-License-Identifier: Apache-2.0
// bootstrap_test.cpp: ranks that share only a unique id meet, in memory, over Unix sockets and over TCP between
// simulated hosts (HOCKET_HOST_ID); and what each is told when they do not.
#include "core/bootstrap/bootstrap.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "base/format.hpp"
#include "base/os/net_socket.hpp"
#include "base/os/socket.hpp"
#include "core/bootstrap/root_address.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

Settings on_host(std::string host, std::chrono::nanoseconds timeout = 60s) {
  Settings settings;
  settings.host_id = std::move(host);
  settings.start_timeout = timeout;
  return settings;
}

// A number that depends on rank, exchange and place.
std::uint64_t value(Rank rank, int exchange, std::size_t i) {
  return (static_cast<std::uint64_t>(rank) * 1000003 + static_cast<std::uint64_t>(exchange) * 10007 + i) *
         0x9e3779b97f4a7c15u;
}

// Exchanges `count` numbers a rank and checks all.
Status checked_exchange(Bootstrap& bootstrap, int size, int exchange, std::size_t count) {
  std::vector<std::uint64_t> mine(count), all(count * static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < count; ++i) mine[i] = value(bootstrap.rank(), exchange, i);
  if (Status status = bootstrap.exchange(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
      !status.ok())
    return status;
  for (Rank r = 0; r < size; ++r)
    for (std::size_t i = 0; i < count; ++i)
      if (all[static_cast<std::size_t>(r) * count + i] != value(r, exchange, i))
        return Status(Code::kInternal, format("rank {} got a wrong number of rank {}", bootstrap.rank(), r));
  return {};
}

struct Outcome {
  Status status = Status(Code::kInternal, "not run");
  BootstrapCounters counters;
};

// All of `ranks` meet as threads, in this order, each on hosts[rank], and exchange three times.
std::vector<Outcome> meet(std::span<const UniqueId> roots, int size, std::span<const Rank> ranks,
                          const std::vector<std::string>& hosts, std::chrono::nanoseconds timeout = 60s) {
  std::vector<Outcome> outcomes(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      const Rank rank = ranks[i];
      Outcome& outcome = outcomes[i];
      auto bootstrap = Bootstrap::join(roots, rank, size, on_host(hosts[static_cast<std::size_t>(rank)], timeout));
      outcome.status = bootstrap.status();
      int exchange = 0;
      for (const std::size_t count : {1u, 16u, 0u}) {
        if (outcome.status.ok()) outcome.status = checked_exchange(**bootstrap, size, exchange++, count);
      }
      if (bootstrap.ok()) outcome.counters = (*bootstrap)->counters();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

UniqueId new_id() {
  auto id = UniqueId::create();
  EXPECT_TRUE(id.ok()) << id.status().to_string();
  return *id;
}

std::vector<Rank> all_ranks(int size) {
  std::vector<Rank> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void expect_all_ok(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) ASSERT_TRUE(outcome.status.ok()) << outcome.status.to_string();
}

TEST(UniqueId, TextGoesBothWays) {
  const UniqueId id = new_id();
  const std::string text = id.to_string();
  EXPECT_EQ(text.size(), 256u);
  EXPECT_EQ(*UniqueId::from_string("  " + text + "\n"), id);
  for (std::string wrong : {std::string(), text.substr(1), text + "0", std::string(256, 'x'), std::string(256, '0')})
    EXPECT_FALSE(UniqueId::from_string(wrong).ok());
  for (std::size_t i = 0; i < text.size(); i += 5) {  // one digit is typed wrongly
    std::string wrong = text;
    wrong[i] = wrong[i] == '0' ? '1' : '0';
    EXPECT_FALSE(UniqueId::from_string(wrong).ok()) << i;
  }
}

TEST(Bootstrap, AWorldOfOneMeets) {
  const UniqueId id = new_id();
  expect_all_ok(meet(std::span(&id, 1), 1, all_ranks(1), {"a"}));
}

TEST(Bootstrap, PartitionsOfRanksOverHostsInAnyOrder) {
  std::mt19937 random(3);
  for (int k = 0; k < 13; ++k) {
    const int size = 2 + static_cast<int>(random() % 15), hosts = 1 + static_cast<int>(random() % 4);
    std::vector<std::string> host(static_cast<std::size_t>(size));
    std::string description;
    for (auto& name : host) {
      name = std::string(1, static_cast<char>('a' + random() % static_cast<unsigned>(hosts)));
      description += name;
    }
    std::vector<Rank> ranks = all_ranks(size);
    std::shuffle(ranks.begin(), ranks.end(), random);
    SCOPED_TRACE(format("partition {}: ranks 0 to {} on hosts {}", k, size - 1, description));
    const UniqueId id = new_id();
    expect_all_ok(meet(std::span(&id, 1), size, ranks, host));
  }
}

TEST(Bootstrap, SeveralRootsShareTheHosts) {
  for (const int roots : {2, 3}) {
    std::vector<UniqueId> ids;
    for (int i = 0; i < roots; ++i) ids.push_back(new_id());
    std::vector<std::string> host;
    for (int r = 0; r < 12; ++r) host.push_back(format("h{}", r / 2));
    expect_all_ok(meet(ids, 12, all_ranks(12), host));
  }
}

TEST(Bootstrap, SeveralRootsNameWhoIsMissing) {
  const std::vector<UniqueId> ids = {new_id(), new_id()};
  const std::vector<Rank> ranks = {0, 1, 3};
  for (const Outcome& outcome : meet(ids, 4, ranks, {"a", "b", "c", "d"}, 300ms)) {
    EXPECT_EQ(outcome.status.code(), Code::kTimeout);
    EXPECT_NE(outcome.status.text().find("rank 2 of 4 has not come"), std::string_view::npos)
        << outcome.status.to_string();
  }
}

TEST(Bootstrap, ThousandRanksOn128HostsTakeLogRounds) {
#ifdef __SANITIZE_THREAD__
  constexpr int kSize = 256, kHosts = 128;  // each of its threads costs more than ten others
#else
  constexpr int kSize = 1024, kHosts = 128;
#endif
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  constexpr rlim_t kNeeded = 8192;  // both ends of all connections are in this one process
  if (limit.rlim_cur < kNeeded) GTEST_SKIP() << "needs " << kNeeded << " descriptors, ulimit -Hn is " << limit.rlim_max;
  std::vector<std::string> host;
  for (Rank r = 0; r < kSize; ++r) host.push_back(format("host{}", r % kHosts));
  std::vector<Rank> ranks = all_ranks(kSize);
  std::shuffle(ranks.begin(), ranks.end(), std::mt19937(1));
  const UniqueId id = new_id();
  const auto begin = std::chrono::steady_clock::now();
  const auto outcomes = meet(std::span(&id, 1), kSize, ranks, host);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  expect_all_ok(outcomes);
  BootstrapCounters most;
  for (const Outcome& outcome : outcomes) {
    const BootstrapCounters& c = outcome.counters;
    most.hosts = std::max(most.hosts, c.hosts);
    most.rounds = std::max(most.rounds, c.rounds);
    most.exchanges = std::max(most.exchanges, c.exchanges);
    most.frames.messages_sent = std::max(most.frames.messages_sent, c.frames.messages_sent);
    most.frames.messages_received = std::max(most.frames.messages_received, c.frames.messages_received);
    most.frames.bytes_sent = std::max(most.frames.bytes_sent, c.frames.bytes_sent);
    most.frames.bytes_received = std::max(most.frames.bytes_received, c.frames.bytes_received);
  }
  std::printf("%d ranks on %d hosts met and exchanged 3 times in %.2f s; most of a process: %s\n", kSize, kHosts,
              seconds.count(), most.to_text().c_str());
  // Three all-gathers and the one of ranks, 7 rounds each; one message a round and side, and a few with the root.
  EXPECT_EQ(most.hosts, kHosts);
  EXPECT_EQ(most.rounds, 4 * 7);
  EXPECT_LE(most.frames.messages_sent, 4u * 7 + 7 + 10);
  EXPECT_LE(most.frames.messages_received, 4u * 7 + 7 + 2);
  // Each result passes once, plus what says whose it is: 8 + 128 + 0 bytes a rank, and its number.
  EXPECT_LE(most.frames.bytes_sent, std::uint64_t{kSize} * (8 + 128 + 4) + kHosts * 4 * 32 + 16384);
}

TEST(Bootstrap, ProcessesOfAHostMeetOverAUnixSocket) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer starts no threads in children of a process that has some";
#endif
  const UniqueId id = new_id();
  constexpr int kSize = 6;
  std::vector<pid_t> children;
  for (Rank rank = 0; rank < kSize; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto bootstrap = Bootstrap::join(std::span(&id, 1), rank, kSize, on_host(rank < 4 ? "a" : "b"));
      Status status = bootstrap.status();
      for (int k = 0; k < 3 && status.ok(); ++k) status = checked_exchange(**bootstrap, kSize, k, 100);
      if (!status.ok()) std::fprintf(stderr, "rank %d: %s\n", rank, status.to_string().c_str());
      if (bootstrap.ok()) bootstrap->reset();
      ::_exit(status.ok() ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
}

TEST(Bootstrap, AProcessThatDiesIsNamedToAll) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer starts no threads in children of a process that has some";
#endif
  for (const bool before : {true, false}) {
    const UniqueId id = new_id();
    constexpr int kSize = 4;
    std::vector<pid_t> children;
    for (Rank rank = 0; rank < kSize; ++rank) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (before && rank == 2) {
          // Its socket is there, it is not.
          std::thread([] {
            std::this_thread::sleep_for(500ms);
            ::_exit(9);
          }).detach();
        }
        if (before && rank == 3) std::this_thread::sleep_for(2s);
        auto bootstrap = Bootstrap::join(std::span(&id, 1), rank, kSize, on_host(rank < 2 ? "a" : "b", 10s));
        Status status = bootstrap.status();
        if (rank == 2) ::_exit(9);
        if (status.ok()) status = checked_exchange(**bootstrap, kSize, 0, 100);
        // On a machine that is slow enough it dies before it came, and then it is missing.
        const bool right = status.code() == Code::kPeerLost || (before && !status.ok());
        if (!right) std::fprintf(stderr, "rank %d: %s\n", rank, status.to_string().c_str());
        if (bootstrap.ok()) bootstrap->reset();
        ::_exit(right ? 0 : 1);
      }
      children.push_back(pid);
    }
    for (Rank rank = 0; rank < kSize; ++rank) {
      int status = -1;
      ASSERT_EQ(::waitpid(children[static_cast<std::size_t>(rank)], &status, 0),
                children[static_cast<std::size_t>(rank)]);
      EXPECT_EQ(WEXITSTATUS(status), rank == 2 ? 9 : 0) << "rank " << rank << (before ? " before" : " after");
    }
  }
}

TEST(Bootstrap, MissingRanksAndThoseWhoCameAreNamedToAll) {
  const UniqueId id = new_id();
  const std::vector<Rank> ranks = {0, 1, 2, 4, 5, 6};
  const auto outcomes = meet(std::span(&id, 1), 8, ranks, {"a", "a", "b", "b", "b", "c", "c", "c"}, 300ms);
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.status.code(), Code::kTimeout);
    for (const std::string_view part :
         {"ranks 3, 7 of 8", "ranks 0, 1 from a", "ranks 2, 4 from b", "ranks 5, 6 from c"})
      EXPECT_NE(outcome.status.text().find(part), std::string_view::npos) << outcome.status.to_string();
  }
}

TEST(Bootstrap, ARankThatComesTwiceIsNamedWithBothPlaces) {
  for (const bool one_host : {true, false}) {
    const UniqueId id = new_id();
    std::vector<Status> results(3);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&, i] {
        const Rank rank = i == 2 ? 1 : i;
        results[static_cast<std::size_t>(i)] =
            Bootstrap::join(std::span(&id, 1), rank, 4, on_host(one_host ? "a" : format("host{}", i), 5s)).status();
      });
    for (std::thread& thread : threads) thread.join();
    int named = 0;
    for (const Status& status : results) {
      // A thread that starts after the others have failed and gone meets nobody.
      if (one_host && status.code() == Code::kTimeout) continue;
      ++named;
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.to_string();
      EXPECT_NE(status.text().find("rank 1 came twice"), std::string_view::npos) << status.to_string();
      EXPECT_NE(status.text().find(std::to_string(::getpid())), std::string_view::npos) << status.to_string();
    }
    EXPECT_GE(named, 2);
  }
}

TEST(Bootstrap, UnequalSizesNameBoth) {
  const UniqueId id = new_id();
  std::vector<Status> results(2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      results[static_cast<std::size_t>(i)] =
          Bootstrap::join(std::span(&id, 1), i, 4 + i, on_host(format("host{}", i))).status();
    });
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : results) {
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
    for (const std::string_view part : {"4", "5", "host0", "host1"})
      EXPECT_NE(status.text().find(part), std::string_view::npos) << status.to_string();
  }
}

TEST(Bootstrap, AnAbortEndsTheWaitOfAll) {
  const UniqueId id = new_id();
  auto abort = os::AbortFlag::create();
  ASSERT_TRUE(abort.ok());
  std::vector<Status> results(2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      results[static_cast<std::size_t>(i)] =
          Bootstrap::join(std::span(&id, 1), i, 3, on_host(format("host{}", i)), i == 0 ? &*abort : nullptr).status();
    });
  std::this_thread::sleep_for(100ms);
  abort->raise();
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : results) EXPECT_EQ(status.code(), Code::kAborted) << status.to_string();
}

TEST(Bootstrap, ARankThatDoesNotExchangeIsNamed) {
  const UniqueId id = new_id();
  std::vector<Status> results(3);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      auto bootstrap = Bootstrap::join(std::span(&id, 1), i, 3, on_host(i < 2 ? "a" : "b", 400ms));
      if (!bootstrap.ok()) {
        results[static_cast<std::size_t>(i)] = bootstrap.status();
        return;
      }
      if (i == 1) std::this_thread::sleep_for(1s);
      results[static_cast<std::size_t>(i)] = checked_exchange(**bootstrap, 3, 0, 4);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : results) EXPECT_EQ(status.code(), Code::kTimeout) << status.to_string();
}

TEST(Bootstrap, AnIdIsGoodForOneMeeting) {
  const UniqueId id = new_id();
  auto first = Bootstrap::join(std::span(&id, 1), 0, 1, on_host("a"));
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  const auto second = Bootstrap::join(std::span(&id, 1), 0, 1, on_host("a"));
  EXPECT_EQ(second.status().code(), Code::kInvalidArgument) << second.status().to_string();
}

TEST(Bootstrap, AnotherSecretGetsNowhereAndSaysSo) {
  const UniqueId id = new_id();
  RootAddress other = RootAddress::of(id).value();
  other.secret[0] ^= std::byte{1};
  const UniqueId wrong = other.to_id();
  const Status status = Bootstrap::join(std::span(&wrong, 1), 0, 2, on_host("a", 300ms)).status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_NE(status.text().find("secret"), std::string_view::npos) << status.to_string();
}

TEST(Bootstrap, AnUnreachableRootIsAnErrorWithAllAddresses) {
  RootAddress nowhere = RootAddress::of(new_id()).value();
  os::NetAddress closed;
  {
    const os::NetAddress any = os::parse_net_address("127.0.0.1").value();
    closed = os::NetListener::listen(std::span(&any, 1), {}).value().addresses().front();
  }
  nowhere.port = closed.port;
  nowhere.address_count = 1;
  nowhere.addresses[0] = closed.bytes;
  const UniqueId id = nowhere.to_id();
  const Status status = Bootstrap::join(std::span(&id, 1), 3, 8, on_host("a", 300ms)).status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  for (const std::string& part : {std::string("rank 3"), os::to_string(closed), std::string("Connection refused")})
    EXPECT_NE(status.text().find(part), std::string_view::npos) << status.to_string();
}

TEST(Bootstrap, StrangersDoNotKeepRanksFromMeeting) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  constexpr std::size_t kStrangers = 1000;
  if (limit.rlim_cur < 4 * kStrangers) GTEST_SKIP() << "needs 4000 descriptors, ulimit -Hn is " << limit.rlim_max;
  const UniqueId id = new_id();
  const std::vector<os::NetAddress> root = RootAddress::of(id)->net_addresses();
  std::mt19937 random(5);
  // Some say nothing, some a little, some begin as a hello does, some are random, some hang up.
  std::vector<os::UniqueFd> strangers;
  for (std::size_t i = 0; i < kStrangers; ++i) {
    const os::NetTarget way{.address = root.front(), .interface = {}, .skipped = {}};
    auto connection = os::connect_by_any(std::span(&way, 1), {}, {.deadline = os::Deadline::after(30s)});
    ASSERT_TRUE(connection.ok()) << connection.status().to_string();
    std::vector<std::byte> noise(i % 4 == 0 ? 0 : random() % 300);
    for (std::byte& b : noise) b = static_cast<std::byte>(random());
    const os::Hello hello;
    if (i % 4 == 1 && !noise.empty()) std::memcpy(noise.data(), &hello, std::min<std::size_t>(noise.size(), 12));
    (void)os::send_all(connection->fd.get(), noise, {.deadline = os::Deadline::after(10s)}, "root");
    if (i % 4 != 3) strangers.push_back(std::move(connection->fd));
  }
  expect_all_ok(meet(std::span(&id, 1), 4, all_ranks(4), {"a", "b", "b", "c"}));
}

TEST(Bootstrap, RandomFramesFromSomebodyWithTheSecretAreRefused) {
  // A peer of another build may know the secret and speak nonsense: an error, no crash.
  std::mt19937 random(11);
  for (int k = 0; k < 100; ++k) {
    const UniqueId id = new_id();
    const RootAddress root = RootAddress::of(id).value();
    const os::NetTarget way{.address = root.net_addresses().front(), .interface = {}, .skipped = {}};
    auto connection = os::connect_by_any(std::span(&way, 1), {}, {.deadline = os::Deadline::after(30s)});
    ASSERT_TRUE(connection.ok());
    ASSERT_TRUE(os::shake_hands(connection->fd.get(), os::Handshake::Role::kConnect, os::make_hello(1, 7, 0).value(),
                                Secret(root.secret), {.deadline = os::Deadline::after(30s)})
                    .ok());
    std::vector<std::byte> noise;
    for (int f = 0; f < 4; ++f) {
      FrameHeader header{static_cast<std::uint32_t>(random() % 13), static_cast<std::uint32_t>(random()), random() % 2,
                         random() % 400};
      if (k % 8 == 7) header.bytes = std::uint64_t{random()} << 20;
      const auto bytes = std::as_bytes(std::span(&header, 1));
      noise.insert(noise.end(), bytes.begin(), bytes.end());
      for (std::uint64_t i = 0; i < std::min<std::uint64_t>(header.bytes, 400); ++i)
        noise.push_back(static_cast<std::byte>(random() % 4 == 0 ? random() : 0));
    }
    (void)os::send_all(connection->fd.get(), noise, {.deadline = os::Deadline::after(10s)}, "root");
    ::shutdown(connection->fd.get(), SHUT_WR);
    std::byte sink[4096];
    while (::recv(connection->fd.get(), sink, sizeof sink, MSG_DONTWAIT) > 0) {
    }
  }
  // The process lives, and new roots work.
  const UniqueId id = new_id();
  expect_all_ok(meet(std::span(&id, 1), 2, all_ranks(2), {"a", "b"}));
}

}  // namespace
}  // namespace hocket
