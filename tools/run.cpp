// SPDX-License-Identifier: Apache-2.0
#include "tools/run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/os/clock.hpp"
#include "base/os/pidfd.hpp"
#include "base/os/socket.hpp"
#include "base/status.hpp"
#include "core/launch.hpp"
#include "hocket/unique_id.hpp"
#include "tools/usage.hpp"

extern char** environ;

namespace hocket::run {
namespace {

using os::Deadline;
using os::UniqueFd;

// Signals that mean "end" to a launcher; ranks get them instead.
constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP};

// Blocks the forwarded signals while ranks run and has them in a descriptor. A reader of our output that went away is
// an error of write() meanwhile, and no signal.
class Signals {
 public:
  static Result<std::unique_ptr<Signals>> block() {
    std::unique_ptr<Signals> self(new Signals);
    sigset_t set;
    ::sigemptyset(&set);
    for (const int number : kForwarded) ::sigaddset(&set, number);
    if (::pthread_sigmask(SIG_BLOCK, &set, &self->before_) != 0)
      return system_error(Code::kSystem, errno, "pthread_sigmask");
    self->blocked_ = true;
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    if (::sigaction(SIGPIPE, &ignore, &self->pipe_before_) != 0) return system_error(Code::kSystem, errno, "sigaction");
    self->ignores_pipe_ = true;
    self->fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!self->fd_) return system_error(Code::kOutOfMemory, errno, "signalfd (see ulimit -n)");
    return self;
  }
  ~Signals() {
    if (ignores_pipe_) ::sigaction(SIGPIPE, &pipe_before_, nullptr);
    if (blocked_) ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const noexcept { return fd_.get(); }
  const sigset_t& before() const noexcept { return before_; }
  const struct sigaction& pipe_before() const noexcept { return pipe_before_; }
  /// The next signal that came, 0 if none.
  int take() noexcept {
    signalfd_siginfo info;
    return ::read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  Signals() = default;
  UniqueFd fd_;
  sigset_t before_{};
  struct sigaction pipe_before_ {};
  bool blocked_ = false;
  bool ignores_pipe_ = false;
};

// A line of more is passed on in pieces, so that what has no lines at all needs no memory without end.
constexpr std::size_t kLongestLine = 256 << 10;
// From here on nothing more is read until somebody has taken what waits: then it is the ranks that wait, as they would
// without us.
constexpr std::size_t kMostWaiting = 1 << 20;

// Our stdout or stderr, and what it has not taken yet. Whoever reads it may be slow: the loop must not wait for it.
struct Sink {
  int fd = -1;
  bool regular = false;   // a file takes any length at once
  bool terminal = false;  // carriage returns are shown at once
  bool gone = false;      // nobody will read it any more
  bool failed = false;    // something could not be written; said once
  std::string waiting;
  const void* within = nullptr;  // whose line has been passed on in part
};

// The read end of a rank's stdout or stderr, and the line that is not complete yet.
struct Output {
  UniqueFd fd;
  int sink = 0;
  std::string line;
  bool within = false;  // of the line, a first piece has been passed on
};

struct Child {
  Rank rank = 0;
  std::string name;  // "rank 3", "host a"
  std::string tag;   // before each line of output
  UniqueFd input;    // what its stdin is fed by, held open until the end
  pid_t pid = -1;
  std::optional<os::PidFd> process;
  UniqueFd socket;  // non-blocking; closed once it is of no more use
  Output outputs[2];
  bool ended = false;
  int wait_status = 0;

  // A request as far as it has come, and an answer as far as it is not sent: a rank that is stopped in the middle of
  // either must not stop the loop.
  std::vector<std::byte> request;
  std::vector<std::byte> answer;
  std::size_t answered = 0;
  bool asks = false;     // the request is complete
  bool gave_up = false;  // it waited for others as long as it may
};

std::string ending(const Child& child) {
  if (WIFSIGNALED(child.wait_status)) {
    const int number = WTERMSIG(child.wait_status);
    return format("{} (pid {}) was killed by signal {} ({})", child.name, child.pid, number, ::strsignal(number));
  }
  return format("{} (pid {}) ended with exit code {}", child.name, child.pid, WEXITSTATUS(child.wait_status));
}

int exit_status(const Child& child) {
  return WIFSIGNALED(child.wait_status) ? 128 + WTERMSIG(child.wait_status) : WEXITSTATUS(child.wait_status);
}

// ---- Starting one rank ----

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
  const sigset_t* mask;
  const struct sigaction* pipe;
  pid_t parent;
};

[[noreturn]] void become_rank(const Start& start) {
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

std::string_view name_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

std::vector<std::string> environment_of(const Options& options, int local_rank, int socket) {
  std::vector<std::string> result;
  constexpr std::string_view kOurs[] = {"HOCKET_RANK",      "HOCKET_SIZE", "HOCKET_LOCAL_RANK", "HOCKET_RUN_FD",
                                        "HOCKET_UNIQUE_ID", "HOCKET_ROOT", "HOCKET_RENDEZVOUS"};
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view view = *entry;
    const auto same = [&](std::string_view other) { return name_of(view) == name_of(other); };
    if (std::none_of(std::begin(kOurs), std::end(kOurs), same) &&
        std::none_of(options.environment.begin(), options.environment.end(), same)) {
      result.emplace_back(view);
    }
  }
  result.insert(result.end(), options.environment.begin(), options.environment.end());
  result.push_back(format("HOCKET_RANK={}", options.first_rank + local_rank));
  result.push_back(format("HOCKET_SIZE={}", options.unique_id.empty() ? options.ranks : options.world));
  result.push_back(format("HOCKET_LOCAL_RANK={}", local_rank));
  if (options.unique_id.empty()) {
    result.push_back(format("HOCKET_RUN_FD={}", socket));
  } else {
    result.push_back("HOCKET_UNIQUE_ID=" + options.unique_id);
  }
  return result;
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

// What one child is started with.
struct Spec {
  Rank rank = 0;  // -1: no rank but a host's launcher, which asks nothing of us
  std::string name;
  std::string executable;  // empty: the first argument, looked for in PATH
  std::vector<std::string> arguments;
  std::function<std::vector<std::string>(int socket)> environment;
  int input = -1;          // its stdin; -1: ours
  std::string input_text;  // or this, and then nothing until we end
};

// through[i]: its stdout or stderr comes to us, and is not ours.
Status start_child(const Spec& spec, const bool (&through)[2], const Signals& signals, Child& child) {
  child.rank = spec.rank;
  child.name = spec.name;
  UniqueFd childs_end, childs_input;
  if (spec.rank >= 0) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
      return system_error(Code::kOutOfMemory, errno, "a socket for {} (see ulimit -n)", spec.name);
    }
    child.socket.reset(ends[0]);
    childs_end.reset(ends[1]);
    // Only this end: the other is the rank's, which may expect a descriptor that blocks.
    if (::fcntl(child.socket.get(), F_SETFL, O_NONBLOCK) < 0)
      return system_error(Code::kSystem, errno, "fcntl of a socket");
  }
  UniqueFd report, reported, write_ends[2];
  HOCKET_TRY(make_pipe(report, reported));
  if (!spec.input_text.empty()) {
    HOCKET_TRY(make_pipe(childs_input, child.input));
    constexpr int kMost = 1 << 20;  // what an unprivileged pipe may hold, so that nobody has to read it yet
    if (spec.input_text.size() > kMost - 4096 || ::fcntl(child.input.get(), F_SETPIPE_SZ, kMost) < 0) {
      return error(Code::kInvalidArgument, "{} bytes of arguments and variables are too many for {}",
                   spec.input_text.size(), spec.name);
    }
    const ssize_t written = ::write(child.input.get(), spec.input_text.data(), spec.input_text.size());
    if (written != static_cast<ssize_t>(spec.input_text.size()))
      return system_error(Code::kSystem, errno, "what {} is to do can't be written to its stdin", spec.name);
  }
  for (int i = 0; i < 2; ++i) {
    if (!through[i]) continue;
    HOCKET_TRY(make_pipe(child.outputs[i].fd, write_ends[i]));
    ::fcntl(child.outputs[i].fd.get(), F_SETFL, O_NONBLOCK);
  }

