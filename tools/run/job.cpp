// SPDX-License-Identifier: Apache-2.0
#include "tools/run/job.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/os/abort.hpp"
#include "base/status.hpp"
#include "tools/run/exchanges.hpp"
#include "tools/run/open_files.hpp"
#include "tools/run/outputs.hpp"
#include "tools/run/termination.hpp"

namespace hocket::run {
namespace {

// One thread, which never waits but in poll().
class Job {
 public:
  Job(const Options& options, Signals& signals, Outputs outputs)
      : options_(options), signals_(signals), outputs_(std::move(outputs)) {}
  Job(const Job&) = delete;

  ~Job() {
    for (Child& child : children_) {
      if (child.pid < 0 || child.ended) continue;
      ::kill(-child.pid, SIGKILL);
      ::kill(child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, 0);
    }
  }

  Status start(const std::vector<Spec>& specs, const OpenFiles& open_files) {
    const StartOptions options{
        .through = {outputs_.through(0), outputs_.through(1)}, .open_files = open_files.before(), .signals = signals_};
    children_.resize(specs.size());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      ChildEnds ends;
      HOCKET_TRY(start_child(specs[i], options, children_[i], ends));
      outputs_.add(children_[i], ends);
      exchanges_.add(std::move(ends.socket));
    }
    return {};
  }

  Result<int> serve() {
    while (std::any_of(children_.begin(), children_.end(), [](const Child& child) { return !child.ended; })) {
      HOCKET_TRY(wait_once());
      termination_.act();
    }
    outputs_.finish(signals_.fd());
    const int status = termination_.exit_status();
    return status == 0 && outputs_.failed() ? 1 : status;
  }

 private:
  static constexpr std::size_t kOwnEntries = 4, kChildEntries = 4;

  Status wait_once() {
    fds_.clear();
    fds_.push_back({.fd = signals_.fd(), .events = POLLIN, .revents = 0});
    fds_.push_back({.fd = starter_, .events = POLLIN, .revents = 0});
    for (int i = 0; i < 2; ++i) fds_.push_back(outputs_.sink_entry(i));
    for (std::size_t i = 0; i < children_.size(); ++i) {
      const Child& child = children_[i];
      fds_.push_back({.fd = child.ended ? -1 : child.process->fd(), .events = POLLIN, .revents = 0});
      fds_.push_back(exchanges_.entry(i));
      for (int stream = 0; stream < 2; ++stream) fds_.push_back(outputs_.entry(i, stream));
    }
    const Status woken = os::poll_for(fds_, {.deadline = termination_.next()}, "the ranks");
    if (woken.code() == Code::kTimeout) return {};
    HOCKET_TRY(woken);
    if (fds_[0].revents) {
      while (const int number = signals_.take()) termination_.on_signal(number);
    }
    if (fds_[1].revents) look_at_starter();
    if (fds_[2].revents || fds_[3].revents) outputs_.look_at_sinks();
    for (std::size_t i = 0; i < children_.size(); ++i) {
      const pollfd* entry = &fds_[kOwnEntries + kChildEntries * i];
      // What a rank said before it ended comes first.
      for (int stream = 0; stream < 2; ++stream)
        if (entry[2 + stream].revents) outputs_.read(i, stream);
      exchanges_.handle(i, entry[1].revents);
      if (entry[0].revents) reap(i);
    }
    exchanges_.answer_if_complete();
    return {};
  }

  // Whoever started this part of the job may have gone: its ranks go, too.
  void look_at_starter() {
    char buffer[256];
    const ssize_t n = ::read(starter_, buffer, sizeof buffer);
    if (n > 0 || (n < 0 && errno == EINTR)) return;
    starter_ = -1;
    termination_.on_starter_gone();
  }

  void reap(std::size_t i) {
    Child& child = children_[i];
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
      return;
    // What it started and left behind goes, too. Before the wait: until then its number is nobody else's.
    if (!options_.keep_going) ::kill(-child.pid, SIGKILL);
    while (::waitpid(child.pid, &child.wait_status, 0) < 0 && errno == EINTR) {
    }
    child.ended = true;
    child.process.reset();
    outputs_.read_rest(i);
    exchanges_.leave(i);
    const int status = child.exit_status();
    if (status == 0) return;
    outputs_.say(child.ending());
    termination_.on_failure(status);
  }

  const Options& options_;
  Signals& signals_;
  int starter_ = options_.stop_when_closed;  // -1 once it has gone
  std::vector<Child> children_;
  Outputs outputs_;
  const std::function<void(std::string_view)> say_ = [this](std::string_view text) { outputs_.say(text); };
  Exchanges exchanges_{children_, say_};
  Termination termination_{options_, children_, say_};
  std::vector<pollfd> fds_;
};

}  // namespace

Result<int> run_job(const Options& options, Signals& signals, const std::vector<Spec>& specs) {
  ::signal(SIGCHLD, SIG_DFL);  // one that is inherited as ignored would make the kernel keep no exit statuses
  std::fflush(nullptr);
  const bool ranks = !specs.empty() && specs.front().rank >= 0;
  HOCKET_ASSIGN(Outputs outputs, Outputs::open(options, options.tag && ranks));
  HOCKET_ASSIGN(const OpenFiles open_files,
                OpenFiles::allow(static_cast<int>(specs.size()), ranks ? "ranks" : "hosts"));
  Job job(options, signals, std::move(outputs));
  HOCKET_TRY(job.start(specs, open_files));
  return job.serve();
}

}  // namespace hocket::run
