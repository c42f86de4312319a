// SPDX-License-Identifier: Apache-2.0
// run_descriptor.cpp: a rank that `hocket run` started on this host: the launcher answers exchanges over a socket.
#include "core/launch/launchers.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/os/process.hpp"
#include "base/os/socket.hpp"
#include "base/status.hpp"

namespace hocket {
namespace {

constexpr std::string_view kLauncher = "the launcher (hocket run)";

// The one connection of this process to its launcher.
class Launcher {
 public:
  Launcher(os::UnixSocket socket, int fd_number) : socket_(std::move(socket)), fd_number_(fd_number) {}

  int fd_number() const noexcept { return fd_number_; }
  bool forked() const noexcept { return fork_mark_.forked(); }

  Status exchange(Rank rank, int size, std::chrono::nanoseconds timeout, std::span<const std::byte> mine,
                  std::span<std::byte> all) {
    if (forked()) {
      return error(Code::kUnsupported,
                   "this process was forked from rank {}: the connection to the launcher stays with the rank itself",
                   rank);
    }
    if (all.size() != mine.size() * static_cast<std::size_t>(size)) {
      return error(Code::kInvalidArgument, "rank {} exchanges {} bytes among {} ranks, but has room for {}", rank,
                   mine.size(), size, all.size());
    }
    if (mine.size() > LaunchHeader::kMaxBytes || all.size() > LaunchHeader::kMaxAnswerBytes) {
      return error(Code::kInvalidArgument, "rank {} exchanges {} bytes, {} in all: at most {} and {} are allowed", rank,
                   mine.size(), all.size(), LaunchHeader::kMaxBytes, LaunchHeader::kMaxAnswerBytes);
    }
    const std::lock_guard lock(mutex_);
    if (!broken_.ok()) return broken_;
    const os::WaitLimits limits{.deadline = os::Deadline::after_or_never(timeout)};
    LaunchHeader answer;
    std::string text;
    const Status talked = talk(rank, limits, mine, all, answer, text);
    if (!talked.ok()) {
      const std::string who = talked.code() == Code::kTimeout ? who_is_missing(rank) : std::string();
      // The stream may hold a part of an answer, so nothing that follows could be trusted.
      socket_.shutdown();
      if (who.empty()) {
        broken_ = error(talked.code(), "rank {}, exchange {} with the other ranks: {}", rank, sequence_, talked.text());
      } else {
        broken_ = error(Code::kTimeout,
                        "rank {}, exchange {} with the other ranks: after {:g} s {}; HOCKET_START_TIMEOUT (seconds) is "
                        "how long to wait",
                        rank, sequence_, std::chrono::duration<double>(timeout).count(), who);
      }
      return broken_;
    }
    ++sequence_;
    if (answer.code != 0) return Status(static_cast<Code>(answer.code), std::move(text));
    return {};
  }

 private:
  Status talk(Rank rank, const os::WaitLimits& limits, std::span<const std::byte> mine, std::span<std::byte> all,
              LaunchHeader& answer, std::string& text) {
    LaunchHeader request;
    request.sequence = sequence_;
    request.rank = static_cast<std::uint32_t>(rank);
    request.bytes = mine.size();
    // One buffer, so that a small request is one system call.
    std::vector<std::byte> message(sizeof request + mine.size());
    std::memcpy(message.data(), &request, sizeof request);
    if (!mine.empty()) std::memcpy(message.data() + sizeof request, mine.data(), mine.size());
    HOCKET_TRY(os::send_all(socket_.fd(), message, limits, kLauncher));
    HOCKET_TRY(os::receive_all(socket_.fd(), std::as_writable_bytes(std::span(&answer, 1)), limits, kLauncher));
    HOCKET_ASSIGN(const std::size_t bytes, launch_answer_bytes(answer, request, all.size()));
    if (answer.code == 0) return os::receive_all(socket_.fd(), all, limits, kLauncher);
    text.resize(bytes);
    return os::receive_all(socket_.fd(), std::as_writable_bytes(std::span(text)), limits, kLauncher);
  }

