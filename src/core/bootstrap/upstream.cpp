// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/upstream.hpp"

#include <utility>

#include "base/status.hpp"
#include "core/bootstrap/connect_root.hpp"
#include "core/bootstrap/messages.hpp"

namespace hocket {

Status Upstream::begin(const UniqueId& first, const os::Hello& hello, const std::string& interfaces,
                       std::chrono::nanoseconds patience) {
  HOCKET_TRY(connector_.start(1, [=](std::size_t) {
    return connect_to_root(first, hello, "a root of several", interfaces, {.deadline = os::Deadline::after(patience)});
  }));
  begun_ = true;
  return {};
}

void Upstream::send(std::uint64_t tag, const Frame& frame) {
  if (lost_) return;
  if (stream_) {
    stream_->send(frame.kind(), frame.header.detail, tag, frame.bytes);
  } else {
    waiting_.emplace_back(tag, frame);
  }
}

pollfd Upstream::entry() const {
  return {.fd = stream_ ? stream_->fd() : -1, .events = stream_ ? stream_->events() : short{0}, .revents = 0};
}

Status Upstream::turn() {
  if (!stream_) {
    auto next = connector_.take();
    if (!next) return {};
    HOCKET_ASSIGN(FrameStream stream, std::move(*next));
    stream_.emplace(std::move(stream));
    for (const auto& [tag, frame] : std::exchange(waiting_, {})) send(tag, frame);
  }
  stream_->turn();
  return stream_->peer_error() ? status_of(*stream_->peer_error()) : Status();
}

std::optional<Frame> Upstream::take() {
  return stream_ ? stream_->take() : std::nullopt;
}

Status Upstream::check_lost() {
  if (!stream_ || stream_->closed().ok()) return {};
  Status why = error(Code::kPeerLost, "the first root is lost: {}", stream_->closed().text());
  stream_.reset();
  lost_ = true;
  return why;
}

}  // namespace hocket
