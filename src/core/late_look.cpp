// SPDX-License-Identifier: Apache-2.0
#include "core/late_look.hpp"

#include <algorithm>

#include "base/os/clock.hpp"
#include "core/engine.hpp"

namespace hocket {
namespace {

constexpr std::int64_t kEveryNs = 50'000'000;
/// A peer over a network that does not answer keeps a look waiting, and the rank's next call with it: the longer one
/// took, the rarer they are.
constexpr std::int64_t kShare = 20;
/// With nothing to look at it stays for a second, so that calls now and then need not start it each time.
constexpr int kStays = 20;

}  // namespace

ProgressTask::Poll LateLook::poll() {
  const std::int64_t now = os::now_ns();
  if (now < next_ns_) return Poll::kIdle;
  next_ns_ = now + kEveryNs;
  const std::lock_guard lock(mutex_);
  CommunicatorState* const s = communicator_;
  if (s == nullptr || s->ended.load(std::memory_order_acquire)) return Poll::kDone;
  std::uint64_t ticket = 0;
  if (!s->turnstile.take_if_free(&ticket)) return Poll::kIdle;  // it is in a call, which looks itself when it waits
  quiet_ = s->any_untaken ? 0 : quiet_ + 1;
  s->look_back();
  const std::int64_t done = os::now_ns();
  next_ns_ = std::max(next_ns_, done + kShare * (done - now));
  over_ = quiet_ >= kStays;
  const Poll result = over_ ? Poll::kDone : Poll::kIdle;
  if (s->turnstile.leave(ticket)) s->engine->progress().wake();
  return result;
}

void LateLook::leave() {
  const std::lock_guard lock(mutex_);
  communicator_ = nullptr;
}

void CommunicatorState::note_untaken(const ReadyCall& call) {
  for (Drain& drain : call.plan->drains)
    if (drain.untaken == 0) drain.untaken = calls;
  any_untaken = true;
  if (late_look && !late_look->over()) [[likely]]
    return;
  if (late_look) late_look->leave();
  late_look = std::make_shared<LateLook>(*this);
  // Without a thread the look is left to later calls of this rank.
  (void)engine->progress().submit(late_look);
}

}  // namespace hocket
