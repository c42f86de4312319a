// SPDX-License-Identifier: Apache-2.0
// core/ending.cpp: how a communicator ends: by a call of this rank (abort, revoke, finalize), and what is left when its
// last handle goes. Errors that end it: core/failure.cpp. Next stop: core/graveyard.hpp.
#include <chrono>
#include <cstddef>

#include "base/status.hpp"
#include "core/communicator_state.hpp"
#include "core/late_look.hpp"
#include "exec/channel_key.hpp"

namespace hocket {
namespace {

/// A call of this rank that sleeps must notice that the communicator has ended.
void wake_own_calls(CommunicatorState& s) {
  ring(s.engine->arena().header(), s.block().doorbell);
  s.engine->progress().wake();
}

}  // namespace

void Communicator::abort(std::string_view reason) {
  if (!state_ || state_->engine->forked()) return;
  state_->fail(Code::kAborted, format("rank {} aborted{}{}", state_->rank, reason.empty() ? "" : ": ", reason), -1,
               true);
  state_->end_children();
  wake_own_calls(*state_);
}

void Communicator::revoke(std::string_view reason) {
  if (!state_ || state_->engine->forked()) return;
  state_->fail(Code::kAborted, format("rank {} revoked it{}{}", state_->rank, reason.empty() ? "" : ": ", reason));
  wake_own_calls(*state_);
}

Status Communicator::finalize() {
  if (!state_) return error(Code::kInvalidArgument, "finalize of a communicator that was moved from");
  CommunicatorState& s = *state_;
  if (s.engine->forked())
    return error(Code::kUnsupported, "finalize in a forked child: the communicator belongs to its parent");
  if (s.finalized.exchange(true)) return error(Code::kInvalidArgument, "finalize was called before");
  const std::uint64_t ticket = s.turnstile.take();
  s.turnstile.wait(ticket);
  if (s.turnstile.leave(ticket)) s.engine->progress().wake();
  if (s.observer) s.observer->write();
  return async_error();
}

Status Communicator::async_error() const {
  if (!state_) return error(Code::kInvalidArgument, "async_error of a communicator that was moved from");
  if (state_->engine->forked())
    return error(Code::kUnsupported, "the communicator belongs to the parent of this forked child");
  return state_->check_ended() || state_->ended_with_parent() ? state_->end_error() : Status();
}

CommunicatorState::~CommunicatorState() {
  if (engine->forked()) {
    // The parent's: nothing here may be touched.
    (void)channels.release();
    return;
  }
  if (late_look) late_look->leave();
  if (observer) observer->close();
  if (loss_subscription != 0) engine->unsubscribe(loss_subscription);
  Arena& arena = engine->arena();
  if (!made) {
    // It came to nothing. A peer that got further may write to a block that it was told of.
    if (block_offset != 0) exposed ? arena.abandon(block_offset) : arena.release(block_offset);
    return;
  }
  // Who leaves after an error tells it first, also one that it was told: whoever told it may not have come to all
  // others yet, and they would see only that this rank has left.
  if (ended.load(std::memory_order_acquire)) tell_peers();
  for (auto& entry : arena.header().blocks) {
    std::uint64_t mine = block_offset;
    if (entry.compare_exchange_strong(mine, 0, std::memory_order_release)) break;
  }
  Graveyard::Grave grave;
  grave.block_offset = block_offset;
  grave.layout = layout;
  for (const Member& member : members) grave.tokens.push_back(member.address.token);
  grave.gone.resize(members.size());
  // Who was never connected to has nothing to write here, unless the communicator failed half-way.
  for (Rank p = 0; p < size; ++p) grave.gone[static_cast<std::size_t>(p)] = !channels->connected(p);
  grave.ranges = channels->take_ports();
  if (size > kEagerRanks && ended.load(std::memory_order_relaxed)) grave.abandon = true;
  if (shrunk.load(std::memory_order_relaxed)) {
    // Slower survivors still read this rank's meeting page; excluded ranks may write at any time.
    grave.gone = excluded;
    grave.abandon = true;
  }
  for (const auto& [offset, bytes] : symmetric) grave.ranges.push_back(offset);
  for (Rank p = 0; p < size; ++p) {
    PeerView* const view = channels->find(p);
    if (view == nullptr) continue;
    PeerView& peer = *view;
    const std::uint64_t at = layout.closed(rank);
    if (peer.block != nullptr) {
      // release: nothing of mine touches the peer's block afterwards, not even its bell, since the block may be gone
      // then; a rank that waits for this one sees it at its next heartbeat. Pairs with Graveyard::sweep and has_left.
      reinterpret_cast<std::atomic<std::uint64_t>*>(peer.block + at)->store(1, std::memory_order_release);
    } else if (peer.proxy) {
      // After all else: the peer gives its block up by it, and may still wait for data that this rank sent it.
      const std::uint64_t one = 1;
      peer.proxy->signal(control_key(peer.block_offset, rank), &one, sizeof one, peer.block_offset + at,
                         peer.block_offset + offsetof(BlockHeader, doorbell), /*after_all=*/true);
      const os::Deadline deadline = os::Deadline::after(std::chrono::milliseconds(100));
      while (!peer.proxy->idle() && !deadline.passed())
        if (!peer.proxy->drive().ok()) break;
    }
  }
  executor.reset();
  channels.reset();
  engine->bury(std::move(grave));
}

}  // namespace hocket
