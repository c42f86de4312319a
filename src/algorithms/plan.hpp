// SPDX-License-Identifier: Apache-2.0
// plan.hpp: what one rank does for one collective, as plain values.
//
// A plan is lanes of steps: Move, Signal, Wait and the loops around them. It holds no count, no address, no tile size
// and no pointer: `Shape` (bind.hpp) brings those at call time. Every table is trivially copyable, so a plan can be
// copied to a device as bytes (flatten). docs/design.md, "Plans", has the exact meaning of every step. Builders are in
// builder.hpp; exec/step_machine.hpp runs a plan; checker.hpp proves a world of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/host_device.hpp"
#include "hocket/status.hpp"
#include "hocket/types.hpp"

namespace hocket {

/// ((base + s0*i + s1*j) mod m) * scale + offset, where i and j are the two repeat variables; m = 0 means no modulo.
/// Names a chunk, a piece of a slot, or a peer, so that a ring over any number of ranks is the same few steps.
struct Index {
  std::int32_t base = 0;
  std::int32_t s0 = 0;
  std::int32_t s1 = 0;
  std::int32_t mod = 0;
  std::int32_t scale = 1;
  std::int32_t offset = 0;

  HOCKET_HD constexpr std::int32_t at(std::int32_t i, std::int32_t j) const {
    std::int32_t v = base + s0 * i + s1 * j;
    if (mod != 0) {
      v %= mod;
      if (v < 0) v += mod;
    }
    return v * scale + offset;
  }
  friend constexpr bool operator==(const Index&, const Index&) = default;
};

/// A peer is group[index]; group 0 is every rank in order, so there the index is the rank.
struct PeerIndex {
  Index index;
  std::uint32_t group = 0;
  friend constexpr bool operator==(const PeerIndex&, const PeerIndex&) = default;
};

/// How a buffer is divided into chunks. Each chunk is divided again into the parts of its lanes.
enum class CutKind : std::uint8_t {
  kEven,     ///< the count over `chunks` chunks, in units of 16 bytes: lengths differ by at most one unit, may be zero
  kRanks,    ///< one chunk a rank, each of the call's count
  kOwn,      ///< the caller's one chunk
  kSendRow,  ///< all-to-all: what I send, one chunk a peer; only my own row is known
  kReceiveColumn,  ///< all-to-all: what I receive, one chunk a peer; only my own column is known
};
struct Cut {
  CutKind kind = CutKind::kOwn;
  std::int32_t chunks = 1;
  friend constexpr bool operator==(const Cut&, const Cut&) = default;
};

/// How long a step's data is, and whether the step runs in a tile: it runs in tile t if and only if t < tiles(extent).
enum class ExtentKind : std::uint8_t {
  kChunk,    ///< chunk `index` of `cut`
  kLongest,  ///< the longest chunk of `cut`
  kAlways,   ///< no data; runs in every tile
};
struct Extent {
  ExtentKind kind = ExtentKind::kAlways;
  std::uint8_t cut = 0;
  Index index;
  friend constexpr bool operator==(const Extent&, const Extent&) = default;
};

enum class SpanKind : std::uint8_t {
  kInput,       ///< my input, at chunk `index` of `cut`
  kOutput,      ///< my output, likewise
  kPeerInput,   ///< the peer's input, readable through its grant (zero-copy plans)
  kPeerOutput,  ///< the peer's output, writable through its grant
  kWork,        ///< private scratch: entry `index`, one tile long
  kSlotIn,      ///< source: my slot of channel (id, peer -> me), transfer `received`, piece `index`
  kSlotOut,     ///< destination: the peer's slot of channel (id, me -> peer), transfer `sent`, piece `index`
  kBoardOut,    ///< destination: my own board slot that the readers of channel (id, me -> peer) will read
  kBoardIn,     ///< source: the peer's board slot of channel (id, peer -> me)
};
struct SpanRef {
  SpanKind kind = SpanKind::kInput;
  std::uint8_t cut = 0;
  std::uint16_t channel = 0;
  Index index;
  PeerIndex peer;
  friend constexpr bool operator==(const SpanRef&, const SpanRef&) = default;
};

enum class StepOp : std::uint8_t {
  kMove,          ///< read all sources, reduce them in the order listed, write all destinations
  kSignalData,    ///< sent += 1; publish data := sent at the peer (release)
  kSignalCredit,  ///< received += 1; publish credit := received at the peer (release)
  kWaitData,      ///< until data >= received + bound (acquire)
  kWaitCredit,    ///< until sent - credit <= bound (acquire)
  kRepeat,        ///< i or j = 0 .. count - 1 (variable: 0 = i, 1 = j)
  kRounds,        ///< round = 0 .. for the longest of `extents`, K tiles each when by_k, else one
  kTiles,         ///< the K tiles of a round
  kEnd,           ///< of the innermost loop
};

/// Wait credit with this bound means S - 1: a slot is free.
inline constexpr std::int8_t kBoundFree = 127;

/// Before this step, puts that this lane posted must have read their sources (derived by posted.hpp, never by hand).
enum CompletionScope : std::uint8_t {
  kNoCompletion = 0,
  kSlotCompletion = 1,  ///< those that read the slot this credit returns
  kAllCompletion = 2,   ///< all of the lane's
};

/// What a credit signal says besides the number.
enum GrantKind : std::uint8_t { kNoGrant = 0, kGrantInput = 1, kGrantOutput = 2, kGrantBoth = 3 };

struct Step {
  StepOp op = StepOp::kEnd;
  std::int8_t bound = 0;        ///< waits
  std::uint8_t variable = 0;    ///< repeats
  std::uint8_t by_k = 0;        ///< rounds
  std::uint8_t finish = 0;      ///< moves: the result has all contributions (an average divides here)
  std::uint8_t completion = 0;  ///< CompletionScope
  std::uint8_t grant = 0;       ///< GrantKind, of data and credit signals
  std::uint8_t unused = 0;
  std::uint16_t channel = 0;       ///< signals and waits
  std::uint16_t source_count = 0;  ///< moves
  std::uint16_t destination_count = 0;
  std::uint16_t extent_count = 0;  ///< rounds
  std::uint32_t first = 0;         ///< moves: first span (sources, then destinations); rounds: first extent
  std::int32_t count = 0;          ///< repeats
  std::uint32_t jump = 0;          ///< loops: step after the End; End: its loop
  Extent extent;                   ///< moves, signals, waits
  PeerIndex peer;                  ///< signals and waits
  friend constexpr bool operator==(const Step&, const Step&) = default;
};

/// A lane: steps [first, first + count) over part `part` of `parts` of every chunk. A channel end belongs to one lane.
struct LaneProgram {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::int32_t part = 0;
  std::int32_t parts = 1;
  std::uint32_t completion =
      kNoCompletion;  ///< kAllCompletion: the lane ends only when all its puts have read their sources
  friend constexpr bool operator==(const LaneProgram&, const LaneProgram&) = default;
};

struct GroupRef {
  std::uint32_t first = 0;  ///< into group_ranks; group 0 is implicit and has no entry here
  std::uint32_t count = 0;
  friend constexpr bool operator==(const GroupRef&, const GroupRef&) = default;
};

inline constexpr int kMaxAlgorithmName = 32;
/// Loops inside each other.
inline constexpr int kMaxLoopDepth = 5;

struct PlanHeader {
  char algorithm[kMaxAlgorithmName] = {};
  Collective collective = Collective::kBarrier;
  std::int32_t world = 1;
  std::int32_t rank = 0;
  std::int32_t root = -1;
  std::int32_t channels = 0;      ///< ids used: 0 .. channels - 1
  std::int32_t pieces = 1;        ///< tiles that a slot must hold
  std::int32_t work_entries = 0;  ///< tiles of scratch
  std::int32_t uses_slots = 0;    ///< 0: order only and direct, so one tile may be the whole chunk
  friend bool operator==(const PlanHeader&, const PlanHeader&) = default;
};

/// What the step machine reads: the tables of a plan wherever they are, host or device.
struct PlanView {
  const PlanHeader* header = nullptr;
  const LaneProgram* lanes = nullptr;
  const Step* steps = nullptr;
  const SpanRef* spans = nullptr;
  const Extent* extents = nullptr;
  const Cut* cuts = nullptr;
  const GroupRef* groups = nullptr;  ///< group g is groups[g - 1]
  const std::int32_t* group_ranks = nullptr;
  std::uint32_t lane_count = 0;

