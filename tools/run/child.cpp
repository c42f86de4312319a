// SPDX-License-Identifier: Apache-2.0
#include "tools/run/child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/format.hpp"
#include "base/status.hpp"

namespace hocket::run {
namespace {

using os::UniqueFd;

// Everything that the child needs between fork and exec, made before the fork: there it may only make system calls.
struct Start {
  const char* executable;
  bool search;  // in PATH
  char* const* argv;
  char* const* envp;
  int socket;
  int input;  // -1: keep
  int outputs[2] = {-1, -1};
  int report;  // errno of what failed is written here
  const rlimit* open_files;
  const sigset_t* mask;
  const struct sigaction* pipe;
  pid_t parent;
};

[[noreturn]] void become_program(const Start& start) {
  const auto fail = [&start] {
    const int number = errno;
    [[maybe_unused]] const ssize_t n = ::write(start.report, &number, sizeof number);
    ::_exit(127);
  };
  if (::setpgid(0, 0) < 0) fail();
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) fail();
  if (::getppid() != start.parent) ::_exit(127);  // it died before the line above
  if (start.socket >= 0 && ::fcntl(start.socket, F_SETFD, 0) < 0) fail();
  if (start.input >= 0 && ::dup2(start.input, STDIN_FILENO) < 0) fail();
  for (int i = 0; i < 2; ++i) {
    if (start.outputs[i] >= 0 && ::dup2(start.outputs[i], STDOUT_FILENO + i) < 0) fail();
  }
  if (::setrlimit(RLIMIT_NOFILE, start.open_files) < 0) fail();
  ::sigaction(SIGPIPE, start.pipe, nullptr);
  ::pthread_sigmask(SIG_SETMASK, start.mask, nullptr);
  if (start.search) {
    ::execvpe(start.executable, start.argv, start.envp);
  } else {
    ::execve(start.executable, start.argv, start.envp);
  }
  fail();
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

Status make_pipe(UniqueFd& read_end, UniqueFd& write_end) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) < 0) return system_error(Code::kOutOfMemory, errno, "a pipe (see ulimit -n)");
  read_end.reset(fds[0]);
  write_end.reset(fds[1]);
  return {};
}

Status make_socket(const Spec& spec, UniqueFd& ours, UniqueFd& childs) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
    return system_error(Code::kOutOfMemory, errno, "a socket for {} (see ulimit -n)", spec.name);
  }
  ours.reset(ends[0]);
  childs.reset(ends[1]);
  // Only this end: the other is the rank's, which may expect a descriptor that blocks.
  if (::fcntl(ours.get(), F_SETFL, O_NONBLOCK) < 0) return system_error(Code::kSystem, errno, "fcntl of a socket");
  return {};
}

// The text waits in the pipe, so that nobody has to read it yet.
Status make_input(const Spec& spec, UniqueFd& ours, UniqueFd& childs) {
  HOCKET_TRY(make_pipe(childs, ours));
  constexpr int kMost = 1 << 20;  // what an unprivileged pipe may hold
  if (spec.input_text.size() > kMost - 4096 || ::fcntl(ours.get(), F_SETPIPE_SZ, kMost) < 0) {
    return error(Code::kInvalidArgument, "{} bytes of arguments and variables are too many for {}",
                 spec.input_text.size(), spec.name);
  }
  const ssize_t written = ::write(ours.get(), spec.input_text.data(), spec.input_text.size());
  if (written != static_cast<ssize_t>(spec.input_text.size()))
    return system_error(Code::kSystem, errno, "what {} is to do can't be written to its stdin", spec.name);
  return {};
}

}  // namespace

Status start_child(const Spec& spec, const StartOptions& options, Child& child, ChildEnds& ends) {
  child.rank = spec.rank;
  child.name = spec.name;
  UniqueFd socket, input, outputs[2], report, reported;  // the child's
  if (spec.rank >= 0) HOCKET_TRY(make_socket(spec, ends.socket, socket));
  HOCKET_TRY(make_pipe(report, reported));
  if (!spec.input_text.empty()) HOCKET_TRY(make_input(spec, child.input, input));
  for (int i = 0; i < 2; ++i) {
    if (!options.through[i]) continue;
    HOCKET_TRY(make_pipe(ends.outputs[i], outputs[i]));
    ::fcntl(ends.outputs[i].get(), F_SETFL, O_NONBLOCK);
  }

  std::vector<std::string> arguments = spec.arguments;
  std::vector<std::string> environment = spec.environment(socket.get());
  const std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
  Start start{};
  start.executable = spec.executable.empty() ? argv[0] : spec.executable.c_str();
  start.search = spec.executable.empty();
  start.argv = argv.data();
  start.envp = envp.data();
  start.socket = socket.get();
  start.input = input ? input.get() : spec.input;
  for (int i = 0; i < 2; ++i) start.outputs[i] = outputs[i] ? outputs[i].get() : -1;
  start.report = reported.get();
  start.open_files = &options.open_files;
  start.mask = &options.signals.mask_before();
  start.pipe = &options.signals.pipe_before();
  start.parent = ::getpid();

  child.pid = ::fork();
  if (child.pid < 0) return system_error(Code::kOutOfMemory, errno, "fork of {} (see ulimit -u)", spec.name);
  if (child.pid == 0) become_program(start);
  // Both sides do it, so it is done for both; too late after exec, and then not needed.
  ::setpgid(child.pid, child.pid);
  reported.reset();

  int number = 0;
  ssize_t n = 0;
  do n = ::read(report.get(), &number, sizeof number);  // ends by exec, which closes the pipe
  while (n < 0 && errno == EINTR);
  if (n == sizeof number) {
    ::waitpid(child.pid, nullptr, 0);
    child.pid = -1;
    return system_error(Code::kInvalidArgument, number, "{} can't be started: {}", spec.name, start.executable);
  }
  HOCKET_ASSIGN(os::PidFd process, os::PidFd::open(child.pid));
  child.process.emplace(std::move(process));
  return {};
}

std::string Child::ending() const {
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    return format("{} (pid {}) was killed by signal {} ({})", name, pid, number, ::strsignal(number));
  }
  return format("{} (pid {}) ended with exit code {}", name, pid, WEXITSTATUS(wait_status));
}

int Child::exit_status() const {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string names_of(const std::vector<const Child*>& children) {
  constexpr std::size_t kMost = 8;
  if (children.empty()) return {};
  const auto after_kind = [](const std::string& name) { return name.find(' ') + 1; };  // "rank ", "host "
  const std::string& first = children.front()->name;
  std::string text = first.substr(0, after_kind(first) - 1) + (children.size() == 1 ? " " : "s ");
  for (std::size_t i = 0; i < std::min(children.size(), kMost); ++i) {
    const std::string& name = children[i]->name;
    text += (i > 0 ? ", " : "") + name.substr(after_kind(name));
  }
  if (children.size() > kMost) text += format(" and {} more", children.size() - kMost);
  return text;
}

}  // namespace hocket::run
