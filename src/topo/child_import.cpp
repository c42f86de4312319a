// SPDX-License-Identifier: Apache-2.0
// topo/child_import.cpp: see child_import.hpp.
#include "topo/child_import.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace hocket::topo {

namespace {

constexpr std::string_view kRefused = "refused ";  // no Graph's bytes start like that

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

// Everything the child writes until it ends; an error if it is silent for `timeout_ms`.
Result<std::string> read_all(int fd, int timeout_ms) {
  std::string bytes;
  char buffer[1 << 16];
  for (;;) {
    pollfd ready{fd, POLLIN, 0};
    const int events = ::poll(&ready, 1, timeout_ms);
    if (events < 0 && errno == EINTR) continue;
    if (events == 0)
      return error(Code::kInvalidArgument, "hwloc is not done with this XML after {} s", timeout_ms / 1000);
    const ssize_t got = events < 0 ? -1 : ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(Code::kSystem, errno, "read from the process that imports it");
    if (got == 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace

Result<Graph> graph_from_child(const std::function<Result<Graph>()>& make) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error(Code::kSystem, errno, "pipe");
  const pid_t child = ::fork();
  if (child < 0) {
    const int number = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    return system_error(Code::kSystem, number, "fork");
  }
  if (child == 0) {
    // The caller's handlers and its stderr are not the child's business; a crash leaves no core file.
    for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) ::signal(signal, SIG_DFL);
    const rlimit no_core{0, 0};
    (void)::setrlimit(RLIMIT_CORE, &no_core);
    if (const int null = ::open("/dev/null", O_WRONLY); null >= 0) (void)::dup2(null, STDERR_FILENO);
    const Result<Graph> graph = make();
    if (graph.ok()) {
      write_all(ends[1], graph->to_bytes());
    } else {
      write_all(ends[1], kRefused);
      write_all(ends[1], graph.status().text());
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  const Result<std::string> answer = read_all(ends[0], 30'000);
  ::close(ends[0]);
  if (!answer.ok()) ::kill(child, SIGKILL);
  int state = 0;
  pid_t waited = 0;
  do waited = ::waitpid(child, &state, 0);
  while (waited < 0 && errno == EINTR);
  if (!answer.ok()) return answer.status();
  if (answer->starts_with(kRefused)) return Status(Code::kInvalidArgument, answer->substr(kRefused.size()));
  if (answer->empty()) {
    // A caller that reaps every child itself leaves us no state to read.
    return waited == child && WIFSIGNALED(state)
               ? error(Code::kInvalidArgument, "damaged: hwloc's import of it ended with signal {}", WTERMSIG(state))
               : error(Code::kInvalidArgument, "damaged: hwloc's import of it ended with no answer");
  }
  return Graph::from_bytes(*answer);
}

}  // namespace hocket::topo
