// SPDX-License-Identifier: Apache-2.0
// tuner.hpp: a program's own say in which algorithm a call uses (Settings::tuner).
//
// When a call of a new shape is made ready, the tuner sees what could be taken, with predicted times, and picks one or
// has no opinion. It must be pure: every rank asks its own, and all must come to the same for the same call, so the
// answer may depend on nothing but the TunerCall. Ranks compare name and version when a communicator is made; a choice
// that differs all the same is a mismatch (Code::kMismatch) in the call, which names both choices. A choice that cannot
// be used is Code::kInvalidArgument and says why; nothing is replaced quietly.
//
// Threads: it is called by whichever thread makes the call (for calls on a stream, the engine's), while the
// communicator is busy: it must not use it. explain() asks it, too, and communicators may share it, so several threads
// may be in it at once. What it throws becomes an error of the call.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "hocket/types.hpp"

namespace [[gnu::visibility("default")]] hocket {

/// One way to do a call. Views live until the tuner returns.
struct TunerCandidate {
  std::string_view algorithm;  ///< as HOCKET_ALGO spells it
  std::string_view protocol;   ///< as HOCKET_PROTO does; empty where `why_not` is not
  int lanes = 1;
  std::uint64_t tile_bytes = 0;
  double seconds = 0;        ///< predicted, from the machine's links; not measured
  bool measured = false;     ///< the tuning table says that it is the fastest
  std::string_view why_not;  ///< not empty: it cannot be used here
};

struct TunerCall {
  Collective collective = Collective::kBarrier;
  /// Of the buffer for all_reduce, broadcast and reduce, of one rank's chunk for the others; 0 for the uneven forms
  /// (all_gather_v and such), of whose lengths no rank knows all.
  std::uint64_t bytes = 0;
  DataType type = DataType::kUint8;
  ReduceOp op = ReduceOp::kSum;  ///< of a reduction
  int root = -1;                 ///< -1: there is none, or explain() asks, which is told none
  bool symmetric = false;        ///< peers reach the buffers: mem_alloc memory, or one process
  int ranks = 1;
  int hosts = 1;
  /// In the order of preference: the first that can be used is taken if the tuner has no opinion.
  std::span<const TunerCandidate> candidates;
};

struct TunerChoice {
  std::string algorithm;
  std::string protocol;  ///< empty: the best for this algorithm
  /// 0: likewise; else 1 to 8. Where HOCKET_LANES (Settings::lanes) names a number, any other is an error, as an
  /// algorithm is that HOCKET_ALGO rules out: who runs a program has the last word.
  int lanes = 0;
};

/// Asked about every collective but the barrier; not about sends, receives and groups of them.
struct Tuner {
  std::string name;           ///< for errors and explain(); up to 64 bytes
  std::uint64_t version = 0;  ///< to be raised whenever its choices change
  std::function<std::optional<TunerChoice>(const TunerCall&)> choose;
};

}  // namespace gnu::visibility("default")]]hocket
