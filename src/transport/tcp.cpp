// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "base/log.hpp"
#include "base/os/random.hpp"
#include "base/os/socket.hpp"
#include "base/status.hpp"
#include "transport/shm.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kPurpose = 0x68747031;  // "htp1"
/// Strangers get so long to say who they are, peers to make the rest of their streams.
constexpr auto kHandshakeTime = 10s;
/// An address that accepts and says nothing keeps the others waiting for so long.
constexpr auto kProofTime = 3s;
/// The peer with the larger token lets the other one connect first.
constexpr auto kHeadStart = 500ms;
/// All ways of this side have failed for so long: the peer will not come either.
constexpr auto kGiveUp = 20s;
constexpr std::size_t kMostConversations = 256;
constexpr std::size_t kMostArrivals = 4096;
/// Number 0 is the listener's.
constexpr std::uint64_t kListener = 0;

template <std::size_t n>
std::string_view text_of(const std::array<char, n>& field) {
  return {field.data(), ::strnlen(field.data(), n)};
}

Secret secret_of(const NetworkAddresses& network) {
  return Secret::of_text({reinterpret_cast<const char*>(network.secret.data()), network.secret.size()});
}

std::vector<os::NetAddress> addresses_of(const NetworkAddresses& network) {
  std::vector<os::NetAddress> result;
  for (std::size_t i = 0; i < NetworkAddresses::kMost; ++i) {
    if (network.ips[i] == NetworkAddresses::Ip{}) continue;
    result.push_back({.bytes = network.ips[i], .scope = network.scopes[i], .port = network.port});
  }
  return result;
}

os::NetAddress loopback() {
  os::NetAddress address;
  address.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  return address;
}

// A connection without traffic finds out that its link was cut by the kernel's probes; with traffic see
// TcpEndpoint::check_link.
void keep_alive(int fd, std::chrono::nanoseconds link_timeout) {
  const int on = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (link_timeout.count() == 0) return;
  const auto seconds =
      std::max<std::int64_t>(1, std::chrono::duration_cast<std::chrono::seconds>(link_timeout).count());
  const int idle = static_cast<int>(std::clamp<std::int64_t>(seconds / 2, 1, 30000)),
            interval = idle > 3 ? idle / 3 : 1, count = 3;
  (void)::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

/// Within a host there is no link that could be congested, and some congestion controls (BBR) pace what they send by
/// what they believe the link to carry: 1 MiB took twice as long at times. Reno does not, and every kernel has it.
void do_not_pace(const os::NetConnection& connection) {
  constexpr std::string_view kControl = "reno";
  if (connection.local.same_host(connection.peer))
    (void)::setsockopt(connection.fd.get(), IPPROTO_TCP, TCP_CONGESTION, kControl.data(), kControl.size());
}

tcp::FrameHeader start_frame() {
  return {.kind = static_cast<std::uint16_t>(tcp::FrameKind::kStart)};
}

bool is_start(std::span<const std::byte, sizeof(tcp::FrameHeader)> bytes) {
  const tcp::FrameHeader expected = start_frame();
  return std::memcmp(bytes.data(), &expected, sizeof expected) == 0;
}

}  // namespace

// ---- Life ----

Result<std::unique_ptr<TcpTransport>> TcpTransport::create(ProcessAddress& self, Arena& arena,
                                                           const TcpOptions& options, LossListener lost) {
  std::unique_ptr<TcpTransport> transport(new TcpTransport(self, arena, options, std::move(lost)));
  HOCKET_TRY(transport->listen(self));
  return transport;
}

