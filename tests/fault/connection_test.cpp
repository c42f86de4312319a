// SPDX-License-Identifier: Apache-2.0
// connection_test.cpp: peers that die, stop, lie, send garbage or refuse; descriptors that run out; and what is left
// behind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/un.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/os/memfd.hpp"
#include "base/os/socket.hpp"
#include "core/control.hpp"
#include "core/engine.hpp"
#include "support/processes.hpp"
#include "transport/shm.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::Footprint;
using test::Processes;
using test::RankContext;

os::WaitLimits within(std::chrono::nanoseconds time) {
  return {.deadline = os::Deadline::after(time), .abort = nullptr};
}
os::WaitLimits patient() {
  return within(60s);
}

std::shared_ptr<EngineCore> new_engine(EngineOptions options = {}) {
  auto engine = EngineCore::create(std::move(options));
  EXPECT_TRUE(engine.ok()) << engine.status().to_string();
  return engine.ok() ? *engine : nullptr;
}

// What the control thread told.
class Losses {
 public:
  explicit Losses(EngineCore& engine) : engine_(engine) {
    id_ = engine.subscribe([this](const ProcessToken& token, const Status& why) {
      const std::scoped_lock lock(mutex_);
      told_.emplace_back(token, why);
    });
  }
  ~Losses() { engine_.unsubscribe(id_); }
  std::vector<std::pair<ProcessToken, Status>> told() const {
    const std::scoped_lock lock(mutex_);
    return told_;
  }
  Status of(const ProcessToken& token) const {
    for (const auto& [lost, why] : told()) {
      if (lost == token) return why;
    }
    return {};
  }

 private:
  EngineCore& engine_;
  std::uint64_t id_;
  mutable std::mutex mutex_;
  std::vector<std::pair<ProcessToken, Status>> told_;
};

// Connects two engines of this process with each other.
std::pair<Result<std::shared_ptr<Endpoint>>, Result<std::shared_ptr<Endpoint>>> connect_both(
    EngineCore& a, EngineCore& b, std::vector<TransportTrial>* of_a = nullptr,
    std::vector<TransportTrial>* of_b = nullptr) {
  Result<std::shared_ptr<Endpoint>> from_b = Status(Code::kInternal, "not tried");
  std::thread thread([&] { from_b = b.connect(a.address(), {}, patient(), of_b); });
  auto from_a = a.connect(b.address(), {}, patient(), of_a);
  thread.join();
  return {from_a, from_b};
}

// ---- In one process ----

TEST(Connection, BothSidesLearnWhyTheProofFailed) {
  for (const bool first_refuses : {true, false}) {
    EngineOptions willing;
    willing.settings.transport = "^tcp";  // which would do
    EngineOptions refusing = willing;
    refusing.refuse_shm = true;
    const auto a = new_engine(first_refuses ? refusing : willing);
    const auto b = new_engine(first_refuses ? willing : refusing);
    std::vector<TransportTrial> of_a, of_b;
    const auto [from_a, from_b] = connect_both(*a, *b, &of_a, &of_b);
    for (const auto& [result, trials] : {std::pair(from_a, of_a), std::pair(from_b, of_b)}) {
      EXPECT_EQ(result.status().code(), Code::kUnsupported) << result.status().to_string();
      EXPECT_NE(result.status().text().find("does not see the memory"), std::string_view::npos)
          << result.status().to_string();
      ASSERT_EQ(trials.size(), 3u);
      EXPECT_EQ(trials[0].transport, "local");
      EXPECT_FALSE(trials[0].reason.empty());
      EXPECT_EQ(trials[1].transport, "shm");
      EXPECT_NE(trials[1].reason.find("does not see the memory"), std::string::npos);
    }
  }
}

