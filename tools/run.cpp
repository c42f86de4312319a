// SPDX-License-Identifier: Apache-2.0
#include "tools/run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/os/clock.hpp"
#include "base/os/pidfd.hpp"
#include "base/os/socket.hpp"
#include "base/status.hpp"
#include "core/launch.hpp"

extern char** environ;

namespace hocket::run {
namespace {

using os::Deadline;
using os::UniqueFd;

// Signals that mean "end" to a launcher; ranks get them instead.
constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP};

// Blocks the forwarded signals while ranks run and has them in a descriptor.
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
    self->fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!self->fd_) return system_error(Code::kOutOfMemory, errno, "signalfd (see ulimit -n)");
    return self;
  }
  ~Signals() {
    if (blocked_) ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const noexcept { return fd_.get(); }
  const sigset_t& before() const noexcept { return before_; }
  /// The next signal that came, 0 if none.
  int take() noexcept {
    signalfd_siginfo info;
    return ::read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  Signals() = default;
  UniqueFd fd_;
  sigset_t before_{};
  bool blocked_ = false;
};

// The read end of a rank's stdout or stderr, and the line that is not complete yet.
struct Output {
  UniqueFd fd;
  int to = STDOUT_FILENO;
  std::string line;
};

struct Child {
  Rank rank = 0;
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
  bool asks = false;  // the request is complete
};

std::string ending(const Child& child) {
  if (WIFSIGNALED(child.wait_status)) {
    const int number = WTERMSIG(child.wait_status);
    return format("rank {} (pid {}) was killed by signal {} ({})", child.rank, child.pid, number, ::strsignal(number));
  }
  return format("rank {} (pid {}) ended with exit code {}", child.rank, child.pid, WEXITSTATUS(child.wait_status));
}

int exit_status(const Child& child) {
  return WIFSIGNALED(child.wait_status) ? 128 + WTERMSIG(child.wait_status) : WEXITSTATUS(child.wait_status);
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      pollfd entry{.fd = fd, .events = POLLOUT, .revents = 0};
      ::poll(&entry, 1, -1);
      continue;
    }
    if (n < 0) return;  // nobody reads our output any more; the ranks go on
    text.remove_prefix(static_cast<std::size_t>(n));
  }
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
  if (::fcntl(start.socket, F_SETFD, 0) < 0) fail();
  if (start.input >= 0 && ::dup2(start.input, STDIN_FILENO) < 0) fail();
  for (int i = 0; i < 2; ++i) {
    if (start.outputs[i] >= 0 && ::dup2(start.outputs[i], STDOUT_FILENO + i) < 0) fail();
  }
  ::pthread_sigmask(SIG_SETMASK, start.mask, nullptr);
  if (start.search) {
    ::execvpe(start.executable, start.argv, start.envp);
  } else {
    ::execve(start.executable, start.argv, start.envp);
  }
  fail();
  ::_exit(127);
}

std::vector<std::string> environment_of(Rank rank, int ranks, int socket) {
  std::vector<std::string> result;
  constexpr std::string_view kOurs[] = {"HOCKET_RANK=", "HOCKET_SIZE=", "HOCKET_LOCAL_RANK=", "HOCKET_RUN_FD="};
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view view = *entry;
    if (std::none_of(std::begin(kOurs), std::end(kOurs),
                     [&](std::string_view name) { return view.starts_with(name); })) {
      result.emplace_back(view);
    }
  }
  result.push_back(format("HOCKET_RANK={}", rank));
  result.push_back(format("HOCKET_SIZE={}", ranks));
  result.push_back(format("HOCKET_LOCAL_RANK={}", rank));
  result.push_back(format("HOCKET_RUN_FD={}", socket));
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

Status start_rank(const Options& options, Rank rank, int no_input, const Signals& signals, Child& child) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
    return system_error(Code::kOutOfMemory, errno, "a socket for rank {} (see ulimit -n)", rank);
  }
  child.rank = rank;
  child.socket.reset(ends[0]);
  UniqueFd childs_end(ends[1]);
  // Only this end: the other is the rank's, which may expect a descriptor that blocks.
  if (::fcntl(child.socket.get(), F_SETFL, O_NONBLOCK) < 0)
    return system_error(Code::kSystem, errno, "fcntl of a socket");
  UniqueFd report, reported, write_ends[2];
  HOCKET_TRY(make_pipe(report, reported));
  if (options.tag) {
    for (int i = 0; i < 2; ++i) {
      HOCKET_TRY(make_pipe(child.outputs[i].fd, write_ends[i]));
      ::fcntl(child.outputs[i].fd.get(), F_SETFL, O_NONBLOCK);
      child.outputs[i].to = STDOUT_FILENO + i;
    }
  }

  std::vector<std::string> arguments = options.arguments;
  std::vector<std::string> environment = environment_of(rank, options.ranks, childs_end.get());
  const std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
  Start start{};
  start.executable = options.executable.empty() ? argv[0] : options.executable.c_str();
  start.search = options.executable.empty();
  start.argv = argv.data();
  start.envp = envp.data();
  start.socket = childs_end.get();
  start.input = rank == 0 && !::isatty(STDIN_FILENO) ? -1 : no_input;
  for (int i = 0; i < 2; ++i) start.outputs[i] = options.tag ? write_ends[i].get() : -1;
  start.report = reported.get();
  start.mask = &signals.before();
  start.parent = ::getpid();

  child.pid = ::fork();
  if (child.pid < 0) return system_error(Code::kOutOfMemory, errno, "fork of rank {} (see ulimit -u)", rank);
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
    return system_error(Code::kInvalidArgument, number, "rank {} can't be started: {}", rank, start.executable);
  }
  HOCKET_ASSIGN(os::PidFd process, os::PidFd::open(child.pid));
  child.process.emplace(std::move(process));
  return {};
}

