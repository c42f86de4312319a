// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_endpoint.hpp"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "base/log.hpp"
#include "base/os/clock.hpp"
#include "base/os/futex.hpp"
#include "base/status.hpp"
#include "transport/landing.hpp"
#include "transport/tcp_io.hpp"

namespace hocket::tcp {
namespace {

/// Answers to gets that wait to be sent; a peer that asks and does not read gets no more.
constexpr std::size_t kMostAnswerBytes = std::size_t{4} << 20;
/// After the end of one stream those of the others are due.
constexpr std::int64_t kEndingNs = 500'000'000;

std::string describe_route(const std::vector<Stream>& streams) {
  return format("by {}{}", streams.front().name(),
                streams.size() > 1 ? format(" and {} more streams", streams.size() - 1) : std::string());
}

}  // namespace

TcpEndpoint::TcpEndpoint(Arena& arena, Peer peer, std::vector<Stream> streams, std::shared_ptr<IoThread> io)
    : arena_(arena),
      peer_(std::move(peer)),
      route_(describe_route(streams)),
      io_(std::move(io)),
      streams_(std::move(streams)) {}

TcpEndpoint::~TcpEndpoint() = default;

// ---- Posting ----

Status TcpEndpoint::accept(Operation& operation, std::uint64_t* ticket) {
  const std::scoped_lock lock(mutex_);
  if (!error_.ok()) return error_;
  *ticket = operation.ticket = ++accepted_;
  inbox_.push_back(operation);
  accepted_seen_.store(accepted_, std::memory_order_release);
  posted_.fetch_add(1, std::memory_order_seq_cst);
  return {};
}

Result<std::uint64_t> TcpEndpoint::put(const Put& put) {
  HOCKET_TRY(check_put(put, peer_.arena_bytes));
  Operation operation{.is_put = true, .ticket = 0, .put = put, .signal = {}, .line = {}};
  std::uint64_t ticket = 0;
  HOCKET_TRY(accept(operation, &ticket));
  return ticket;
}

Result<std::uint64_t> TcpEndpoint::signal(const Signal& signal) {
  HOCKET_TRY(check_signal(signal, peer_.arena_bytes));
  Operation operation{.is_put = false, .ticket = 0, .put = {}, .signal = signal, .line = {}};
  std::copy(signal.line.begin(), signal.line.end(), operation.line.begin());
  std::uint64_t ticket = 0;
  HOCKET_TRY(accept(operation, &ticket));
  return ticket;
}

bool TcpEndpoint::idle() const noexcept {
  return completed_.load(std::memory_order_acquire) == accepted_seen_.load(std::memory_order_acquire) ||
         failed_.load(std::memory_order_acquire);
}

Status TcpEndpoint::error() const {
  if (!failed_.load(std::memory_order_acquire)) [[likely]]
    return {};
  const std::scoped_lock lock(mutex_);
  return error_;
}

// ---- Driving ----

void TcpEndpoint::take_turn() noexcept {
  while (!try_turn()) ::sched_yield();  // who has it does not sleep
}

Status TcpEndpoint::progress() {
  drives_.store(drives_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // a lost one is no harm
  bool driven = false;
  return take_turns(&driven);
}

bool TcpEndpoint::drive_for_nobody() {
  bool driven = false;
  return !take_turns(&driven).ok() || driven;
}

Status TcpEndpoint::take_turns(bool* driven) {
  for (;;) {
    if (failed_.load(std::memory_order_acquire)) return error();
    // Who finds the turn taken has posted before (seq_cst); who has it looks for that after giving it back.
    if (!try_turn()) return {};
    *driven = true;
    Status status = drive();
    if (!status.ok()) fail_in_turn(std::move(status));
    leave_turn();
    if (failed_.load(std::memory_order_acquire)) return error();
    if (posted_.load(std::memory_order_seq_cst) == 0) break;
  }
  // Nobody may come back to send the rest.
  if (sending_.load(std::memory_order_relaxed) || ending() || !unacknowledged.load(std::memory_order_relaxed))
    io_->attend(*this);
  return {};
}

void TcpEndpoint::take_inbox() {
  std::vector<std::pair<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>>> requests;
  if (posted_.load(std::memory_order_acquire) != 0) {
    const std::scoped_lock lock(mutex_);
    taken_.swap(inbox_);
    for (const std::uint64_t number : get_requests_) {
      requests.push_back({number, get_places_[number]});
      get_places_.erase(number);
    }
    get_requests_.clear();
    posted_.store(0, std::memory_order_seq_cst);
  }
  const auto cpu = static_cast<std::uint16_t>(taken_.empty() ? 0 : ::sched_getcpu() + 1);
  for (const Operation& operation : taken_) {
    OutgoingFrame frame;
    frame.ticket = operation.ticket;
    if (operation.is_put) {
      std::uint64_t left = operation.put.bytes, at = 0;
      std::uint32_t pieces = 0;
      while (left > 0) {
        const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, kPieceBytes));
        frame.header = {.kind = static_cast<std::uint16_t>(FrameKind::kPut), .bytes = bytes};
        frame.header.offset = operation.put.offset + at;
        frame.body = operation.put.source + at;
        frame.owner = operation.put.owner;
        last_stream_ = next_stream_++ % streams_.size();
        streams_[last_stream_].push(frame);
        left -= bytes, at += bytes;
        ++pieces;
      }
      pieces_.push_back(pieces);
      if (pieces == 0) frame_left(0);
    } else {
      frame.header = {.kind = static_cast<std::uint16_t>(FrameKind::kSignal),
                      .cpu = cpu,
                      .bytes = static_cast<std::uint32_t>(operation.signal.line.size())};
      frame.header.offset = operation.signal.offset;
      frame.header.place = operation.signal.bell;
      for (std::size_t s = 0; s < streams_.size(); ++s) frame.header.after[s] = streams_[s].frames_sent();
      frame.line = operation.line;
      frame.owner = operation.signal.owner;
      streams_[last_stream_].push(frame);
      pieces_.push_back(1);
    }
  }
  taken_.clear();
  for (const auto& [number, what] : requests) {
    OutgoingFrame frame;
    frame.header = {.kind = static_cast<std::uint16_t>(FrameKind::kGet)};
    frame.header.place = number;
    frame.header.offset = what.first;
    frame.header.length = what.second;
    streams_[0].push(std::move(frame));
  }
}

