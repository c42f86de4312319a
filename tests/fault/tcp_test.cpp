// SPDX-License-Identifier: Apache-2.0
// tcp_test.cpp: strangers, liars, killed peers and cut links at the sockets of the tcp transport.
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <random>

#include "base/os/handshake.hpp"
#include "base/os/socket.hpp"
#include "core/communicator_state.hpp"
#include "core/engine.hpp"
#include "support/faults.hpp"
#include "support/processes.hpp"
#include "support/ranks.hpp"
#include "transport/tcp_endpoint.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::RankContext;

os::WaitLimits patient() {
  return {.deadline = os::Deadline::after(60s), .abort = nullptr};
}

std::shared_ptr<EngineCore> tcp_engine() {
  EngineOptions options;
  options.settings.transport = "tcp";
  options.arena_bytes = std::uint64_t{1} << 30;
  return EngineCore::create(std::move(options)).value();
}

/// A connection to an engine's port that says nothing yet. It blocks.
os::UniqueFd stranger(const EngineCore& engine) {
  const NetworkAddresses& network = engine.address().network;
  const os::NetAddress address{.bytes = network.ips[0], .scope = network.scopes[0], .port = network.port};
  const os::SocketAddress name = os::to_socket_address(address);
  os::UniqueFd fd(::socket(name.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(fd.get(), name.get(), name.length), 0) << std::strerror(errno);
  return fd;
}

/// Connects two engines, and checks that words get through.
void expect_that_peers_connect(EngineCore& a, EngineCore& b) {
  const std::string_view names[] = {"local", "shm", "tcp"};
  const AllowList allowed = AllowList::parse("tcp", names).value();
  Result<std::shared_ptr<Endpoint>> from_b = Status(Code::kInternal, "not tried");
  std::thread thread([&] { from_b = b.connect(a.address(), allowed, patient(), nullptr); });
  const auto from_a = a.connect(b.address(), allowed, patient(), nullptr);
  thread.join();
  ASSERT_TRUE(from_a.ok()) << from_a.status().to_string();
  ASSERT_TRUE(from_b.ok()) << from_b.status().to_string();
  ASSERT_EQ((*from_a)->transport(), "tcp");
  const std::uint64_t place = b.arena().reserve(4096, 4096).value();
  ASSERT_TRUE(b.arena().commit(place, 4096).ok());
  const std::uint64_t word = 77;
  ASSERT_TRUE((*from_a)->signal({{}, std::as_bytes(std::span(&word, 1)), place + 64, place}).ok());
  ASSERT_TRUE((*from_a)->progress().ok());
  // Nobody drives b's side: its thread does.
  auto& there = *reinterpret_cast<std::uint64_t*>(b.arena().base() + place + 64);
  EXPECT_TRUE(eventually([&] { return std::atomic_ref(there).load(std::memory_order_acquire) == 77; }));
  // And it answers for it.
  std::uint64_t seen = 0;
  const Status got = (*from_a)->get(place + 64, std::as_writable_bytes(std::span(&seen, 1)), patient());
  EXPECT_TRUE(got.ok()) << got.to_string();
  EXPECT_EQ(seen, 77u);
  // Memory that nobody has reserved is nobody's to read.
  EXPECT_EQ((*from_a)->get(b.arena().bytes() - 8, std::as_writable_bytes(std::span(&seen, 1)), patient()).code(),
            Code::kInvalidArgument);
  EXPECT_EQ((*from_a)->get(b.arena().bytes() - 4, std::as_writable_bytes(std::span(&seen, 1)), patient()).code(),
            Code::kInvalidArgument);
}

TEST(TcpPort, RandomBytesAreDropped) {
  const auto a = tcp_engine(), b = tcp_engine();
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) {
    const os::UniqueFd fd = stranger(*a);
    std::vector<std::byte> bytes(random() % 600);
    for (std::byte& x : bytes) x = static_cast<std::byte>(random());
    // Some begin as a peer would.
    const std::uint64_t magic = os::Hello::kMagic;
    if (i % 3 == 0 && bytes.size() >= sizeof magic) std::memcpy(bytes.data(), &magic, sizeof magic);
    (void)::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  expect_that_peers_connect(*a, *b);
}

TEST(TcpPort, AThousandStrangersWhoSayNothingKeepNobodyOut) {
  const auto a = tcp_engine(), b = tcp_engine();
  std::vector<os::UniqueFd> strangers;
  for (int i = 0; i < 1000; ++i) strangers.push_back(stranger(*a));
  expect_that_peers_connect(*a, *b);
}

/// Proves to know the secret, as a peer with this token, and gets as far as a connection.
os::UniqueFd liar(const EngineCore& engine, const ProcessToken& token) {
  os::UniqueFd fd = stranger(engine);
  const NetworkAddresses& network = engine.address().network;
  const Secret secret = Secret::of_text({reinterpret_cast<const char*>(network.secret.data()), network.secret.size()});
  const os::Hello mine = os::make_hello(0x68747031, token.high, -1).value();
  EXPECT_TRUE(os::shake_hands(fd.get(), os::Handshake::Role::kConnect, mine, secret, patient()).ok());
  tcp::StreamHello hello;
  hello.streams = 1;
  hello.from = token;
  hello.to = engine.address().token;
  hello.connection = token.low;
  hello.arena_bytes = std::uint64_t{1} << 30;
  hello.pid = 1;
  EXPECT_EQ(::send(fd.get(), &hello, sizeof hello, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof hello));
  tcp::FrameHeader start;
  EXPECT_EQ(::recv(fd.get(), &start, sizeof start, MSG_WAITALL), static_cast<ssize_t>(sizeof start));
  return fd;
}

TEST(TcpPort, APeerThatSendsNonsenseIsLostWithAReason) {
  const auto a = tcp_engine(), b = tcp_engine();
  std::mutex mutex;
  std::map<std::uint64_t, Status> lost;
  const std::uint64_t subscription = a->subscribe([&](const ProcessToken& token, const Status& why) {
    const std::scoped_lock lock(mutex);
    lost.insert_or_assign(token.low, why);
  });
  const std::uint64_t far = a->arena().bytes();
  const tcp::FrameHeader nonsense[] = {
      {.kind = 99},
      {.kind = 1, .bytes = 8, .offset = far - 7},
      {.kind = 1, .bytes = 8, .offset = ~std::uint64_t{0} - 3},
      {.kind = 2, .bytes = 8, .offset = far, .place = 4096},
      {.kind = 2, .bytes = 8, .offset = 4096 + 4, .place = 4096},
      {.kind = 2, .bytes = 8, .offset = 4096, .place = far},
      {.kind = 2, .bytes = 4, .offset = 4096, .place = 4096},
      {.kind = 2, .bytes = 65, .offset = 4096, .place = 4096},
      {.kind = 3, .bytes = 100},
      {.kind = 4, .bytes = 1u << 30},
      {.kind = 5, .bytes = 1},
  };
  std::uint64_t number = 0;
  for (const tcp::FrameHeader& header : nonsense) {
    const ProcessToken token{~std::uint64_t{0}, ++number};
    const os::UniqueFd fd = liar(*a, token);
    std::array<std::byte, 256> frame{};
    std::memcpy(frame.data(), &header, sizeof header);
    (void)::send(fd.get(), frame.data(), frame.size(), MSG_NOSIGNAL);
    EXPECT_TRUE(eventually([&] {
      const std::scoped_lock lock(mutex);
      return lost.contains(number);
    })) << number;
    const std::scoped_lock lock(mutex);
    EXPECT_EQ(lost[number].code(), Code::kPeerLost);
    EXPECT_NE(lost[number].text().find("reached by"), std::string_view::npos) << lost[number].to_string();
  }
  // What it may ask, but not have: the header of the arena, and memory that is not in use. Bytes for it vanish.
  const os::UniqueFd fd = liar(*a, {~std::uint64_t{0}, 1000});
  const ArenaHeader& header = a->arena().header();
  tcp::FrameHeader put{.kind = 1, .bytes = 64};
  std::array<std::byte, 64> ones;
  ones.fill(std::byte{0xff});
  (void)::send(fd.get(), &put, sizeof put, MSG_NOSIGNAL);
  (void)::send(fd.get(), ones.data(), ones.size(), MSG_NOSIGNAL);
  tcp::FrameHeader get{.kind = 3};
  get.place = 5;
  get.length = 64;
  (void)::send(fd.get(), &get, sizeof get, MSG_NOSIGNAL);
  tcp::FrameHeader answer;
  ASSERT_EQ(::recv(fd.get(), &answer, sizeof answer, MSG_WAITALL), static_cast<ssize_t>(sizeof answer));
  EXPECT_EQ(answer.kind, 4);
  EXPECT_EQ(answer.length, 1u) << "refused";
  EXPECT_EQ(header.magic, kArenaMagic);
  a->unsubscribe(subscription);
  expect_that_peers_connect(*a, *b);
}

Settings tcp_settings() {
  Settings settings;
  settings.transport = "tcp";
  settings.timeout = 20s;
  return settings;
}

TEST(TcpLink, AConnectionThatIsCutEndsTheCallOnBothSidesWithItsAddresses) {
  test::run_ranks(2, test::Wire::kTcp, {}, [](Communicator& comm) {
    std::uint64_t wrong = 0;
    Status status;
    for (std::uint64_t k = 0; k < 5000 && status.ok(); ++k) {
      if (k == 40 && comm.rank() == 1) {
        const auto& endpoint = comm.state()->channels->peer(0).endpoint;
        ::shutdown(dynamic_cast<tcp::TcpEndpoint&>(*endpoint).fd(0), SHUT_RDWR);
      }
      status = test::mixed_call(comm, k, &wrong, 200'000);
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(status.code(), Code::kPeerLost) << status.to_string();
    EXPECT_NE(status.text().find("reached by"), std::string_view::npos) << status.to_string();
    EXPECT_EQ(comm.async_error().code(), Code::kPeerLost);
  });
}

#if !HOCKET_TEST_TSAN  // it knows nothing of what other processes do
TEST(TcpLink, AKilledPeerIsLostInTheCallThatRunsAndBetweenCalls) {
  for (const bool in_a_call : {true, false}) {
    SCOPED_TRACE(in_a_call);
    const auto codes = test::run_processes(2, [&](const RankContext& context) {
      EngineOptions options;
      options.settings = tcp_settings();
      auto engine = EngineCore::create(std::move(options)).value();
      auto comm = Communicator::create(context.rank, 2, test::exchange_of(context), tcp_settings(), engine);
      if (!comm.ok()) return 1;
      if (comm->state()->channels->peer(1 - context.rank).endpoint->transport() != "tcp") return 2;
      std::uint64_t wrong = 0;
      for (std::uint64_t k = 0; k < 20; ++k)
        if (!test::mixed_call(*comm, k, &wrong).ok()) return 3;
      if (!context.barrier()) return 7;  // the other may still be in its last call
      if (context.rank == 1) ::kill(::getpid(), SIGKILL);
      if (in_a_call) {
        Status status;
        for (std::uint64_t k = 20; k < 40 && status.ok(); ++k) status = test::mixed_call(*comm, k, &wrong);
        if (status.code() != Code::kPeerLost) {
          std::fprintf(stderr, "%s\n", status.to_string().c_str());
          return 4;
        }
      }
      if (!eventually([&] { return comm->async_error().code() == Code::kPeerLost; })) return 5;
      return wrong == 0 ? 0 : 6;
    });
    EXPECT_EQ(codes[0], 0);
    EXPECT_NE(codes[1], 0);
  }
}

TEST(TcpLink, APeerThatStandsStillIsNotLost) {
  const auto codes = test::run_processes(2, [&](const RankContext& context) {
    const auto pids = context.gather(::getpid());
    Settings settings = tcp_settings();
    settings.link_timeout = 1s;
    EngineOptions options;
    options.settings = settings;
    auto engine = EngineCore::create(std::move(options)).value();
    auto comm = Communicator::create(context.rank, 2, test::exchange_of(context), settings, engine);
    if (!comm.ok()) return 1;
    std::uint64_t wrong = 0;
    std::thread waker;
    for (std::uint64_t k = 0; k < 24; ++k) {
      if (k == 8 && context.rank == 0) {
        ::kill(pids[1], SIGSTOP);
        waker = std::thread([pid = pids[1]] {
          std::this_thread::sleep_for(4s);
          ::kill(pid, SIGCONT);
        });
      }
      // Much more than the sockets hold, so that the one who stands still has no room.
      if (const Status status = test::mixed_call(*comm, k, &wrong, 4'000'000); !status.ok()) {
        std::fprintf(stderr, "%s\n", status.to_string().c_str());
        if (waker.joinable()) waker.join();
        return 2;
      }
    }
    if (waker.joinable()) waker.join();
    return wrong == 0 ? 0 : 3;
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0}));
}

/// Loopback of this network namespace.
bool set_loopback(bool up) {
  const os::UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = static_cast<short>(up ? IFF_UP | IFF_RUNNING : 0);
  return ::ioctl(fd.get(), SIOCSIFFLAGS, &request) == 0;
}

TEST(TcpLink, ALinkThatCarriesNothingAnyMoreIsALostPeer) {
  const auto codes = test::run_processes(1, [&](const RankContext&) {
    // A network of its own, that can be taken down.
    if (::unshare(CLONE_NEWNET) < 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) return 77;
    if (!set_loopback(true)) return 77;
    Settings settings;
    settings.link_timeout = 1s;
    std::atomic<int> lost{0};
    test::run_ranks(2, test::Wire::kTcp, settings, [&](Communicator& comm) {
      std::uint64_t wrong = 0;
      Status status;
      for (std::uint64_t k = 0; k < 100'000 && status.ok(); ++k) {
        if (k == 40 && comm.rank() == 1) {
          EXPECT_TRUE(set_loopback(false));
        }
        status = test::mixed_call(comm, k, &wrong);
      }
      lost += status.code() == Code::kPeerLost && wrong == 0;
    });
    return lost == 2 && !testing::Test::HasFailure() ? 0 : 1;
  });
  if (codes[0] == 77) GTEST_SKIP() << "no network namespace can be made here (no right to)";
  EXPECT_EQ(codes[0], 0);
}
#endif

}  // namespace
}  // namespace hocket