TEST(Connection, WhereSharedMemoryFailsTcpIsTakenAndBothSidesKnowWhy) {
  EngineOptions refusing;
  refusing.refuse_shm = true;
  const auto a = new_engine(refusing), b = new_engine();
  std::vector<TransportTrial> of_a, of_b;
  const auto [from_a, from_b] = connect_both(*a, *b, &of_a, &of_b);
  for (const auto& [result, trials] : {std::pair(from_a, of_a), std::pair(from_b, of_b)}) {
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ((*result)->transport(), "tcp");
    ASSERT_EQ(trials.size(), 3u);
    EXPECT_NE(trials[1].reason.find("does not see the memory"), std::string::npos);
    EXPECT_EQ(trials[2].transport, "tcp");
    EXPECT_EQ(trials[2].reason, "");
  }
}

TEST(Connection, AHundredCyclesLeaveNothing) {
  const auto keep = new_engine();  // so that what is made once and kept is there before
  const auto before = Footprint::now();
  for (int i = 0; i < 100; ++i) {
    const auto a = new_engine(), b = new_engine();
    const auto [from_a, from_b] = connect_both(*a, *b);
    ASSERT_TRUE(from_a.ok()) << from_a.status().to_string();
    ASSERT_TRUE(from_b.ok()) << from_b.status().to_string();
  }
  EXPECT_EQ(Footprint::now(), before);
}

TEST(Connection, AnEngineThatEndsIsLostToItsPeersAndLeavesThemNothing) {
  const auto a = new_engine();
  const auto before = Footprint::now();
  {
    Losses losses(*a);
    auto b = new_engine();
    const ProcessToken token = b->address().token;
    std::shared_ptr<Endpoint> to_b;
    {
      const auto [from_a, from_b] = connect_both(*a, *b);
      ASSERT_TRUE(from_a.ok() && from_b.ok());
      to_b = *from_a;
    }
    b.reset();
    ASSERT_TRUE(eventually([&] { return !losses.of(token).ok(); }));
    EXPECT_EQ(losses.of(token).code(), Code::kPeerLost);
    EXPECT_EQ(to_b->error().code(), Code::kPeerLost);
    const std::uint64_t word = 1;
    EXPECT_EQ(to_b->signal({{}, std::as_bytes(std::span(&word, 1)), 1 << 20, 1 << 20}).status().code(),
              Code::kPeerLost);
    Losses late(*a);
    EXPECT_EQ(late.of(token).code(), Code::kPeerLost) << "who subscribes later is told at once";
  }
  EXPECT_TRUE(eventually([&] { return Footprint::now() == before; })) << Footprint::now() << " instead of " << before;
}

TEST(Connection, ManyEnginesConnectInAnyOrder) {
  constexpr int kRanks = 6;
  const auto codes = test::run_threads(kRanks, [](const RankContext& context) {
    const auto engine = new_engine();
    const auto addresses = context.gather(engine->address());
    // By distance: every rank begins with another peer, in a circle.
    for (int d = 1; d < kRanks; ++d) {
      const auto& peer = addresses[static_cast<std::size_t>((context.rank + d) % kRanks)];
      const auto endpoint = engine->connect(peer, {}, patient(), nullptr);
      EXPECT_TRUE(endpoint.ok()) << endpoint.status().to_string();
    }
    return context.barrier() ? 0 : 1;
  });
  EXPECT_EQ(codes, std::vector<int>(kRanks, 0));
}

TEST(Connection, ThreadsThatConnectAtOnceShareOneConnection) {
  const auto a = new_engine(), b = new_engine();
  std::mutex mutex;
  std::set<std::byte*> bases;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto endpoint = i % 2 == 0 ? a->connect(b->address(), {}, patient(), nullptr)
                                       : b->connect(a->address(), {}, patient(), nullptr);
      ASSERT_TRUE(endpoint.ok()) << endpoint.status().to_string();
      const std::scoped_lock lock(mutex);
      bases.insert(endpoint.value()->base());
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(bases.size(), 2u) << "one mapping on each side";
}