Status TcpEndpoint::drive() {
  if (closed_) return {};
  take_inbox();
  Status status;
  for (Stream& stream : streams_) {
    if (stream.sending() && status.ok()) status = stream.flush(*this);
  }
  // What has come counts, also if the connection is broken by now.
  receive(status);
  HOCKET_TRY(status);
  bool sending = false;
  std::size_t ended = 0;
  for (Stream& stream : streams_) {
    if (stream.answer_bytes() > 0) HOCKET_TRY(stream.flush(*this));
    sending |= stream.sending();
    ended += stream.ended();
  }
  sending_.store(sending, std::memory_order_release);
  if (ended > 0) {
    const std::int64_t now = os::now_ns();
    if (!ending()) ending_since_.store(now, std::memory_order_relaxed);
    if (ended == streams_.size() || now - ending_since_.load(std::memory_order_relaxed) > kEndingNs)
      return hocket::error(Code::kPeerLost, "it closed its connection");
  }
  return {};
}

/// The stream that brought something last is looked at first. Where that brings whole frames, the others wait their
/// turn: small messages come on one stream, and each look costs a system call.
void TcpEndpoint::receive(Status& status) {
  constexpr std::uint32_t kAllEvery = 16;
  const bool all = looks_++ % kAllEvery == 0;
  for (int round = 0; round < 4; ++round) {
    bool moved = false, held = false;
    const std::size_t first = warm_stream_;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      Stream& stream = streams_[(first + i) % streams_.size()];
      bool of_this = false;
      Status received = stream.receive(*this, &of_this);
      if (!received.ok() && status.ok()) status = std::move(received);
      held |= stream.held();
      if (!of_this) continue;
      moved = true;
      warm_stream_ = (first + i) % streams_.size();
      if (!all && !held && i == 0 &&
          std::none_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.under_way(); }))
        return;
    }
    if (!moved || !held) return;  // else what came may be what a signal waits for
  }
}