  std::vector<std::string> arguments = spec.arguments;
  std::vector<std::string> environment = spec.environment(childs_end.get());
  const std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
  Start start{};
  start.executable = spec.executable.empty() ? argv[0] : spec.executable.c_str();
  start.search = spec.executable.empty();
  start.argv = argv.data();
  start.envp = envp.data();
  start.socket = childs_end.get();
  start.input = childs_input ? childs_input.get() : spec.input;
  for (int i = 0; i < 2; ++i) start.outputs[i] = through[i] ? write_ends[i].get() : -1;
  start.report = reported.get();
  start.mask = &signals.before();
  start.pipe = &signals.pipe_before();
  start.parent = ::getpid();

  child.pid = ::fork();
  if (child.pid < 0) return system_error(Code::kOutOfMemory, errno, "fork of {} (see ulimit -u)", spec.name);
  if (child.pid == 0) become_rank(start);
  ::setpgid(child.pid,
            child.pid);  // both sides do it, so it is done for both; too late after exec, and then not needed
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

// ---- All ranks ----

class Job {
 public:
  Job(const Options& options, Signals& signals) : options_(options), signals_(signals) {
    struct stat files[2] = {};
    bool known = true;
    for (int i = 0; i < 2; ++i) {
      sinks_[i].fd = STDOUT_FILENO + i;
      known &= ::fstat(sinks_[i].fd, &files[i]) == 0;
      sinks_[i].regular = S_ISREG(files[i].st_mode);
      sinks_[i].terminal = ::isatty(sinks_[i].fd) == 1;
    }
    // Both are one file (2>&1): what waits for it waits in one place, or lines would cut each other.
    one_sink_ = known && files[0].st_dev == files[1].st_dev && files[0].st_ino == files[1].st_ino;
  }