TEST(Connection, AWaitEndsByItsDeadlineAndByAnAbort) {
  const auto a = new_engine(), b = new_engine();
  EngineCore& waiter = a->address().token < b->address().token ? *b : *a;  // the other one would have to connect
  const ProcessAddress& peer = &waiter == a.get() ? b->address() : a->address();
  EXPECT_EQ(waiter.connect(peer, {}, within(20ms), nullptr).status().code(), Code::kTimeout);
  os::AbortFlag abort = os::AbortFlag::create().value();
  std::thread aborter([&] { abort.raise(); });
  EXPECT_EQ(waiter.connect(peer, {}, {.deadline = os::Deadline::never(), .abort = &abort}, nullptr).status().code(),
            Code::kAborted);
  aborter.join();
  const auto [from_a, from_b] = connect_both(*a, *b);
  EXPECT_TRUE(from_a.ok() && from_b.ok()) << "later it works";
}

TEST(Connection, AnAddressFromOutsideIsChecked) {
  EngineOptions options;
  options.settings.transport = "^tcp";  // which would reach what shared memory does not
  const auto a = new_engine(options), b = new_engine(options);
  const auto outcome = [&](auto change) {
    ProcessAddress address = b->address();
    change(address);
    return a->connect(address, {}, within(1s), nullptr).status();
  };
  EXPECT_EQ(outcome([](auto& x) { x.magic = 1; }).code(), Code::kInvalidArgument);
  EXPECT_EQ(outcome([](auto& x) { x.host_name.fill('x'); }).code(), Code::kInvalidArgument);
  EXPECT_EQ(outcome([](auto& x) { x.arena_bytes = 100; }).code(), Code::kInvalidArgument);
  const Status other_host = outcome([](auto& x) { x.host[0] ^= 1; });
  EXPECT_EQ(other_host.code(), Code::kUnsupported);
  EXPECT_NE(other_host.text().find("another host"), std::string_view::npos) << other_host.to_string();
  EXPECT_EQ(outcome([](auto& x) { x.uid += 1; }).code(), Code::kUnsupported);
  EXPECT_EQ(outcome([](auto& x) { x.token.low ^= 1; }).code(), Code::kPeerLost) << "nobody listens there";
}

TEST(Connection, AListOfTransportsIsObeyed) {
  constexpr std::string_view kNames[] = {"local", "shm", "tcp"};
  const auto a = new_engine(), b = new_engine();
  const AllowList no_shm = AllowList::parse("^shm,tcp", kNames).value();
  const AllowList no_local = AllowList::parse("shm", kNames).value();
  const Status status = a->connect(b->address(), no_shm, patient(), nullptr).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.text().find("^shm"), std::string_view::npos) << status.to_string();
  // It is about other processes: a process's own memory is always there.
  EXPECT_EQ(a->connect(a->address(), no_local, patient(), nullptr).value()->base(), a->arena().base());
  EXPECT_EQ(a->connect(a->address(), no_shm, patient(), nullptr).value()->base(), a->arena().base());
}

TEST(Connection, AnIdleControlThreadDoesNotRun) {
  const auto a = new_engine(), b = new_engine();
  const auto ends = connect_both(*a, *b);
  ASSERT_TRUE(ends.first.ok() && ends.second.ok());
  const auto switches = [] {
    std::string all;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream name(entry.path() / "comm");
      std::string text;
      std::getline(name, text);
      if (text != "hocket control") continue;
      std::ifstream status(entry.path() / "status");
      for (std::string line; std::getline(status, line);) {
        if (line.find("voluntary_ctxt_switches") == 0) all += line + "\n";
      }
    }
    return all;
  };
  std::string last;
  // Settles, and then nothing happens.
  EXPECT_TRUE(eventually([&] {
    last = switches();
    std::this_thread::sleep_for(300ms);
    return !last.empty() && switches() == last;
  }));
}

// ---- Strangers at the socket ----

os::UnixSocket visit(EngineCore& engine) {
  return os::UnixSocket::connect(os::UnixAddress::abstract(abstract_socket_of(engine.address())),
                                 os::UnixSocket::IfAbsent::kFail, patient())
      .value();
}

ShmMessage hello_to(EngineCore& engine) {
  ShmMessage message{};
  message.magic = kShmMagic;
  message.version = kShmVersion;
  message.kind = static_cast<std::uint32_t>(ShmKind::kHello);
  message.from = {77, 78};
  message.to = engine.address().token;
  message.arena_bytes = std::uint64_t{1} << 20;
  message.pid = ::getpid();
  return message;
}

