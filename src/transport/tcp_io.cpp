// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_io.hpp"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.hpp"
#include "base/status.hpp"

namespace hocket::tcp {
namespace {

/// A connection that nobody has driven from one look to the next has nobody who waits in a call. Each look wakes the
/// thread, so they get rarer while there is somebody.
constexpr std::int64_t kFirstLookNs = 1'000'000, kRareLookNs = 8'000'000;
constexpr std::int64_t kCheckNs = 250'000'000;

// What an event is about: an endpoint's address (even) or a number of an acceptor's (odd), 0: the thread itself.
std::uint64_t data_of(std::uint64_t number) {
  return number << 1 | 1;
}

}  // namespace

Result<std::shared_ptr<IoThread>> IoThread::create(std::chrono::nanoseconds link_timeout) {
  std::shared_ptr<IoThread> io(new IoThread(link_timeout));
  io->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  io->wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!io->epoll_ || !io->wake_)
    return system_error(Code::kOutOfMemory, errno, "descriptors for the network thread (see ulimit -n)");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 0;
  if (::epoll_ctl(io->epoll_.get(), EPOLL_CTL_ADD, io->wake_.get(), &event) < 0)
    return system_error(Code::kSystem, errno, "epoll_ctl");
  return io;
}

IoThread::~IoThread() {
  stop();
}

Status IoThread::start(Hooks hooks) {
  hooks_ = std::move(hooks);
  HOCKET_ASSIGN(thread_, os::Thread::start("hocket network", [this] { run(); }));
  return {};
}

void IoThread::stop() {
  // The sockets and the thread of a forked child are its parent's.
  if (fork_mark_.forked()) {
    thread_.join();
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
  std::map<TcpEndpoint*, std::shared_ptr<TcpEndpoint>> endpoints;
  {
    const std::scoped_lock lock(mutex_);
    endpoints.swap(endpoints_);
  }
  for (const auto& [address, endpoint] : endpoints) endpoint->close();
  ticking_.clear();
  unacknowledged_.clear();
}

void IoThread::wake() {
  if (fork_mark_.forked()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
}

Status IoThread::add(int fd, std::uint32_t events, std::uint64_t number) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = data_of(number);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return system_error(errno == ENOMEM || errno == ENOSPC ? Code::kOutOfMemory : Code::kSystem, errno, "epoll_ctl");
}

Status IoThread::change(int fd, std::uint32_t events, std::uint64_t number) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = data_of(number);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return {};
  return system_error(Code::kSystem, errno, "epoll_ctl");
}

// Before every close: a forked child that holds the same open file would keep it, and its events, in the set.
void IoThread::remove(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

bool IoThread::set_events(TcpEndpoint& endpoint, int operation) {
  bool all = true;
  for (std::size_t s = 0; s < endpoint.stream_count(); ++s) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT | (endpoint.sending() ? std::uint32_t{EPOLLOUT} : 0u);
    event.data.u64 = reinterpret_cast<std::uint64_t>(&endpoint);
    all &= ::epoll_ctl(epoll_.get(), operation, endpoint.fd(s), &event) == 0;
  }
  return all;
}

Status IoThread::adopt(std::shared_ptr<TcpEndpoint> endpoint) {
  const std::scoped_lock lock(mutex_);
  if (stop_) return error(Code::kAborted, "the engine of this process is ending");
  TcpEndpoint& e = *endpoint;
  endpoints_.emplace(&e, std::move(endpoint));
  e.armed.store(true, std::memory_order_seq_cst);
  if (set_events(e, EPOLL_CTL_ADD)) return {};
  const int number = errno;
  endpoints_.erase(&e);
  return system_error(Code::kOutOfMemory, number, "epoll_ctl");
}

void IoThread::arm(TcpEndpoint& endpoint) {
  if (endpoint.armed.exchange(true, std::memory_order_seq_cst) && !endpoint.sending()) return;
  if (fork_mark_.forked()) return;
  (void)set_events(endpoint, EPOLL_CTL_MOD);  // fails only for a connection that has ended
}

void IoThread::attend(TcpEndpoint& endpoint) {
  if (endpoint.unacknowledged.load(std::memory_order_relaxed) && endpoint.attended.load(std::memory_order_relaxed))
    return;
  const bool news = !endpoint.unacknowledged.exchange(true, std::memory_order_seq_cst);
  const bool more =
      (endpoint.sending() || endpoint.ending()) && !endpoint.attended.exchange(true, std::memory_order_seq_cst);
  if (!news && !more) return;
  {
    const std::scoped_lock lock(mutex_);
    wants_attention_.push_back(&endpoint);
  }
  wake();
}

void IoThread::lost(const ProcessToken& peer, Status why) {
  {
    const std::scoped_lock lock(mutex_);
    lost_.emplace_back(peer, std::move(why));
  }
  wake();
}

// ---- The thread ----