  // Nothing of the ranks is left, whatever happened.
  ~Job() {
    for (Child& child : children_) {
      if (child.pid < 0 || child.ended) continue;
      ::kill(-child.pid, SIGKILL);
      ::kill(child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, 0);
    }
  }

  Status start(const std::vector<Spec>& specs) {
    // A terminal's stdout is left to the ranks, which then write line by line themselves. Their stderr is not: programs
    // write it in pieces.
    const bool tagged = options_.tag && !specs.empty() && specs.front().rank >= 0;
    const bool through[2] = {tagged || (options_.whole_lines && !::isatty(STDOUT_FILENO)),
                             tagged || options_.whole_lines};
    children_.resize(specs.size());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      HOCKET_TRY(start_child(specs[i], through, signals_, children_[i]));
      children_[i].outputs[1].sink = stderr_sink();
      if (tagged) children_[i].tag = format("[{}] ", specs[i].rank);
    }
    return {};
  }

  Result<int> serve() {
    while (std::any_of(children_.begin(), children_.end(), [](const Child& child) { return !child.ended; })) {
      HOCKET_TRY(wait_once());
      escalate();
    }
    finish_outputs();
    return first_failure_ == 0 && (sinks_[0].failed || sinks_[1].failed) ? 1 : first_failure_;
  }

 private:
  Status wait_once() {
    fds_.clear();
    fds_.push_back({.fd = signals_.fd(), .events = POLLIN, .revents = 0});
    fds_.push_back({.fd = stop_fd_, .events = POLLIN, .revents = 0});
    for (const Sink& sink : sinks_)
      fds_.push_back({.fd = sink.waiting.empty() ? -1 : sink.fd, .events = POLLOUT, .revents = 0});
    for (const Child& child : children_) {
      const short writes = child.answered < child.answer.size() ? POLLOUT : 0;
      fds_.push_back({.fd = child.ended ? -1 : child.process->fd(), .events = POLLIN, .revents = 0});
      fds_.push_back({.fd = child.socket.get(), .events = static_cast<short>(POLLIN | writes), .revents = 0});
      for (const Output& output : child.outputs)
        fds_.push_back({.fd = may_read(output) ? output.fd.get() : -1, .events = POLLIN, .revents = 0});
    }
    const Status woken = os::poll_for(fds_, {.deadline = std::min(next_deadline_, notice_)}, "the ranks");
    if (woken.code() == Code::kTimeout) return {};
    HOCKET_TRY(woken);
    if (fds_[0].revents) {
      while (const int number = signals_.take()) end_by(number);
    }
    if (fds_[1].revents) look_at_stop();
    for (Sink& sink : sinks_) flush(sink);
    for (std::size_t i = 0; i < children_.size(); ++i) {
      Child& child = children_[i];
      const pollfd* entry = &fds_[4 + 4 * i];
      // What a rank said before it ended comes first.
      if (entry[2].revents) read_output(child, child.outputs[0]);
      if (entry[3].revents) read_output(child, child.outputs[1]);
      if (entry[1].revents & POLLOUT) send_answer(child);
      if (entry[1].revents & (POLLIN | POLLHUP | POLLERR)) receive_request(child);
      if (entry[0].revents) reap(child);
    }
    answer_if_complete();
    return {};
  }

  // Whoever started this part of the job has gone: its ranks go, too.
  void look_at_stop() {
    char buffer[256];
    const ssize_t n = ::read(stop_fd_, buffer, sizeof buffer);
    if (n > 0 || (n < 0 && errno == EINTR)) return;
    stop_fd_ = -1;
    if (first_failure_ == 0) first_failure_ = 128 + SIGTERM;
    next_deadline_ = Deadline::at_ns(0);
  }

  // -- Exchanges --

  void receive_request(Child& child) {
    std::byte buffer[65536];
    while (child.socket) {
      const ssize_t n = ::recv(child.socket.get(), buffer, sizeof buffer, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n == 0 && child.asks) return tell_who_is_missing(child);
      if (n <= 0) return child.socket.reset();  // it ended, or wants no more of us
      if (child.asks) return refuse(child, "it sent more before it had its answer");
      child.request.insert(child.request.end(), buffer, buffer + n);
      const auto whole = launch_request_bytes(child.request, child.rank);
      if (!whole.ok()) return refuse(child, whole.status().text());
      child.asks = child.request.size() == *whole;
    }
  }

  void refuse(Child& child, std::string_view why) {
    say(format("the connection of {} (pid {}) was closed: {}", child.name, child.pid, why));
    child.socket.reset();
    child.request.clear();
    child.asks = false;
    if (lost_.empty())
      lost_ = format("the launcher closed the connection of {} (pid {}): {}", child.name, child.pid, why);
  }

