// SPDX-License-Identifier: Apache-2.0
// tcp_io.hpp: the thread that drives tcp connections while nobody who waits does.
//
// It sleeps in epoll, each socket armed for one event. What it then does depends on who else is there:
//   some thread sleeps until a signal comes (watchers)   it drives, and arms again at once
//   some thread has driven since it last looked          it keeps out of the way, and looks again in 1 to 8 ms
//   nobody has                                           it drives, and arms again
// So a waiting caller is never disturbed but once, and connections without traffic cost nothing.
//
// It also looks, four times a second while anything that was sent is unacknowledged, whether the peer's host still
// answers, and tells the engine of lost peers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/os/clock.hpp"
#include "base/os/process.hpp"
#include "base/os/thread.hpp"
#include "base/os/unique_fd.hpp"
#include "transport/tcp_endpoint.hpp"

namespace hocket::tcp {

/// Any thread.
class IoThread {
 public:
  struct Hooks {
    /// An event of a descriptor that was added with this number. From the thread.
    std::function<void(std::uint64_t number)> ready;
    /// Called before each sleep; returns when it wants to be called again. From the thread.
    std::function<os::Deadline()> due;
    /// A peer is lost. From the thread.
    std::function<void(const ProcessToken&, const Status&)> lost;
  };
  /// `link_timeout`: how long a peer's host may leave data unacknowledged; 0 is for ever. Errors: kOutOfMemory,
  /// kSystem.
  static Result<std::shared_ptr<IoThread>> create(std::chrono::nanoseconds link_timeout);
  ~IoThread();
  /// Once, before anything else.
  Status start(Hooks hooks);
  /// Ends the thread and closes all connections. In a forked child only forgets them.
  void stop();

  // For acceptors.
  Status add(int fd, std::uint32_t events, std::uint64_t number);
  Status change(int fd, std::uint32_t events, std::uint64_t number);
  void remove(int fd);

  // For endpoints.
  Status adopt(std::shared_ptr<TcpEndpoint> endpoint);
  /// Its sockets wake the thread from now on, if they do not already.
  void arm(TcpEndpoint& endpoint);
  /// The thread looks after it until it is quiet.
  void attend(TcpEndpoint& endpoint);
  /// Announces the loss, from the thread.
  void lost(const ProcessToken& peer, Status why);
  void wake();

 private:
  explicit IoThread(std::chrono::nanoseconds link_timeout) : link_timeout_ns_(link_timeout.count()) {}
  void run();
  void endpoint_event(const std::shared_ptr<TcpEndpoint>& endpoint);
  void tick(std::shared_ptr<TcpEndpoint> endpoint);
  static bool drive(TcpEndpoint& endpoint);
  static bool nobody_drove(TcpEndpoint& endpoint);
  void look_after();
  void check_links();
  void announce();
  bool set_events(TcpEndpoint& endpoint, int operation);

  const std::int64_t link_timeout_ns_;
  os::ForkMark fork_mark_;
  os::UniqueFd epoll_;
  os::UniqueFd wake_;
  Hooks hooks_;

  // The thread's own.
  std::set<std::shared_ptr<TcpEndpoint>> ticking_;
  std::set<std::shared_ptr<TcpEndpoint>> unacknowledged_;
  std::int64_t next_check_ = 0;
  std::int64_t next_look_ = 0;  // after those that tick
  std::int64_t look_ns_ = 0;

  std::mutex mutex_;  // guards what follows
  bool stop_ = false;
  std::map<TcpEndpoint*, std::shared_ptr<TcpEndpoint>> endpoints_;
  std::vector<TcpEndpoint*> wants_attention_;
  std::vector<std::pair<ProcessToken, Status>> lost_;

  os::Thread thread_;  // last
};

}  // namespace hocket::tcp
