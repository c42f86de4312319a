// SPDX-License-Identifier: Apache-2.0
// core/communicator.cpp: the public calls. Each one checks its arguments, takes its turn on the communicator, gets the
// call made ready (core/prepare.cpp) and runs it (core/run.cpp), or queues it on a stream (core/stream.cpp). Next stop:
// core/prepare.cpp, then algorithms/select.cpp.
#include "base/status.hpp"
#include "core/communicator_state.hpp"
#include "core/operation.hpp"
#include "core/reduction.hpp"
#include "core/stream.hpp"

namespace hocket {
namespace {

constexpr bool is_rooted(Collective c) {
  return c == Collective::kBroadcast || c == Collective::kReduce || c == Collective::kGather ||
         c == Collective::kScatter;
}

/// What this rank's part of a collective reads and writes, in counts.
struct Parts {
  std::uint64_t input = 0, output = 0;
  std::int64_t in_place_input = -1;   ///< input may be output + so many counts; -1: never in place
  std::int64_t in_place_output = -1;  ///< output may be input + so many
};

HOCKET_INLINE Parts parts_of(Collective collective, int size, Rank rank, Rank root) {
  const auto n = static_cast<std::uint64_t>(size);
  switch (collective) {
    case Collective::kAllReduce: return {1, 1, 0};
    case Collective::kAllGather: return {1, n, rank};
    case Collective::kReduceScatter: return {n, 1, -1, rank};
    case Collective::kAllToAll: return {n, n};
    case Collective::kBroadcast: return {rank == root, 1, 0};
    case Collective::kReduce: return {1, rank == root, 0};
    case Collective::kGather: return {1, rank == root ? n : 0, rank};
    case Collective::kScatter: return {rank == root ? n : 0, 1, -1, rank};
    case Collective::kSend: return {1, 0};
    case Collective::kReceive: return {0, 1};
    default: return {};
  }
}

/// What is wrong with a call, once something is: said outside of the way of those that are right.
[[gnu::noinline, gnu::cold]] Status refuse(const CommunicatorState* s, const CallKey& key, const Reduction& op,
                                           const Parts& parts, const void* input, const void* output) {
  const std::string_view name = to_string(key.collective);
  HOCKET_TRY(check_usable(s, name));
  if (size_of(key.type) == 0)
    return error(Code::kInvalidArgument, "{}: {} is no data type", name, static_cast<int>(key.type));
  if (Status bad = check_reduction(op, key.type); !bad.ok()) return error(bad.code(), "{}: {}", name, bad.text());
  const bool rooted = is_rooted(key.collective), message = is_message(key.collective);
  if ((rooted || message) && (key.root < 0 || key.root >= s->size))
    return error(Code::kInvalidArgument, "{}: {} {}, but the ranks of this communicator are 0 to {}", name,
                 rooted ? "root" : "rank", key.root, s->size - 1);
  if (message && key.root == s->rank && !in_group())
    return error(Code::kInvalidArgument, "{}: rank {} is this rank itself: only in a group (hocket/group.hpp)", name,
                 key.root);
  if (key.count > kMostElements / static_cast<std::uint64_t>(s->size))
    return error(Code::kInvalidArgument, "{}: a count of {} is more than {} ranks can have", name, key.count, s->size);
  if (parts.input != 0 && input == nullptr) return error(Code::kInvalidArgument, "{}: input is null", name);
  if (parts.output != 0 && output == nullptr) return error(Code::kInvalidArgument, "{}: output is null", name);
  return error(Code::kInvalidArgument, "{}: input and output overlap, and this is not in place as {} has it", name,
               name);
}

/// Whether the call is right in itself.
template <Collective collective>
HOCKET_INLINE bool is_right(const CommunicatorState* s, const CallKey& key, const Reduction& op, const Parts& parts,
                            const void* input, const void* output, std::uint64_t chunk) {
  if (s->engine->forked() || s->finalized.load(std::memory_order_relaxed) || chunk == 0) return false;
  if (reduces(collective) && op.op() >= ReduceOp::kPremultipliedSum && !check_reduction(op, key.type).ok())
    return false;
  if ((is_rooted(collective) || is_message(collective)) && (key.root < 0 || key.root >= s->size)) return false;
  if (is_message(collective) && key.root == s->rank && !in_group()) return false;
  if (key.count > kMostElements / kMostRanks && key.count > kMostElements / static_cast<std::uint64_t>(s->size))
    return false;
  if (key.count == 0) return true;
  if ((parts.input != 0 && input == nullptr) || (parts.output != 0 && output == nullptr)) return false;
  if (parts.input == 0 || parts.output == 0) return true;
  const auto in = reinterpret_cast<std::uintptr_t>(input), out = reinterpret_cast<std::uintptr_t>(output);
  return in + parts.input * chunk <= out || out + parts.output * chunk <= in ||
         (parts.in_place_input >= 0 && in == out + static_cast<std::uint64_t>(parts.in_place_input) * chunk) ||
         (parts.in_place_output >= 0 && out == in + static_cast<std::uint64_t>(parts.in_place_output) * chunk);
}

// One for each collective: small messages feel every branch that is not there.
template <Collective collective>
Status call(const std::shared_ptr<CommunicatorState>& state, const void* input, void* output, std::size_t count,
            DataType type, const Reduction& op, Rank root, Stream* stream) {
  CallKey key{collective, type, op.op(), false, root, count};
  if (op.user() != nullptr) [[unlikely]] {
    key.ordered = op.user()->commutative == Commutative::kNo;
    key.operator_id = op.user()->id;
  }
  CommunicatorState* const s = state.get();
  if (s == nullptr) [[unlikely]] {
    Status bad = refuse(s, key, op, {}, input, output);
    refuse_group(bad);
    return bad;
  }
  const Parts parts = parts_of(collective, s->size, s->rank, root);
  const std::uint64_t element = size_of(type);
  // Of no elements as much as of one, as long as there is such a type.
  const std::uint64_t chunk = count == 0 ? element : count * element;
  if (!is_right<collective>(s, key, op, parts, input, output, chunk)) [[unlikely]] {
    Status bad = refuse(s, key, op, parts, input, output);
    refuse_group(bad);
    return bad;
  }
  const Buffers buffers{input, output, parts.input * count * element, parts.output * count * element};
  if (stream == nullptr && !in_group()) [[likely]]
    return run_now(*s, key, buffers, op);
  return submit({state, key, op, buffers, nullptr}, stream);
}

const Reduction kNoOp = ReduceOp::kSum;

}  // namespace

Status check_usable(const CommunicatorState* s, std::string_view name) {
  if (s == nullptr) return error(Code::kInvalidArgument, "{} on a communicator that was moved from or is empty", name);
  if (s->engine->forked())
    return error(Code::kUnsupported, "{} in a forked child: the communicator belongs to its parent, which may go on",
                 name);
  if (s->finalized.load(std::memory_order_relaxed)) return error(Code::kInvalidArgument, "{} after finalize", name);
  return {};
}

Status run_in_turn(CommunicatorState& s, CallKey key, const Buffers& buffers, const Reduction& reduction,
                   Uneven* uneven) {
  if (s.may_be_symmetric.load(std::memory_order_relaxed) && uneven == nullptr) [[unlikely]]
    key.symmetric = s.is_symmetric(buffers.input, buffers.input_bytes, buffers.output, buffers.output_bytes);
  if (s.last_ready != nullptr && s.last_ready->key == key && key.collective != Collective::kExchange) [[likely]]
    return s.run(*s.last_ready, buffers.input, buffers.output, reduction, uneven);
  auto ready = s.prepare(key, uneven);
  if (ready.ok()) return s.run(**ready, buffers.input, buffers.output, reduction, uneven);
  return s.check_ended() ? s.end_error_before(key) : ready.status();
}

Status run_now(CommunicatorState& s, CallKey key, const Buffers& buffers, const Reduction& reduction, Uneven* uneven) {
  const std::uint64_t ticket = s.turnstile.take();
  if (!s.turnstile.is_next(ticket)) s.turnstile.wait(ticket);
  Status status = run_in_turn(s, key, buffers, reduction, uneven);
  if (s.turnstile.leave(ticket)) s.engine->progress().wake();
  return status;
}

Status submit(Operation operation, Stream* stream) {
  if (stream != nullptr && !stream->state())
    return error(Code::kInvalidArgument, "{} on a stream that was moved from", to_string(operation.key.collective));
  if (in_group()) [[unlikely]] {
    add_to_group(std::move(operation), stream);
    return {};
  }
  if (stream != nullptr) return enqueue(stream->state(), std::move(operation));
  return run_now(*operation.communicator, operation.key, operation.buffers, operation.reduction,
                 operation.uneven.get());
}

Communicator::Communicator(std::shared_ptr<CommunicatorState> state) : state_(std::move(state)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Rank Communicator::rank() const noexcept {
  return state_ ? state_->rank : -1;
}
int Communicator::size() const noexcept {
  return state_ ? state_->size : 0;
}

const Settings& Communicator::settings() const noexcept {
  static const Settings* const none = new Settings();
  return state_ ? state_->settings : *none;
}

Status Communicator::all_reduce(const void* input, void* output, std::size_t count, DataType type,
                                const Reduction& op) {
  return call<Collective::kAllReduce>(state_, input, output, count, type, op, -1, nullptr);
}
Status Communicator::all_gather(const void* input, void* output, std::size_t count, DataType type) {
  return call<Collective::kAllGather>(state_, input, output, count, type, kNoOp, -1, nullptr);
}
Status Communicator::reduce_scatter(const void* input, void* output, std::size_t count, DataType type,
                                    const Reduction& op) {
  return call<Collective::kReduceScatter>(state_, input, output, count, type, op, -1, nullptr);
}
Status Communicator::all_to_all(const void* input, void* output, std::size_t count, DataType type) {
  return call<Collective::kAllToAll>(state_, input, output, count, type, kNoOp, -1, nullptr);
}
Status Communicator::broadcast(const void* input, void* output, std::size_t count, DataType type, Rank root) {
  return call<Collective::kBroadcast>(state_, input, output, count, type, kNoOp, root, nullptr);
}
Status Communicator::reduce(const void* input, void* output, std::size_t count, DataType type, const Reduction& op,
                            Rank root) {
  return call<Collective::kReduce>(state_, input, output, count, type, op, root, nullptr);
}
Status Communicator::gather(const void* input, void* output, std::size_t count, DataType type, Rank root) {
  return call<Collective::kGather>(state_, input, output, count, type, kNoOp, root, nullptr);
}
Status Communicator::scatter(const void* input, void* output, std::size_t count, DataType type, Rank root) {
  return call<Collective::kScatter>(state_, input, output, count, type, kNoOp, root, nullptr);
}
Status Communicator::barrier() {
  return call<Collective::kBarrier>(state_, nullptr, nullptr, 0, DataType::kFloat32, kNoOp, -1, nullptr);
}
Status Communicator::send(const void* input, std::size_t count, DataType type, Rank to) {
  return call<Collective::kSend>(state_, input, nullptr, count, type, kNoOp, to, nullptr);
}
Status Communicator::receive(void* output, std::size_t count, DataType type, Rank from) {
  return call<Collective::kReceive>(state_, nullptr, output, count, type, kNoOp, from, nullptr);
}

Status Communicator::all_reduce(const void* input, void* output, std::size_t count, DataType type, const Reduction& op,
                                Stream& stream) {
  return call<Collective::kAllReduce>(state_, input, output, count, type, op, -1, &stream);
}
Status Communicator::all_gather(const void* input, void* output, std::size_t count, DataType type, Stream& stream) {
  return call<Collective::kAllGather>(state_, input, output, count, type, kNoOp, -1, &stream);
}
Status Communicator::reduce_scatter(const void* input, void* output, std::size_t count, DataType type,
                                    const Reduction& op, Stream& stream) {
  return call<Collective::kReduceScatter>(state_, input, output, count, type, op, -1, &stream);
}
Status Communicator::all_to_all(const void* input, void* output, std::size_t count, DataType type, Stream& stream) {
  return call<Collective::kAllToAll>(state_, input, output, count, type, kNoOp, -1, &stream);
}
Status Communicator::broadcast(const void* input, void* output, std::size_t count, DataType type, Rank root,
                               Stream& stream) {
  return call<Collective::kBroadcast>(state_, input, output, count, type, kNoOp, root, &stream);
}
Status Communicator::reduce(const void* input, void* output, std::size_t count, DataType type, const Reduction& op,
                            Rank root, Stream& stream) {
  return call<Collective::kReduce>(state_, input, output, count, type, op, root, &stream);
}
Status Communicator::gather(const void* input, void* output, std::size_t count, DataType type, Rank root,
                            Stream& stream) {
  return call<Collective::kGather>(state_, input, output, count, type, kNoOp, root, &stream);
}
Status Communicator::scatter(const void* input, void* output, std::size_t count, DataType type, Rank root,
                             Stream& stream) {
  return call<Collective::kScatter>(state_, input, output, count, type, kNoOp, root, &stream);
}
Status Communicator::barrier(Stream& stream) {
  return call<Collective::kBarrier>(state_, nullptr, nullptr, 0, DataType::kFloat32, kNoOp, -1, &stream);
}
Status Communicator::send(const void* input, std::size_t count, DataType type, Rank to, Stream& stream) {
  return call<Collective::kSend>(state_, input, nullptr, count, type, kNoOp, to, &stream);
}
Status Communicator::receive(void* output, std::size_t count, DataType type, Rank from, Stream& stream) {
  return call<Collective::kReceive>(state_, nullptr, output, count, type, kNoOp, from, &stream);
}

namespace detail {

Status unequal_spans(std::string_view what, std::size_t expected, std::size_t got) {
  return error(Code::kInvalidArgument, "{}: {} elements are needed, the span has {}", what, expected, got);
}

}  // namespace detail
}  // namespace hocket
