// SPDX-License-Identifier: Apache-2.0
// perf/collective.hpp: what the runner has to know about a collective to measure it. One file each has the values.
//
// Sizes are those of nccl-tests. bytes: all_reduce, broadcast, reduce, sendrecv: the buffer; all_gather,
// reduce_scatter: the big one; all_to_all: all that one rank sends. algbw is bytes / time; busbw is algbw * bus_factor:
// what a link must at least carry.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "bench/perf/values.hpp"
#include "hocket/communicator.hpp"

namespace hocket::perf {

struct Call {
  Communicator& communicator;
  Stream* stream;  ///< null: a blocking call
  const void* input;
  void* output;
  std::size_t count;
  DataType type;
  Reduction op;
  Rank root;
};

/// `count` elements of an output, from element `output` on, are those of rank `from`'s input from element `input` on;
/// of all ranks' reduced if kAllRanks.
struct Expected {
  std::size_t output;
  std::size_t count;
  Rank from;
  std::size_t input;
};

struct PerfCollective {
  std::string_view name;
  Collective collective;  ///< for explain(), and in whose names settings are given
  bool reduces = false;
  bool rooted = false;
  bool in_place = false;
  /// Lengths of the buffers in counts: 1 or, one chunk a rank, the world size.
  bool wide_input = false, wide_output = false;
  /// No buffers at all; what counts is the time.
  bool no_data = false;
  double (*bus_factor)(int ranks) = nullptr;
  Status (*call)(const Call&) = nullptr;
  std::vector<Expected> (*expected)(int ranks, Rank me, Rank root, std::size_t count) = nullptr;

  std::size_t input_count(int ranks, std::size_t count) const {
    return wide_input ? count * std::size_t(ranks) : count;
  }
  std::size_t output_count(int ranks, std::size_t count) const {
    return wide_output ? count * std::size_t(ranks) : count;
  }
  /// The count that fits into `bytes`; 0 if not one element does.
  std::size_t count_of(std::size_t bytes, DataType type, int ranks) const;
  /// The size that the table shows: what that count really has.
  std::size_t bytes_of(std::size_t count, DataType type, int ranks) const;
};

extern const PerfCollective kAllReducePerf, kAllGatherPerf, kReduceScatterPerf, kAllToAllPerf, kBroadcastPerf,
    kReducePerf, kSendReceivePerf, kBarrierPerf;

/// All of them, and the one that is called so ("all_reduce", "allreduce", "alltoall"…), null if none.
std::span<const PerfCollective* const> perf_collectives();
const PerfCollective* find_perf_collective(std::string_view name);

}  // namespace hocket::perf