  // After a timeout: the end of our side asks the launcher, which alone knows. Empty if it doesn't answer.
  std::string who_is_missing(Rank rank) {
    const os::WaitLimits limits{.deadline = os::Deadline::after(std::chrono::seconds(2))};
    LaunchHeader request, answer;
    request.sequence = sequence_;
    request.rank = static_cast<std::uint32_t>(rank);
    if (::shutdown(socket_.fd(), SHUT_WR) < 0) return {};
    if (!os::receive_all(socket_.fd(), std::as_writable_bytes(std::span(&answer, 1)), limits, kLauncher).ok())
      return {};
    const auto bytes = launch_answer_bytes(answer, request, 0);
    // Another one may have given up in the same moment: then that is the answer, and says whom it waited for.
    if (!bytes.ok() || answer.code == static_cast<std::uint32_t>(Code::kOk)) return {};
    std::string text(*bytes, ' ');
    if (!os::receive_all(socket_.fd(), std::as_writable_bytes(std::span(text)), limits, kLauncher).ok()) return {};
    return text;
  }

  os::UnixSocket socket_;
  const int fd_number_;
  os::ForkMark fork_mark_;
  std::mutex mutex_;  // one exchange at a time; guards what follows
  std::uint64_t sequence_ = 0;
  Status broken_;
};

// A wrong number must not cost the program a descriptor of its own, so all is looked at before it is taken.
Status check_descriptor(int fd) {
  if (::fcntl(fd, F_GETFD) < 0) {
    return error(Code::kInvalidArgument,
                 "HOCKET_RUN_FD={}: no such descriptor is open; whoever started this program closed it on the way", fd);
  }
  int domain = 0, type = 0;
  socklen_t length = sizeof domain, type_length = sizeof type;
  if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) < 0 ||
      ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_length) < 0 || domain != AF_UNIX || type != SOCK_STREAM) {
    return error(Code::kInvalidArgument, "HOCKET_RUN_FD={}: the descriptor is no Unix stream socket", fd);
  }
  return {};
}

Result<std::shared_ptr<Launcher>> the_launcher(int fd) {
  // Never destroyed: other threads may be in an exchange while the process exits.
  static std::mutex& mutex = *new std::mutex;
  static std::shared_ptr<Launcher>& launcher = *new std::shared_ptr<Launcher>;
  const std::lock_guard lock(mutex);
  if (launcher && launcher->fd_number() == fd && !launcher->forked()) return launcher;
  if (launcher && launcher->forked()) {
    return error(Code::kUnsupported, "HOCKET_RUN_FD={} belongs to the rank that this process was forked from", fd);
  }
  HOCKET_TRY(check_descriptor(fd));
  HOCKET_ASSIGN(os::UnixSocket socket, os::UnixSocket::adopt(os::UniqueFd(fd), std::string(kLauncher)));
  HOCKET_TRY(socket.check_same_user());
  launcher = std::make_shared<Launcher>(std::move(socket), fd);
  return launcher;
}

}  // namespace

Result<std::optional<LaunchedRank>> launched_by_run(const Settings& settings) {
  if (!is_set("HOCKET_RUN_FD")) return std::optional<LaunchedRank>();
  constexpr std::string_view kHint = "start the ranks by `hocket run`, or unset HOCKET_RUN_FD";
  HOCKET_ASSIGN(const int size, number_of("HOCKET_SIZE", 1, kMaxLaunchedRanks, kHint));
  HOCKET_ASSIGN(const int rank, number_of("HOCKET_RANK", 0, size - 1, kHint));
  HOCKET_ASSIGN(const int fd, number_of("HOCKET_RUN_FD", 3, 1 << 30, kHint));
  int local_rank = rank;
  if (is_set("HOCKET_LOCAL_RANK")) {
    HOCKET_ASSIGN(local_rank, number_of("HOCKET_LOCAL_RANK", 0, size - 1, kHint));
  }
  HOCKET_ASSIGN(const std::shared_ptr<Launcher> launcher, the_launcher(fd));
  LaunchedRank launched;
  launched.rank = rank;
  launched.size = size;
  launched.local_rank = local_rank;
  launched.launcher = "hocket run";
  const auto timeout = settings.start_timeout;
  launched.exchange = [launcher, rank, size, timeout](std::span<const std::byte> mine, std::span<std::byte> all) {
    return launcher->exchange(rank, size, timeout, mine, all);
  };
  return std::optional<LaunchedRank>(std::move(launched));
}

}  // namespace hocket
