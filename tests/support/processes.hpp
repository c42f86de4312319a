// SPDX-License-Identifier: Apache-2.0
// processes.hpp: tests run a function as several ranks, in processes or in threads, with an all-gather between them;
// and look whether anything is left behind.
//
// Processes are forked by a parent that has no other threads, so nothing is made by the parent before.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#if defined(__SANITIZE_THREAD__)
#define HOCKET_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HOCKET_TEST_TSAN 1
#endif
#endif
#ifndef HOCKET_TEST_TSAN
#define HOCKET_TEST_TSAN 0
#endif

namespace hocket::test {

/// Everybody gives the same number of bytes and gets those of all, by rank. False if somebody ended instead.
using Exchange = std::function<bool(const void* mine, std::size_t bytes, void* all)>;

/// What a rank's function gets.
struct RankContext {
  int rank;
  int size;
  Exchange exchange;

  /// `values` of all ranks; empty if somebody ended.
  template <class T>
  std::vector<T> gather(const T& mine) const {
    std::vector<T> all(static_cast<std::size_t>(size));
    if (!exchange(&mine, sizeof mine, all.data())) all.clear();
    return all;
  }
  bool barrier() const { return !gather(char{0}).empty(); }
};

/// A rank's exit code; 0 is good.
using RankFunction = std::function<int(const RankContext&)>;

namespace detail {

inline bool write_all(int fd, const void* data, std::size_t bytes) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::send(fd, p, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n, bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

inline bool read_all(int fd, void* data, std::size_t bytes) {
  char* p = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::recv(fd, p, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n, bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace detail

/// Ranks as child processes. The parent serves their exchanges in a loop (serve), and may stop and kill them meanwhile
/// from a callback. Children that are left at the end are killed and reaped.
class Processes {
 public:
  Processes() = default;
  Processes(int size, const RankFunction& body) { start(size, body); }

  void start(int size, const RankFunction& body) {
    std::fflush(nullptr);
    for (int rank = 0; rank < size; ++rank) {
      int fds[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) std::abort();
      const pid_t pid = ::fork();
      if (pid < 0) std::abort();
      if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (const Child& other : children_) ::close(other.fd);
        ::close(fds[0]);
        const int fd = fds[1];
        const RankContext context{rank, size, [fd, size](const void* mine, std::size_t bytes, void* all) {
                                    const std::uint64_t length = bytes;
                                    return detail::write_all(fd, &length, sizeof length) &&
                                           detail::write_all(fd, mine, bytes) &&
                                           detail::read_all(fd, all, bytes * static_cast<std::size_t>(size));
                                  }};
        const bool failed_before = ::testing::Test::HasFailure();  // in the parent, in what it did before
        int code = body(context);
        if (code == 0 && !failed_before && ::testing::Test::HasFailure()) code = 99;
        std::fflush(nullptr);
#if defined(__SANITIZE_ADDRESS__)
        std::exit(code);  // so that leaks are looked for; GoogleTest's own exit handlers are harmless
#else
        ::_exit(code);
#endif
      }
      ::close(fds[1]);
      children_.push_back({pid, fds[0], false, 0, false});
    }
  }

  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  ~Processes() {
    for (Child& child : children_) {
      if (!child.reaped) {
        ::kill(child.pid, SIGKILL);
        ::waitpid(child.pid, nullptr, 0);
      }
      if (child.fd >= 0) ::close(child.fd);
    }
  }

  pid_t pid(int rank) const {
    return at(rank).pid;
  }
  void kill(int rank, int signal = SIGKILL) {
    ::kill(at(rank).pid, signal);
  }
  /// SIGSTOP, and wait until it has stopped.
  void stop(int rank) {
    ::kill(at(rank).pid, SIGSTOP);
    int status = 0;
    ::waitpid(at(rank).pid, &status, WUNTRACED);
  }
  void resume(int rank) {
    ::kill(at(rank).pid, SIGCONT);
  }

  /// Serves exchanges until all children have closed their side (that is, ended). `after_exchange(k)` is called after
  /// the k-th one was complete (from 1), before the ranks get its result. A rank that ends while others wait fails
  /// their exchange.
  void serve(const std::function<void(int)>& after_exchange = {}) {
    int done = 0;
    for (;;) {
      std::vector<pollfd> fds;
      std::vector<Child*> who;
      std::size_t here = 0, live = 0;
      for (Child& child : children_) {
        if (child.fd < 0) continue;
        ++live;
        if (child.waiting) {
          ++here;
          continue;
        }
        fds.push_back({child.fd, POLLIN, 0});
        who.push_back(&child);
      }
      if (live == 0) return;
      if (here == live && here == children_.size()) {
        ++done;
        if (after_exchange) after_exchange(done);
        std::vector<char> all;
        for (Child& child : children_) all.insert(all.end(), child.bytes.begin(), child.bytes.end());
        for (Child& child : children_) {
          child.waiting = false;
          if (!detail::write_all(child.fd, all.data(), all.size())) close(child);
        }
        continue;
      }
      if (here == live) {  // somebody is missing for ever
        for (Child& child : children_) close(child);
        return;
      }
      if (::poll(fds.data(), fds.size(), -1) < 0) continue;
      for (std::size_t i = 0; i < fds.size(); ++i) {
        if (fds[i].revents == 0) continue;
        std::uint64_t length = 0;
        if (!detail::read_all(fds[i].fd, &length, sizeof length) || length > (std::uint64_t{1} << 30)) {
          close(*who[i]);
          continue;
        }
        who[i]->bytes.resize(length);
        if (!detail::read_all(fds[i].fd, who[i]->bytes.data(), length)) {
          close(*who[i]);
        } else {
          who[i]->waiting = true;
        }
      }
    }
  }

  /// Waits for a rank's end: its exit code, or minus the signal that ended it.
  int join(int rank) {
    Child& child = children_.at(static_cast<std::size_t>(rank));
    if (!child.reaped) {
      int status = 0;
      while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
      }
      child.reaped = true;
      child.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    return child.code;
  }
  /// Serves, then all exit codes by rank.
  std::vector<int> run(const std::function<void(int)>& after_exchange = {}) {
    serve(after_exchange);
    std::vector<int> codes;
    for (int rank = 0; rank < static_cast<int>(children_.size()); ++rank) codes.push_back(join(rank));
    return codes;
  }

 private:
  struct Child {
    pid_t pid;
    int fd;
    bool reaped;
    int code;
    bool waiting;
    std::vector<char> bytes = {};
  };
  const Child& at(int rank) const {
    return children_.at(static_cast<std::size_t>(rank));
  }
  static void close(Child& child) {
    if (child.fd >= 0) ::close(child.fd);
    child.fd = -1;
    child.waiting = false;
  }
  std::vector<Child> children_;
};

/// Runs `body` as `size` processes and returns their exit codes; -signal for one that was killed.
inline std::vector<int> run_processes(int size, const RankFunction& body) {
  return Processes(size, body).run();
}

/// Runs `body` as `size` threads of this process.
inline std::vector<int> run_threads(int size, const RankFunction& body) {
  struct Meeting {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::vector<char>> bytes;
    std::vector<char> all;
    int here = 0;
    int ended = 0;
    std::uint64_t round = 0;
  };
  Meeting meeting;
  meeting.bytes.resize(static_cast<std::size_t>(size));
  std::vector<int> codes(static_cast<std::size_t>(size), -1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const RankContext context{rank, size, [&, rank](const void* mine, std::size_t bytes, void* all) {
                                  std::unique_lock lock(meeting.mutex);
                                  if (meeting.ended > 0) return false;
                                  auto& own = meeting.bytes[static_cast<std::size_t>(rank)];
                                  own.assign(static_cast<const char*>(mine), static_cast<const char*>(mine) + bytes);
                                  const std::uint64_t round = meeting.round;
                                  if (++meeting.here == size) {
                                    meeting.all.clear();
                                    for (const auto& part : meeting.bytes)
                                      meeting.all.insert(meeting.all.end(), part.begin(), part.end());
                                    meeting.here = 0;
                                    ++meeting.round;
                                    meeting.changed.notify_all();
                                  } else {
                                    meeting.changed.wait(lock,
                                                         [&] { return meeting.round != round || meeting.ended > 0; });
                                    if (meeting.round == round) return false;
                                  }
                                  std::memcpy(all, meeting.all.data(), meeting.all.size());
                                  return true;
                                }};
      codes[static_cast<std::size_t>(rank)] = body(context);
      const std::scoped_lock lock(meeting.mutex);
      ++meeting.ended;
      meeting.changed.notify_all();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return codes;
}

/// What a process holds of the kernel: open descriptors by what they are, hocket's mappings, threads. Equal before and
/// after means that nothing was left behind.
class Footprint {
 public:
  static Footprint now() {
    Footprint print;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      std::string target = std::filesystem::read_symlink(entry.path(), error).string();
      if (error || target.find("/proc/") == 0) continue;  // the directory itself
      const std::size_t number = target.find(":[");
      if (number != std::string::npos) target.resize(number);  // socket:[123]: any socket
      ++print.fds_[target];
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("memfd:hocket") != std::string::npos) ++print.mappings_;
    }
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++print.threads_;
    return print;
  }
  bool operator==(const Footprint&) const = default;

  std::string to_string() const {
    std::string text =
        std::to_string(threads_) + " threads, " + std::to_string(mappings_) + " arenas mapped, descriptors:";
    for (const auto& [target, count] : fds_) text += " " + target + " x" + std::to_string(count);
    return text;
  }
  friend std::ostream& operator<<(std::ostream& out, const Footprint& print) { return out << print.to_string(); }

 private:
  std::map<std::string, int> fds_;
  int mappings_ = 0;
  int threads_ = 0;
};

/// Polls until `condition` holds; false after a minute, which only a hang reaches.
template <class Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 60000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace hocket::test
