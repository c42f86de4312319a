// SPDX-License-Identifier: Apache-2.0
#include "tools/run/termination.hpp"

#include <signal.h>

#include <utility>

#include "base/format.hpp"

namespace hocket::run {

using os::Deadline;

std::vector<const Child*> Termination::running() const {
  std::vector<const Child*> result;
  for (const Child& child : children_)
    if (!child.ended) result.push_back(&child);
  return result;
}

void Termination::send(int number) const {
  for (const Child* child : running()) ::kill(-child->pid, number);
}

void Termination::start_grace() {
  if (deadline_.is_never()) deadline_ = Deadline::after(options_.grace);
}

void Termination::on_failure(int exit_status) {
  if (exit_status_ != 0) return;
  exit_status_ = exit_status;
  if (!options_.keep_going) start_grace();
}

void Termination::on_starter_gone() {
  if (exit_status_ == 0) exit_status_ = 128 + SIGTERM;
  deadline_ = Deadline::at_ns(0);
}

// A signal of ours is the ranks', and from now on they have as long to end as after a failure. Who asks twice means
// it.
void Termination::on_signal(int number) {
  // A wrapper may hand on what the terminal has sent us as well, and a terminal that closes sends twice.
  constexpr std::chrono::milliseconds kSameSignal(100);
  // Ranks that end at once are nothing to talk about.
  constexpr std::chrono::milliseconds kNotice(500);
  const bool again = asked_ && same_signal_.passed() && number != SIGHUP;
  // An agent is told by its launcher, which counts for all hosts and kills us if need be.
  if (again && options_.stop_when_closed < 0) {
    say_(format("killing {}", names_of(running())));
    send(SIGKILL);
    terminated_ = true;
    deadline_ = notice_ = Deadline::never();
    return;
  }
  send(number);
  if (std::exchange(asked_, true)) return;
  same_signal_ = Deadline::after(kSameSignal);
  notice_ = Deadline::after(kNotice);
  start_grace();
}

void Termination::act() {
  if (notice_.passed()) {
    notice_ = Deadline::never();
    const bool told = options_.stop_when_closed >= 0;
    const std::vector<const Child*> names = running();
    if (!told && !names.empty()) say_(format("waiting for {} to end; once more kills them", names_of(names)));
  }
  if (!deadline_.passed()) return;
  for (const Child* child : running())
    say_(format("{} (pid {}) still runs, sending {}", child->name, child->pid, terminated_ ? "SIGKILL" : "SIGTERM"));
  send(terminated_ ? SIGKILL : SIGTERM);
  if (!terminated_) send(SIGCONT);  // one that is stopped could not take it
  deadline_ = terminated_ ? Deadline::never() : Deadline::after(options_.grace / 2);
  terminated_ = true;
}

}  // namespace hocket::run