Status TcpTransport::listen(ProcessAddress& self) {
  auto usable = os::usable_candidates(options_.interfaces);
  if (usable.ok()) {
    candidates_ = std::move(usable).value();
  } else if (options_.interfaces.is_choice()) {
    return usable.status();
  }
  std::vector<os::NetAddress> addresses;
  for (const os::NetCandidate& candidate : candidates_) {
    if (candidate.reach != os::NetReach::kLoopback && addresses.size() < NetworkAddresses::kMost)
      addresses.push_back(candidate.address);
  }
  if (addresses.size() < NetworkAddresses::kMost) addresses.push_back(loopback());
  HOCKET_ASSIGN(os::NetListener listener, os::NetListener::listen(addresses, options_.ports));
  NetworkAddresses network;
  network.port = listener.port();
  std::size_t count = 0;
  for (const os::NetAddress& address : listener.addresses()) {
    network.ips[count] = address.bytes;
    network.scopes[count++] = address.scope;
  }
  HOCKET_ASSIGN(network.identity, os::network_identity());
  HOCKET_TRY(os::random_bytes(std::as_writable_bytes(std::span(network.secret))));
  self.network = network;
  listener_ = std::move(listener);
  spare_.reset(::eventfd(0, EFD_CLOEXEC));
  HOCKET_ASSIGN(io_, tcp::IoThread::create(options_.link_timeout));
  for (const int fd : listener_->fds()) HOCKET_TRY(io_->add(fd, EPOLLIN, kListener));
  return io_->start({.ready = [this](std::uint64_t number) { ready(number); },
                     .due = [this] { return due(); },
                     .lost =
                         [this](const ProcessToken& token, const Status& why) {
                           {
                             const std::scoped_lock lock(mutex_);
                             const auto found = live_.find(token);
                             if (found != live_.end() && !found->second->error().ok()) live_.erase(found);
                           }
                           on_lost_(token, why);
                         }});
}

TcpTransport::~TcpTransport() {
  if (io_) io_->stop();
}

std::shared_ptr<tcp::TcpEndpoint> TcpTransport::live(const ProcessToken& peer) {
  const std::scoped_lock lock(mutex_);
  const auto found = live_.find(peer);
  return found != live_.end() && found->second->error().ok() ? found->second : nullptr;
}