void TcpEndpoint::frame_left(std::uint64_t ticket) {
  std::uint64_t completed = completed_.load(std::memory_order_relaxed);
  if (ticket != 0) --pieces_[ticket - completed - 1];
  while (!pieces_.empty() && pieces_.front() == 0) {
    pieces_.pop_front();
    ++completed;
  }
  completed_.store(completed, std::memory_order_release);
}

// ---- What comes ----

Result<FrameSink::Body> TcpEndpoint::body_begins(const FrameHeader& header) {
  switch (static_cast<FrameKind>(header.kind)) {
    case FrameKind::kPut: {
      const Put put{.bytes = header.bytes, .offset = header.offset};
      if (Status fits = check_put(put, arena_.bytes()); !fits.ok())
        return hocket::error(Code::kInvalidArgument, "what came is outside of this process's memory: {}", fits.text());
      HOCKET_ASSIGN(const bool wanted, arena_.admit(header.offset, header.bytes));
      if (wanted) return Body{arena_.base() + header.offset, nullptr};
      if (!std::exchange(warned_, true))
        HOCKET_LOG(LogLevel::kInfo, "{} bytes from {} came for memory at {} that is not in use any more", header.bytes,
                   peer_.name, header.offset);
      return Body{};
    }
    case FrameKind::kGot: {
      const std::scoped_lock lock(mutex_);
      const auto found = gets_.find(header.place);
      if (header.bytes > kMostGetBytes) return hocket::error(Code::kInvalidArgument, "an answer is too long");
      if (found == gets_.end()) return Body{};  // who asked has given up
      const auto& pending = found->second;
      if (header.length == 0 && header.bytes != pending->bytes.size())
        return hocket::error(Code::kInvalidArgument, "an answer has {} bytes, {} were asked for", header.bytes,
                             pending->bytes.size());
      pending->bytes.resize(header.bytes);
      return Body{pending->bytes.data(), pending};
    }
    case FrameKind::kGet:
    case FrameKind::kStart:
    case FrameKind::kCancelled:
      if (header.bytes != 0)
        return hocket::error(Code::kInvalidArgument, "a message of kind {} has {} bytes", header.kind, header.bytes);
      return Body{};
    case FrameKind::kSignal: break;
  }
  return hocket::error(Code::kInvalidArgument, "what came is no message (kind {})", header.kind);
}

Status TcpEndpoint::frame_ended(const FrameHeader& header) {
  switch (static_cast<FrameKind>(header.kind)) {
    case FrameKind::kGet: answer(header); break;
    case FrameKind::kGot: {
      std::shared_ptr<PendingGet> pending;
      {
        const std::scoped_lock lock(mutex_);
        const auto found = gets_.find(header.place);
        if (found == gets_.end()) break;
        pending = found->second;
        gets_.erase(found);
      }
      pending->failed = header.length != 0;
      pending->done.store(1, std::memory_order_release);
      os::futex_wake(pending->done, 1 << 20);
      break;
    }
    default: break;
  }
  return {};
}