  // It asked, and says no more: its time has run out (core/launch/run_descriptor.cpp). It goes on without us, but
  // learns who has not come.
  void tell_who_is_missing(Child& child) {
    std::vector<std::string> names;
    const Child* one = nullptr;
    for (const Child& other : children_) {
      if (other.asks || other.gave_up) continue;
      names.push_back(std::to_string(other.rank));
      one = &other;
    }
    child.gave_up = true;
    if (!one) return child.socket.reset();
    const std::string text =
        format("{} not come to this exchange; {} (pid {}){}", have(names), one->name, one->pid,
               one->ended ? " has ended" : format(" runs: `hocket ps {}` shows what its communicators do", one->pid));
    answer(child, Code::kTimeout, std::as_bytes(std::span(text)));
    child.socket.reset();  // the text fits into an empty socket
    if (lost_.empty()) lost_ = format("{} (pid {}) gave up: {}", child.name, child.pid, text);
  }

  // "rank 1 has", "ranks 0, 1, 2 and 12 more have".
  std::string have(const std::vector<std::string>& names) const {
    return list(names) + (names.size() == 1 ? " has" : " have");
  }
  std::string list(const std::vector<std::string>& names) const {
    constexpr std::size_t kMost = 8;
    std::string text = children_.front().rank < 0 ? "host" : "rank";
    text += names.size() == 1 ? " " : "s ";
    for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i ? ", " : "") + names[i];
    if (names.size() > kMost) text += format(" and {} more", names.size() - kMost);
    return text;
  }

  static LaunchHeader header_of(const Child& child) {
    LaunchHeader header;
    std::memcpy(&header, child.request.data(), sizeof header);
    return header;
  }

  void answer_if_complete() {
    const Child* first = nullptr;
    bool all = true;
    for (const Child& child : children_) {
      if (child.asks && !first) first = &child;
      all &= child.asks;
    }
    if (!first) return;
    if (!all) {
      // One that has ended will never ask, and so it is with all exchanges that come.
      if (!lost_.empty()) answer_all(Code::kPeerLost, std::as_bytes(std::span(lost_)));
      return;
    }
    const LaunchHeader expected = header_of(*first);
    for (const Child& child : children_) {
      const LaunchHeader header = header_of(child);
      if (header.bytes == expected.bytes && header.sequence == expected.sequence) continue;
      const std::string text = format(
          "rank {} is at exchange {} with {} bytes, rank {} at exchange {} with {}: all ranks must make their "
          "communicators in "
          "the same order",
          first->rank, expected.sequence, expected.bytes, child.rank, header.sequence, header.bytes);
      return answer_all(Code::kMismatch, std::as_bytes(std::span(text)));
    }
    if (expected.bytes * children_.size() > LaunchHeader::kMaxAnswerBytes) {
      const std::string text = format("{} ranks with {} bytes each are more than {} bytes", children_.size(),
                                      expected.bytes, LaunchHeader::kMaxAnswerBytes);
      return answer_all(Code::kInvalidArgument, std::as_bytes(std::span(text)));
    }
    std::vector<std::byte> together;
    together.reserve(expected.bytes * children_.size());
    for (const Child& child : children_) {
      together.insert(together.end(), child.request.begin() + sizeof(LaunchHeader), child.request.end());
    }
    answer_all(Code::kOk, together);
  }

  // Answers every rank that asks.
  void answer_all(Code code, std::span<const std::byte> bytes) {
    for (Child& child : children_) {
      if (child.asks) answer(child, code, bytes);
    }
  }

  void answer(Child& child, Code code, std::span<const std::byte> bytes) {
    LaunchHeader header = header_of(child);
    header.code = static_cast<std::uint32_t>(code);
    header.bytes = bytes.size();
    child.answer.resize(sizeof header + bytes.size());
    std::memcpy(child.answer.data(), &header, sizeof header);
    if (!bytes.empty()) std::memcpy(child.answer.data() + sizeof header, bytes.data(), bytes.size());
    child.answered = 0;
    child.request.clear();
    child.asks = false;
    send_answer(child);
  }

  void send_answer(Child& child) {
    while (child.socket && child.answered < child.answer.size()) {
      const ssize_t n = ::send(child.socket.get(), child.answer.data() + child.answered,
                               child.answer.size() - child.answered, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n < 0) return child.socket.reset();
      child.answered += static_cast<std::size_t>(n);
    }
  }

  // -- Ends and signals --

  void reap(Child& child) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
      return;
    // What it started and left behind goes, too. Before the wait: until then its number is nobody else's.
    if (!options_.keep_going) ::kill(-child.pid, SIGKILL);
    while (::waitpid(child.pid, &child.wait_status, 0) < 0 && errno == EINTR) {
    }
    child.ended = true;
    child.process.reset();
    child.socket.reset();
    child.request.clear();
    child.asks = false;
    for (Output& output : child.outputs) read_output(child, output, 4 * kReads);
    if (lost_.empty()) lost_ = ending(child) + " before the exchange";
    const int status = exit_status(child);
    if (status == 0) return;
    say(ending(child));
    if (first_failure_ != 0) return;
    first_failure_ = status;
    if (!options_.keep_going && next_deadline_.is_never()) next_deadline_ = Deadline::after(options_.grace);
  }

  // A signal of ours is the ranks', and from now on they have as long to end as after a failure. Who asks twice means
  // it.
  void end_by(int number) {
    // A wrapper may hand on what the terminal has sent us as well, and a terminal that closes sends twice.
    constexpr std::chrono::milliseconds kSameSignal(100);
    // Ranks that end at once are nothing to talk about.
    constexpr std::chrono::milliseconds kNotice(500);
    const bool again = asked_ && same_signal_.passed() && number != SIGHUP;
    // An agent is told by its launcher, which counts for all hosts and kills us if need be.
    if (again && options_.stop_when_closed < 0) {
      say(format("killing {}", list(running())));
      forward(SIGKILL);
      terminated_ = true;
      next_deadline_ = notice_ = Deadline::never();
      return;
    }
    forward(number);
    if (std::exchange(asked_, true)) return;
    same_signal_ = Deadline::after(kSameSignal);
    notice_ = Deadline::after(kNotice);
    if (next_deadline_.is_never()) next_deadline_ = Deadline::after(options_.grace);
  }

  std::vector<std::string> running() const {
    std::vector<std::string> names;
    for (const Child& child : children_) {
      if (!child.ended) names.push_back(child.rank >= 0 ? std::to_string(child.rank) : child.name.substr(5));
    }
    return names;
  }

  void forward(int number) {
    for (const Child& child : children_) {
      if (!child.ended) ::kill(-child.pid, number);
    }
  }

  void escalate() {
    if (notice_.passed()) {
      notice_ = Deadline::never();
      const bool told = options_.stop_when_closed >= 0;
      const std::vector<std::string> names = running();
      if (!told && !names.empty()) say(format("waiting for {} to end; once more kills them", list(names)));
    }
    if (next_deadline_.is_never() || !next_deadline_.passed()) return;
    const int number = terminated_ ? SIGKILL : SIGTERM;
    for (const Child& child : children_) {
      if (child.ended) continue;
      say(format("{} (pid {}) still runs, sending {}", child.name, child.pid, terminated_ ? "SIGKILL" : "SIGTERM"));
    }
    forward(number);
    if (!terminated_) forward(SIGCONT);  // one that is stopped could not take it
    next_deadline_ = terminated_ ? Deadline::never() : Deadline::after(options_.grace / 2);
    terminated_ = true;
  }

  // -- Output of ranks, and ours --

  static constexpr int kReads = 20;  // of 16 KiB each, a turn: one rank that writes without end is not all there is

  int stderr_sink() const { return one_sink_ ? 0 : 1; }

  bool may_read(const Output& output) const { return sinks_[output.sink].waiting.size() < kMostWaiting; }

  void say(std::string_view text) { put(sinks_[stderr_sink()], format("{}: {}\n", options_.name, text)); }

  // `from`: whose text it is; what another has begun and not ended stays a line of its own.
  void put(Sink& sink, std::string_view text, const void* from = nullptr) {
    if (sink.gone || text.empty()) return;
    if (sink.within && sink.within != from) sink.waiting += '\n';
    sink.within = text.back() == '\n' ? nullptr : from;
    sink.waiting += text;
    flush(sink);
  }

  // As much as goes without waiting.
  void flush(Sink& sink) {
    constexpr std::size_t kAlwaysFits = 4096;  // what poll() promises of a pipe that is writable
    std::size_t done = 0;
    while (done < sink.waiting.size()) {
      pollfd entry{.fd = sink.fd, .events = POLLOUT, .revents = 0};
      if (!sink.regular && ::poll(&entry, 1, 0) <= 0) break;
      const std::size_t left = sink.waiting.size() - done;
      const ssize_t n = ::write(sink.fd, sink.waiting.data() + done, sink.regular ? left : std::min(left, kAlwaysFits));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n < 0) {
        const int number = errno;
        sink.waiting.clear();
        return give_up(sink, number);
      }
      done += static_cast<std::size_t>(n);
    }
    sink.waiting.erase(0, done);
  }

  // A reader that has gone is none of the ranks' either; with any other trouble they go on, and it is said.
  void give_up(Sink& sink, int number) {
    if (number == EPIPE) {
      sink.gone = true;
      for (Child& child : children_) {
        for (Output& output : child.outputs)
          if (&sinks_[output.sink] == &sink) output.fd.reset();
      }
      return;
    }
    if (!std::exchange(sink.failed, true) && sink.fd != STDERR_FILENO && !one_sink_)
      say(format("stdout can't be written: {}", ::strerror(number)));
  }

  void read_output(Child& child, Output& output, int reads = kReads) {
    char buffer[16384];
    for (; output.fd && reads > 0 && (may_read(output) || child.ended); --reads) {
      const ssize_t n = ::read(output.fd.get(), buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) return close_output(child, output);
      take_text(child, output, std::string_view(buffer, static_cast<std::size_t>(n)));
    }
  }

  // Whole lines are passed on. On a terminal what ends in a carriage return is one too: a progress bar has nothing
  // else.
  void take_text(const Child& child, Output& output, std::string_view read) {
    std::size_t seen = output.line.size();
    output.line += read;
    const std::string_view line = output.line;
    std::string text;
    std::size_t begin = 0;
    for (std::size_t end; (end = line.find('\n', seen)) != std::string_view::npos; begin = seen = end + 1) {
      if (!std::exchange(output.within, false)) text += child.tag;
      text += line.substr(begin, end + 1 - begin);
    }
    std::size_t enough = begin;
    if (line.size() - begin > kLongestLine) {
      enough = line.size();
    } else if (sinks_[output.sink].terminal) {
      // A last one may be the first half of a line's end.
      const std::size_t back = line.substr(0, line.size() - 1).rfind('\r');
      if (back != std::string_view::npos) enough = std::max(begin, back + 1);
    }
    if (enough > begin) {
      if (!std::exchange(output.within, true)) text += child.tag;
      text += line.substr(begin, enough - begin);
    }
    output.line.erase(0, enough);
    put(sinks_[output.sink], text, &output);
  }

  // Its last line may have no end: it gets one with a tag, or when something follows.
  void close_output(const Child& child, Output& output) {
    Sink& sink = sinks_[output.sink];
    if (!output.line.empty()) put(sink, (output.within ? "" : child.tag) + output.line, &output);
    if (!child.tag.empty() && sink.within == &output) put(sink, "\n", &output);
    output.within = false;
    output.line.clear();
    output.fd.reset();
  }

  // After the last rank: what is left in its pipes, and what our readers have not taken. A signal ends the waiting.
  void finish_outputs() {
    for (Child& child : children_) {
      for (Output& output : child.outputs) {
        read_output(child, output, 4 * kReads);  // more than a pipe holds
        close_output(child, output);
      }
    }
    for (Sink& sink : sinks_) {
      for (flush(sink); !sink.waiting.empty(); flush(sink)) {
        pollfd entries[2] = {{.fd = sink.fd, .events = POLLOUT, .revents = 0},
                             {.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
        if (::poll(entries, 2, -1) < 0 && errno != EINTR) return;
        if (entries[1].revents) return;
      }
    }
  }

  const Options& options_;
  Signals& signals_;
  Sink sinks_[2];
  bool one_sink_ = false;
  std::vector<Child> children_;
  std::vector<pollfd> fds_;
  std::string lost_;  // why no exchange can be complete any more; empty while it can
  int first_failure_ = 0;
  bool terminated_ = false;
  bool asked_ = false;  // by a signal of ours, to end
  Deadline same_signal_ = Deadline::never();
  Deadline notice_ = Deadline::never();  // when to say for whom we wait then
  int stop_fd_ = options_.stop_when_closed;
  Deadline next_deadline_ = Deadline::never();
};

Result<int> run_specs(const Options& options, Signals& signals, const std::vector<Spec>& specs) {
  ::signal(SIGCHLD, SIG_DFL);  // one that is inherited as ignored would make the kernel keep no exit statuses
  std::fflush(nullptr);
  Job job(options, signals);
  HOCKET_TRY(job.start(specs));
  return job.serve();
}

// ---- Jobs over several hosts: the text that a host's agent is told by ----
//
// A line for each item, its name and its value with % and line ends as %25 and %0a, and "end".

constexpr std::string_view kJobLine = "hocket job 1";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '%') {
      result += "%25";
    } else if (c == '\n') {
      result += "%0a";
    } else {
      result += c;
    }
  }
  return result;
}

