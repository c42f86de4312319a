// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/reception.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/log.hpp"
#include "base/os/random.hpp"
#include "base/status.hpp"
#include "core/bootstrap/messages.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

constexpr auto kProofTime = 10s;
constexpr std::size_t kMostUnproven = 1024;

}  // namespace

void Reception::listen(std::vector<pollfd>& fds, os::Deadline& wake_at) const {
  if (!accept_after_.passed()) {
    wake_at = std::min(wake_at, accept_after_);
    return;
  }
  fds.push_back({.fd = near_.fd(), .events = POLLIN, .revents = 0});
  if (!far_) return;
  for (const int fd : far_->fds()) fds.push_back({.fd = fd, .events = POLLIN, .revents = 0});
}

void Reception::add_streams(std::vector<FrameStream*>& streams) {
  for (Newcomer& newcomer : newcomers_) streams.push_back(&newcomer.stream);
}

// ---- In at the door ----

bool Reception::make_room() {
  if (newcomers_.empty()) return false;
  newcomers_.pop_front();  // the oldest
  return true;
}

bool Reception::make_room_or_wait(const Status& why) {
  if (make_room()) return true;
  HOCKET_LOG(LogLevel::kWarn, "{} waits a moment: {}", self_, why.text());
  accept_after_ = os::Deadline::after(100ms);
  return false;
}

Status Reception::add(os::UniqueFd fd, bool local) {
  if (newcomers_.size() >= kMostUnproven) make_room();
  os::Hello mine = hello_;
  mine.purpose = local ? kToLeader : kBetweenLeaders;
  HOCKET_TRY(os::random_bytes(mine.nonce));  // a nonce is good for one connection
  newcomers_.push_back({FrameStream(std::move(fd), mine, secret_, os::Deadline::after(kProofTime)), local});
  newcomers_.back().stream.set_counters(counters_);
  return {};
}

Status Reception::accept() {
  constexpr int kMostAtOnce = 256;
  if (!accept_after_.passed()) return {};
  for (int i = 0; i < kMostAtOnce; ++i) {
    os::UniqueFd fd(::accept4(near_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno != EMFILE && errno != ENFILE) break;
      if (!make_room_or_wait(system_error(Code::kOutOfMemory, errno, "accept (see ulimit -n)"))) return {};
      continue;
    }
    HOCKET_TRY(add(std::move(fd), true));
  }
  for (int i = 0; far_ && i < kMostAtOnce; ++i) {
    auto connection = far_->accept_now();
    if (!connection.ok()) {
      if (!make_room_or_wait(connection.status())) return {};
      continue;
    }
    if (!*connection) break;
    HOCKET_TRY(add(std::move((*connection)->fd), false));
  }
  return {};
}

// ---- Who has proven itself ----

std::optional<Reception::Arrival> Reception::take() {
  for (auto at = newcomers_.begin(); at != newcomers_.end();) {
    const auto newcomer = at++;
    FrameStream& stream = newcomer->stream;
    if (!stream.proven()) {
      if (stream.closed().ok() && !stream.deadline().passed()) continue;
      HOCKET_LOG(stream.closed().code() == Code::kMismatch ? LogLevel::kWarn : LogLevel::kDebug,
                 "{} turned somebody away: {}", self_,
                 stream.closed().ok() ? "no proof came in time" : stream.closed().text());
      newcomers_.erase(newcomer);
      continue;
    }
    std::optional<std::uint32_t> round;
    if (!newcomer->local) {
      const auto frame = stream.take();
      if (!frame) {
        if (!stream.closed().ok()) newcomers_.erase(newcomer);
        continue;
      }
      round = frame->header.detail;
      if (frame->kind() != FrameKind::kLink || *round >= rounds_of(kMostRanks)) {
        newcomers_.erase(newcomer);
        continue;
      }
    }
    stream.set_limit(FrameStream::kLarge);
    Arrival arrival{std::move(stream), round};
    newcomers_.erase(newcomer);
    return arrival;
  }
  return std::nullopt;
}

}  // namespace hocket