void TcpEndpoint::answer(const FrameHeader& header) {
  OutgoingFrame frame;
  frame.header = {.kind = static_cast<std::uint16_t>(FrameKind::kGot)};
  frame.header.place = header.place;
  Status status = check_get(header.offset, header.length, arena_.bytes());
  if (status.ok() && streams_[0].answer_bytes() > kMostAnswerBytes)
    status = hocket::error(Code::kOutOfMemory, "too many answers wait to be sent");
  if (status.ok()) {
    const auto wanted = arena_.admit(header.offset, header.length);
    if (!wanted.ok())
      status = wanted.status();
    else if (!*wanted)
      status = hocket::error(Code::kInvalidArgument, "nothing is at {} any more", header.offset);
  }
  if (status.ok()) {
    frame.owned.resize(header.length);
    copy_words(frame.owned.data(), arena_.base() + header.offset, header.length);
  } else {
    frame.header.length = 1;
    const auto text = std::as_bytes(std::span(status.text()));
    frame.owned.assign(text.begin(), text.end());
  }
  frame.header.bytes = static_cast<std::uint32_t>(frame.owned.size());
  streams_[0].push(std::move(frame));
}

Result<bool> TcpEndpoint::signal(const FrameHeader& header, std::span<const std::byte> line) {
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    if (!reached(header.after[s], streams_[s].frames_received())) return false;
  }
  const Signal signal{.line = line, .offset = header.offset, .bell = header.place};
  if (Status fits = check_signal(signal, arena_.bytes()); !fits.ok())
    return hocket::error(Code::kInvalidArgument, "a signal came for a wrong place: {}", fits.text());
  HOCKET_ASSIGN(const bool wanted, arena_.admit(header.offset, line.size()));
  HOCKET_ASSIGN(const bool rings, arena_.admit(header.place, sizeof(Doorbell)));
  if (same_host_.load(std::memory_order_relaxed)) peer_cpu_.store(header.cpu - 1, std::memory_order_relaxed);
  if (wanted && rings) apply_signal(arena_.base(), line, header.offset, header.place);
  return true;
}

// ---- Reading ----

Status TcpEndpoint::get(std::uint64_t offset, std::span<std::byte> to, const os::WaitLimits& limits) {
  HOCKET_TRY(check_get(offset, to.size(), peer_.arena_bytes));
  if (to.empty()) return error();
  const auto pending = std::make_shared<PendingGet>();
  pending->bytes.resize(to.size());
  std::uint64_t number = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (!error_.ok()) return error_;
    number = next_get_++;
    gets_[number] = pending;
    get_places_[number] = {offset, to.size()};
    get_requests_.push_back(number);
    posted_.fetch_add(1, std::memory_order_seq_cst);
  }
  struct Watching {
    TcpEndpoint& endpoint;
    std::uint64_t number;
    ~Watching() {
      endpoint.unwatch();
      const std::scoped_lock lock(endpoint.mutex_);
      endpoint.gets_.erase(number);
      endpoint.get_places_.erase(number);
      std::erase(endpoint.get_requests_, number);
    }
  };
  HOCKET_TRY(progress());
  watch();
  const Watching watching{*this, number};
  while (pending->done.load(std::memory_order_acquire) == 0) {
    HOCKET_TRY(progress());
    if (limits.abort != nullptr && limits.abort->raised())
      return hocket::error(Code::kAborted, "aborted while reading memory of {}", peer_.name);
    if (limits.deadline.passed())
      return hocket::error(Code::kTimeout, "time ran out while reading memory of {} {}", peer_.name, route_);
    // The transport's thread wakes it; the clock is for aborts and the end of the connection.
    os::futex_wait(pending->done, 0, std::min(limits.deadline, os::Deadline::after(std::chrono::milliseconds(5))));
  }
  if (pending->failed != 0)
    return hocket::error(Code::kInvalidArgument, "{} refused to read: {}", peer_.name,
                         std::string_view(reinterpret_cast<const char*>(pending->bytes.data()), pending->bytes.size()));
  std::memcpy(to.data(), pending->bytes.data(), to.size());
  return {};
}

// ---- Sleeping ----

void TcpEndpoint::watch() noexcept {
  watchers_.fetch_add(1, std::memory_order_seq_cst);
  io_->arm(*this);
}

void TcpEndpoint::unwatch() noexcept {
  watchers_.fetch_sub(1, std::memory_order_seq_cst);
}

