// SPDX-License-Identifier: Apache-2.0
// core/reach.cpp: connections of a communicator's rank to its peers. Small worlds make all of them at the start, large
// ones those that a plan uses, when it first does: a rank then keeps as many as it has peers in use.
// Next stop: core/engine.cpp (connect), exec/channels.cpp.
#include "base/status.hpp"
#include "core/communicator_state.hpp"

namespace hocket {

Status CommunicatorState::reach(Rank peer, const os::WaitLimits& limits, bool alone) {
  if (channels->connected(peer)) return {};
  const Member& member = members[static_cast<std::size_t>(peer)];
  AllowList allowed;
  {
    const std::string_view transports[] = {"local", "shm", "tcp"};
    HOCKET_ASSIGN(allowed, AllowList::parse(settings.transport, transports, "HOCKET_TRANSPORT"));
  }
  auto endpoint = engine->connect(member.address, allowed, limits, &trials[peer], alone);
  if (!endpoint.ok())
    return Status(endpoint.status().code(),
                  format("rank {} cannot reach {}: {}", rank, name_of(peer), endpoint.status().text()));
  const std::uint64_t offset = member.block_offset();
  if (offset == 0 || offset > member.address.arena_bytes || member.address.arena_bytes - offset < layout.bytes)
    return error(Code::kMismatch, "{} sent a block outside of its memory", name_of(peer));
  PeerView view;
  view.endpoint = *endpoint;
  view.block_offset = offset;
  view.arena_bytes = member.address.arena_bytes;
  if (std::byte* base = view.endpoint->base()) {
    view.arena = base;
    view.block = base + offset;
    view.header = reinterpret_cast<ArenaHeader*>(base);
    view.doorbell = &view.block_header()->doorbell;
  }
  channels->connect(peer, std::move(view));
  return {};
}

Status CommunicatorState::reach_for_call(Rank peer) {
  if (channels->connected(peer)) [[likely]]
    return {};
  const os::WaitLimits limits{os::Deadline::after_or_never(settings.start_timeout)};
  if (Status status = reach(peer, limits, true); !status.ok()) {
    fail(status.code() == Code::kTimeout ? Code::kTimeout : Code::kPeerLost, std::string(status.text()), peer);
    return end_error();
  }
  // It may have failed before anybody could tell this rank.
  learn_from(peer);
  return check_ended() ? end_error() : Status();
}

}  // namespace hocket