// ---- All ranks ----

class Job {
 public:
  Job(const Options& options, Signals& signals) : options_(options), signals_(signals) {}

  // Nothing of the ranks is left, whatever happened.
  ~Job() {
    for (Child& child : children_) {
      if (child.pid < 0 || child.ended) continue;
      ::kill(-child.pid, SIGKILL);
      ::kill(child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, 0);
    }
  }

  Status start() {
    UniqueFd no_input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!no_input) return system_error(Code::kSystem, errno, "open /dev/null");
    children_.resize(static_cast<std::size_t>(options_.ranks));
    for (Rank rank = 0; rank < options_.ranks; ++rank) {
      HOCKET_TRY(start_rank(options_, rank, no_input.get(), signals_, children_[static_cast<std::size_t>(rank)]));
    }
    return {};
  }

  Result<int> serve() {
    while (std::any_of(children_.begin(), children_.end(), [](const Child& child) { return !child.ended; })) {
      HOCKET_TRY(wait_once());
      escalate();
    }
    for (Child& child : children_) {
      for (Output& output : child.outputs) close_output(child, output);
    }
    return first_failure_;
  }

 private:
  Status wait_once() {
    fds_.clear();
    fds_.push_back({.fd = signals_.fd(), .events = POLLIN, .revents = 0});
    for (const Child& child : children_) {
      const short writes = child.answered < child.answer.size() ? POLLOUT : 0;
      fds_.push_back({.fd = child.ended ? -1 : child.process->fd(), .events = POLLIN, .revents = 0});
      fds_.push_back({.fd = child.socket.get(), .events = static_cast<short>(POLLIN | writes), .revents = 0});
      for (const Output& output : child.outputs)
        fds_.push_back({.fd = output.fd.get(), .events = POLLIN, .revents = 0});
    }
    const Status woken = os::poll_for(fds_, {.deadline = next_deadline_}, "the ranks");
    if (woken.code() == Code::kTimeout) return {};
    HOCKET_TRY(woken);
    if (fds_[0].revents) {
      while (const int number = signals_.take()) forward(number);
    }
    for (std::size_t i = 0; i < children_.size(); ++i) {
      Child& child = children_[i];
      const pollfd* entry = &fds_[1 + 4 * i];
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

  // -- Exchanges --

  void receive_request(Child& child) {
    std::byte buffer[65536];
    while (child.socket) {
      const ssize_t n = ::recv(child.socket.get(), buffer, sizeof buffer, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) return child.socket.reset();  // it ended, or wants no more of us
      if (child.asks) return refuse(child, "it sent more before it had its answer");
      child.request.insert(child.request.end(), buffer, buffer + n);
      if (child.request.size() < sizeof(LaunchHeader)) continue;
      const LaunchHeader header = header_of(child);
      if (header.magic != LaunchHeader::kMagic || header.version != LaunchHeader::kVersion) {
        return refuse(child, "its library speaks another version than this command");
      }
      if (header.rank != static_cast<std::uint32_t>(child.rank))
        return refuse(child, "it took the number of another rank");
      if (header.bytes > LaunchHeader::kMaxBytes) return refuse(child, "its request is too long");
      const std::size_t whole = sizeof header + header.bytes;
      if (child.request.size() > whole) return refuse(child, "it sent more than it announced");
      child.asks = child.request.size() == whole;
    }
  }

  void refuse(Child& child, std::string_view why) {
    print(stderr, "{}: the connection of rank {} (pid {}) was closed: {}\n", options_.name, child.rank, child.pid, why);
    child.socket.reset();
    child.request.clear();
    child.asks = false;
    if (lost_.empty())
      lost_ = format("the launcher closed the connection of rank {} (pid {}): {}", child.rank, child.pid, why);
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
      if (!child.asks) continue;
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
    for (Output& output : child.outputs) read_output(child, output);
    if (lost_.empty()) lost_ = ending(child) + " before the exchange";
    const int status = exit_status(child);
    if (status == 0) return;
    print(stderr, "{}: {}\n", options_.name, ending(child));
    if (first_failure_ != 0) return;
    first_failure_ = status;
    if (!options_.keep_going) next_deadline_ = Deadline::after(options_.grace);
  }

  void forward(int number) {
    for (const Child& child : children_) {
      if (!child.ended) ::kill(-child.pid, number);
    }
  }

  void escalate() {
    if (next_deadline_.is_never() || !next_deadline_.passed()) return;
    const int number = terminated_ ? SIGKILL : SIGTERM;
    for (const Child& child : children_) {
      if (child.ended) continue;
      print(stderr, "{}: rank {} (pid {}) still runs, sending {}\n", options_.name, child.rank, child.pid,
            terminated_ ? "SIGKILL" : "SIGTERM");
    }
    forward(number);
    if (!terminated_) forward(SIGCONT);  // one that is stopped could not take it
    next_deadline_ = terminated_ ? Deadline::never() : Deadline::after(options_.grace / 2);
    terminated_ = true;
  }

  // -- Output with --tag --

  void read_output(Child& child, Output& output) {
    char buffer[16384];
    while (output.fd) {
      const ssize_t n = ::read(output.fd.get(), buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) return close_output(child, output);
      output.line.append(buffer, static_cast<std::size_t>(n));
      std::string text;
      std::size_t begin = 0;
      for (std::size_t end; (end = output.line.find('\n', begin)) != std::string::npos; begin = end + 1) {
        text += format("[{}] {}\n", child.rank, std::string_view(output.line).substr(begin, end - begin));
      }
      output.line.erase(0, begin);
      write_all(output.to, text);
    }
  }

  void close_output(Child& child, Output& output) {
    if (!output.line.empty()) write_all(output.to, format("[{}] {}\n", child.rank, output.line));
    output.line.clear();
    output.fd.reset();
  }

  const Options& options_;
  Signals& signals_;
  std::vector<Child> children_;
  std::vector<pollfd> fds_;
  std::string lost_;  // why no exchange can be complete any more; empty while it can
  int first_failure_ = 0;
  bool terminated_ = false;
  Deadline next_deadline_ = Deadline::never();
};

}  // namespace

