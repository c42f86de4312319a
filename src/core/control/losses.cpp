// SPDX-License-Identifier: Apache-2.0
#include "core/control/losses.hpp"

#include <vector>

#include "base/log.hpp"

namespace hocket {

std::uint64_t Losses::subscribe(Listener listener) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [token, lost] : lost_) listener(token, lost.why);
  const std::uint64_t id = next_listener_++;
  listeners_.emplace(id, std::move(listener));
  return id;
}

void Losses::unsubscribe(std::uint64_t id) {
  const std::scoped_lock lock(mutex_);
  listeners_.erase(id);
}

void Losses::announce(const Loss& loss) {
  HOCKET_LOG(LogLevel::kInfo, "{}", loss.why.text());
  if (loss.ended) on_ended_(loss.peer);
  const std::scoped_lock lock(mutex_);
  lost_.insert_or_assign(loss.peer, Lost{loss.why, loss.ended});
  std::vector<std::uint64_t> ids;
  for (const auto& [id, listener] : listeners_) ids.push_back(id);
  for (const std::uint64_t id : ids) {
    // A copy, as it may unsubscribe itself.
    if (const auto found = listeners_.find(id); found != listeners_.end()) Listener(found->second)(loss.peer, loss.why);
  }
}

void Losses::mark_ended(const ProcessToken& peer) {
  const std::scoped_lock lock(mutex_);
  if (const auto lost = lost_.find(peer); lost != lost_.end()) lost->second.ended = true;
}

void Losses::forget(const ProcessToken& peer) {
  const std::scoped_lock lock(mutex_);
  lost_.erase(peer);
}

bool Losses::has_ended(const ProcessToken& peer) const {
  const std::scoped_lock lock(mutex_);
  const auto lost = lost_.find(peer);
  return lost != lost_.end() && lost->second.ended;
}

}  // namespace hocket
