// SPDX-License-Identifier: Apache-2.0
// core/graveyard.hpp: memory of communicators that ended here while peers may still write a late credit to it.
//
// A peer that is done with a block says so in it (ErrorRecord::closed). When all have, or are known to be dead, the
// block's addresses can be used again. An excluded rank never says so: its communicator's addresses are given up for
// good.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

#include "base/os/clock.hpp"
#include "exec/block.hpp"
#include "transport/arena.hpp"

namespace hocket {

/// Any thread.
class Graveyard {
 public:
  struct Grave {
    std::uint64_t block_offset = 0;
    BlockLayout layout{1, 2, 4096, 16};
    std::vector<ProcessToken> tokens;  ///< by rank
    std::vector<bool> gone;  ///< ranks that are not waited for: they were excluded, or their process has ended
    bool abandon = false;    ///< excluded ranks may write at any time: never use the addresses again
    std::vector<std::uint64_t> ranges;  ///< of slots, and of mem_alloc memory that was not freed
  };

  void bury(Grave grave);
  /// A process is dead: it writes nowhere any more.
  void on_loss(const ProcessToken& token);
  /// Release what can be released. Returns when to look again: peers do not say when they are done, and one that keeps
  /// its communicator may never be, so the looks get rarer. A look before that time puts off none.
  os::Deadline sweep(Arena& arena);
  std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Grave> graves_;
  std::chrono::milliseconds pause_{0};        ///< between two looks
  os::Deadline due_ = os::Deadline::never();  ///< of the next one
  std::set<ProcessToken> ended_;              ///< processes that have ended, also those that did so before a burial
};

}  // namespace hocket