void send_raw(os::UnixSocket& socket, const void* data, std::size_t bytes, int fd) {
  iovec part{const_cast<void*>(data), bytes};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (fd >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* head = CMSG_FIRSTHDR(&header);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  }
  ASSERT_EQ(::sendmsg(socket.fd(), &header, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

// The engine has dropped us without a word.
bool is_dropped(os::UnixSocket& socket) {
  char byte;
  if (!os::poll_for(socket.fd(), POLLIN, patient(), "the drop").ok()) return false;
  return ::recv(socket.fd(), &byte, 1, 0) <= 0;
}

TEST(ControlSocket, GarbageIsDroppedAndStallsBlockNobody) {
  const auto a = new_engine();
  const auto before = Footprint::now();
  {
    const auto b = new_engine();
    std::vector<os::UnixSocket> silent;
    for (int i = 0; i < 40; ++i) silent.push_back(visit(*a));
    const ShmMessage hello = hello_to(*a);
    send_raw(silent[0], &hello, sizeof hello / 2, -1);  // stops in the middle
    std::vector<char> noise(sizeof hello, 'x');
    auto noisy = visit(*a);
    send_raw(noisy, noise.data(), noise.size(), -1);
    EXPECT_TRUE(is_dropped(noisy));
    for (int wrong = 0; wrong < 5; ++wrong) {
      ShmMessage message = hello;
      if (wrong == 0) message.version = 99;
      if (wrong == 1) message.kind = 3;
      if (wrong == 2) message.to.low ^= 1;
      if (wrong == 3) message.from = message.to;
      if (wrong == 4) message.failed = 200;
      auto visitor = visit(*a);
      send_raw(visitor, &message, sizeof message, -1);
      EXPECT_TRUE(is_dropped(visitor)) << "case " << wrong;
    }
    const auto ends = connect_both(*a, *b);
    EXPECT_TRUE(ends.first.ok() && ends.second.ok()) << "beside 40 that stall";
  }
  EXPECT_TRUE(eventually([&] { return Footprint::now() == before; })) << Footprint::now() << " instead of " << before;
}

TEST(ControlSocket, MemoryThatCouldShrinkOrIsTooShortIsRefusedWithTheReason) {
  const auto engine = new_engine();
  const auto reason = [&](int fd, ShmMessage message) {
    auto visitor = visit(*engine);
    send_raw(visitor, &message, sizeof message, fd);
    ShmMessage reply{};
    EXPECT_TRUE(
        os::receive_all(visitor.fd(), std::as_writable_bytes(std::span(&reply, 1)), patient(), "the engine").ok());
    EXPECT_NE(reply.failed, 0u);
    return std::string(reply.reason.data());
  };
  const os::UniqueFd open(::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open.get(), 1 << 20), 0);
  EXPECT_NE(reason(open.get(), hello_to(*engine)).find("sealed"), std::string::npos);
  const os::UniqueFd sealed = os::create_memfd("short", 1 << 16).value();
  EXPECT_NE(reason(sealed.get(), hello_to(*engine)).find("needed"), std::string::npos);
  EXPECT_NE(reason(-1, hello_to(*engine)).find("no memory"), std::string::npos);
  const os::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_NE(reason(null.get(), hello_to(*engine)), "");
  // Good memory, but without the proof, with a word that there is not, and of an impossible length.
  const os::UniqueFd good = os::create_memfd("good", 1 << 20).value();
  EXPECT_NE(reason(good.get(), hello_to(*engine)).find("does not see"), std::string::npos);
  ShmMessage message = hello_to(*engine);
  message.proof = 100000;
  EXPECT_NE(reason(good.get(), message).find("proof word"), std::string::npos);
  message = hello_to(*engine);
  message.arena_bytes = 12345;
  EXPECT_NE(reason(good.get(), message).find("not possible"), std::string::npos);
}

#if !HOCKET_TEST_TSAN  // processes: it knows nothing of what others do

// ---- Between processes ----

TEST(PeerProcess, AKilledOneIsNamedToAllItsPeers) {
  Processes ranks(3, [](const RankContext& context) {
    const auto engine = new_engine();
    const Losses losses(*engine);
    const auto all = context.gather(engine->address());
    std::vector<std::shared_ptr<Endpoint>> endpoints;
    for (int r = 0; r < 3; ++r) {
      if (r == context.rank) continue;
      auto endpoint = engine->connect(all[static_cast<std::size_t>(r)], {}, patient(), nullptr);
      if (!endpoint.ok()) return 1;
      endpoints.push_back(*endpoint);
    }
    context.barrier();  // rank 2 dies here
    if (context.rank == 2) return 2;
    if (!eventually([&] { return !losses.of(all[2].token).ok(); })) return 3;
    const Status why = losses.of(all[2].token);
    EXPECT_EQ(why.code(), Code::kPeerLost);
    EXPECT_NE(why.text().find("process " + std::to_string(all[2].pid) + " on host "), std::string_view::npos)
        << why.to_string();
    EXPECT_NE(why.text().find("ended"), std::string_view::npos) << why.to_string();
    EXPECT_EQ(endpoints[1]->error().code(), Code::kPeerLost);
    return 0;
  });
  const auto codes = ranks.run([&](int done) {
    if (done == 2) ranks.kill(2);
  });
  EXPECT_EQ(codes[2], -SIGKILL);
  EXPECT_EQ(codes[0], 0);
  EXPECT_EQ(codes[1], 0);
}

TEST(PeerProcess, ItsDeathShowsAlsoWhileAForkedChildHoldsItsSockets) {
  const auto codes = test::run_processes(2, [](const RankContext& context) {
    const auto engine = new_engine();
    const Losses losses(*engine);
    const auto all = context.gather(engine->address());
    const auto& peer = all[static_cast<std::size_t>(1 - context.rank)];
    if (!engine->connect(peer, {}, patient(), nullptr).ok()) return 1;
    pid_t child = 0;
    if (context.rank == 1) {
      child = ::fork();
      if (child == 0) {
        ::alarm(100);
        for (;;) ::pause();
      }
    }
    const auto children = context.gather(child);
    if (children.empty()) return 2;
    if (context.rank == 1) ::kill(::getpid(), SIGKILL);
    const bool told = eventually([&] { return !losses.of(peer.token).ok(); });
    ::kill(children[1], SIGKILL);
    return told ? 0 : 3;
  });
  EXPECT_EQ(codes[0], 0);
  EXPECT_EQ(codes[1], -SIGKILL);
}

TEST(PeerProcess, AStoppedOneCanBeWaitedForAndGivenUp) {
  Processes ranks(2, [](const RankContext& context) {
    const auto engine = new_engine();
    const auto all = context.gather(engine->address());  // rank 1 stops here
    const auto& peer = all[static_cast<std::size_t>(1 - context.rank)];
    if (context.rank == 0) {
      const Status status = engine->connect(peer, {}, within(100ms), nullptr).status();
      EXPECT_EQ(status.code(), Code::kTimeout) << status.to_string();
      ::kill(all[1].pid, SIGCONT);
    }
    if (!context.barrier()) return 2;
    const auto endpoint = engine->connect(peer, {}, patient(), nullptr);
    EXPECT_TRUE(endpoint.ok()) << endpoint.status().to_string();
    context.barrier();
    return 0;
  });
  EXPECT_EQ(ranks.run([&](int done) {
    if (done == 1) ranks.stop(1);
  }),
            (std::vector<int>{0, 0}));
}

TEST(PeerProcess, OneThatDiesBeforeItConnectsIsLost) {
  for (int attempt = 0; attempt < 4; ++attempt) {  // either may have the smaller token
    const auto codes = test::run_processes(2, [](const RankContext& context) {
      const auto engine = new_engine();
      const auto all = context.gather(engine->address());
      if (context.rank == 1) ::kill(::getpid(), SIGKILL);
      EXPECT_TRUE(eventually([&] {
        const auto stat = os::process_stat(all[1].pid);
        return !stat.ok() || stat->dead();
      }));
      const Status status = engine->connect(all[1], {}, patient(), nullptr).status();
      EXPECT_EQ(status.code(), Code::kPeerLost) << status.to_string();
      return 0;
    });
    EXPECT_EQ(codes[0], 0);
  }
}

TEST(PeerProcess, FenceEndsItForGood) {
  const auto codes = test::run_processes(2, [](const RankContext& context) {
    const auto engine = new_engine();
    const Losses losses(*engine);
    const auto all = context.gather(engine->address());
    const auto& peer = all[static_cast<std::size_t>(1 - context.rank)];
    EXPECT_EQ(engine->fence({1, 2}, patient()).code(), Code::kUnsupported) << "never heard of";
    if (!engine->connect(peer, {}, patient(), nullptr).ok()) return 1;
    if (!context.barrier()) return 2;
    if (context.rank == 1) {
      for (;;) ::pause();
    }
    const Status fenced = engine->fence(peer.token, patient());
    EXPECT_TRUE(fenced.ok()) << fenced.to_string();
    EXPECT_TRUE(eventually([&] { return !losses.of(peer.token).ok(); }));
    EXPECT_TRUE(engine->fence(peer.token, patient()).ok()) << "again";
    return 0;
  });
  EXPECT_EQ(codes, (std::vector<int>{0, -SIGKILL}));
}

TEST(PeerProcess, WithoutDescriptorsBothSidesGetAClearError) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    const auto codes = test::run_processes(2, [](const RankContext& context) {
      const auto engine = new_engine();
      const auto all = context.gather(engine->address());
      const auto& peer = all[static_cast<std::size_t>(1 - context.rank)];
      std::vector<os::UniqueFd> fillers;
      if (context.rank == 1) {
        rlimit limit{};
        ::getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = 64;
        ::setrlimit(RLIMIT_NOFILE, &limit);
        for (int fd = 0; (fd = ::dup(2)) >= 0;) fillers.emplace_back(fd);
      }
      if (!context.barrier()) return 1;
      // Who waits to be connected to cannot hear of it from a peer that cannot even make a socket. (It may, if that
      // found a descriptor that had just become free.)
      const bool hears = context.rank == 1 || all[0].token < all[1].token;
      const Status status = engine->connect(peer, {}, within(hears ? 60s : 1s), nullptr).status();
      EXPECT_TRUE(status.code() == Code::kOutOfMemory || (!hears && status.code() == Code::kTimeout))
          << status.to_string();
      if (hears) {
        EXPECT_NE(status.text().find("ulimit -n"), std::string_view::npos) << status.to_string();
      }
      context.barrier();
      fillers.clear();
      return 0;
    });
    EXPECT_EQ(codes, (std::vector<int>{0, 0}));
  }
}

