// SPDX-License-Identifier: Apache-2.0
#include "base/os/thread.hpp"

#include <pthread.h>
#include <signal.h>

#include <system_error>

#include "base/status.hpp"

namespace hocket::os {
namespace {

thread_local bool helper = false;

}  // namespace

bool Thread::is_helper() noexcept {
  return helper;
}

Result<Thread> Thread::start(std::string name, std::function<void()> body) {
  const std::string short_name = name.substr(0, 15);
  // A thread inherits the mask of its maker, so there is no moment in which it could take a signal.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<Thread> result = Thread();
  try {
    std::thread thread([short_name, body = std::move(body)]() noexcept {
      helper = true;
      ::pthread_setname_np(::pthread_self(), short_name.c_str());
      body();
    });
    result = Thread(std::move(thread));
  } catch (const std::system_error& e) {
    result = system_error(Code::kOutOfMemory, e.code().value(), "start thread {} (see ulimit -u)", name);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return result;
}

Thread& Thread::operator=(Thread&& other) noexcept {
  if (this == &other) return *this;
  join();
  thread_ = std::move(other.thread_);
  fork_mark_ = other.fork_mark_;
  return *this;
}

void Thread::detach() noexcept {
  if (thread_.joinable()) thread_.detach();
}

void Thread::join() noexcept {
  if (!thread_.joinable()) return;
  if (fork_mark_.forked()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

}  // namespace hocket::os
