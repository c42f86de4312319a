// SPDX-License-Identifier: Apache-2.0
// bind.hpp: a plan's cuts, evaluated for one call. Pure arithmetic, host and device.
//
// All lengths are elements. Offsets are 64-bit: counts up to 2^40 with 2^14 ranks do not overflow.
#pragma once

#include <cstdint>

#include "algorithms/plan.hpp"
#include "base/host_device.hpp"

namespace hocket {

/// No tile limit: plans without slots move a whole chunk at once.
inline constexpr std::uint64_t kWholeChunk = ~std::uint64_t{0};

/// What a call brings to a plan. Equal on all ranks, but for the uneven counts of cuts that only the two ends know.
struct Shape {
  std::uint64_t count = 0;  ///< as the collective defines it: all-reduce, broadcast: the buffer; else one rank's chunk
  std::uint64_t tile = kWholeChunk;  ///< elements of a chunk in flight at once
  std::uint32_t unit = 1;            ///< elements of 16 bytes, at least 1: the grain of `even` cuts and of parts
  std::int32_t tiles_per_round = 1;  ///< K <= slots - 1
  std::int32_t slots = 2;            ///< S of every channel
  // Uneven chunks, one entry a chunk, where a cut has them; null: every chunk has `count`, one after the other.
  const std::uint64_t* rank_counts = nullptr;
  const std::uint64_t* rank_offsets = nullptr;
  const std::uint64_t* send_counts = nullptr;
  const std::uint64_t* send_offsets = nullptr;
  const std::uint64_t* receive_counts = nullptr;
  const std::uint64_t* receive_offsets = nullptr;
};

struct Chunk {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

namespace bind_detail {

HOCKET_HD constexpr std::uint64_t smaller(std::uint64_t a, std::uint64_t b) {
  return a < b ? a : b;
}

/// Piece c of n of [0, length), cut at units; the last unit is clipped.
HOCKET_HD constexpr Chunk even(std::uint64_t length, std::uint64_t unit, std::uint64_t c, std::uint64_t n) {
  if (n == 1) return {0, length};
  const std::uint64_t units = (length + unit - 1) / unit;
  const std::uint64_t begin = smaller(c * units / n * unit, length);
  const std::uint64_t end = smaller((c + 1) * units / n * unit, length);
  return {begin, end - begin};
}

}  // namespace bind_detail

/// Part `part` of `parts` of chunk c of a cut, as offset and length in the buffer.
HOCKET_HD constexpr Chunk chunk_of(const Cut& cut, const Shape& shape, std::int32_t c, std::int32_t part,
                                   std::int32_t parts) {
  Chunk whole;
  const std::uint64_t at = static_cast<std::uint64_t>(c);
  switch (cut.kind) {
    case CutKind::kEven:
      whole = bind_detail::even(shape.count, shape.unit, at, static_cast<std::uint64_t>(cut.chunks));
      break;
    case CutKind::kOwn: whole = {0, shape.count}; break;
    case CutKind::kRanks:
      whole = shape.rank_counts ? Chunk{shape.rank_offsets[at], shape.rank_counts[at]}
                                : Chunk{at * shape.count, shape.count};
      break;
    case CutKind::kSendRow:
      whole = shape.send_counts ? Chunk{shape.send_offsets[at], shape.send_counts[at]}
                                : Chunk{at * shape.count, shape.count};
      break;
    case CutKind::kReceiveColumn:
      whole = shape.receive_counts ? Chunk{shape.receive_offsets[at], shape.receive_counts[at]}
                                   : Chunk{at * shape.count, shape.count};
      break;
  }
  const Chunk inner =
      bind_detail::even(whole.length, shape.unit, static_cast<std::uint64_t>(part), static_cast<std::uint64_t>(parts));
  return {whole.offset + inner.offset, inner.length};
}

/// No chunk's part is longer than this; equal on all ranks that know the cut.
HOCKET_HD constexpr std::uint64_t longest_of(const Cut& cut, const Shape& shape, std::int32_t parts) {
  std::uint64_t longest = shape.count;
  const std::uint64_t* counts = cut.kind == CutKind::kRanks           ? shape.rank_counts
                                : cut.kind == CutKind::kSendRow       ? shape.send_counts
                                : cut.kind == CutKind::kReceiveColumn ? shape.receive_counts
                                                                      : nullptr;
  if (counts != nullptr) {
    longest = 0;
    for (std::int32_t c = 0; c < cut.chunks; ++c) longest = counts[c] > longest ? counts[c] : longest;
  }
  std::uint64_t units = (longest + shape.unit - 1) / shape.unit;
  if (cut.kind == CutKind::kEven) {
    const std::uint64_t n = static_cast<std::uint64_t>(cut.chunks);
    units = (units + n - 1) / n;
  }
  units = (units + static_cast<std::uint64_t>(parts) - 1) / static_cast<std::uint64_t>(parts);
  return bind_detail::smaller(units * shape.unit, longest);
}

/// Elements of an extent in the whole chunk (all tiles), for a lane's part.
HOCKET_HD constexpr std::uint64_t length_of(const PlanView& plan, const LaneProgram& lane, const Shape& shape,
                                            const Extent& extent, std::int32_t i, std::int32_t j) {
  switch (extent.kind) {
    case ExtentKind::kChunk:
      return chunk_of(plan.cuts[extent.cut], shape, extent.index.at(i, j), lane.part, lane.parts).length;
    case ExtentKind::kLongest: return longest_of(plan.cuts[extent.cut], shape, lane.parts);
    case ExtentKind::kAlways: return 0;
  }
  return 0;
}

/// At least one, so that zero counts still meet and a mismatch is seen.
HOCKET_HD constexpr std::uint64_t tiles_of(std::uint64_t length, std::uint64_t tile) {
  return length <= tile ? 1 : (length + tile - 1) / tile;
}

}  // namespace hocket
