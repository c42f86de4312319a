// SPDX-License-Identifier: Apache-2.0
// core/uneven.cpp: the public calls whose parts differ in length: all_gather_v, reduce_scatter_v, all_to_all_v.
//
// all_gather_v and reduce_scatter_v have counts that all ranks know: their digest is part of the call's hash. Of
// all_to_all_v each rank knows its own row and column only, so each pair has a hash with its own count (call.hpp).
// Next stop: core/communicator.cpp (submit), core/run.cpp (begin).
#include <algorithm>
#include <numeric>

#include "base/status.hpp"
#include "core/operation.hpp"
#include "core/reduction.hpp"
#include "core/stream.hpp"
#include "topo/hash.hpp"

namespace hocket {
namespace {

using Counts = std::span<const std::size_t>;
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 48;

/// Counts and offsets (packed if none are given) as the plan takes them, and how far they reach.
Status take(std::string_view call, std::string_view what, int size, Counts counts, Counts offsets,
            std::vector<std::uint64_t>* counts_out, std::vector<std::uint64_t>* offsets_out, std::uint64_t* extent) {
  const auto n = static_cast<std::size_t>(size);
  if (counts.size() != n)
    return error(Code::kInvalidArgument, "{}: {} {} for {} ranks: one each is needed", call, counts.size(), what, size);
  if (!offsets.empty() && offsets.size() != n)
    return error(Code::kInvalidArgument, "{}: {} offsets of {} for {} ranks: one each is needed, or none (packed)",
                 call, offsets.size(), what, size);
  *extent = 0;
  std::uint64_t next = 0;
  for (std::size_t r = 0; r < n; ++r) {
    const std::uint64_t offset = offsets.empty() ? next : offsets[r];
    if (counts[r] > kMostElements || offset > kMostElements)
      return error(Code::kInvalidArgument, "{}: {} of rank {} are {} at {}, more than can be", call, what, r, counts[r],
                   offset);
    next = offset + counts[r];
    counts_out->push_back(counts[r]);
    offsets_out->push_back(offset);
    if (counts[r] != 0) *extent = std::max(*extent, next);
  }
  return {};
}

Status check_buffers(std::string_view call, const void* input, std::uint64_t input_bytes, const void* output,
                     std::uint64_t output_bytes, bool in_place) {
  if (input_bytes != 0 && input == nullptr) return error(Code::kInvalidArgument, "{}: input is null", call);
  if (output_bytes != 0 && output == nullptr) return error(Code::kInvalidArgument, "{}: output is null", call);
  const auto in = reinterpret_cast<std::uintptr_t>(input), out = reinterpret_cast<std::uintptr_t>(output);
  if (input_bytes == 0 || output_bytes == 0 || in_place || in + input_bytes <= out || out + output_bytes <= in)
    return {};
  return error(Code::kInvalidArgument, "{}: input and output overlap, and this is not in place as {} has it", call,
               call);
}

std::uint64_t digest_of(const std::vector<std::uint64_t>& counts) {
  const std::uint64_t digest =
      topo::hash_bytes({reinterpret_cast<const char*>(counts.data()), counts.size() * sizeof(std::uint64_t)});
  return digest == 0 ? 1 : digest;
}

/// all_gather_v and reduce_scatter_v: the whole is the output of one and the input of the other.
Status checked_rank_parts(const std::shared_ptr<CommunicatorState>& state, Collective collective, const void* input,
                          void* output, Counts counts, Counts offsets, DataType type, const Reduction& op,
                          Stream* stream) {
  const std::string_view name = to_string(collective);
  HOCKET_TRY(check_usable(state.get(), name));
  const std::size_t element = size_of(type);
  if (element == 0) return error(Code::kInvalidArgument, "{}: {} is no data type", name, static_cast<int>(type));
  if (Status bad = check_reduction(op, type); !bad.ok()) return error(bad.code(), "{}: {}", name, bad.text());
  auto uneven = std::make_shared<Uneven>();
  std::uint64_t extent = 0;
  HOCKET_TRY(take(name, "counts", state->size, counts, offsets, &uneven->counts, &uneven->offsets, &extent));
  uneven->digest = digest_of(uneven->counts);
  const auto self = static_cast<std::size_t>(state->rank);
  const std::uint64_t whole = extent * element, own = uneven->counts[self] * element,
                      at = uneven->offsets[self] * element;
  const bool gathers = collective == Collective::kAllGatherV;
  const auto in = reinterpret_cast<std::uintptr_t>(input), out = reinterpret_cast<std::uintptr_t>(output);
  HOCKET_TRY(check_buffers(name, input, gathers ? own : whole, output, gathers ? whole : own,
                           gathers ? in == out + at : out == in + at));
  Operation operation{state,
                      {collective, type, op.op(), false, -1, 0},
                      op,
                      {input, output, gathers ? own : whole, gathers ? whole : own},
                      std::move(uneven)};
  if (op.user() != nullptr) {
    operation.key.ordered = op.user()->commutative == Commutative::kNo;
    operation.key.operator_id = op.user()->id;
  }
  return submit(std::move(operation), stream);
}

Status checked_pair_parts(const std::shared_ptr<CommunicatorState>& state, const void* input, Counts send_counts,
                          Counts send_offsets, void* output, Counts receive_counts, Counts receive_offsets,
                          DataType type, Stream* stream) {
  const std::string_view name = to_string(Collective::kAllToAllV);
  HOCKET_TRY(check_usable(state.get(), name));
  const std::size_t element = size_of(type);
  if (element == 0) return error(Code::kInvalidArgument, "{}: {} is no data type", name, static_cast<int>(type));
  auto uneven = std::make_shared<Uneven>();
  std::uint64_t input_extent = 0, output_extent = 0;
  HOCKET_TRY(take(name, "send counts", state->size, send_counts, send_offsets, &uneven->counts, &uneven->offsets,
                  &input_extent));
  HOCKET_TRY(take(name, "receive counts", state->size, receive_counts, receive_offsets, &uneven->receive_counts,
                  &uneven->receive_offsets, &output_extent));
  const auto self = static_cast<std::size_t>(state->rank);
  if (uneven->counts[self] != uneven->receive_counts[self])
    return error(Code::kInvalidArgument, "{}: rank {} sends {} elements to itself but receives {}", name, state->rank,
                 uneven->counts[self], uneven->receive_counts[self]);
  HOCKET_TRY(check_buffers(name, input, input_extent * element, output, output_extent * element, false));
  return submit({state,
                 {Collective::kAllToAllV, type, ReduceOp::kSum, false, -1, 0},
                 ReduceOp::kSum,
                 {input, output, input_extent * element, output_extent * element},
                 std::move(uneven)},
                stream);
}

Status rank_parts(const std::shared_ptr<CommunicatorState>& state, Collective collective, const void* input,
                  void* output, Counts counts, Counts offsets, DataType type, const Reduction& op, Stream* stream) {
  Status status = checked_rank_parts(state, collective, input, output, counts, offsets, type, op, stream);
  if (!status.ok()) refuse_group(status);
  return status;
}

Status pair_parts(const std::shared_ptr<CommunicatorState>& state, const void* input, Counts send_counts,
                  Counts send_offsets, void* output, Counts receive_counts, Counts receive_offsets, DataType type,
                  Stream* stream) {
  Status status = checked_pair_parts(state, input, send_counts, send_offsets, output, receive_counts, receive_offsets,
                                     type, stream);
  if (!status.ok()) refuse_group(status);
  return status;
}

}  // namespace

Status Communicator::all_gather_v(const void* input, void* output, Counts counts, DataType type, Counts offsets) {
  return rank_parts(state_, Collective::kAllGatherV, input, output, counts, offsets, type, ReduceOp::kSum, nullptr);
}
Status Communicator::all_gather_v(const void* input, void* output, Counts counts, DataType type, Counts offsets,
                                  Stream& stream) {
  return rank_parts(state_, Collective::kAllGatherV, input, output, counts, offsets, type, ReduceOp::kSum, &stream);
}

Status Communicator::reduce_scatter_v(const void* input, void* output, Counts counts, DataType type,
                                      const Reduction& op, Counts offsets) {
  return rank_parts(state_, Collective::kReduceScatterV, input, output, counts, offsets, type, op, nullptr);
}
Status Communicator::reduce_scatter_v(const void* input, void* output, Counts counts, DataType type,
                                      const Reduction& op, Counts offsets, Stream& stream) {
  return rank_parts(state_, Collective::kReduceScatterV, input, output, counts, offsets, type, op, &stream);
}

Status Communicator::all_to_all_v(const void* input, Counts send_counts, void* output, Counts receive_counts,
                                  DataType type, Counts send_offsets, Counts receive_offsets) {
  return pair_parts(state_, input, send_counts, send_offsets, output, receive_counts, receive_offsets, type, nullptr);
}
Status Communicator::all_to_all_v(const void* input, Counts send_counts, void* output, Counts receive_counts,
                                  DataType type, Counts send_offsets, Counts receive_offsets, Stream& stream) {
  return pair_parts(state_, input, send_counts, send_offsets, output, receive_counts, receive_offsets, type, &stream);
}

}  // namespace hocket
