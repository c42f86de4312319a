// SPDX-License-Identifier: Apache-2.0
// os_test.cpp: the owners of kernel resources in core/os.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <future>
#include <new>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/os/abort.hpp"
#include "base/os/clock.hpp"
#include "base/os/futex.hpp"
#include "base/os/mapping.hpp"
#include "base/os/memfd.hpp"
#include "base/os/pidfd.hpp"
#include "base/os/process.hpp"
#include "base/os/random.hpp"
#include "base/os/socket.hpp"
#include "base/os/thread.hpp"
#include "base/os/thread_place.hpp"
#include "base/os/unique_fd.hpp"

namespace hocket::os {
namespace {

using namespace std::chrono_literals;

// Long enough that only a hang reaches it.
WaitLimits patient() {
  return {.deadline = Deadline::after(60s)};
}
WaitLimits at_once() {
  return {.deadline = Deadline::after(0s)};
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

int count_open_fds() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

// A child that runs `body` and ends with its result; killed and reaped at the end if still there.
class Child {
 public:
  template <class Body>
  explicit Child(Body body) : pid_(::fork()) {
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::_exit(body());
    }
  }
  ~Child() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  int exit_code() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

// ---- UniqueFd, Mapping ----

TEST(UniqueFd, ClosesOnceAndGivesUp) {
  int raw = -1;
  {
    UniqueFd fd(::dup(0));
    raw = fd.get();
    UniqueFd moved = std::move(fd);
    EXPECT_FALSE(fd);  // NOLINT(bugprone-use-after-move): the claim
    EXPECT_TRUE(is_open(raw));
    moved = std::move(*&moved);
    EXPECT_TRUE(is_open(raw)) << "self-move keeps it";
  }
  EXPECT_FALSE(is_open(raw));
  UniqueFd fd(::dup(0));
  raw = fd.release();
  EXPECT_FALSE(fd);
  EXPECT_TRUE(is_open(raw));
  ::close(raw);
}

TEST(Mapping, TwoMappingsOfOneFileAreTheSameMemory) {
  const UniqueFd fd = create_memfd("test", 10000).value();
  const Mapping a = Mapping::shared(fd.get(), 10000).value();
  Mapping b = Mapping::shared(fd.get(), 10000).value();
  a.data()[9999] = std::byte{42};
  EXPECT_EQ(b.data()[9999], std::byte{42});
  EXPECT_EQ(b.bytes(), 10000u);
  Mapping c = std::move(b);
  EXPECT_FALSE(b);  // NOLINT(bugprone-use-after-move): the claim
  EXPECT_EQ(c.span()[9999], std::byte{42});
}

TEST(Mapping, BadRequestsAreErrors) {
  const UniqueFd fd = create_memfd("test", 10000).value();
  EXPECT_EQ(Mapping::anonymous(0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Mapping::shared(fd.get(), 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Mapping::shared(fd.get(), 10, 3).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Mapping::shared(-1, 10).status().code(), Code::kSystem);
}

// ---- memfd ----

TEST(Memfd, LengthIsSealedAlsoAgainstItsMaker) {
  const UniqueFd fd = create_memfd("test", 10000).value();
  EXPECT_EQ(check_memfd(fd.get(), 10000).value(), round_up_to_pages(10000));
  EXPECT_LT(::ftruncate(fd.get(), 0), 0);
  EXPECT_LT(::ftruncate(fd.get(), 1 << 20), 0);
  EXPECT_TRUE((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST(Memfd, FilesThatCouldShrinkAreRefused) {
  const UniqueFd unsealed(::memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 8192), 0);
  EXPECT_EQ(check_memfd(unsealed.get(), 4096).status().code(), Code::kInvalidArgument);
  ASSERT_EQ(::fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  EXPECT_EQ(check_memfd(unsealed.get(), 4096).status().code(), Code::kInvalidArgument);
  ASSERT_EQ(::fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(check_memfd(unsealed.get(), 4096).ok());

  const UniqueFd never_sealed(::memfd_create("hostile", MFD_CLOEXEC));
  EXPECT_EQ(check_memfd(never_sealed.get(), 0).status().code(), Code::kInvalidArgument);
  const UniqueFd ordinary(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(check_memfd(ordinary.get(), 0).status().code(), Code::kInvalidArgument);
  int pipe_fds[2];
  ASSERT_EQ(::pipe(pipe_fds), 0);
  const UniqueFd in(pipe_fds[0]), out(pipe_fds[1]);
  EXPECT_EQ(check_memfd(in.get(), 0).status().code(), Code::kInvalidArgument);
}

TEST(Memfd, ShrunkBeforeItWasSealedIsRefusedForItsLength) {
  const UniqueFd fd(::memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(fd.get(), 1 << 20), 0);
  ASSERT_EQ(::ftruncate(fd.get(), 4096), 0);
  ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  const auto result = check_memfd(fd.get(), 1 << 20);
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  EXPECT_NE(result.status().text().find("4096"), std::string_view::npos);
}

TEST(Memfd, LengthsThatNoFileHasAreRefused) {
  EXPECT_EQ(create_memfd("test", 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(create_memfd("test", SIZE_MAX).status().code(), Code::kInvalidArgument);
}

TEST(Memfd, MemoryThatIsNotThereIsAnErrorAndNoSignal) {
  // A tmpfs of one megabyte stands for a machine with little memory; it vanishes with the child's namespace.
  constexpr int kNoNamespace = 77;
  Child child([] {
    if (::unshare(CLONE_NEWNS) < 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) return kNoNamespace;
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0) return kNoNamespace;
    if (::mount("tmpfs", "/tmp", "tmpfs", 0, "size=1m") < 0) return kNoNamespace;
    const UniqueFd fd(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!fd || ::ftruncate(fd.get(), 1 << 30) < 0) return 1;
    if (!reserve(fd.get(), 0, 1 << 19).ok()) return 2;
    return reserve(fd.get(), 1 << 19, 1 << 20).code() == Code::kOutOfMemory ? 0 : 3;
  });
  const int code = child.exit_code();
  if (code == kNoNamespace) GTEST_SKIP() << "needs a mount namespace of its own";
  EXPECT_EQ(code, 0);
}

TEST(Memfd, ReservedMemoryIsThereAndAHoleGivesItBack) {
  const std::size_t bytes = 64 * page_bytes();
  const UniqueFd fd = create_memfd("test", bytes).value();
  const auto blocks = [&] {
    struct stat about {};
    ::fstat(fd.get(), &about);
    return static_cast<std::size_t>(about.st_blocks) * 512;
  };
  EXPECT_EQ(blocks(), 0u);
  ASSERT_TRUE(reserve(fd.get(), 0, bytes).ok());
  EXPECT_EQ(blocks(), bytes);
  const Mapping mapping = Mapping::shared(fd.get(), bytes).value();
  std::memset(mapping.data(), 1, bytes);
  ASSERT_TRUE(punch_hole(fd.get(), 1, bytes - 1).ok());
  EXPECT_EQ(blocks(), page_bytes()) << "only whole pages go";
  EXPECT_EQ(mapping.data()[0], std::byte{1});
  EXPECT_EQ(mapping.data()[page_bytes()], std::byte{0});
  EXPECT_TRUE(punch_hole(fd.get(), 1, 5).ok());
}

TEST(Memfd, FileIdTellsObjectsApart) {
  const UniqueFd a = create_memfd("test", 1).value(), b = create_memfd("test", 1).value(), c(::dup(a.get()));
  EXPECT_EQ(file_id(a.get()).value(), file_id(c.get()).value());
  EXPECT_NE(file_id(a.get()).value(), file_id(b.get()).value());
}

// ---- Deadlines and aborts ----

TEST(Deadline, NeverAndPast) {
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_EQ(Deadline::never().poll_timeout_ms(), -1);
  EXPECT_TRUE(Deadline::after(0s).passed());
  EXPECT_EQ(Deadline::after(-5s).poll_timeout_ms(), 0);
  EXPECT_TRUE(Deadline::after(std::chrono::nanoseconds::max()).is_never());
  EXPECT_TRUE(Deadline::after_or_never(0s).is_never());
  EXPECT_LT(Deadline::after(1h), Deadline::never());
  EXPECT_EQ(Deadline::at_ns(now_ns() + 100'000'000'000'000'000).poll_timeout_ms(), 3'600'000);
}

TEST(WaitLimits, DeadlineEndsAWaitAndSaysForWhat) {
  auto [a, b] = UnixSocket::pair().value();
  const Status status = poll_for(a.fd(), POLLIN, {.deadline = Deadline::after(1ms)}, "news from rank 3");
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_EQ(status.text(), "time ran out while waiting for news from rank 3");
}

TEST(WaitLimits, AbortFromAnotherThreadEndsAWait) {
  auto [a, b] = UnixSocket::pair().value();
  AbortFlag flag = AbortFlag::create().value();
  auto waiter = std::async(std::launch::async, [&] {
    return poll_for(a.fd(), POLLIN, {.deadline = Deadline::never(), .abort = &flag}, "news");
  });
  flag.raise();
  EXPECT_EQ(waiter.get().code(), Code::kAborted);
  EXPECT_TRUE(flag.raised());
  flag.raise();
  EXPECT_EQ(sleep_until({.deadline = Deadline::never(), .abort = &flag}).code(), Code::kAborted);
}

TEST(WaitLimits, ManyDescriptorsAreWatchedTogether) {
  std::vector<std::pair<UnixSocket, UnixSocket>> pairs;
  std::vector<pollfd> fds;
  for (int i = 0; i < 40; ++i) {
    pairs.push_back(UnixSocket::pair().value());
    fds.push_back({.fd = pairs.back().first.fd(), .events = POLLIN, .revents = 0});
  }
  ASSERT_TRUE(pairs[33].second.send(some_bytes(1), patient()).ok());
  ASSERT_TRUE(poll_for(fds, patient(), "any").ok());
  for (int i = 0; i < 40; ++i) EXPECT_EQ(fds[static_cast<std::size_t>(i)].revents != 0, i == 33);
}

// ---- Sockets ----

TEST(UnixSocket, WholeMessagesOfAnyLengthArrive) {
  auto [a, b] = UnixSocket::pair().value();
  for (const std::size_t bytes : {0u, 1u, 4096u, 3u << 20}) {
    const auto sent = some_bytes(bytes);
    auto sender = std::async(std::launch::async, [&, &a = a] { return a.send(sent, patient()); });
    const Message message = b.receive(bytes, 0, patient()).value();
    EXPECT_TRUE(sender.get().ok());
    EXPECT_EQ(message.bytes, sent);
    EXPECT_TRUE(message.fds.empty());
  }
}

TEST(UnixSocket, DescriptorsPassAndAreCloseOnExec) {
  auto [a, b] = UnixSocket::pair().value();
  std::vector<UniqueFd> files;
  std::vector<int> raw;
  for (std::size_t i = 0; i < UnixSocket::kMaxFds; ++i) {
    files.push_back(create_memfd("test", 4096).value());
    raw.push_back(files.back().get());
  }
  ASSERT_TRUE(a.send(some_bytes(100), raw, patient()).ok());
  ASSERT_TRUE(a.send(some_bytes(5), patient()).ok());
  const Message message = b.receive(100, UnixSocket::kMaxFds, patient()).value();
  ASSERT_EQ(message.fds.size(), raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    EXPECT_EQ(file_id(message.fds[i].get()).value(), file_id(raw[i]).value());
    EXPECT_TRUE((::fcntl(message.fds[i].get(), F_GETFD) & FD_CLOEXEC) != 0);
  }
  EXPECT_EQ(b.receive(5, 0, patient())->bytes, some_bytes(5)) << "the next message has none";
}

TEST(UnixSocket, AnnouncedSizesAreBelievedOnlyUpToTheLimitAndNothingLeaks) {
  const int before = count_open_fds();
  {
    auto [a, b] = UnixSocket::pair().value();
    const UniqueFd file = create_memfd("test", 1).value();
    const int raw[] = {file.get(), file.get()};
    ASSERT_TRUE(a.send(some_bytes(10), raw, patient()).ok());
    const int with_sockets = count_open_fds();
    const auto result = b.receive(10, 1, patient());
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(count_open_fds(), with_sockets) << "unwanted descriptors are closed";
    auto [c, d] = UnixSocket::pair().value();
    ASSERT_TRUE(c.send(some_bytes(10), patient()).ok());
    EXPECT_EQ(d.receive(9, 0, patient()).status().code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(count_open_fds(), before);
}

TEST(UnixSocket, AHeaderThatLiesAboutDescriptorsIsRefused) {
  auto [a, b] = UnixSocket::pair().value();
  const std::uint32_t header[] = {0, 1};
  ASSERT_TRUE(send_all(a.fd(), std::as_bytes(std::span(header)), patient(), "b").ok());
  EXPECT_EQ(b.receive(10, 1, patient()).status().code(), Code::kInvalidArgument);
}

TEST(UnixSocket, PeerThatClosesBetweenAndInsideMessagesIsLost) {
  {
    auto [a, b] = UnixSocket::pair().value();
    a = UnixSocket::pair().value().first;
    EXPECT_EQ(b.receive(10, 0, patient()).status().code(), Code::kPeerLost);
    EXPECT_EQ(b.send(some_bytes(10), patient()).code(), Code::kPeerLost) << "and no SIGPIPE";
  }
  for (const std::uint32_t sent : {3u, 8u, 12u}) {
    auto [a, b] = UnixSocket::pair().value();
    b.set_peer_name("rank 3");
    std::vector<std::byte> wire(sent);
    const std::uint32_t header[] = {100, 0};
    std::memcpy(wire.data(), header, std::min<std::size_t>(sent, sizeof header));
    ASSERT_TRUE(send_all(a.fd(), wire, patient(), "b").ok());
    a.shutdown();
    const auto result = b.receive(100, 0, patient());
    EXPECT_EQ(result.status().code(), Code::kPeerLost);
    EXPECT_NE(result.status().text().find("rank 3"), std::string_view::npos);
  }
}

TEST(UnixSocket, DeadlineAndAbortEndBothDirections) {
  auto [a, b] = UnixSocket::pair().value();
  EXPECT_EQ(a.receive(10, 0, at_once()).status().code(), Code::kTimeout);
  const auto much = some_bytes(16 << 20);  // nobody reads it
  EXPECT_EQ(a.send(much, at_once()).code(), Code::kTimeout);
  AbortFlag flag = AbortFlag::create().value();
  auto [c, d] = UnixSocket::pair().value();
  auto receiver =
      std::async(std::launch::async, [&, &c = c] { return c.receive(10, 0, {.abort = &flag}).status().code(); });
  auto sender = std::async(std::launch::async, [&, &d = d] {
    auto [e, f] = UnixSocket::pair().value();
    return e.send(much, {.abort = &flag}).code();
  });
  flag.raise();
  EXPECT_EQ(receiver.get(), Code::kAborted);
  EXPECT_EQ(sender.get(), Code::kAborted);
}

TEST(UnixSocket, TooManyDescriptorsAreRefusedBeforeSending) {
  auto [a, b] = UnixSocket::pair().value();
  const std::vector<int> fds(UnixSocket::kMaxFds + 1, 0);
  EXPECT_EQ(a.send({}, fds, patient()).code(), Code::kInvalidArgument);
  EXPECT_EQ(b.receive(10, 0, at_once()).status().code(), Code::kTimeout);
}

TEST(UnixSocket, AdoptTakesOnlyUnixStreams) {
  EXPECT_EQ(UnixSocket::adopt(create_memfd("test", 1).value(), "x").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(UnixSocket::adopt(UniqueFd(), "x").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(UnixSocket::adopt(UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)), "x").status().code(),
            Code::kInvalidArgument);
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  const UniqueFd other(fds[1]);
  const UnixSocket adopted = UnixSocket::adopt(UniqueFd(fds[0]), "rank 1").value();
  EXPECT_TRUE((::fcntl(adopted.fd(), F_GETFD) & FD_CLOEXEC) != 0);
  EXPECT_TRUE((::fcntl(adopted.fd(), F_GETFL) & O_NONBLOCK) != 0);
}

std::string unique_name() {
  return "hocket-test-" + to_string(random_token().value());
}

TEST(UnixListener, AbstractNameConnectsAProcessAndKnowsIt) {
  UnixListener listener = UnixListener::listen(UnixAddress::abstract(unique_name())).value();
  Child child([&] {
    auto socket = UnixSocket::connect(listener.address(), UnixSocket::IfAbsent::kFail, patient());
    if (!socket.ok() || !socket->send(some_bytes(3), patient()).ok()) return 1;
    return socket->receive(10, 0, patient()).status().code() == Code::kPeerLost ? 0 : 2;
  });
  {
    UnixSocket socket = listener.accept(patient()).value();
    EXPECT_EQ(socket.peer()->pid, child.pid());
    EXPECT_EQ(socket.peer()->uid, ::geteuid());
    EXPECT_TRUE(socket.check_same_user().ok());
    EXPECT_EQ(socket.receive(10, 0, patient())->bytes, some_bytes(3));
  }
  EXPECT_EQ(child.exit_code(), 0);
}

TEST(UnixListener, PathIsRemovedByItsOwnerButNotByAForkedChild) {
  const std::string path = std::filesystem::temp_directory_path() / unique_name();
  {
    std::optional<UnixListener> listener = UnixListener::listen(UnixAddress::path(path)).value();
    Child child([&] {
      listener.reset();
      return 0;
    });
    EXPECT_EQ(child.exit_code(), 0);
    EXPECT_TRUE(std::filesystem::exists(path));
    UnixSocket client = UnixSocket::connect(listener->address(), UnixSocket::IfAbsent::kFail, patient()).value();
    EXPECT_TRUE(listener->accept(patient()).ok());
    const auto second = UnixListener::listen(UnixAddress::path(path));
    EXPECT_EQ(second.status().code(), Code::kInvalidArgument);
    EXPECT_TRUE(std::filesystem::exists(path)) << "a failed listen leaves the other's file alone";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(UnixListener, NamesThatFitNoSocketAreRefused) {
  for (const std::string& name : {std::string(), std::string(108, 'x'), std::string("a\0b", 3)}) {
    EXPECT_EQ(UnixListener::listen(UnixAddress::abstract(name)).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(UnixSocket::connect(UnixAddress::path(name), UnixSocket::IfAbsent::kRetry, patient()).status().code(),
              Code::kInvalidArgument);
  }
  EXPECT_TRUE(UnixListener::listen(UnixAddress::abstract(unique_name() + std::string(63, 'x'))).ok())
      << "107 bytes fit";
}

TEST(UnixListener, ConnectFailsAtOnceOrWaitsForALateListener) {
  const UnixAddress address = UnixAddress::abstract(unique_name());
  EXPECT_EQ(UnixSocket::connect(address, UnixSocket::IfAbsent::kFail, patient()).status().code(), Code::kPeerLost);
  EXPECT_EQ(
      UnixSocket::connect(address, UnixSocket::IfAbsent::kRetry, {.deadline = Deadline::after(5ms)}).status().code(),
      Code::kTimeout);
  AbortFlag flag = AbortFlag::create().value();
  flag.raise();
  EXPECT_EQ(UnixSocket::connect(address, UnixSocket::IfAbsent::kRetry, {.abort = &flag}).status().code(),
            Code::kAborted);
  auto client = std::async(std::launch::async,
                           [&] { return UnixSocket::connect(address, UnixSocket::IfAbsent::kRetry, patient()).ok(); });
  UnixListener listener = UnixListener::listen(address).value();
  EXPECT_TRUE(listener.accept(patient()).ok());
  EXPECT_TRUE(client.get());
}

TEST(UnixListener, AFullQueueIsWaitedFor) {
  UnixListener listener = UnixListener::listen(UnixAddress::abstract(unique_name()), 0).value();
  std::vector<UnixSocket> queued;
  Status last;
  while (last.ok() && queued.size() < 100) {
    auto client = UnixSocket::connect(listener.address(), UnixSocket::IfAbsent::kFail, at_once());
    last = client.status();
    if (client.ok()) queued.push_back(std::move(client).value());
  }
  EXPECT_EQ(last.code(), Code::kTimeout);
  auto late = std::async(std::launch::async, [&] {
    return UnixSocket::connect(listener.address(), UnixSocket::IfAbsent::kFail, patient()).ok();
  });
  for (std::size_t i = 0; i < queued.size() + 1; ++i) EXPECT_TRUE(listener.accept(patient()).ok());
  EXPECT_TRUE(late.get());
  EXPECT_EQ(listener.accept(at_once()).status().code(), Code::kTimeout);
}

TEST(UnixSocket, OutOfDescriptorsIsAnErrorThatSaysSo) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  auto [a, b] = UnixSocket::pair().value();
  const UniqueFd file = create_memfd("test", 1).value();
  const int raw[] = {file.get()};
  ASSERT_TRUE(a.send({}, raw, patient()).ok());
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status received = b.receive(0, 1, patient()).status();
  const Status paired = UnixSocket::pair().status();
  const Status created = create_memfd("test", 1).status();
  const Status flag = AbortFlag::create().status();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  for (const Status& status : {received, paired, created, flag}) {
    EXPECT_EQ(status.code(), Code::kOutOfMemory) << status.to_string();
    EXPECT_NE(status.text().find("ulimit -n"), std::string_view::npos) << status.to_string();
  }
}

// ---- Processes ----

TEST(PidFd, SeesTheEndOfAProcess) {
  Child child([] {
    ::pause();
    return 0;
  });
  const PidFd process = PidFd::open(child.pid(), process_stat(child.pid())->start_time_ticks).value();
  EXPECT_FALSE(process.exited());
  EXPECT_EQ(process.wait_exit(at_once()).code(), Code::kTimeout);
  ASSERT_TRUE(process.send_signal(SIGKILL).ok());
  EXPECT_TRUE(process.wait_exit(patient()).ok());
  EXPECT_TRUE(process.exited()) << "already as a zombie";
  EXPECT_TRUE(process_stat(child.pid())->dead());
  EXPECT_EQ(child.exit_code(), -SIGKILL);
  EXPECT_EQ(process.send_signal(SIGKILL).code(), Code::kPeerLost);
  EXPECT_EQ(PidFd::open(process.pid()).status().code(), Code::kPeerLost);
  EXPECT_EQ(process_stat(process.pid()).status().code(), Code::kPeerLost);
}

TEST(PidFd, AnotherProcessUnderTheSameNumberIsNotTaken) {
  const std::uint64_t start = process_stat(::getpid())->start_time_ticks;
  EXPECT_TRUE(PidFd::open(::getpid(), start).ok());
  EXPECT_EQ(PidFd::open(::getpid(), start + 1).status().code(), Code::kPeerLost);
}

TEST(ProcessStat, AStoppedProcessShowsAsStopped) {
  Child child([] {
    ::pause();
    return 0;
  });
  ASSERT_EQ(::kill(child.pid(), SIGSTOP), 0);
  ASSERT_EQ(::waitpid(child.pid(), nullptr, WUNTRACED), child.pid());
  EXPECT_TRUE(process_stat(child.pid())->stopped());
  EXPECT_EQ(process_stat(child.pid())->parent, ::getpid());
  EXPECT_FALSE(process_stat(::getpid())->stopped());
}

TEST(ProcessStat, ANameFullOfBracketsMisleadsNobody) {
  Child child([] {
    ::prctl(PR_SET_NAME, ") Z 1 (");
    ::raise(SIGSTOP);
    return 0;
  });
  ASSERT_EQ(::waitpid(child.pid(), nullptr, WUNTRACED), child.pid());
  EXPECT_EQ(process_stat(child.pid())->state, 'T');
  EXPECT_EQ(process_stat(child.pid())->parent, ::getpid());
}

TEST(BootId, IsTheSameInEveryRead) {
  EXPECT_EQ(boot_id()->size(), 36u);
  EXPECT_EQ(boot_id().value(), boot_id().value());
}

TEST(ForkMark, AChildIsForkedAndMayStartAnew) {
  const ForkMark mark;
  EXPECT_FALSE(mark.forked());
  Child child([&] {
    if (!mark.forked()) return 1;
    const ForkMark own;
    if (own.forked()) return 2;
    Child grandchild([&] { return mark.forked() && own.forked() ? 0 : 3; });
    return grandchild.exit_code();
  });
  EXPECT_EQ(child.exit_code(), 0);
  EXPECT_FALSE(mark.forked());
}

// ---- Futex, threads, random ----

TEST(Futex, WakeReachesAnotherProcess) {
  const UniqueFd fd = create_memfd("test", 4096).value();
  const Mapping mapping = Mapping::shared(fd.get(), 4096).value();
  auto* word = new (mapping.data()) std::atomic<std::uint32_t>(0);
  Child child([&] {
    word->store(1, std::memory_order_release);
    futex_wake(*word);
    while (word->load(std::memory_order_acquire) != 2) {
      if (futex_wait(*word, 1, Deadline::after(60s)) == FutexWait::kTimedOut) return 1;
    }
    return 0;
  });
  while (word->load(std::memory_order_acquire) != 1) {
    ASSERT_NE(futex_wait(*word, 0, Deadline::after(60s)), FutexWait::kTimedOut);
  }
  word->store(2, std::memory_order_release);
  futex_wake(*word);
  EXPECT_EQ(child.exit_code(), 0);
}

TEST(Futex, DeadlineAndChangedWordEndTheWait) {
  const std::atomic<std::uint32_t> word{5};
  EXPECT_EQ(futex_wait(word, 4, Deadline::never()), FutexWait::kChanged);
  EXPECT_EQ(futex_wait(word, 5, Deadline::after(1ms)), FutexWait::kTimedOut);
  EXPECT_EQ(futex_wait(word, 5, Deadline::at_ns(-1)), FutexWait::kTimedOut);
  EXPECT_EQ(futex_wake(word), 0);
}

TEST(Thread, HasItsNameAndNoSignals) {
  std::string name;
  bool all_blocked = false;
  {
    const Thread thread = Thread::start("hocket progress 0", [&] {
                            char buffer[16];
                            ::pthread_getname_np(::pthread_self(), buffer, sizeof buffer);
                            name = buffer;
                            sigset_t mask;
                            ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
                            all_blocked = ::sigismember(&mask, SIGINT) == 1 && ::sigismember(&mask, SIGPROF) == 1 &&
                                          ::sigismember(&mask, SIGCHLD) == 1;
                          }).value();
    EXPECT_TRUE(thread.running());
    sigset_t mask;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    EXPECT_EQ(::sigismember(&mask, SIGINT), 0) << "the caller's mask is as before";
  }
  EXPECT_EQ(name, "hocket progress");
  EXPECT_TRUE(all_blocked);
}

TEST(Thread, AForkedChildDoesNotWaitForAThreadItDoesNotHave) {
  AbortFlag flag = AbortFlag::create().value();
  std::optional<Thread> thread =
      Thread::start("sleeper", [&] { (void)sleep_until({.deadline = Deadline::never(), .abort = &flag}); }).value();
  Child child([&] {
    thread.reset();
    return 0;
  });
  EXPECT_EQ(child.exit_code(), 0);
  flag.raise();
}

TEST(ThreadPlace, IsOffItsCallersCoresWhileTheMaskHasAnother) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  if (cpus.size() < 2) GTEST_SKIP() << "one core";
  ThreadPlace place;
  std::promise<pid_t> settled;
  std::promise<void> done;
  std::thread thread([&, end = done.get_future()]() mutable {
    place.settle();
    settled.set_value(::gettid());
    end.wait();
  });
  const pid_t id = settled.get_future().get();
  const auto mask = [&] {
    cpu_set_t now;
    EXPECT_EQ(::sched_getaffinity(id, sizeof now, &now), 0);
    return now;
  };
  place.keep_off(-1);
  cpu_set_t now = mask();
  EXPECT_TRUE(CPU_EQUAL(&now, &allowed));
  place.keep_off(cpus[0]);
  now = mask();
  EXPECT_FALSE(CPU_ISSET(cpus[0], &now));
  EXPECT_EQ(CPU_COUNT(&now), static_cast<int>(cpus.size()) - 1);
  // With no core left it may use all again.
  for (const int cpu : cpus) place.keep_off(cpu);
  now = mask();
  EXPECT_TRUE(CPU_EQUAL(&now, &allowed));
  // Cores are free again some time after the last call from there.
  for (int k = 0; k < 10'000; ++k) place.keep_off(cpus[1]);
  now = mask();
  EXPECT_FALSE(CPU_ISSET(cpus[1], &now));
  EXPECT_TRUE(CPU_ISSET(cpus[0], &now));
  // A mask that somebody else gives it is kept.
  cpu_set_t other;
  CPU_ZERO(&other);
  CPU_SET(cpus[1], &other);
  ASSERT_EQ(::sched_setaffinity(id, sizeof other, &other), 0);
  for (int k = 0; k < 10'000; ++k) place.keep_off(cpus[k % 2]);
  now = mask();
  EXPECT_TRUE(CPU_EQUAL(&now, &other));
  done.set_value();
  thread.join();
}

TEST(Random, TokensDifferAndPrintAs32Digits) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(to_string(random_token().value()));
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(to_string(Token{1, 2}), "00000000000000010000000000000002");
  std::vector<std::byte> many(1 << 20);
  ASSERT_TRUE(random_bytes(many).ok());
  EXPECT_NE(many[many.size() - 1] | many[many.size() - 2] | many[many.size() - 3] | many[many.size() - 4],
            std::byte{0});
}

}  // namespace
}  // namespace hocket::os
