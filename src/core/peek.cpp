// SPDX-License-Identifier: Apache-2.0
// core/peek.cpp: what a peer's block shows, by loads where its memory is mapped and by a read over the network where it
// is not. Everything that looks at peers (mismatches, who is to blame, survivors that meet) looks through here.
// Next stop: transport/transport.hpp, Endpoint::get.
#include <cstring>

#include "base/status.hpp"
#include "core/communicator_state.hpp"

namespace hocket {
Status CommunicatorState::fetch(Rank peer, std::uint64_t at, std::span<std::byte> to,
                                std::chrono::milliseconds patience) const {
  const PeerView* const view = channels->find(peer);
  if (view == nullptr) return error(Code::kUnsupported, "there is no connection to {}", name_of(peer));
  if (view->block == nullptr)
    return view->endpoint->get(view->block_offset + at, to, {.deadline = os::Deadline::after(patience)});
  // Words that peers may be writing are read whole.
  std::size_t i = 0;
  for (; i + 8 <= to.size(); i += 8) {
    const std::uint64_t word =
        reinterpret_cast<const std::atomic<std::uint64_t>*>(view->block + at + i)->load(std::memory_order_acquire);
    std::memcpy(to.data() + i, &word, 8);
  }
  if (i != to.size()) return error(Code::kInternal, "a peek of {} bytes is not one of words", to.size());
  return {};
}

std::optional<LiveView> CommunicatorState::live_of(Rank peer, std::chrono::milliseconds patience) const {
  LiveView live;
  static_assert(sizeof(LiveView) == sizeof(LiveState));
  if (!fetch(peer, offsetof(BlockHeader, live), std::as_writable_bytes(std::span(&live, 1)), patience).ok()) return {};
  return live;
}

std::optional<std::uint64_t> CommunicatorState::word_of(Rank peer, std::uint64_t at) const {
  std::uint64_t word = 0;
  if (!fetch(peer, at, std::as_writable_bytes(std::span(&word, 1))).ok()) return {};
  return word;
}

bool CommunicatorState::record_of(Rank peer, bool of_messages, std::uint64_t number, RecordedCall* call) const {
  const std::uint64_t ring = of_messages ? layout.point_to_point_at : layout.records_at;
  const PeerView* const view = channels->find(peer);
  if (view == nullptr) return false;
  if (view->block != nullptr)
    return read_record(reinterpret_cast<const CallRecord*>(view->block + ring), layout.records, number, call);
  // Twice: a record that was being written would differ, and is looked at again.
  const std::uint64_t at = ring + number % layout.records * sizeof(CallRecord);
  for (int attempt = 0; attempt < 4; ++attempt) {
    CallRecord copies[2]{};
    for (CallRecord& copy : copies)
      if (!fetch(peer, at, {reinterpret_cast<std::byte*>(&copy), sizeof copy}).ok()) return false;
    if (std::memcmp(static_cast<const void*>(&copies[0]), static_cast<const void*>(&copies[1]), sizeof copies[0]) != 0)
      continue;
    // A ring of one that holds just this number.
    return read_record(&copies[0], 1, number, call);
  }
  return false;
}

}  // namespace hocket