void IoThread::run() {
  std::array<epoll_event, 64> events;
  for (;;) {
    os::Deadline due = hooks_.due();
    const std::int64_t now = os::now_ns();
    if (!ticking_.empty()) due = std::min(due, os::Deadline::at_ns(std::max(next_look_, now)));
    if (!unacknowledged_.empty()) due = std::min(due, os::Deadline::at_ns(std::max(next_check_, now)));
    const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), due.poll_timeout_ms());
    {
      const std::scoped_lock lock(mutex_);
      if (stop_) return;
    }
    for (int i = 0; i < n; ++i) {
      const std::uint64_t data = events[static_cast<std::size_t>(i)].data.u64;
      if (data == 0) {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t r = ::read(wake_.get(), &count, sizeof count);
      } else if (data & 1) {
        hooks_.ready(data >> 1);
      } else {
        std::shared_ptr<TcpEndpoint> endpoint;
        {
          const std::scoped_lock lock(mutex_);
          const auto found = endpoints_.find(reinterpret_cast<TcpEndpoint*>(data));
          if (found != endpoints_.end()) endpoint = found->second;
        }
        if (endpoint) endpoint_event(endpoint);
      }
    }
    {
      const std::scoped_lock lock(mutex_);
      for (TcpEndpoint* wants : wants_attention_) {
        const auto found = endpoints_.find(wants);
        if (found == endpoints_.end()) continue;
        if (wants->attended.load()) tick(found->second);
        if (wants->unacknowledged.load()) {
          if (unacknowledged_.empty()) next_check_ = os::now_ns() + kCheckNs;
          unacknowledged_.insert(found->second);
        }
      }
      wants_attention_.clear();
    }
    look_after();
    check_links();
    announce();
  }
}

void IoThread::endpoint_event(const std::shared_ptr<TcpEndpoint>& endpoint) {
  endpoint->armed.store(false, std::memory_order_seq_cst);
  const bool wanted = nobody_drove(*endpoint) || endpoint->watchers() > 0;
  if (wanted && drive(*endpoint)) {
    if (endpoint->error().ok()) arm(*endpoint);
    return;
  }
  endpoint->attended.store(true, std::memory_order_seq_cst);
  tick(endpoint);
  // Who began to watch meanwhile saw it armed. But armed while another thread has its turn the socket would wake this
  // one at once, again and again: then the next look is soon enough.
  if (!wanted && endpoint->watchers() > 0) arm(*endpoint);
}

/// False: another thread is at it. It may have been put off this very CPU by this thread, and goes on when that yields.
bool IoThread::drive(TcpEndpoint& endpoint) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (endpoint.drive_for_nobody()) return true;
    ::sched_yield();
  }
  return false;
}

bool IoThread::nobody_drove(TcpEndpoint& endpoint) {
  const std::uint64_t drives = endpoint.drives();
  return std::exchange(endpoint.seen_drives, drives) == drives;
}

void IoThread::tick(std::shared_ptr<TcpEndpoint> endpoint) {
  const bool others = !ticking_.empty();
  if (!ticking_.insert(std::move(endpoint)).second) return;
  // A newcomer never puts off the look at those who were there before.
  look_ns_ = kFirstLookNs;
  const std::int64_t soon = os::now_ns() + look_ns_;
  next_look_ = others ? std::min(next_look_, soon) : soon;
}

void IoThread::look_after() {
  if (ticking_.empty() || os::now_ns() < next_look_) return;
  look_ns_ = std::min(2 * look_ns_, kRareLookNs);
  next_look_ = os::now_ns() + look_ns_;
  for (auto it = ticking_.begin(); it != ticking_.end();) {
    TcpEndpoint& endpoint = **it;
    if (!nobody_drove(endpoint) && endpoint.watchers() == 0 && endpoint.error().ok()) {
      ++it;
      continue;
    }
    const bool driven = drive(endpoint);
    if ((!driven || endpoint.ending()) && endpoint.error().ok()) {
      ++it;
      continue;
    }
    endpoint.attended.store(false, std::memory_order_seq_cst);
    if (endpoint.error().ok()) {
      endpoint.armed.store(false, std::memory_order_seq_cst);
      arm(endpoint);
    }
    it = ticking_.erase(it);
  }
}

void IoThread::check_links() {
  if (unacknowledged_.empty() || os::now_ns() < next_check_) return;
  next_check_ = os::now_ns() + kCheckNs;
  for (auto it = unacknowledged_.begin(); it != unacknowledged_.end();) {
    TcpEndpoint& endpoint = **it;
    endpoint.unacknowledged.store(false, std::memory_order_seq_cst);  // before the look: see attend()
    bool unknown = false;
    if (endpoint.error().ok()) endpoint.check_link(link_timeout_ns_, &unknown);
    if (unknown) {
      endpoint.unacknowledged.store(true, std::memory_order_seq_cst);
      ++it;
    } else {
      it = unacknowledged_.erase(it);
    }
  }
}

void IoThread::announce() {
  std::vector<std::pair<ProcessToken, Status>> lost;
  std::vector<std::shared_ptr<TcpEndpoint>> ended;
  {
    const std::scoped_lock lock(mutex_);
    lost.swap(lost_);
    for (const auto& [peer, why] : lost) {
      for (auto it = endpoints_.begin(); it != endpoints_.end();) {
        if (it->second->peer().token == peer && !it->second->error().ok()) {
          ended.push_back(std::move(it->second));
          it = endpoints_.erase(it);
        } else {
          ++it;
        }
      }
    }
  }
  for (const auto& endpoint : ended) {
    for (std::size_t s = 0; s < endpoint->stream_count(); ++s) remove(endpoint->fd(s));
    ticking_.erase(endpoint);
    unacknowledged_.erase(endpoint);
  }
  for (const auto& [peer, why] : lost) hooks_.lost(peer, why);
}

}  // namespace hocket::tcp
