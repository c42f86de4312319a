// SPDX-License-Identifier: Apache-2.0
// landing.hpp: what every transport checks of an operation before it accepts it, and does with one that arrives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hocket/status.hpp"
#include "transport/transport.hpp"

namespace hocket {

/// Whether an operation fits an arena of `arena_bytes`; for what comes from a caller and for what comes from a wire.
/// Errors: kInvalidArgument.
Status check_put(const Put& put, std::uint64_t arena_bytes);
Status check_signal(const Signal& signal, std::uint64_t arena_bytes);
Status check_get(std::uint64_t offset, std::uint64_t bytes, std::uint64_t arena_bytes);

/// Writes a checked line into the arena at `base`, its last word last and with release, and rings.
void apply_signal(std::byte* base, std::span<const std::byte> line, std::uint64_t offset, std::uint64_t bell);

/// Copies memory that others may be writing: aligned words of 8 bytes of the source are read whole.
void copy_words(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace hocket
