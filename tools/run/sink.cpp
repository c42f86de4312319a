// SPDX-License-Identifier: Apache-2.0
#include "tools/run/sink.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "base/os/clock.hpp"
#include "base/os/wake.hpp"
#include "base/status.hpp"

namespace hocket::run {

using namespace std::chrono_literals;

struct Sink::Shared {
  int fd = -1;
  bool regular = false;  // a file takes any length at once
  bool terminal = false;
  os::Wake changed;

  std::mutex mutex;  // guards all below
  std::condition_variable work, written;
  std::string waiting;   // not yet the thread's
  std::size_t held = 0;  // with what the thread is writing
  bool closing = false;
  bool tell_drained = false;
  bool gone = false;
  Event event;

  explicit Shared(os::Wake wake) : changed(std::move(wake)) {}
};

Result<Sink> Sink::open(int fd) {
  HOCKET_ASSIGN(os::Wake changed, os::Wake::create("output"));
  auto shared = std::make_shared<Shared>(std::move(changed));
  shared->fd = fd;
  struct stat file {};
  shared->regular = ::fstat(fd, &file) == 0 && S_ISREG(file.st_mode);
  shared->terminal = ::isatty(fd) == 1;
  Sink sink(shared);
  HOCKET_ASSIGN(sink.thread_, os::Thread::start("hocket-output", [shared] { write_on(shared); }));
  return sink;
}

Sink::~Sink() {
  if (!shared_) return;
  {
    constexpr auto kForTheRest = 200ms;
    std::unique_lock lock(shared_->mutex);
    shared_->closing = true;
    shared_->work.notify_one();
    // A write that is under way may not end while the process lives.
    if (!shared_->written.wait_for(lock, kForTheRest, [this] { return shared_->held == 0; })) thread_.detach();
  }
  thread_.join();
}

void Sink::put(std::string_view text, const void* from) {
  if (text.empty()) return;
  const std::lock_guard lock(shared_->mutex);
  if (shared_->gone) return;
  const std::size_t before = shared_->waiting.size();
  if (within_ && within_ != from) shared_->waiting += '\n';
  within_ = text.back() == '\n' ? nullptr : from;
  shared_->waiting += text;
  shared_->held += shared_->waiting.size() - before;
  shared_->work.notify_one();
}

bool Sink::takes_more() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->held < kMostHeld;
}

bool Sink::terminal() const noexcept {
  return shared_->terminal;
}

int Sink::fd() const noexcept {
  return shared_->changed.fd();
}

Sink::Event Sink::take() {
  shared_->changed.clear();
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->event, {});
}

void Sink::expect_drained() {
  const std::lock_guard lock(shared_->mutex);
  shared_->tell_drained = true;
}

bool Sink::drained() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->held == 0;
}

// ---- The writing thread ----

void Sink::write_on(const std::shared_ptr<Shared>& shared) {
  constexpr std::size_t kPiece = 4096;  // a pipe takes so much in one piece, and a stop is seen piece by piece
  constexpr std::int64_t kStopped = 2'000'000'000;  // ns; a slow line is no stopped terminal
  Shared& s = *shared;
  std::string text;
  std::unique_lock lock(s.mutex);
  for (;;) {
    s.work.wait(lock, [&s] { return !s.waiting.empty() || s.closing; });
    if (s.waiting.empty()) return;
    text.clear();
    text.swap(s.waiting);
    for (std::size_t done = 0; done < text.size();) {
      lock.unlock();
      const std::int64_t begin = os::now_ns();
      const std::size_t left = text.size() - done;
      ssize_t n = ::write(s.fd, text.data() + done, s.regular ? left : std::min(left, kPiece));
      const int number = errno;
      if (n < 0 && number == EAGAIN) {  // somebody who shares it made it so
        pollfd entry{.fd = s.fd, .events = POLLOUT, .revents = 0};
        (void)::poll(&entry, 1, -1);
      }
      const std::int64_t took = os::now_ns() - begin;
      lock.lock();
      if (s.terminal && took > kStopped) s.event.stopped += std::chrono::nanoseconds(took);
      if (n < 0 && (number == EINTR || number == EAGAIN)) continue;
      const std::size_t before = s.held;
      if (n < 0) {
        s.gone = number == EPIPE;
        s.event.gone = s.gone;
        s.event.error = number;
        s.waiting.clear();
        s.held = 0;
      } else {
        s.held -= static_cast<std::size_t>(n);
      }
      done = n < 0 ? text.size() : done + static_cast<std::size_t>(n);
      if (s.held == 0) s.written.notify_all();
      const bool room = before >= kMostHeld && s.held < kMostHeld;
      if (n < 0 || room || s.event.stopped > 0ns || (s.tell_drained && s.held == 0)) s.changed.wake();
    }
  }
}

}  // namespace hocket::run
