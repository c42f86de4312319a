// SPDX-License-Identifier: Apache-2.0
// tcp.hpp: the transport between processes that only a network joins.
//
// Each engine listens at one port on the addresses that others may try. Who connects takes whichever of the peer's
// addresses answers and proves to be the peer (base/os/handshake.hpp, with the secret that came with its address), then
// makes the other streams the same way. Both processes may connect at once, also because only one direction may be
// open; the one with the smaller token says by a `start` message which connection counts, the other ones are closed.
//
//     initiator                                       acceptor
//     handshake, then a StreamHello, on each stream
//             the one of the two with the smaller token sends kStart on stream 0, and both begin
//
// Strangers are dropped when they say something wrong, or nothing for a while; the oldest of them make room for others.
// Next stop: tcp_io.cpp, the thread; tcp_endpoint.cpp, a connection.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/os/handshake.hpp"
#include "base/os/net_socket.hpp"
#include "transport/tcp_endpoint.hpp"
#include "transport/tcp_io.hpp"

namespace hocket {

struct TcpOptions {
  os::InterfaceFilter interfaces;  ///< HOCKET_INTERFACE
  os::PortRange ports;             ///< HOCKET_PORTS
  int streams = 0;                 ///< HOCKET_TCP_STREAMS: of a connection; of the two sides' wishes the initiator's
  std::chrono::nanoseconds link_timeout{};  ///< HOCKET_LINK_TIMEOUT
};

/// Any thread.
class TcpTransport {
 public:
  using LossListener = std::function<void(const ProcessToken&, const Status&)>;

  /// Listens, and writes into `self` where, with a new secret. `self` and `arena` outlive it. `lost` is called from the
  /// network thread. Errors: kOutOfMemory, kSystem, kInvalidArgument (no port or interface is left).
  static Result<std::unique_ptr<TcpTransport>> create(ProcessAddress& self, Arena& arena, const TcpOptions& options,
                                                      LossListener lost);
  ~TcpTransport();
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  /// The connection to a peer, made if there is none. The peer need not call this, but where only it can connect it
  /// must; unless `alone`, the one with the smaller token is given time to be the first. One thread at a time for each
  /// peer. Errors: kUnsupported (the peer does not listen, or no address of either side leads there: all are listed
  /// with reasons), kPeerLost, kTimeout, kAborted, kOutOfMemory, kMismatch (another version).
  Result<std::shared_ptr<tcp::TcpEndpoint>> connect(const ProcessAddress& peer, const os::WaitLimits& limits,
                                                    bool alone = false);

 private:
  // An accepted connection. Only the thread touches these.
  struct Conversation {
    os::NetConnection connection;
    std::unique_ptr<os::Handshake> handshake;  // null when done
    tcp::StreamHello hello;
    std::size_t have = 0;  // bytes of the hello
    os::Deadline deadline = os::Deadline::never();
    bool known = false;  // has proven to know the secret
  };
  // Streams of one connection to be.
  struct Arrival {
    tcp::StreamHello hello;  // of any of them
    std::vector<std::optional<os::NetConnection>> streams;
    std::size_t here = 0;
    std::array<std::byte, sizeof(tcp::FrameHeader)> start;
    std::size_t have = 0;      // bytes of it
    std::uint64_t number = 0;  // under which its first stream is watched
    os::Deadline deadline = os::Deadline::never();
  };
  using ArrivalKey = std::pair<ProcessToken, std::uint64_t>;

  TcpTransport(ProcessAddress& self, Arena& arena, const TcpOptions& options, LossListener lost)
      : self_(self), arena_(arena), options_(options), on_lost_(std::move(lost)) {}
  Status listen(ProcessAddress& self);
  std::shared_ptr<tcp::TcpEndpoint> live(const ProcessToken& peer);
  Result<std::shared_ptr<tcp::TcpEndpoint>> install(const tcp::TcpEndpoint::Peer& peer,
                                                    std::vector<os::NetConnection> streams);
  Result<std::vector<os::NetConnection>> make_streams(const ProcessAddress& peer, const os::WaitLimits& limits);
  Status await_start(const os::NetConnection& first, const std::string& name, const os::WaitLimits& limits);

  // The thread's.
  void ready(std::uint64_t number);
  os::Deadline due();
  void accept_all();
  void converse(std::uint64_t number);
  void end_conversation(std::uint64_t number);
  void arrived(Conversation conversation);
  void complete(const ArrivalKey& key);
  void await_start(const ArrivalKey& key);
  void end_arrival(const ArrivalKey& key);

  const ProcessAddress& self_;
  Arena& arena_;
  const TcpOptions options_;
  const LossListener on_lost_;
  os::ForkMark fork_mark_;
  std::vector<os::NetCandidate> candidates_;
  std::optional<os::NetListener> listener_;
  std::shared_ptr<tcp::IoThread> io_;

  // The thread's own.
  std::map<std::uint64_t, Conversation> conversations_;  // the oldest first
  std::map<ArrivalKey, Arrival> arrivals_;
  std::map<std::uint64_t, ArrivalKey> starts_;  // by number: arrivals whose start is awaited
  std::uint64_t next_number_ = 1;
  os::UniqueFd spare_;  // given up to accept, and drop, one more when descriptors ran out
  bool starved_before_ = false;
  os::Deadline next_complaint_ = os::Deadline::at_ns(0);
  std::optional<os::Deadline> starved_;  // no descriptor is left: accepting rests until then

  std::mutex mutex_;  // guards what follows
  std::map<ProcessToken, std::shared_ptr<tcp::TcpEndpoint>> live_;
  std::map<ProcessToken, os::AbortFlag*> waiting_;
};

}  // namespace hocket
