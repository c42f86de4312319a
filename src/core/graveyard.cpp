// SPDX-License-Identifier: Apache-2.0
#include "core/graveyard.hpp"

#include <algorithm>

namespace hocket {
namespace {

using namespace std::chrono_literals;
constexpr std::chrono::milliseconds kFirstPause = 20ms, kLongestPause = 2s;

}  // namespace

void Graveyard::bury(Grave grave) {
  const std::lock_guard lock(mutex_);
  for (std::size_t r = 0; r < grave.tokens.size(); ++r)
    if (ended_.contains(grave.tokens[r])) grave.gone[r] = true;
  graves_.push_back(std::move(grave));
  pause_ = kFirstPause;
  due_ = os::Deadline::after(pause_);
}

void Graveyard::on_loss(const ProcessToken& token) {
  const std::lock_guard lock(mutex_);
  ended_.insert(token);
  for (Grave& grave : graves_)
    for (std::size_t r = 0; r < grave.tokens.size(); ++r)
      if (grave.tokens[r] == token) grave.gone[r] = true;
}

os::Deadline Graveyard::sweep(Arena& arena) {
  const std::lock_guard lock(mutex_);
  const std::size_t released = std::erase_if(graves_, [&](const Grave& grave) {
    const std::byte* block = arena.base() + grave.block_offset;
    for (std::size_t r = 0; r < grave.gone.size(); ++r) {
      if (grave.gone[r]) continue;
      const auto& closed =
          *reinterpret_cast<const std::atomic<std::uint64_t>*>(block + grave.layout.closed(static_cast<int>(r)));
      if (closed.load(std::memory_order_acquire) == 0) return false;  // pairs with ~CommunicatorState
    }
    for (const std::uint64_t offset : grave.ranges) grave.abandon ? arena.abandon(offset) : arena.release(offset);
    grave.abandon ? arena.abandon(grave.block_offset) : arena.release(grave.block_offset);
    return true;
  });
  if (graves_.empty()) return os::Deadline::never();
  if (released > 0 || due_.passed()) {
    pause_ = released > 0 ? kFirstPause : std::min(2 * pause_, kLongestPause);
    due_ = os::Deadline::after(pause_);
  }
  return due_;
}

std::size_t Graveyard::size() const {
  const std::lock_guard lock(mutex_);
  return graves_.size();
}

}  // namespace hocket
