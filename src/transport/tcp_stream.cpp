// SPDX-License-Identifier: Apache-2.0
// The last stop: from here on it is the kernel's.
#include "transport/tcp_stream.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>

#include "base/status.hpp"
#include "transport/shm.hpp"

namespace hocket::tcp {
namespace {

/// Behind a body, so many bytes of what follows are read with it: a signal and the next header.
constexpr std::size_t kLookAhead = 256;
/// One turn takes no more, so that all streams and the caller's lanes get theirs.
constexpr std::size_t kMostPerTurn = std::size_t{4} << 20;

/// So much is gathered before it is sent: less work than to hand over the parts.
constexpr std::size_t kSmallBytes = 1024;

/// For bodies that are sent as nothing, and for those that nobody wants.
constexpr std::size_t kNothingBytes = 64 << 10;
alignas(4096) constinit std::byte zeros[kNothingBytes]{};
alignas(4096) constinit thread_local std::byte trash[4096]{};

}  // namespace

Status check_hello(const StreamHello& hello, const ProcessToken& self) {
  if (hello.magic != StreamHello::kMagic || hello.to != self || hello.from == self || hello.streams < 1 ||
      hello.streams > kMostStreams || hello.stream >= hello.streams)
    return error(Code::kInvalidArgument, "it took this process for another one, or speaks another protocol");
  return check_arena_bytes(hello.arena_bytes);
}

std::string Stream::name() const {
  return format("{} to {}", os::to_string(connection_.local), os::to_string(connection_.peer));
}

void Stream::push(OutgoingFrame frame) {
  ++frames_pushed_;
  answer_bytes_ += frame.owned.size();
  out_.push_back(std::move(frame));
}

Status Stream::flush(FrameSink& sink) {
  constexpr std::size_t kMostParts = 32;
  while (!out_.empty()) {
    iovec parts[kMostParts];
    std::size_t count = 0, total = 0;
    std::size_t skip = front_sent_;
    const auto add = [&](const void* at, std::size_t bytes) {
      const std::size_t skipped = std::min(skip, bytes);
      skip -= skipped;
      if (bytes == skipped) return;
      parts[count++] = {const_cast<std::byte*>(static_cast<const std::byte*>(at)) + skipped, bytes - skipped};
      total += bytes - skipped;
    };
    for (auto frame = out_.begin(); frame != out_.end() && count + 2 <= kMostParts; ++frame) {
      add(&frame->header, sizeof frame->header);
      if (frame->header.bytes == 0) continue;
      if (frame->body == zeros) {
        // Taken back after its header had left: as many zeros as are still due, a part at a time.
        const std::size_t left = frame->header.bytes - skip;
        skip = 0;
        parts[count++] = {zeros, std::min(left, kNothingBytes)};
        total += parts[count - 1].iov_len;
        if (left > kNothingBytes) break;
        continue;
      }
      add(frame->body != nullptr  ? frame->body
          : !frame->owned.empty() ? frame->owned.data()
                                  : frame->line.data(),
          frame->header.bytes);
    }
    ssize_t n = 0;
    if (total <= kSmallBytes) {
      // One piece for the kernel to look at: what a small collective sends at once, credits and data.
      std::byte small[kSmallBytes];
      std::byte* to = small;
      for (std::size_t p = 0; p < count; ++p) {
        std::memcpy(to, parts[p].iov_base, parts[p].iov_len);
        to += parts[p].iov_len;
      }
      n = ::send(fd(), small, total, MSG_NOSIGNAL | MSG_DONTWAIT);
    } else {
      msghdr message{};
      message.msg_iov = parts;
      message.msg_iovlen = count;
      n = ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
      if (errno == EFAULT)
        return system_error(Code::kInternal, errno, "sending from {}: memory that a put reads is gone", name());
      return system_error(Code::kPeerLost, errno, "sending from {}", name());
    }
    std::size_t left = static_cast<std::size_t>(n);
    while (left > 0) {
      OutgoingFrame& front = out_.front();
      const std::size_t due = sizeof front.header + front.header.bytes - front_sent_;
      if (left < due) {
        front_sent_ += left;
        break;
      }
      left -= due;
      front_sent_ = 0;
      answer_bytes_ -= front.owned.size();
      const std::uint64_t ticket = front.ticket;
      out_.pop_front();
      if (ticket != 0) sink.frame_left(ticket);
    }
    if (static_cast<std::size_t>(n) < total) return {};  // it takes no more now
  }
  return {};
}

void Stream::cancel(const void* owner) {
  for (std::size_t i = 0; i < out_.size(); ++i) {
    OutgoingFrame& frame = out_[i];
    if (frame.owner != owner) continue;
    if (i == 0 && front_sent_ != 0) {
      // Its length was announced. A line is a copy and may go; of a body nothing more may be read.
      if (frame.body != nullptr) frame.body = zeros;
      continue;
    }
    frame.header = {.kind = static_cast<std::uint16_t>(FrameKind::kCancelled)};
    frame.body = nullptr;
  }
}

Status Stream::parse(FrameSink& sink, bool* moved) {
  while (body_left_ == 0 && staged() >= sizeof(FrameHeader)) {
    std::memcpy(&header_, &stage_[stage_begin_], sizeof header_);
    const auto kind = static_cast<FrameKind>(header_.kind);
    if (kind == FrameKind::kSignal) {
      if (header_.bytes < sizeof(std::uint64_t) || header_.bytes > kCacheLine)
        return error(Code::kInvalidArgument, "a signal of {} bytes came", header_.bytes);
      if (staged() < sizeof header_ + header_.bytes) return {};
      HOCKET_ASSIGN(const bool taken,
                    sink.signal(header_, std::span(&stage_[stage_begin_ + sizeof header_], header_.bytes)));
      held_ = !taken;
      if (held_) return {};
      stage_begin_ += sizeof header_ + header_.bytes;
      ++frames_received_;
      *moved = true;
      continue;
    }
    HOCKET_ASSIGN(body_, sink.body_begins(header_));
    stage_begin_ += sizeof header_;
    body_left_ = header_.bytes;
    const std::size_t here = std::min(body_left_, staged());
    if (here > 0) {
      if (body_.to != nullptr) {
        std::memcpy(body_.to, &stage_[stage_begin_], here);
        body_.to += here;
      }
      stage_begin_ += here;
      body_left_ -= here;
    }
    if (body_left_ == 0) {
      body_ = {};
      ++frames_received_;
      *moved = true;
      HOCKET_TRY(sink.frame_ended(header_));
    }
  }
  return {};
}

Status Stream::receive(FrameSink& sink, bool* moved) {
  std::size_t budget = kMostPerTurn;
  for (;;) {
    HOCKET_TRY(parse(sink, moved));
    if (held_ || ended_ || budget == 0) return {};
    if (stage_begin_ == stage_end_) {
      stage_begin_ = stage_end_ = 0;
    } else if (stage_begin_ > 0) {
      std::memmove(stage_.data(), &stage_[stage_begin_], staged());
      stage_end_ -= stage_begin_;
      stage_begin_ = 0;
    }
    std::size_t total = 0, body = 0;
    ssize_t n = 0;
    if (body_left_ == 0) {
      // What who waits does most. recv costs a third less than recvmsg.
      total = stage_.size() - stage_end_;
      n = ::recv(fd(), &stage_[stage_end_], total, MSG_DONTWAIT);
    } else {
      iovec parts[2];
      body = body_.to != nullptr ? body_left_ : std::min(body_left_, sizeof trash);
      parts[0] = {body_.to != nullptr ? body_.to : trash, body};
      parts[1] = {&stage_[stage_end_], kLookAhead};
      msghdr message{};
      message.msg_iov = parts;
      message.msg_iovlen = body == body_left_ ? 2 : 1;
      total = body + (body == body_left_ ? kLookAhead : 0);
      n = ::recvmsg(fd(), &message, MSG_DONTWAIT);
    }
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
      return system_error(Code::kPeerLost, errno, "receiving at {}", name());
    }
    if (n == 0) {
      ended_ = true;
      if (body_left_ > 0 || staged() > 0)
        return error(Code::kPeerLost, "the connection {} ended in the middle of a message", name());
      return {};
    }
    *moved = true;
    const std::size_t came = static_cast<std::size_t>(n);
    budget -= std::min(budget, came);
    const std::size_t of_body = std::min(came, body);
    if (of_body > 0) {
      if (body_.to != nullptr) body_.to += of_body;
      body_left_ -= of_body;
      if (body_left_ == 0) {
        body_ = {};
        ++frames_received_;
        HOCKET_TRY(sink.frame_ended(header_));
      }
    }
    stage_end_ += came - of_body;
    if (came < total) {  // the socket is empty
      HOCKET_TRY(parse(sink, moved));
      return {};
    }
  }
}

}  // namespace hocket::tcp
