// SPDX-License-Identifier: Apache-2.0
// exec/copy.hpp: Moves with one source on host memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hocket {

/// Who reads a destination next decides how to write it.
enum class CopyHint : std::uint8_t {
  kCached,  ///< this core, soon: ordinary stores, at every size
  kSlot,  ///< another core, from a slot whose lines are in its cache: `rep movsb` from kSlotCopyBytes up, which fetches
          ///< many lines at once where stores take them back one by one; around the caches while that is slow
  kStream,  ///< nobody soon, and it is larger than the cache: non-temporal stores, ordered before any later store
};

/// Below this a slot is filled with ordinary stores: starting `rep movsb` costs up to 60 ns.
inline constexpr std::size_t kSlotCopyBytes = 4096;

/// Copy `bytes` (0 is fine) to one destination. Any alignment. It may be the source itself, which then does nothing,
/// but not overlap it otherwise. Any thread.
void copy(void* destination, const void* source, std::size_t bytes, CopyHint hint);

/// The same to several destinations, each with its own hint; the source is read from memory once (in blocks).
void copy(void* const* destinations, const CopyHint* hints, int destination_count, const void* source,
          std::size_t bytes);

}  // namespace hocket