Result<std::shared_ptr<tcp::TcpEndpoint>> TcpTransport::install(const tcp::TcpEndpoint::Peer& peer,
                                                                std::vector<os::NetConnection> connections) {
  const bool decides = self_.token < peer.token;
  std::vector<tcp::Stream> streams;
  for (os::NetConnection& connection : connections) {
    keep_alive(connection.fd.get(), options_.link_timeout);
    do_not_pace(connection);
    streams.emplace_back(std::move(connection));
  }
  const int first = streams.front().fd();
  auto endpoint = std::make_shared<tcp::TcpEndpoint>(arena_, peer, std::move(streams), io_);
  std::shared_ptr<tcp::TcpEndpoint> replaced;
  {
    const std::scoped_lock lock(mutex_);
    auto& entry = live_[peer.token];
    if (entry && entry->error().ok()) {
      // This side decides, and has decided for the other direction. Or the other side does, and has lost the old one.
      if (decides) return entry;
      replaced = entry;
    }
    if (decides) {
      const tcp::FrameHeader start = start_frame();
      // A new connection has room for it.
      if (::send(first, &start, sizeof start, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof start)
        return system_error(Code::kPeerLost, errno, "{} was connected {} and did not stay", peer.name,
                            endpoint->route());
    }
    HOCKET_TRY(io_->adopt(endpoint));
    entry = endpoint;
    if (const auto waiting = waiting_.find(peer.token); waiting != waiting_.end()) waiting->second->raise();
  }
  if (replaced) replaced->fail(error(Code::kPeerLost, "it made a new connection in place of this one"));
  HOCKET_LOG(LogLevel::kDebug, "process {} tcp connected to {} {}", self_.pid, peer.name, endpoint->route());
  return endpoint;
}

// ---- Connecting ----

Result<std::vector<os::NetConnection>> TcpTransport::make_streams(const ProcessAddress& peer,
                                                                  const os::WaitLimits& limits) {
  const std::string name = process_name(peer.pid, text_of(peer.host_name));
  const Secret secret = secret_of(peer.network);
  // Between hosts one core may not fill a link with one stream. On a host they only cost system calls.
  const int streams = options_.streams != 0 ? options_.streams : peer.host == self_.host ? 1 : 2;
  tcp::StreamHello hello;
  hello.from = self_.token;
  hello.to = peer.token;
  hello.arena_bytes = arena_.bytes();
  hello.pid = self_.pid;
  const std::string_view host = text_of(self_.host_name);
  std::copy_n(host.data(), std::min(host.size(), hello.host.size() - 1), hello.host.data());
  hello.streams = static_cast<std::uint16_t>(std::clamp<int>(streams, 1, tcp::kMostStreams));
  HOCKET_TRY(os::random_bytes(std::as_writable_bytes(std::span(&hello.connection, 1))));

  os::NetConnectOptions how;
  how.self = process_name(self_.pid, host);
  how.peer = name;
  how.retry = false;
  how.verify = [&](os::NetConnection& connection) -> Status {
    const os::WaitLimits soon{.deadline = std::min(limits.deadline, os::Deadline::after(kProofTime)),
                              .abort = limits.abort};
    HOCKET_ASSIGN(const os::Hello mine, os::make_hello(kPurpose, self_.token.high, -1));
    HOCKET_TRY(os::shake_hands(connection.fd.get(), os::Handshake::Role::kConnect, mine, secret, soon).status());
    return os::send_all(connection.fd.get(), std::as_bytes(std::span(&hello, 1)), soon, name);
  };
  const std::vector<os::NetAddress> addresses = addresses_of(peer.network);
  std::vector<os::NetTarget> targets =
      os::targets_to(addresses, peer.network.identity == self_.network.identity, candidates_);
  std::vector<os::NetConnection> made;
  for (hello.stream = 0; hello.stream < hello.streams; ++hello.stream) {
    HOCKET_ASSIGN(os::NetConnection stream, os::connect_by_any(targets, how, limits));
    // The others go where the first one went.
    if (made.empty()) std::erase_if(targets, [&](const os::NetTarget& t) { return !(t.address == stream.peer); });
    made.push_back(std::move(stream));
  }
  return made;
}

Status TcpTransport::await_start(const os::NetConnection& first, const std::string& name,
                                 const os::WaitLimits& limits) {
  std::array<std::byte, sizeof(tcp::FrameHeader)> start;
  HOCKET_TRY(os::receive_all(first.fd.get(), start, limits, name));
  if (is_start(start)) return {};
  return error(Code::kInvalidArgument, "{} began with something that is no start", name);
}

Result<std::shared_ptr<tcp::TcpEndpoint>> TcpTransport::connect(const ProcessAddress& peer,
                                                                const os::WaitLimits& limits, bool alone) {
  if (auto endpoint = live(peer.token)) return endpoint;
  const std::string name = process_name(peer.pid, text_of(peer.host_name));
  if (peer.network.port == 0 || addresses_of(peer.network).empty())
    return error(Code::kUnsupported, "{} does not listen (HOCKET_TRANSPORT leaves tcp out there)", name);
  HOCKET_ASSIGN(os::AbortFlag came, os::AbortFlag::create());
  struct Waiting {
    TcpTransport& transport;
    const ProcessToken token;
    ~Waiting() {
      const std::scoped_lock lock(transport.mutex_);
      transport.waiting_.erase(token);
    }
  } const waiting{*this, peer.token};
  {
    const std::scoped_lock lock(mutex_);
    waiting_[peer.token] = &came;
  }
  // Until the other side's connection has come, for at most so long.
  const auto wait = [&](os::Deadline until) -> Status {
    pollfd fds[2] = {{came.fd(), POLLIN, 0}, {limits.abort != nullptr ? limits.abort->fd() : -1, POLLIN, 0}};
    const Status waited =
        os::poll_for(fds, {.deadline = std::min(until, limits.deadline), .abort = limits.abort}, name);
    return waited.code() == Code::kTimeout ? Status() : waited;
  };
  const os::Deadline give_up = std::min(limits.deadline, os::Deadline::after(kGiveUp));
  auto slice = 1s;
  if (self_.token > peer.token && !alone) HOCKET_TRY(wait(os::Deadline::after(kHeadStart)));
  for (;;) {
    if (auto endpoint = live(peer.token)) return endpoint;
    const os::WaitLimits this_time{.deadline = std::min(limits.deadline, os::Deadline::after(slice)),
                                   .abort = limits.abort};
    auto streams = make_streams(peer, this_time);
    Status why = streams.status();
    if (streams.ok()) {
      // The one with the smaller token says which connection counts.
      if (self_.token > peer.token) why = await_start((*streams)[0], name, this_time);
      if (why.ok()) {
        auto installed = install({peer.token, peer.arena_bytes, name}, std::move(*streams));
        if (installed.ok()) return installed;
        why = installed.status();
      }
    }
    if (auto endpoint = live(peer.token)) return endpoint;
    if (why.code() == Code::kAborted || why.code() == Code::kMismatch || why.code() == Code::kOutOfMemory) return why;
    if (give_up.passed())
      return error(limits.deadline.passed() ? Code::kTimeout : Code::kUnsupported, "{}; nor has it connected to {}",
                   why.text(), os::describe_candidates(candidates_));
    slice = std::min<std::chrono::seconds>(slice * 2, 16s);
    HOCKET_TRY(wait(std::min(give_up, os::Deadline::after(200ms))));
  }
}

// ---- Accepting: the thread ----

void TcpTransport::ready(std::uint64_t number) {
  if (number == kListener) return accept_all();
  if (const auto start = starts_.find(number); start != starts_.end()) return await_start(ArrivalKey(start->second));
  converse(number);
}

os::Deadline TcpTransport::due() {
  os::Deadline next = os::Deadline::never();
  std::vector<std::uint64_t> late;
  for (const auto& [number, conversation] : conversations_) {
    if (conversation.deadline.passed()) {
      late.push_back(number);
    } else {
      next = std::min(next, conversation.deadline);
    }
  }
  for (const std::uint64_t number : late) {
    HOCKET_LOG(LogLevel::kInfo, "{} connected and said nothing of use for {} s, it is dropped",
               os::to_string(conversations_.at(number).connection.peer), std::chrono::seconds(kHandshakeTime).count());
    end_conversation(number);
  }
  std::vector<ArrivalKey> incomplete;
  for (const auto& [key, arrival] : arrivals_) {
    if (arrival.deadline.passed()) {
      incomplete.push_back(key);
    } else {
      next = std::min(next, arrival.deadline);
    }
  }
  for (const ArrivalKey& key : incomplete) end_arrival(key);
  if (starved_ && starved_->passed()) {
    starved_.reset();
    for (const int fd : listener_->fds()) (void)io_->change(fd, EPOLLIN, kListener);
  }
  return starved_ ? std::min(next, *starved_) : next;
}

void TcpTransport::accept_all() {
  // Strangers wait in the kernel while peers have their turn.
  for (int i = 0; i < 64; ++i) {
    auto accepted = listener_->accept_now();
    if (!accepted.ok()) {
      // What waits would wake this thread again and again: one is taken and dropped, and then it is left alone a while.
      HOCKET_LOG(std::exchange(starved_before_, true) ? LogLevel::kDebug : LogLevel::kWarn,
                 "a connection cannot be accepted: {}", accepted.status().text());
      spare_.reset();
      (void)listener_->accept_now();
      spare_.reset(::eventfd(0, EFD_CLOEXEC));
      starved_ = os::Deadline::after(100ms);
      for (const int fd : listener_->fds()) (void)io_->change(fd, 0, kListener);
      return;
    }
    if (!*accepted) return;
    if (conversations_.size() >= kMostConversations) {
      const auto stranger = std::find_if(conversations_.begin(), conversations_.end(),
                                         [](const auto& entry) { return !entry.second.known; });
      if (stranger == conversations_.end()) continue;  // dropped
      end_conversation(stranger->first);
    }
    auto hello = os::make_hello(kPurpose, self_.token.high, -1);
    if (!hello.ok()) continue;
    const std::uint64_t number = next_number_++;
    Conversation conversation{
        .connection = std::move(**accepted),
        .handshake = std::make_unique<os::Handshake>(os::Handshake::Role::kAccept, *hello, secret_of(self_.network)),
        .hello = {},
        .have = 0,
        .deadline = os::Deadline::after(kHandshakeTime),
        .known = false};
    if (!io_->add(conversation.connection.fd.get(), EPOLLIN, number).ok()) continue;
    conversations_.emplace(number, std::move(conversation));
  }
}

void TcpTransport::converse(std::uint64_t number) {
  const auto found = conversations_.find(number);
  if (found == conversations_.end()) return;
  Conversation& conversation = found->second;
  const int fd = conversation.connection.fd.get();
  const auto drop = [&](const Status& why) {
    // Strangers may come by the thousand: one line a second is enough.
    const bool loud = why.code() != Code::kPeerLost && next_complaint_.passed();
    if (loud) next_complaint_ = os::Deadline::after(1s);
    HOCKET_LOG(loud ? LogLevel::kWarn : LogLevel::kDebug, "a connection from {} is dropped: {}",
               os::to_string(conversation.connection.peer), why.text());
    end_conversation(number);
  };
  if (!conversation.known) {
    const auto state = conversation.handshake->step(fd);
    if (!state.ok()) return drop(state.status());
    if (*state != os::Handshake::State::kDone) {
      (void)io_->change(fd, *state == os::Handshake::State::kWriting ? EPOLLOUT : EPOLLIN, number);
      return;
    }
    conversation.known = true;
    (void)io_->change(fd, EPOLLIN, number);
  }
  auto* const bytes = reinterpret_cast<std::byte*>(&conversation.hello);
  while (conversation.have < sizeof conversation.hello) {
    const ssize_t n =
        ::recv(fd, bytes + conversation.have, sizeof conversation.hello - conversation.have, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) return drop(system_error(Code::kPeerLost, errno, "it broke before it had said who it is"));
    if (n == 0) return drop(error(Code::kPeerLost, "it ended before it had said who it is"));
    conversation.have += static_cast<std::size_t>(n);
  }
  if (Status good = tcp::check_hello(conversation.hello, self_.token); !good.ok()) return drop(good);
  io_->remove(fd);
  Conversation done = std::move(conversation);
  conversations_.erase(found);
  arrived(std::move(done));
}

void TcpTransport::end_conversation(std::uint64_t number) {
  const auto found = conversations_.find(number);
  io_->remove(found->second.connection.fd.get());
  conversations_.erase(found);
}

void TcpTransport::arrived(Conversation conversation) {
  const tcp::StreamHello& hello = conversation.hello;
  const ArrivalKey key(hello.from, hello.connection);
  if (arrivals_.size() >= kMostArrivals && !arrivals_.contains(key)) return;
  Arrival& arrival = arrivals_[key];
  if (arrival.streams.empty()) {
    arrival.hello = hello;
    arrival.streams.resize(hello.streams);
    arrival.deadline = os::Deadline::after(kHandshakeTime);
  }
  if (arrival.streams.size() != hello.streams || arrival.streams[hello.stream]) return end_arrival(key);
  arrival.streams[hello.stream] = std::move(conversation.connection);
  if (++arrival.here < arrival.streams.size()) return;
  if (self_.token < hello.from) return complete(key);
  // The peer decides: see whether it starts with this one.
  arrival.deadline = os::Deadline::never();
  arrival.number = next_number_++;
  starts_[arrival.number] = key;
  if (!io_->add(arrival.streams[0]->fd.get(), EPOLLIN, arrival.number).ok()) end_arrival(key);
}

void TcpTransport::await_start(const ArrivalKey& key) {
  Arrival& arrival = arrivals_.at(key);
  const int fd = arrival.streams[0]->fd.get();
  const ssize_t n = ::recv(fd, arrival.start.data() + arrival.have, arrival.start.size() - arrival.have, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (n <= 0) return end_arrival(key);  // another connection was taken
  arrival.have += static_cast<std::size_t>(n);
  if (arrival.have < arrival.start.size()) return;
  if (!is_start(arrival.start)) return end_arrival(key);
  io_->remove(fd);
  complete(key);
}

void TcpTransport::complete(const ArrivalKey& key) {
  Arrival arrival = std::move(arrivals_.at(key));
  arrivals_.erase(key);
  starts_.erase(arrival.number);
  std::vector<os::NetConnection> streams;
  for (auto& stream : arrival.streams) streams.push_back(std::move(*stream));
  const auto installed =
      install({key.first, arrival.hello.arena_bytes, process_name(arrival.hello.pid, text_of(arrival.hello.host))},
              std::move(streams));
  if (!installed.ok()) HOCKET_LOG(LogLevel::kWarn, "{}", installed.status().text());
}

void TcpTransport::end_arrival(const ArrivalKey& key) {
  const auto found = arrivals_.find(key);
  if (found == arrivals_.end()) return;
  if (found->second.number != 0) {
    io_->remove(found->second.streams[0]->fd.get());
    starts_.erase(found->second.number);
  }
  arrivals_.erase(found);
}

}  // namespace hocket
