// SPDX-License-Identifier: Apache-2.0
// perf/collective.hpp: what the runner has to know about a collective to measure it. One file each has the values.
//
// Sizes are those of nccl-tests. bytes: all_reduce, broadcast, reduce, sendrecv: the buffer; all_gather,
// reduce_scatter, gather, scatter: the big one; all_to_all: all that one rank sends. algbw is bytes / time; busbw is
// algbw * bus_factor: what a link must at least carry.
//
// The uneven forms divide the same bytes in n(n+1)/2 shares: rank r has r+1 of them (all_gather_v, reduce_scatter_v),
// or sends 1 + (r + p) mod n to rank p (all_to_all_v, so that each sends and receives all). Their counts are a share's;
// their bus factors are those of the even forms of equal bytes.
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
  /// Lengths of the buffers in counts: 1 or, one chunk a rank, the world size. Uneven: r+1, and all shares.
  bool wide_input = false, wide_output = false;
  bool uneven = false;
  /// No buffers at all; what counts is the time.
  bool no_data = false;
  double (*bus_factor)(int ranks) = nullptr;
  Status (*call)(const Call&) = nullptr;
  std::vector<Expected> (*expected)(int ranks, Rank me, Rank root, std::size_t count) = nullptr;

  /// The length of a buffer that has chunks of all ranks, and where that of `rank` begins and how long it is.
  std::size_t all_chunks(int ranks, std::size_t count) const;
  std::size_t chunk_at(Rank rank, std::size_t count) const;
  std::size_t chunk_count(Rank rank, std::size_t count) const;
  std::size_t input_count(int ranks, Rank rank, std::size_t count) const {
    return wide_input ? all_chunks(ranks, count) : chunk_count(rank, count);
  }
  std::size_t output_count(int ranks, Rank rank, std::size_t count) const {
    return wide_output ? all_chunks(ranks, count) : chunk_count(rank, count);
  }
  /// The count that fits into `bytes`, but at least one element for every rank; 0 for no bytes.
  std::size_t count_of(std::size_t bytes, DataType type, int ranks) const;
  /// The size that the table shows: what that count really has.
  std::size_t bytes_of(std::size_t count, DataType type, int ranks) const;
};

extern const PerfCollective kAllReducePerf, kAllGatherPerf, kReduceScatterPerf, kAllToAllPerf, kBroadcastPerf,
    kReducePerf, kGatherPerf, kScatterPerf, kAllGatherVPerf, kReduceScatterVPerf, kAllToAllVPerf, kSendReceivePerf,
    kBarrierPerf;

/// How many elements each rank has of shares of `count` elements.
std::vector<std::size_t> uneven_counts(int ranks, std::size_t count);

/// All of them, and the one that is called so ("all_reduce", "allreduce", "alltoall"…), null if none.
std::span<const PerfCollective* const> perf_collectives();
const PerfCollective* find_perf_collective(std::string_view name);

}  // namespace hocket::perf
