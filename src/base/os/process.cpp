// SPDX-License-Identifier: Apache-2.0
#include "base/os/process.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>

#include "base/os/unique_fd.hpp"
#include "base/status.hpp"

namespace hocket::os {
namespace {

// Files of /proc are small and have no length: read until the end or the limit.
Result<std::string> read_small_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    const bool absent = errno == ENOENT || errno == ESRCH;
    return system_error(absent ? Code::kPeerLost : Code::kSystem, errno, "open {}", path);
  }
  std::string text;
  char buffer[4096];
  while (text.size() < 65536) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(errno == ESRCH ? Code::kPeerLost : Code::kSystem, errno, "read {}", path);
    if (n == 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

}  // namespace

Result<std::string> boot_id() {
  constexpr const char* kPath = "/proc/sys/kernel/random/boot_id";
  auto text = read_small_file(kPath);
  if (!text.ok()) return Status(Code::kSystem, std::string(text.status().text()));
  while (!text->empty() && text->back() == '\n') text->pop_back();
  if (text->empty()) return error(Code::kSystem, "{} is empty", kPath);
  return text;
}

Result<ProcessStat> process_stat(pid_t pid) {
  const std::string path = format("/proc/{}/stat", pid);
  HOCKET_ASSIGN(const std::string text, read_small_file(path));
  // "pid (name) state ppid …": the name may hold anything, also ") R 1", so start after its last bracket.
  const std::size_t bracket = text.rfind(')');
  ProcessStat stat{};
  long parent = 0;
  // Field 3 is the state, 4 the parent, 22 the start time.
  constexpr const char* kFields =
      " %c %ld %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64;
  if (bracket == std::string::npos ||
      std::sscanf(text.c_str() + bracket + 1, kFields, &stat.state, &parent, &stat.start_time_ticks) != 3) {
    return error(Code::kSystem, "{} reads '{}', which is not the format of proc(5)", path, text);
  }
  stat.parent = static_cast<pid_t>(parent);
  return stat;
}

namespace detail {

std::atomic<std::uint32_t> fork_count{0};

void register_fork_handler() noexcept {
  // pthread_atfork fails only for want of memory for one small node; then a child is not told apart, nothing else.
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
}

}  // namespace detail
}  // namespace hocket::os
