// SPDX-License-Identifier: Apache-2.0
// sim/replay.hpp: runs the plans of a folded world in simulated time, event by event.
//
// The step machine that executors and checker use (exec/step_machine.hpp) runs each lane; this file says what the steps
// cost. A Move holds its lane until its bytes are through the links they take (sim/flows.hpp), at least
// `move_seconds`; a Signal is seen by its peer one latency later; a Wait costs nothing once what it waits for is there.
// A lane has a clock of its own, which is ahead of the events' only while nothing depends on it. A slow rank's Moves
// and Signals take longer by its factor, without loading links more.
//
// Every clock carries where its time went (Spent), so the critical path's sums cost no history; the hops themselves are
// kept for the first `most_hops` Moves. One thread. Errors: kInternal if no lane can go on (a deadlock, which the
// checker excludes).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "algorithms/bind.hpp"
#include "hocket/status.hpp"
#include "sim/fold.hpp"

namespace hocket::sim {

/// Seconds of one chain of events, by what they were spent on. All add up to its end.
struct Spent {
  std::array<double, kWires> latency{};
  std::array<double, kWires> transfer{};    ///< as if alone on its links
  std::array<double, kWires> contention{};  ///< because links were shared, or a rank slow
  double overhead = 0;
  std::uint32_t hops = 0;

  double total() const;
};

/// A Move of the critical path.
struct Hop {
  std::int32_t before = -1;  ///< the Move that it had to wait for
  std::int32_t stream = -1;  ///< into FoldedWorld::streams; -1: local
  double begin = 0;
  double end = 0;
};

struct ReplayOptions {
  std::size_t most_hops = std::size_t{2} << 20;
  std::uint64_t most_events = ~std::uint64_t{0};
};

struct Replayed {
  double seconds = 0;
  Spent spent;
  std::vector<Hop> path;             ///< from first to last; empty when there were too many Moves to keep
  std::vector<double> link_bytes;    ///< [FoldedWorld::links], of one link of the class
  std::vector<double> stream_bytes;  ///< [FoldedWorld::streams]
  std::uint64_t moves = 0;
  std::uint64_t events = 0;
  int most_signals = 0;  ///< data signals on the busiest channel
};

/// `shape` counts bytes: its unit is 16, its count that of one copy. All actors enter at time 0.
Result<Replayed> replay(const FoldedWorld& world, const Costs& costs, const Shape& shape,
                        const ReplayOptions& options = {});

}  // namespace hocket::sim