std::string unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 3) == "%25" || text.substr(i, 3) == "%0a") {
      result += text[i + 1] == '2' ? '%' : '\n';
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string job_text(const Options& job) {
  std::string text =
      format("{}\nranks {}\nfirst {}\nworld {}\nid {}\ngrace_ms {}\nkeep_going {:d}\ntag {:d}\n", kJobLine, job.ranks,
             job.first_rank, job.world, job.unique_id, job.grace.count(), job.keep_going, job.tag);
  char directory[4096];
  if (::getcwd(directory, sizeof directory)) text += format("directory {}\n", escaped(directory));
  for (const std::string& entry : job.environment) text += format("environment {}\n", escaped(entry));
  for (const std::string& argument : job.arguments) text += format("argument {}\n", escaped(argument));
  return text + "end\n";
}

Result<std::string> read_line(int fd) {
  std::string line;
  for (;;) {
    char c = 0;
    const ssize_t n = ::read(fd, &c, 1);  // what follows the text is not ours
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(Code::kSystem, errno, "read the job");
    if (n == 0) return error(Code::kInvalidArgument, "the job's text ends in the middle");
    if (c == '\n') return line;
    line += c;
    if (line.size() > 1 << 20) return error(Code::kInvalidArgument, "a line of the job is too long");
  }
}

bool to_number(const std::string& text, int least, int most, int& number) {
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno != 0 || value < least || value > most) return false;
  number = static_cast<int>(value);
  return true;
}

}  // namespace

