// SPDX-License-Identifier: Apache-2.0
// exec/tape.hpp: the steps of one bound call, written down once and played back.
//
// What the step machine does for a plan and a shape depends on no data and no timing. So a call of few steps is run
// once with a policy that only writes down what the machine asks of it: the same steps in the same order, with loops
// unrolled, chunks cut, steps skipped and channel ends looked up. HostLane::play() does what is written there. A tape
// is made by the one interpreter from a checked plan and knows nothing that is not in it: tests/unit/tape_test compares
// the two for all algorithms. Next stop: exec/play.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/channels.hpp"
#include "exec/reduce_few.hpp"
#include "exec/step_machine.hpp"

namespace hocket {

struct BoundCall;

struct TapeSpan {
  SpanAt at;
  bool lined = false;       ///< the first bytes of the slot travel in its line
  HostEnd* end = nullptr;   ///< of a slot
  std::uint64_t bytes = 0;  ///< at.offset in bytes
};

struct TapeStep {
  StepOp op = StepOp::kEnd;
  std::int8_t bound = 0;  ///< of waits, with the number of slots put in
  bool few = false;       ///< a plain Move of a few bytes, none of which is in a lined slot's body
  bool plain = false;     ///< a Move between this rank's buffers and slots: see kPlainBytes
  std::uint16_t channel = 0;
  std::int32_t peer = -1;
  HostEnd* end = nullptr;      ///< of waits and signals
  PeerView* view = nullptr;    ///< the peer, of signals
  const Step* step = nullptr;  ///< in the plan
  ReduceFew reduce = nullptr;  ///< of a Move of a few with two sources
  std::uint64_t bytes = 0;     ///< of a Move
  std::uint64_t elements = 0;  ///< likewise
  std::uint32_t first = 0;     ///< of its spans: sources, then destinations
  std::uint8_t sources = 0, destinations = 0;
};

struct Tape {
  /// A plain Move is no longer than this, so that it need not look for aborts in its middle.
  static constexpr std::uint64_t kPlainBytes = std::uint64_t{4} << 20;
  static constexpr std::uint64_t kFewBytes = 64;
  /// Nor has it more spans than this.
  static constexpr int kPlainSpans = 16;
  /// Longer ones are left to the machine: what it costs is little beside what they move.
  static constexpr std::size_t kMostSteps = 64;

  std::vector<TapeStep> steps;
  std::vector<TapeSpan> spans;
};

/// Writes a call down whose ends are open. False: it has several lanes, peers that only puts reach, or too many steps.
/// Valid while the call stays bound as it is; addresses of buffers are not in it.
bool record(const BoundCall& call, Channels& channels, Tape* tape);

}  // namespace hocket
