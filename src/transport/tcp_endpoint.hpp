// SPDX-License-Identifier: Apache-2.0
// tcp_endpoint.hpp: a peer process behind several tcp streams.
//
// Whoever waits in a call drives the sockets itself, with no other thread in between; who finds another thread driving
// lets it do so, and that one looks once more before it leaves. While nobody drives, the transport's thread does
// (transport/tcp_io.hpp). Frames keep the order in which operations were accepted (tcp_frame.hpp), which is more than
// Endpoint asks for.
//
// A broken connection is a lost peer: nothing is sent again by another connection, since what had arrived is not known.
// Next stop: tcp_stream.cpp.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/arena.hpp"
#include "transport/tcp_stream.hpp"
#include "transport/transport.hpp"

namespace hocket::tcp {

class IoThread;

/// Any thread.
class TcpEndpoint final : public Endpoint, private FrameSink {
 public:
  struct Peer {
    ProcessToken token;
    std::uint64_t arena_bytes = 0;
    std::string name;  ///< "process 17 on host a"
  };
  /// `arena` is used until close(). `io` may be gone before.
  TcpEndpoint(Arena& arena, Peer peer, std::vector<Stream> streams, std::shared_ptr<IoThread> io);
  ~TcpEndpoint() override;

  std::string_view transport() const noexcept override { return "tcp"; }
  std::byte* base() const noexcept override { return nullptr; }
  Result<std::uint64_t> put(const Put& put) override;
  Result<std::uint64_t> signal(const Signal& signal) override;
  std::uint64_t completed() noexcept override { return completed_.load(std::memory_order_acquire); }
  bool idle() const noexcept override;
  Status progress() override;
  Status error() const override;
  void watch() noexcept override;
  void unwatch() noexcept override;
  void cancel(const void* owner) noexcept override;
  int peer_cpu() const noexcept override { return peer_cpu_.load(std::memory_order_relaxed); }
  Status get(std::uint64_t offset, std::span<std::byte> to, const os::WaitLimits& limits) override;

  const Peer& peer() const noexcept { return peer_; }
  const std::string& route() const noexcept { return route_; }
  void set_same_host() noexcept { same_host_.store(true, std::memory_order_relaxed); }

  // For the transport's thread.
  /// Ends the connection; the first reason counts. Waits until no other thread drives.
  void fail(Status why);
  /// Lets what was accepted leave for a moment, then ends in good order. The arena is not touched afterwards.
  void close();
  std::size_t stream_count() const noexcept { return streams_.size(); }
  int fd(std::size_t stream) const noexcept { return streams_[stream].fd(); }
  /// Whether something waits for room in a socket.
  bool sending() const noexcept { return sending_.load(std::memory_order_acquire); }
  /// One side of the connection ended a moment ago: the rest must follow soon.
  bool ending() const noexcept { return ending_since_.load(std::memory_order_relaxed) != 0; }
  /// Grows while somebody who waits drives.
  std::uint64_t drives() const noexcept { return drives_.load(std::memory_order_relaxed); }
  int watchers() const noexcept { return watchers_.load(std::memory_order_seq_cst); }
  /// Looks whether the peer's host still acknowledges what was sent. `unknown`: something is still unacknowledged.
  void check_link(std::int64_t limit_ns, bool* unknown);
  /// progress(), but not as somebody who waits. False: another thread is at it.
  bool drive_for_nobody();
  // What the thread has to do with this endpoint: see IoThread.
  std::atomic<bool> armed{false};           ///< its sockets wake the thread
  std::atomic<bool> attended{false};        ///< the thread looks after it every few milliseconds
  std::atomic<bool> unacknowledged{false};  ///< the thread looks for acknowledgements
  std::uint64_t seen_drives = 0;            ///< the thread's: drives() when it last looked

 private:
  struct Operation {
    bool is_put;
    std::uint64_t ticket;
    Put put;
    Signal signal;
    std::array<std::byte, kCacheLine> line;
  };
  struct PendingGet {
    std::vector<std::byte> bytes;
    std::uint32_t failed = 0;
    std::atomic<std::uint32_t> done{0};  // release; pairs with the acquire in get()
  };

  Status accept(Operation& operation, std::uint64_t* ticket);
  /// `driven`: whether it was this thread's turn.
  Status take_turns(bool* driven);
  bool try_turn() noexcept { return !turn_.exchange(true, std::memory_order_seq_cst); }
  void take_turn() noexcept;
  void leave_turn() noexcept { turn_.store(false, std::memory_order_seq_cst); }
  // These hold the turn.
  Status drive();
  void receive(Status& status);
  void take_inbox();
  Stream& next_stream() noexcept { return streams_[next_stream_++ % streams_.size()]; }
  void fail_in_turn(Status why);
  void answer(const FrameHeader& header);
  Result<Body> body_begins(const FrameHeader& header) override;
  Status frame_ended(const FrameHeader& header) override;
  Result<bool> signal(const FrameHeader& header, std::span<const std::byte> line) override;
  void frame_left(std::uint64_t ticket) override;

  Arena& arena_;
  const Peer peer_;
  const std::string route_;  // "by 10.0.0.1:4000 to 10.0.0.2:5000"
  const std::shared_ptr<IoThread> io_;

  std::atomic<bool> turn_{false};
  // The holder of the turn owns these.
  std::vector<Stream> streams_;
  std::size_t next_stream_ = 0;
  std::size_t last_stream_ = 0;       // of the last piece: signals follow there
  std::deque<std::uint32_t> pieces_;  // of the tickets after completed_: frames that have not left
  std::vector<Operation> taken_;
  std::shared_ptr<PendingGet> landing_get_;
  std::size_t warm_stream_ = 0;  // brought something last
  std::uint32_t looks_ = 0;
  bool warned_ = false;
  bool closed_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::vector<Operation> inbox_;
  std::uint64_t accepted_ = 0;
  Status error_;
  std::map<std::uint64_t, std::shared_ptr<PendingGet>> gets_;
  std::vector<std::uint64_t> get_requests_;  // numbers of gets_ that were not sent yet
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> get_places_;
  std::uint64_t next_get_ = 1;

  std::atomic<std::uint32_t> posted_{0};  // entries of inbox_ and get_requests_; seq_cst, see progress()
  std::atomic<std::uint64_t> completed_{0};
  std::atomic<std::uint64_t> accepted_seen_{0};
  std::atomic<bool> failed_{false};  // release, after error_
  std::atomic<bool> sending_{false};
  std::atomic<std::int64_t> ending_since_{0};
  std::atomic<std::uint64_t> drives_{0};
  std::atomic<int> watchers_{0};
  std::atomic<bool> same_host_{false};
  std::atomic<int> peer_cpu_{-1};
};

}  // namespace hocket::tcp