Result<int> run_ranks(const Options& options) {
  if (options.ranks < 1 || options.ranks > kMaxLaunchedRanks) {
    return error(Code::kInvalidArgument, "{} ranks: 1 to {} can be started", options.ranks, kMaxLaunchedRanks);
  }
  if (options.arguments.empty()) return error(Code::kInvalidArgument, "no program to run");
  HOCKET_ASSIGN(const std::unique_ptr<Signals> signals, Signals::block());
  UniqueFd no_input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!no_input) return system_error(Code::kSystem, errno, "open /dev/null");
  std::vector<Spec> specs;
  for (int i = 0; i < options.ranks; ++i) {
    Spec spec;
    spec.rank = options.first_rank + i;
    spec.name = format("rank {}", spec.rank);
    spec.executable = options.executable;
    spec.arguments = options.arguments;
    spec.environment = [&options, i](int socket) { return environment_of(options, i, socket); };
    const bool ours = i == 0 && options.unique_id.empty() && !::isatty(STDIN_FILENO);
    spec.input = ours ? -1 : no_input.get();
    specs.push_back(std::move(spec));
  }
  return run_specs(options, *signals, specs);
}

Result<std::vector<Host>> parse_hosts(std::string_view text) {
  std::vector<Host> hosts;
  int ranks = 0;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    const std::string entry(text.substr(0, comma));
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
    Host host;
    const std::size_t colon = entry.rfind(':');
    host.name = entry.substr(0, colon);
    if (host.name.empty() || host.name.front() == '-' ||
        (colon != std::string::npos && !to_number(entry.substr(colon + 1), 1, kMaxLaunchedRanks, host.ranks))) {
      return error(Code::kInvalidArgument, "'{}' is no host with a number of ranks, such as node1:4", entry);
    }
    ranks += host.ranks;
    hosts.push_back(std::move(host));
  }
  if (hosts.size() > 1024 || ranks > 1 << 20) {
    return error(Code::kInvalidArgument, "{} hosts with {} ranks are more than can be started", hosts.size(), ranks);
  }
  return hosts;
}