// ---- The end ----

void TcpEndpoint::cancel(const void* owner) noexcept {
  take_turn();
  if (!closed_) take_inbox();
  for (Stream& stream : streams_) stream.cancel(owner);
  leave_turn();
}

void TcpEndpoint::fail_in_turn(Status why) {
  if (closed_) return;
  closed_ = true;
  for (Stream& stream : streams_) ::shutdown(stream.fd(), SHUT_RDWR);
  Status text(why.code() == Code::kInternal ? Code::kInternal : Code::kPeerLost,
              format("{}, reached {}: {}", peer_.name, route_, why.text()));
  {
    const std::scoped_lock lock(mutex_);
    error_ = text;
    inbox_.clear();
    get_requests_.clear();
  }
  posted_.store(0, std::memory_order_seq_cst);
  sending_.store(false, std::memory_order_relaxed);
  failed_.store(true, std::memory_order_release);
  io_->lost(peer_.token, std::move(text));
}

void TcpEndpoint::fail(Status why) {
  take_turn();
  fail_in_turn(std::move(why));
  leave_turn();
}

void TcpEndpoint::close() {
  take_turn();
  if (!closed_) {
    // Its last signals say that it is done, and must not be lost: a socket that is closed with bytes unread takes back
    // what it has not sent yet.
    const os::Deadline deadline = os::Deadline::after(std::chrono::milliseconds(200));
    take_inbox();
    for (bool rest = true; rest && !deadline.passed();) {
      rest = false;
      for (Stream& stream : streams_) {
        if (!stream.flush(*this).ok()) continue;
        rest |= stream.sending();
      }
      if (rest) ::sched_yield();
    }
    for (Stream& stream : streams_) ::shutdown(stream.fd(), SHUT_WR);
    for (bool rest = true; rest && !deadline.passed();) {
      rest = false;
      for (Stream& stream : streams_) {
        std::byte nothing[4096];
        while (::recv(stream.fd(), nothing, sizeof nothing, MSG_DONTWAIT) > 0) {
        }
        int left = 0;
        rest |= ::ioctl(stream.fd(), SIOCOUTQ, &left) == 0 && left > 0;
      }
      if (rest) ::sched_yield();
    }
    closed_ = true;
    {
      const std::scoped_lock lock(mutex_);
      error_ = hocket::error(Code::kPeerLost, "the engine of this process has ended");
      inbox_.clear();
    }
    failed_.store(true, std::memory_order_release);
  }
  leave_turn();
}

void TcpEndpoint::check_link(std::int64_t limit_ns, bool* unknown) {
  *unknown = false;
  if (!try_turn()) {
    *unknown = true;
    return;
  }
  for (Stream& stream : streams_) {
    if (closed_) break;
    tcp_info info{};
    socklen_t length = sizeof info;
    if (::getsockopt(stream.fd(), IPPROTO_TCP, TCP_INFO, &info, &length) < 0) continue;
    int unsent = 0;
    (void)::ioctl(stream.fd(), SIOCOUTQ, &unsent);
    if (unsent == 0 && info.tcpi_unacked == 0) continue;
    *unknown = true;
    // A peer whose process stands still has no room, but its host acknowledges probes.
    const bool silent = info.tcpi_unacked > 0 || info.tcpi_probes > 0;
    if (silent && std::int64_t{info.tcpi_last_ack_recv} * 1'000'000 > limit_ns &&
        std::int64_t{info.tcpi_last_data_sent} * 1'000'000 > 0 && info.tcpi_retransmits + info.tcpi_probes > 0) {
      fail_in_turn(hocket::error(Code::kPeerLost,
                                 "its host has acknowledged nothing on {} for {:.1f} s (HOCKET_LINK_TIMEOUT), the "
                                 "link is cut",
                                 stream.name(), static_cast<double>(info.tcpi_last_ack_recv) / 1e3));
    }
  }
  leave_turn();
}

}  // namespace hocket::tcp
