// SPDX-License-Identifier: Apache-2.0
// core/failure.cpp: how a communicator ends: an error found here, told to all ranks, or learned from one of them.
//
// Who finds an error writes it into every peer's block (a record of the finder's own there, so nobody has to be alive
// to make room), raises the block's flag and rings. Waits look at the flag; async_error() looks at it between calls.
// The first error that a rank learns is the one it keeps.
#include <sched.h>

#include <cstring>

#include "base/log.hpp"
#include "base/os/membarrier.hpp"
#include "base/status.hpp"
#include "core/communicator_state.hpp"
#include "exec/channel_key.hpp"

namespace hocket {
namespace {

void write(ErrorRecord& record, Code code, std::string_view text, Rank lost_rank, bool family) {
  record.code = static_cast<std::uint32_t>(code);
  record.lost_rank = lost_rank;
  record.family = family;
  const std::size_t n = std::min(text.size(), sizeof record.text - 1);
  std::memcpy(record.text, text.data(), n);
  record.text[n] = '\0';
}

/// Who said it first is enough to know.
std::string told_text(std::string_view text, Rank by) {
  return text.find("[told by rank ") != text.npos ? std::string(text) : format("{} [told by rank {}]", text, by);
}

/// A code from shared memory: only what a rank may tell.
Code told_code(std::uint32_t code) {
  switch (static_cast<Code>(code)) {
    case Code::kPeerLost:
    case Code::kTimeout:
    case Code::kMismatch:
    case Code::kAborted:
    case Code::kOutOfMemory:
    case Code::kSystem:
    case Code::kUnsupported: return static_cast<Code>(code);
    default: return Code::kInternal;
  }
}

}  // namespace

std::string CommunicatorState::name_of(Rank peer) const {
  if (peer < 0 || peer >= size) return "an unknown rank";
  const ProcessAddress& a = members[static_cast<std::size_t>(peer)].address;
  return format("rank {} (pid {} on {})", peer, a.pid, a.host_name.data());
}

void CommunicatorState::fail(Code code, std::string text, Rank lost_rank, bool family) {
  {
    const std::lock_guard lock(end_mutex);
    if (lost_rank >= 0) lost[static_cast<std::size_t>(lost_rank)] = true;
    if (ended.load(std::memory_order_relaxed)) return;
    end_status = Status(code, std::move(text));
    end_rank = lost_rank;
    end_family = family;
    ended.store(true, std::memory_order_release);  // pairs with the acquire in check_ended
  }
  HOCKET_LOG(LogLevel::kInfo, "rank {} ended communicator {:x}: {}", rank, id, end_status.to_string());
  tell_peers();
}

void CommunicatorState::tell_peers() {
  // What goes to those that only puts reach lies in this rank's own block, where it does not change any more.
  auto& own = *reinterpret_cast<ErrorRecord*>(engine->arena().base() + block_offset + layout.error(rank));
  const std::lock_guard lock(tell_mutex);
  told.resize(static_cast<std::size_t>(size));
  if (own.published.load(std::memory_order_acquire) == 0) {
    write(own, end_status.code(), end_status.text(), end_rank, end_family);
    own.published.store(1, std::memory_order_release);
  }
  for (Rank p = 0; p < size; ++p) {
    const PeerView* const peer = channels->find(p);
    if (peer == nullptr) continue;
    if (peer->block == nullptr) {
      if (told[static_cast<std::size_t>(p)]) continue;
      told[static_cast<std::size_t>(p)] = true;
      const ChannelKey key = control_key(peer->block_offset, rank);
      const std::uint64_t at = peer->block_offset + layout.error(rank), one = 1;
      Endpoint& endpoint = *peer->endpoint;
      // Others may make it look at all records while this one is landing, so `published` comes by a signal, after it.
      static_assert(offsetof(ErrorRecord, published) + sizeof one == sizeof own);
      const std::uint64_t bell = peer->block_offset + offsetof(BlockHeader, doorbell);
      const auto published = std::as_bytes(std::span(&one, 1));
      if (!endpoint.put({key, reinterpret_cast<const std::byte*>(&own), sizeof own - sizeof one, at, at}).ok())
        continue;
      (void)endpoint.signal({key, published, at + offsetof(ErrorRecord, published), bell});
      (void)endpoint.signal({key, published, peer->block_offset + offsetof(BlockHeader, errors), bell});
      (void)endpoint.progress();
      continue;
    }
    auto& record = *reinterpret_cast<ErrorRecord*>(peer->block + layout.error(rank));
    if (p != rank) {
      if (record.published.load(std::memory_order_acquire) != 0) continue;
      write(record, end_status.code(), end_status.text(), end_rank, end_family);
      record.published.store(1, std::memory_order_release);  // pairs with check_ended
    }
    peer->block_header()->errors.exchange(1, std::memory_order_seq_cst);
    ring(*peer->header, *peer->doorbell);
  }
}

void CommunicatorState::send_off() {
  if (channels->proxies().empty()) return;
  tell_peers();
  // A broken connection is why we are here, perhaps: for a moment only.
  const os::Deadline deadline = os::Deadline::after(std::chrono::milliseconds(100));
  for (const Channels::Proxied& proxied : channels->proxies()) {
    Endpoint& endpoint = proxied.queue->endpoint();
    while (!endpoint.idle() && !deadline.passed())
      if (!endpoint.progress().ok()) break;
  }
}

void CommunicatorState::await_peers_turns() {
  tell_peers();  // also one that it was told: whoever told it may not have come to all others yet
  if (!fenced) os::membarrier();
  for (Rank p = 0; p < size; ++p) {
    const PeerView* const peer = channels->find(p);
    if (p == rank || peer == nullptr || peer->block == nullptr) continue;
    // seq_cst: pairs with guarded_turn, where the flag is raised before errors are looked at; here they were published
    // (seq_cst) before the flag is. What a turn does before it looks again is a few MiB at most.
    while (peer->block_header()->turning.load(std::memory_order_seq_cst) != 0) ::sched_yield();
  }
}

void CommunicatorState::learn_from(Rank peer) {
  if (ended.load(std::memory_order_acquire)) return;
  const auto published = word_of(peer, layout.error(peer) + offsetof(ErrorRecord, published));
  if (!published || *published == 0) return;
  struct {
    std::uint32_t code;
    std::int32_t lost_rank;
    std::uint32_t family;
    char text[1004];
  } record;
  static_assert(offsetof(ErrorRecord, text) == 12 && sizeof record == 1016);
  if (!fetch(peer, layout.error(peer), std::as_writable_bytes(std::span(&record, 1))).ok()) return;
  const std::string_view text(record.text, ::strnlen(record.text, sizeof record.text));
  fail(told_code(record.code), told_text(text, peer),
       record.lost_rank >= 0 && record.lost_rank < size ? record.lost_rank : -1, record.family != 0);
}

bool CommunicatorState::check_ended() {
  if (ended.load(std::memory_order_acquire)) return true;
  BlockHeader& own = block();
  if (own.errors.load(std::memory_order_acquire) == 0) [[likely]]
    return false;
  for (Rank p = 0; p < size; ++p) {
    const auto& record = *reinterpret_cast<const ErrorRecord*>(engine->arena().base() + block_offset + layout.error(p));
    if (record.published.load(std::memory_order_acquire) == 0) continue;  // pairs with fail()
    const std::lock_guard lock(end_mutex);
    if (record.lost_rank >= 0 && record.lost_rank < size) lost[static_cast<std::size_t>(record.lost_rank)] = true;
    if (ended.load(std::memory_order_relaxed)) continue;
    const std::string_view text(record.text, ::strnlen(record.text, sizeof record.text));
    end_status = Status(told_code(record.code), p == rank ? std::string(text) : told_text(text, p));
    end_rank = record.lost_rank;
    end_family = record.family != 0;
    ended.store(true, std::memory_order_release);
  }
  return ended.load(std::memory_order_acquire);
}

bool CommunicatorState::ended_with_parent() {
  const std::shared_ptr<CommunicatorState> of = parent.lock();
  if (!of || !(of->check_ended() || of->ended_with_parent())) return false;
  Status why;
  {
    const std::lock_guard lock(of->end_mutex);
    if (!of->end_family) return false;
    why = of->end_status;
  }
  fail(why.code(), format("the communicator that this one was made of has ended: {}", why.text()), -1, true);
  return true;
}

void CommunicatorState::end_children() {
  std::vector<std::shared_ptr<CommunicatorState>> alive;
  {
    const std::lock_guard lock(children_mutex);
    for (const auto& child : children)
      if (std::shared_ptr<CommunicatorState> one = child.lock()) alive.push_back(std::move(one));
  }
  for (const auto& child : alive) {
    (void)child->ended_with_parent();
    child->end_children();
    engine->progress().wake();
  }
}

Status CommunicatorState::end_error() const {
  const std::lock_guard lock(end_mutex);
  return end_status;
}

Status CommunicatorState::end_error_in(const ReadyCall& call, const WaitingOn& waiting) const {
  const Status status = end_error();
  if (status.ok()) return error(Code::kInternal, "{} failed without a reason", to_text(describe(call)));
  std::string where = format("{}; rank {} met this in {}", status.text(), rank, to_text(describe(call)));
  if (waiting.peer >= 0)
    where += format(", waiting for {} from {} on channel {}", waiting.op == StepOp::kWaitData ? "data" : "credit",
                    name_of(waiting.peer), waiting.channel);
  return Status(status.code(), std::move(where));
}

Status CommunicatorState::end_error_before(const CallKey& key) const {
  const bool message = is_message(key.collective);
  const Status status = end_error();
  return Status(status.code(), format("{}; rank {} met this before {} #{}", status.text(), rank,
                                      to_string(key.collective), message ? messages : calls));
}

bool CommunicatorState::has_left(Rank peer) const {
  return channels->has_left(peer);
}

void CommunicatorState::on_loss(const ProcessToken& token, const Status& why) {
  for (Rank p = 0; p < size; ++p) {
    if (members[static_cast<std::size_t>(p)].address.token != token) continue;
    if (has_left(p)) continue;
    fail(Code::kPeerLost, format("{} is lost: {}", name_of(p), why.text()), p);
  }
}

}  // namespace hocket
