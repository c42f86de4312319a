// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/election.hpp"

#include <fcntl.h>

#include <cerrno>

#include "base/status.hpp"
#include "core/bootstrap/listen.hpp"
#include "core/bootstrap/messages.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

constexpr auto kProofTime = 10s;

}  // namespace

Result<Elected> elect(const Secret& secret, const Settings& settings, const os::Hello& hello, const std::string& self,
                      const Callers& callers, const os::AbortFlag& stop) {
  const os::UnixAddress place = meeting_place(secret, settings.host_id);
  std::string last;
  for (;;) {
    if (callers.stopping()) return error(Code::kAborted, "{} went before all had come", self);
    HOCKET_TRY(callers.request());
    if (callers.timed_out())
      return error(Code::kTimeout, "{} found no leader on its host at {}: {}", self, os::to_string(place), last);
    Elected elected;
    auto listener = os::UnixListener::listen(place, 4096);
    if (listener.ok()) {
      elected.name.emplace(std::move(*listener));
      return elected;
    }
    if (listener.status().code() != Code::kInvalidArgument) return listener.status();
    const os::WaitLimits limits{.deadline = os::Deadline::after(kProofTime), .abort = &stop};
    auto socket = os::UnixSocket::connect(place, os::UnixSocket::IfAbsent::kFail, limits);
    if (socket.ok()) {
      HOCKET_TRY(socket->check_same_user());
      os::Hello mine = hello;
      mine.purpose = kToLeader;
      os::UniqueFd fd(::fcntl(socket->fd(), F_DUPFD_CLOEXEC, 3));
      if (!fd) return system_error(Code::kOutOfMemory, errno, "a descriptor (see ulimit -n)");
      auto leader = os::shake_hands(fd.get(), os::Handshake::Role::kConnect, mine, secret, limits);
      if (leader.ok()) {
        elected.leader.emplace(std::move(fd), *leader);
        elected.leader->set_limit(FrameStream::kLarge);
        return elected;
      }
      if (leader.status().code() == Code::kMismatch) return leader.status();
      last = leader.status().text();
    } else {
      last = socket.status().text();
    }
    // The leader is about to listen, or has just gone.
    (void)os::sleep_until({.deadline = os::Deadline::after(5ms), .abort = &stop});
  }
}

}  // namespace hocket