std::string this_program() {
  char path[4096];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  return n <= 0 || n == sizeof path ? std::string("hocket") : std::string(path, static_cast<std::size_t>(n));
}

std::vector<std::string> launcher_words(std::string_view launcher, const std::string& host) {
  std::vector<std::string> result;
  while (!launcher.empty()) {
    std::string word(launcher.substr(0, launcher.find(' ')));
    launcher.remove_prefix(std::min(launcher.size(), word.size() + 1));
    for (std::size_t at = word.find("{host}"); at != std::string::npos; at = word.find("{host}", at + host.size()))
      word.replace(at, 6, host);
    if (!word.empty()) result.push_back(std::move(word));
  }
  return result;
}

Result<int> run_hosts(const Options& options, const HostOptions& hosts) {
  if (options.arguments.empty()) return error(Code::kInvalidArgument, "no program to run");
  // Before the id, whose thread must not take them.
  HOCKET_ASSIGN(const std::unique_ptr<Signals> signals, Signals::block());
  HOCKET_ASSIGN(const Settings settings, Settings::from_environment());
  HOCKET_ASSIGN(const UniqueId id, UniqueId::create(settings));
  const std::string hocket = hosts.hocket.empty() ? this_program() : hosts.hocket;
  std::vector<Spec> specs;
  int first = 0, world = 0;
  for (const Host& host : hosts.hosts) world += host.ranks;
  for (const Host& host : hosts.hosts) {
    Options part = options;
    part.ranks = host.ranks;
    part.first_rank = std::exchange(first, first + host.ranks);
    part.world = world;
    part.unique_id = id.to_string();
    Spec spec;
    spec.rank = -1;
    spec.name = "host " + host.name;
    spec.arguments = launcher_words(hosts.launcher, host.name);
    spec.arguments.insert(spec.arguments.end(), {hocket, "run", "--agent"});
    spec.environment = [](int) {
      std::vector<std::string> all;
      for (char** entry = environ; *entry; ++entry) all.emplace_back(*entry);
      return all;
    };
    spec.input_text = job_text(part);
    specs.push_back(std::move(spec));
  }
  return run_specs(options, *signals, specs);
}

Result<int> run_agent(int input) {
  HOCKET_ASSIGN(const std::string first, read_line(input));
  if (first != kJobLine) {
    return error(Code::kInvalidArgument, "stdin begins with '{}' instead of '{}': --agent is for `hocket run --hosts`",
                 escaped(first).substr(0, 40), kJobLine);
  }
  Options job;
  for (;;) {
    HOCKET_ASSIGN(const std::string line, read_line(input));
    if (line == "end") break;
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string name = line.substr(0, space);
    const std::string value = unescaped(std::string_view(line).substr(std::min(space + 1, line.size())));
    int number = 0;
    bool good = true;
    if (name == "ranks") {
      good = to_number(value, 1, kMaxLaunchedRanks, job.ranks);
    } else if (name == "first") {
      good = to_number(value, 0, 1 << 20, job.first_rank);
    } else if (name == "world") {
      good = to_number(value, 1, 1 << 20, job.world);
    } else if (name == "id") {
      good = UniqueId::from_string(value).ok();
      job.unique_id = value;
    } else if (name == "grace_ms") {
      good = to_number(value, 0, 1 << 30, number);
      job.grace = std::chrono::milliseconds(number);
    } else if (name == "keep_going") {
      job.keep_going = value == "1";
    } else if (name == "tag") {
      job.tag = value == "1";
    } else if (name == "directory") {
      if (::chdir(value.c_str()) < 0) return system_error(Code::kInvalidArgument, errno, "chdir {}", value);
    } else if (name == "environment") {
      good = value.find('=') != std::string::npos && value.front() != '=';
      job.environment.push_back(value);
    } else if (name == "argument") {
      job.arguments.push_back(value);
    } else {
      good = false;
    }
    if (!good) return error(Code::kInvalidArgument, "the job's line '{}' is not understood", name);
  }
  if (job.unique_id.empty() || job.first_rank + job.ranks > job.world) {
    return error(Code::kInvalidArgument, "the job lacks an id, or has ranks beyond its size");
  }
  job.stop_when_closed = input;
  job.whole_lines = true;
  return run_ranks(job);
}

}  // namespace hocket::run