TEST(PeerProcess, ATooSmallLimitOfDescriptorsFailsTheEngineWithItsName) {
  const auto codes = test::run_processes(1, [](const RankContext&) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    for (rlim_t most = 4; most < 32; ++most) {
      limit.rlim_cur = most;
      ::setrlimit(RLIMIT_NOFILE, &limit);
      const auto engine = EngineCore::create({});
      if (engine.ok()) return most > 5 ? 0 : 1;
      if (engine.status().text().find("ulimit -n") == std::string_view::npos &&
          engine.status().text().find("Too many open files") == std::string_view::npos) {
        std::fprintf(stderr, "limit %d: %s\n", static_cast<int>(most), engine.status().to_string().c_str());
        return 2;
      }
    }
    return 3;
  });
  EXPECT_EQ(codes, std::vector<int>{0});
}

// ---- Name spaces and files ----

std::set<std::string> files_below(const std::string& directory) {
  std::set<std::string> result;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) result.insert(entry.path());
  return result;
}

TEST(PeerProcess, AnotherNetworkNamespaceIsReachedThroughAFileThatIsGoneAfterwards) {
  const std::string base = testing::TempDir() + "hocket-connection-test-" + std::to_string(::getpid());
  ASSERT_EQ(::mkdir(base.c_str(), 0700), 0);
  for (int attempt = 0; attempt < 4; ++attempt) {
    const auto codes = test::run_processes(2, [&](const RankContext& context) {
      ::setenv("XDG_RUNTIME_DIR", base.c_str(), 1);
      if (context.rank == 1 && ::unshare(CLONE_NEWNET) != 0) return 77;
      const auto engine = new_engine();
      const auto all = context.gather(engine->address());
      if (all.empty()) return 77;
      const auto endpoint = engine->connect(all[static_cast<std::size_t>(1 - context.rank)], {}, patient(), nullptr);
      EXPECT_TRUE(endpoint.ok()) << endpoint.status().to_string();
      context.barrier();
      EXPECT_TRUE(files_below(base + "/hocket").empty());
      return 0;
    });
    if (codes[1] == 77) {
      std::filesystem::remove_all(base);
      GTEST_SKIP() << "no new network namespace can be made here";
    }
    EXPECT_EQ(codes, (std::vector<int>{0, 0}));
  }
  std::filesystem::remove_all(base);
}

