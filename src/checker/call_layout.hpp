// SPDX-License-Identifier: Apache-2.0
// call_layout.hpp: where the chunks of a call lie in its buffers, and how long those are, on each rank: what a caller
// of this collective with these counts passes. Private to the checker.
#pragma once

#include <cstdint>
#include <vector>

#include "checker/check_call.hpp"

namespace hocket::check {

/// Counts and offsets in elements: by rank, by chunk sent, by chunk received; empty where all are of the call's count.
using ChunkLists = std::vector<std::uint64_t>[3];

/// Where each chunk starts in its buffer.
std::vector<std::uint64_t> layout_of(const std::vector<std::uint64_t>& counts, std::uint64_t gap);

/// The chunks of rank's send row or receive column; empty: all of the call's count.
std::vector<std::uint64_t> pair_counts(const CheckCall& call, int rank, bool sends);

/// Fill a rank's shape for a call; `counts` and `offsets` keep what it points to.
void fill_shape(const CheckCall& call, int slots, int rank, Shape& shape, ChunkLists& counts, ChunkLists& offsets);

struct Lengths {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
};
/// What a rank's caller passes; zero where the collective does not look at it.
Lengths lengths_of(const Plan& plan, const CheckCall& call, const Shape& shape, const ChunkLists& counts);

/// Of this rank's own chunk in a buffer with all ranks'.
std::uint64_t own_offset(const Shape& shape, int rank);

}  // namespace hocket::check
