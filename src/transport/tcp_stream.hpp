// SPDX-License-Identifier: Apache-2.0
// tcp_stream.hpp: one stream of a tcp connection: frames out, frames in, as far as the socket goes without waiting.
//
// Bodies are sent from where they lie and received to where they belong; only headers, lines and the first bytes behind
// a header pass through a small buffer. One thread at a time (the holder of the endpoint's turn).
// Next stop: tcp_endpoint.cpp, which decides what the frames mean.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/os/net_socket.hpp"
#include "hocket/status.hpp"
#include "transport/tcp_frame.hpp"

namespace hocket::tcp {

/// What an endpoint does with what its streams bring.
class FrameSink {
 public:
  /// Where a body goes. `to` null: it is thrown away.
  struct Body {
    std::byte* to = nullptr;
    std::shared_ptr<void> keep;  ///< lives until the body has come
  };
  /// A frame with a body begins (all kinds but signals). An error ends the connection.
  virtual Result<Body> body_begins(const FrameHeader& header) = 0;
  /// The frame is complete, its body has landed.
  virtual Status frame_ended(const FrameHeader& header) = 0;
  /// A signal that is next on its stream. False: it is not yet its time; ask again.
  virtual Result<bool> signal(const FrameHeader& header, std::span<const std::byte> line) = 0;
  /// A frame of ours has left; the ticket that it is a part of.
  virtual void frame_left(std::uint64_t ticket) = 0;

 protected:
  ~FrameSink() = default;
};

struct OutgoingFrame {
  FrameHeader header;
  const std::byte* body = nullptr;           ///< header.bytes of them; null: `line` or `owned`
  std::array<std::byte, kCacheLine> line{};  ///< of a signal
  std::vector<std::byte> owned;              ///< of an answer
  std::uint64_t ticket = 0;                  ///< 0: of no operation
  const void* owner = nullptr;               ///< Put::owner, Signal::owner
};

class Stream {
 public:
  explicit Stream(os::NetConnection connection) : connection_(std::move(connection)) {}

  void push(OutgoingFrame frame);
  bool sending() const noexcept { return !out_.empty(); }
  std::uint32_t frames_sent() const noexcept { return frames_pushed_; }
  std::uint32_t frames_received() const noexcept { return frames_received_; }
  std::size_t answer_bytes() const noexcept { return answer_bytes_; }
  /// A signal has come that refers to frames of other streams which have not.
  bool held() const noexcept { return held_; }
  /// A part of a frame has come.
  bool under_way() const noexcept { return body_left_ > 0 || staged() > 0; }
  /// The other side has ended this stream in good order.
  bool ended() const noexcept { return ended_; }

  /// Sends what the socket takes. Errors: kPeerLost.
  Status flush(FrameSink& sink);
  /// Receives what is there, up to a few MiB. `moved`: whether anything came. Errors: kPeerLost, kInvalidArgument
  /// (what came is no frame), and those of the sink.
  Status receive(FrameSink& sink, bool* moved);
  /// What is still to be sent for this owner is sent as nothing: zeros in a body that has begun.
  void cancel(const void* owner);

  int fd() const noexcept { return connection_.fd.get(); }
  const os::NetConnection& connection() const noexcept { return connection_; }
  /// "10.0.0.1:4000 to 10.0.0.2:5000".
  std::string name() const;

 private:
  Status parse(FrameSink& sink, bool* moved);
  std::size_t staged() const noexcept { return stage_end_ - stage_begin_; }

  os::NetConnection connection_;
  // Out.
  std::deque<OutgoingFrame> out_;
  std::size_t front_sent_ = 0;  // bytes of the first, header and all
  std::size_t answer_bytes_ = 0;
  std::uint32_t frames_pushed_ = 0;
  // In.
  std::array<std::byte, 4096> stage_;
  std::size_t stage_begin_ = 0, stage_end_ = 0;
  FrameHeader header_;  // of the frame whose body comes
  FrameSink::Body body_;
  std::size_t body_left_ = 0;
  std::uint32_t frames_received_ = 0;
  bool held_ = false;  // a signal waits for other streams
  bool ended_ = false;
};

}  // namespace hocket::tcp
