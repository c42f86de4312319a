// SPDX-License-Identifier: Apache-2.0
// core/symmetric.cpp: mem_alloc: memory in this process's arena, which every peer has mapped or registered already.
#include <algorithm>

#include "base/status.hpp"
#include "core/communicator_state.hpp"

namespace hocket {
namespace {

/// All ranks' success and equal sizes, or what the first rank that differs has to say.
Status agree(Communicator& comm, const Status& mine, std::uint64_t bytes) {
  const std::uint64_t entry[2] = {static_cast<std::uint64_t>(mine.code()), bytes};
  std::vector<std::uint64_t> all(2 * static_cast<std::size_t>(comm.size()));
  HOCKET_TRY(comm.all_gather(entry, all.data(), 2, DataType::kInt64));
  if (!mine.ok()) return mine;
  for (std::size_t r = 0; r < all.size() / 2; ++r) {
    if (all[2 * r] != 0) return error(static_cast<Code>(all[2 * r]), "mem_alloc failed on rank {}", r);
    if (all[2 * r + 1] != bytes)
      return error(Code::kInvalidArgument,
                   "mem_alloc of {} bytes on rank {} and of {} on rank {}: all must ask for the same", bytes,
                   comm.rank(), all[2 * r + 1], r);
  }
  return {};
}

}  // namespace

bool CommunicatorState::is_symmetric(const void* input, std::size_t input_bytes, const void* output,
                                     std::size_t output_bytes) const {
  const auto inside = [this](const void* pointer, std::size_t bytes) {
    const std::byte* base = engine->arena().base();
    const auto* p = static_cast<const std::byte*>(pointer);
    if (p < base || p >= base + engine->arena().bytes()) return false;
    const auto offset = static_cast<std::uint64_t>(p - base);
    auto range = symmetric.upper_bound(offset);
    if (range == symmetric.begin()) return false;
    --range;
    return offset + bytes <= range->first + range->second;
  };
  // A buffer that the call does not use on this rank says nothing.
  if (input_bytes == 0 && output_bytes == 0) return false;
  if (world.one_process) return true;
  return (input_bytes == 0 || inside(input, input_bytes)) && (output_bytes == 0 || inside(output, output_bytes));
}

Result<void*> Communicator::mem_alloc(std::size_t bytes) {
  if (!state_) return error(Code::kInvalidArgument, "mem_alloc on a communicator that was moved from");
  CommunicatorState& s = *state_;
  Arena& arena = s.engine->arena();
  const bool fits = bytes <= arena.bytes();
  const std::uint64_t length = fits ? std::max<std::uint64_t>(BlockLayout::page(bytes), 4096) : 0;
  std::uint64_t offset = 0;
  Status mine;
  if (!fits) {
    mine = error(Code::kOutOfMemory, "mem_alloc of {} bytes: a process has {} for all", bytes, arena.bytes());
  } else if (auto reserved = arena.reserve(length, std::uint64_t{2} << 20); reserved.ok()) {
    offset = *reserved;
    mine = arena.commit(offset, length);
  } else {
    mine = reserved.status();
  }
  if (Status agreed = agree(*this, mine, bytes); !agreed.ok()) {
    if (offset != 0) arena.release(offset);
    return agreed;
  }
  const std::uint64_t ticket = s.turnstile.take();
  s.turnstile.wait(ticket);
  s.symmetric.emplace(offset, length);
  s.may_be_symmetric.store(true, std::memory_order_relaxed);
  if (s.turnstile.leave(ticket)) s.engine->progress().wake();
  return static_cast<void*>(arena.base() + offset);
}

Status Communicator::mem_free(void* memory) {
  if (!state_) return error(Code::kInvalidArgument, "mem_free on a communicator that was moved from");
  CommunicatorState& s = *state_;
  const auto offset = static_cast<std::uint64_t>(static_cast<std::byte*>(memory) - s.engine->arena().base());
  const std::uint64_t ticket = s.turnstile.take();
  s.turnstile.wait(ticket);
  const bool known = memory != nullptr && s.symmetric.contains(offset);
  if (s.turnstile.leave(ticket)) s.engine->progress().wake();
  if (!known)
    return error(Code::kInvalidArgument, "mem_free of memory that no mem_alloc of this communicator returned");
  // Nobody may still be using it when it goes.
  HOCKET_TRY(barrier());
  const std::uint64_t second = s.turnstile.take();
  s.turnstile.wait(second);
  s.symmetric.erase(offset);
  if (s.turnstile.leave(second)) s.engine->progress().wake();
  s.engine->arena().release(offset);
  return {};
}

}  // namespace hocket