Result<int> run_ranks(const Options& options) {
  if (options.ranks < 1 || options.ranks > kMaxLaunchedRanks) {
    return error(Code::kInvalidArgument, "{} ranks: 1 to {} can be started", options.ranks, kMaxLaunchedRanks);
  }
  if (options.arguments.empty()) return error(Code::kInvalidArgument, "no program to run");
  HOCKET_ASSIGN(const std::unique_ptr<Signals> signals, Signals::block());
  ::signal(SIGCHLD, SIG_DFL);  // one that is inherited as ignored would make the kernel keep no exit statuses
  std::fflush(nullptr);
  Job job(options, *signals);
  HOCKET_TRY(job.start());
  return job.serve();
}

}  // namespace hocket::run

int run_main(int argc, char** argv) {
  CLI::App app("Starts a program several times on this host, as the ranks of one job.", "hocket run");
  hocket::run::Options options;
  double grace = 10;
  app.add_option("-n,--ranks", options.ranks, "how many processes to start")->required();
  app.add_flag("--keep-going", options.keep_going, "when a rank fails, leave the others alone");
  app.add_flag("--tag", options.tag, "begin each line of output with [rank]");
  app.add_option("--grace", grace, "seconds for the others to end by themselves after a rank failed (default 10)")
      ->check(CLI::Range(0.0, 1e6));
  app.footer("PROGRAM and its own arguments follow the flags.");
  // Flags end where the program begins: what follows is its own, flags as well.
  int end = 1;
  for (; end < argc; ++end) {
    const std::string_view word = argv[end];
    if (word == "--") break;
    if (!word.starts_with('-')) break;
    if (word == "-n" || word == "--ranks" || word == "--grace") ++end;
  }
  end = std::min(end, argc);
  CLI11_PARSE(app, end, argv);
  if (end < argc && std::string_view(argv[end]) == "--") ++end;
  options.arguments.assign(argv + end, argv + argc);
  if (options.arguments.empty()) {
    hocket::print(stderr, "hocket run: no program to run: hocket run --ranks N PROGRAM [ARGUMENTS...]\n");
    return 2;
  }
  options.grace = std::chrono::milliseconds(static_cast<std::int64_t>(grace * 1000));
  const hocket::Result<int> result = hocket::run::run_ranks(options);
  if (!result.ok()) {
    hocket::print(stderr, "hocket run: {}\n", result.status().text());
    return 2;
  }
  return *result;
}
