// SPDX-License-Identifier: Apache-2.0
#include "tools/run/signals.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/status.hpp"

namespace hocket::run {

Result<std::unique_ptr<Signals>> Signals::block() {
  std::unique_ptr<Signals> self(new Signals);
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, number);
  if (::pthread_sigmask(SIG_BLOCK, &set, &self->mask_before_) != 0)
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

Signals::~Signals() {
  if (ignores_pipe_) ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  if (blocked_) ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

int Signals::take() noexcept {
  signalfd_siginfo info;
  return ::read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace hocket::run