TEST(PeerProcess, KilledProcessesLeaveNoFiles) {
  const std::string base = testing::TempDir() + "hocket-files-test-" + std::to_string(::getpid());
  ASSERT_EQ(::mkdir(base.c_str(), 0700), 0);
  const auto shm_before = files_below("/dev/shm"), tmp_before = files_below("/tmp");
  (void)test::run_processes(2, [&](const RankContext& context) {
    ::setenv("XDG_RUNTIME_DIR", base.c_str(), 1);
    const auto engine = new_engine();
    const auto all = context.gather(engine->address());
    if (!engine->connect(all[static_cast<std::size_t>(1 - context.rank)], {}, patient(), nullptr).ok()) return 1;
    context.barrier();
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  EXPECT_TRUE(files_below(base).empty());
  EXPECT_EQ(files_below("/dev/shm"), shm_before);
  for (const std::string& path : files_below("/tmp"))
    EXPECT_EQ(path.find("/tmp/hocket-" + std::to_string(::geteuid()) + "/"), std::string::npos);
  std::filesystem::remove_all(base);
}

// ---- fork and exit ----

TEST(PeerProcess, AForkedChildIsToldAndTheParentGoesOn) {
  const auto codes = test::run_processes(2, [](const RankContext& context) {
    auto engine = new_engine();
    const auto all = context.gather(engine->address());
    const auto& peer = all[static_cast<std::size_t>(1 - context.rank)];
    const auto endpoint = engine->connect(peer, {}, patient(), nullptr);
    if (!endpoint.ok()) return 1;
    const Losses losses(*engine);
    const pid_t child = ::fork();
    if (child == 0) {
      const Status status = engine->connect(peer, {}, patient(), nullptr).status();
      if (status.code() != Code::kUnsupported || status.text().find("forked") == std::string_view::npos) ::_exit(3);
      if (!Engine::default_engine().ok()) ::_exit(4);  // an engine of its own
      engine.reset();                                  // harms the parent in no way
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return 10 + WEXITSTATUS(status);
    if (!context.barrier()) return 2;
    EXPECT_TRUE(endpoint.value()->error().ok());
    EXPECT_TRUE(losses.told().empty());
    context.barrier();
    return 0;
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0}));
}

TEST(PeerProcess, ExitWithALiveDefaultEngineNeitherHangsNorCrashes) {
  const auto codes = test::run_processes(2, [](const RankContext& context) {
    const auto engine = EngineCore::of(nullptr).value();
    if (engine != EngineCore::of(nullptr).value()) return 1;
    const auto all = context.gather(engine->address());
    static auto* const endpoint =
        new auto(engine->connect(all[static_cast<std::size_t>(1 - context.rank)], {}, patient(), nullptr));
    if (!endpoint->ok() || !context.barrier()) return 2;
    std::exit(0);
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0}));
}

#endif

}  // namespace
}  // namespace hocket
