// SPDX-License-Identifier: Apache-2.0
// core/operation.hpp: one call with its addresses, checked and ready to be run at once, queued on a stream, or kept for
// the end of a group.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string_view>

#include "core/call.hpp"
#include "core/communicator_state.hpp"
#include "hocket/reduction.hpp"

namespace hocket {

/// Of all ranks together, in one call.
inline constexpr std::uint64_t kMostElements = std::uint64_t{1} << 48;

/// What a call reads and writes.
struct Buffers {
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t input_bytes = 0;
  std::size_t output_bytes = 0;
};

struct Operation {
  std::shared_ptr<CommunicatorState> communicator;
  CallKey key;
  Reduction reduction = ReduceOp::kSum;
  Buffers buffers;
  std::shared_ptr<Uneven> uneven;  ///< null where all parts are equal
};

/// Whether a call of this name can begin on this communicator at all, whatever its arguments.
Status check_usable(const CommunicatorState* communicator, std::string_view name);

/// Runs a checked call on this thread, in its turn on the communicator.
Status run_now(CommunicatorState& communicator, CallKey key, const Buffers& buffers, const Reduction& reduction,
               Uneven* uneven = nullptr);
/// The same without a turn of its own: the caller has it.
Status run_in_turn(CommunicatorState& communicator, CallKey key, const Buffers& buffers, const Reduction& reduction,
                   Uneven* uneven = nullptr);
/// Where a checked call belongs: to the open group, to the stream if there is one, else run_now().
Status submit(Operation operation, Stream* stream);

// core/group.cpp
/// Of all threads. Small messages look at it, and at the thread's own only if there is one.
inline std::atomic<int> open_groups{0};
bool thread_has_group();
/// A group is open on this thread: calls belong to it.
inline bool in_group() {
  return open_groups.load(std::memory_order_relaxed) != 0 && thread_has_group();
}
/// A call that belongs to the open group was refused: the group will not run.
void refuse_group(const Status& why);
/// Keep a checked call for the group's end. `stream` may be null.
void add_to_group(Operation operation, const Stream* stream);

}  // namespace hocket
