// SPDX-License-Identifier: Apache-2.0
// sim/replay_state.hpp: what a replay knows of its lanes, channel ends and coming events. Private to replay.cpp.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "exec/step_machine.hpp"
#include "sim/replay.hpp"

namespace hocket::sim {

/// What a signal carries to whoever waits for it.
struct Arrival {
  double time = 0;
  std::int32_t hop = -1;
  Spent spent;
};

/// One end's signals: the latest of them, for the end that sees them.
struct Counter {
  std::int64_t count = 0;
  std::vector<Arrival> arrivals;  // by number
  std::vector<std::int32_t> waiters;
  double latency = 0;
  Wire wire = Wire::kMemory;
};

struct LaneRun {
  const Actor* actor = nullptr;
  const LaneProgram* program = nullptr;
  PlanView plan;
  LaneState state;
  double clock = 0;
  Spent spent;
  std::int32_t hop = -1;
  double speed = 1;
  // Of the Move at hand.
  std::vector<std::pair<std::uint32_t, double>> flows;  // stream, bytes
  double begin = 0;
  int open = 0;
  std::int32_t stream = -1;  // the last of them
  double alone = 0;
  bool moving = false;
  bool moved = false;
  bool queued = false;
  bool done = false;
};

enum class EventKind : std::uint8_t { kBegin, kFlow, kResume };
struct Event {
  double time;
  std::uint64_t order;
  std::int32_t id;
  std::uint32_t generation;
  EventKind kind;
  bool operator>(const Event& other) const { return time != other.time ? time > other.time : order > other.order; }
};

struct Key {
  std::uint64_t key;
  std::uint32_t index;
  bool operator<(const Key& other) const { return key < other.key; }
};

}  // namespace hocket::sim