  HOCKET_HD std::int32_t peer(const PeerIndex& p, std::int32_t i, std::int32_t j) const {
    const std::int32_t at = p.index.at(i, j);
    return p.group == 0 ? at : group_ranks[groups[p.group - 1].first + static_cast<std::uint32_t>(at)];
  }
};

/// One rank's part of one collective. A value: copies, compares, prints (dump.hpp).
struct Plan {
  PlanHeader header;
  std::vector<LaneProgram> lanes;
  std::vector<Step> steps;
  std::vector<SpanRef> spans;
  std::vector<Extent> extents;
  std::vector<Cut> cuts;
  std::vector<GroupRef> groups;
  std::vector<std::int32_t> group_ranks;

  PlanView view() const;
  std::string_view algorithm() const { return header.algorithm; }
  friend bool operator==(const Plan&, const Plan&) = default;
};

static_assert(std::is_trivially_copyable_v<Step> && std::is_trivially_copyable_v<SpanRef> &&
              std::is_trivially_copyable_v<PlanHeader>);

/// The plan as one block of bytes without pointers, for a device or a file; 8-byte aligned offsets.
std::vector<std::byte> flatten(const Plan& plan);
/// The tables inside such a block, which must outlive the view and be 8-byte aligned. Checks all offsets and indices
/// that the step machine follows (spans, extents, cuts, groups, jumps): bad bytes are kInvalidArgument, never a crash
/// later.
Result<PlanView> view_of(std::span<const std::byte> bytes);
/// The same checks on a plan's tables.
Status validate(const Plan& plan);

}  // namespace hocket