int run_main(int argc, char** argv) {
  CLI::App app("Starts a program several times, as the ranks of one job, on this host or on several.", "hocket run");
  hocket::run::Options options;
  options.whole_lines = true;
  hocket::run::HostOptions hosts;
  double grace = 10;
  std::string host_list;
  std::vector<std::string> variables;
  bool agent = false;
  auto* ranks = app.add_option("-n,--ranks", options.ranks, "how many processes to start on this host");
  auto* with_hosts = app.add_option("--hosts", host_list, "start on these hosts instead: node1:4,node2:4");
  ranks->excludes(with_hosts);
  app.add_option("--launcher", hosts.launcher,
                 "how a command gets to a host (default '" + hosts.launcher + "'; {host} is its name)")
      ->needs(with_hosts);
  app.add_option("--hocket", hosts.hocket, "path of this command on the other hosts (default: as here)")
      ->needs(with_hosts);
  app.add_option("--env", variables,
                 "a variable that ranks on other hosts get too (HOCKET_... always), may be repeated")
      ->needs(with_hosts);
  app.add_flag("--keep-going", options.keep_going, "when a rank fails, leave the others alone");
  app.add_flag("--tag", options.tag, "begin each line of output with [rank]");
  app.add_option("--grace", grace, "seconds to end by themselves after another rank failed, or a Ctrl-C (default 10)")
      ->check(CLI::Range(0.0, 1e6));
  app.add_flag("--agent", agent, "the part of --hosts on one host")->group("");
  app.footer(
      "PROGRAM and its own arguments follow the flags. Rank 0 alone gets stdin, and with --hosts no rank does. What a "
      "rank\n"
      "has started and left behind when it ends is killed, unless with --keep-going. With --hosts, hocket must be "
      "installed\n"
      "on each host, and the job's secret goes through the launcher's stdin.\n"
      "Ctrl-C, SIGTERM and SIGHUP go to all ranks. Those that have not ended after the grace get SIGTERM, and half of "
      "it\n"
      "later SIGKILL; a second Ctrl-C or SIGTERM kills them at once.\n"
      "Exit status: 0, that of the first rank that failed (128 + the signal's number), or 2 if nothing could be "
      "started.");
  // Flags end where the program begins: what follows is its own, flags as well.
  int end = 1;
  for (; end < argc; ++end) {
    const std::string_view word = argv[end];
    if (word == "--") break;
    if (!word.starts_with('-')) break;
    for (const std::string_view takes_value :
         {"-n", "--ranks", "--grace", "--hosts", "--launcher", "--hocket", "--env"})
      if (word == takes_value) {
        ++end;
        break;
      }
  }
  end = std::min(end, argc);
  try {
    app.parse(end, argv);
  } catch (const CLI::ParseError& e) {
    return hocket::usage_answer(app, e);
  }
  if (end < argc && std::string_view(argv[end]) == "--") ++end;
  const auto finish = [](const hocket::Result<int>& result) {
    if (result.ok()) return *result;
    hocket::print(stderr, "hocket run: {}\n", result.status().text());
    return 2;
  };
  if (agent) return finish(hocket::run::run_agent(STDIN_FILENO));
  options.arguments.assign(argv + end, argv + argc);
  if (ranks->empty() && with_hosts->empty()) {
    return hocket::usage_error("hocket run", "how many ranks, and where? --ranks N or --hosts a:N,b:N");
  }
  if (options.arguments.empty()) {
    return hocket::usage_error("hocket run", "no program to run: hocket run --ranks N PROGRAM [ARGUMENTS...]");
  }
  options.grace = std::chrono::milliseconds(static_cast<std::int64_t>(grace * 1000));
  if (with_hosts->empty()) return finish(hocket::run::run_ranks(options));
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view view = *entry;
    const std::string_view name = view.substr(0, view.find('='));
    if (view.starts_with("HOCKET_") || std::find(variables.begin(), variables.end(), name) != variables.end())
      options.environment.emplace_back(view);
  }
  auto list = hocket::run::parse_hosts(host_list);
  if (!list.ok()) return finish(list.status());
  hosts.hosts = std::move(*list);
  return finish(hocket::run::run_hosts(options, hosts));
}
