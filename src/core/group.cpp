// SPDX-License-Identifier: Apache-2.0
// core/group.cpp: calls kept until the end of a group, and how they run together.
//
// On each communicator the group's collectives run one after the other: plans leave their channels balanced, so that
// running them in sequence is proven by each of them. Its sends and receives become one plan in which each peer and
// direction has a lane (algorithms/exchange.cpp), so that none can block another. Different communicators progress side
// by side on the engine's progress thread.
// Next stop: core/stream.cpp, or core/run.cpp where there is only one communicator.
#include "hocket/group.hpp"

#include <algorithm>

#include "base/status.hpp"
#include "core/operation.hpp"
#include "core/stream.hpp"

namespace hocket {
namespace {

struct Kept {
  Operation operation;
  std::shared_ptr<Stream::State> stream;  // null: none
};

struct OpenGroup {
  int depth = 0;
  std::vector<Kept> kept;
  Status refused;  // the first call that was
};

thread_local OpenGroup open_group;

/// The sends and receives of one communicator.
struct Messages {
  std::vector<const Operation*> sends, receives;
};

/// Entries as distances from the lowest address, in bytes.
const std::byte* lay_out(const std::vector<const Operation*>& messages, bool sends, std::vector<std::uint64_t>* counts,
                         std::vector<std::uint64_t>* offsets, std::vector<Rank>* peers, std::vector<DataType>* types) {
  const auto address = [sends](const Operation& m) {
    return static_cast<const std::byte*>(sends ? m.buffers.input : m.buffers.output);
  };
  const std::byte* lowest = nullptr;
  for (const Operation* m : messages)
    if (m->key.count != 0 && (lowest == nullptr || address(*m) < lowest)) lowest = address(*m);
  for (const Operation* m : messages) {
    counts->push_back(m->key.count * size_of(m->key.type));
    offsets->push_back(m->key.count == 0 ? 0 : static_cast<std::uint64_t>(address(*m) - lowest));
    peers->push_back(m->key.root);
    types->push_back(m->key.type);
  }
  if (messages.empty()) counts->push_back(0), offsets->push_back(0);  // a list that is empty has an entry nobody reads
  return lowest;
}

Result<Operation> exchange_of(const std::shared_ptr<CommunicatorState>& communicator, Messages& messages) {
  // By rank, each pair's in their order.
  const auto by_peer = [](const Operation* a, const Operation* b) { return a->key.root < b->key.root; };
  std::stable_sort(messages.sends.begin(), messages.sends.end(), by_peer);
  std::stable_sort(messages.receives.begin(), messages.receives.end(), by_peer);
  // Those to oneself are copies: both sides are here.
  const auto to_self = [&](const std::vector<const Operation*>& list) {
    std::vector<const Operation*> own;
    for (const Operation* m : list)
      if (m->key.root == communicator->rank) own.push_back(m);
    return own;
  };
  const auto own_sends = to_self(messages.sends), own_receives = to_self(messages.receives);
  if (own_sends.size() != own_receives.size())
    return error(Code::kInvalidArgument, "rank {} sends {} messages to itself in this group, but receives {}",
                 communicator->rank, own_sends.size(), own_receives.size());
  for (std::size_t m = 0; m < own_sends.size(); ++m) {
    const CallKey &s = own_sends[m]->key, &r = own_receives[m]->key;
    if (r.count != s.count || r.type != s.type)
      return error(Code::kInvalidArgument, "rank {} sends {} {} to itself but receives {} {}", communicator->rank,
                   s.count, to_string(s.type), r.count, to_string(r.type));
  }
  auto uneven = std::make_shared<Uneven>();
  Operation op;
  op.communicator = communicator;
  op.key.collective = Collective::kExchange;
  op.key.type = DataType::kUint8;
  op.key.count = messages.sends.size() | (std::uint64_t{messages.receives.size()} << 32);
  op.buffers.input =
      lay_out(messages.sends, true, &uneven->counts, &uneven->offsets, &uneven->sends, &uneven->send_types);
  op.buffers.output =
      const_cast<std::byte*>(lay_out(messages.receives, false, &uneven->receive_counts, &uneven->receive_offsets,
                                     &uneven->receives, &uneven->receive_types));
  op.uneven = std::move(uneven);
  return op;
}

/// What one communicator does on one stream.
struct Sequence {
  std::shared_ptr<CommunicatorState> communicator;
  std::shared_ptr<Stream::State> stream;
  std::vector<Operation> operations;
};

/// By communicator and stream, each in the order of its first call.
Result<std::vector<Sequence>> sequences_of(std::vector<Kept>& kept) {
  std::vector<Sequence> sequences;
  std::vector<Messages> messages;
  for (Kept& k : kept) {
    auto at = std::find_if(sequences.begin(), sequences.end(), [&](const Sequence& s) {
      return s.communicator == k.operation.communicator && s.stream == k.stream;
    });
    if (at == sequences.end()) {
      sequences.push_back({k.operation.communicator, k.stream, {}});
      messages.emplace_back();
      at = sequences.end() - 1;
    }
    if (is_message(k.operation.key.collective)) {
      Messages& of = messages[static_cast<std::size_t>(at - sequences.begin())];
      (k.operation.key.collective == Collective::kSend ? of.sends : of.receives).push_back(&k.operation);
    } else {
      at->operations.push_back(k.operation);
    }
  }
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    if (messages[s].sends.empty() && messages[s].receives.empty()) continue;
    HOCKET_ASSIGN(Operation exchange, exchange_of(sequences[s].communicator, messages[s]));
    sequences[s].operations.push_back(std::move(exchange));
  }
  return sequences;
}

/// One communicator, this thread.
Status run_sequence(Sequence& sequence) {
  CommunicatorState& s = *sequence.communicator;
  const std::uint64_t ticket = s.turnstile.take();
  if (!s.turnstile.is_next(ticket)) s.turnstile.wait(ticket);
  Status status;
  for (Operation& operation : sequence.operations) {
    status = run_in_turn(s, operation.key, operation.buffers, operation.reduction, operation.uneven.get());
    if (!status.ok()) break;
  }
  if (s.turnstile.leave(ticket)) s.engine->progress().wake();
  return status;
}

Status run_group(std::vector<Kept>& kept) {
  HOCKET_ASSIGN(std::vector<Sequence> sequences, sequences_of(kept));
  const auto blocking = std::count_if(sequences.begin(), sequences.end(), [](const Sequence& s) { return !s.stream; });
  // Those that share a thread take turns on a stream each; one alone needs no other thread.
  std::vector<Stream> own;
  Status first;
  for (Sequence& sequence : sequences) {
    if (!sequence.stream && blocking == 1) continue;
    if (!sequence.stream) sequence.stream = own.emplace_back().state();
    for (Operation& operation : sequence.operations) {
      Status queued = enqueue(sequence.stream, std::move(operation));
      if (!queued.ok() && first.ok()) first = std::move(queued);
    }
  }
  for (Sequence& sequence : sequences) {
    if (sequence.stream) continue;
    Status status = run_sequence(sequence);
    if (!status.ok() && first.ok()) first = std::move(status);
  }
  for (Stream& stream : own) {
    Status status = stream.synchronize();
    if (!status.ok() && first.ok()) first = std::move(status);
  }
  return first;
}

}  // namespace

bool thread_has_group() {
  return open_group.depth > 0;
}

void add_to_group(Operation operation, const Stream* stream) {
  open_group.kept.push_back({std::move(operation), stream == nullptr ? nullptr : stream->state()});
}

void refuse_group(const Status& why) {
  if (open_group.depth > 0 && open_group.refused.ok()) open_group.refused = why;
}

Group::Group() noexcept {
  open_groups.fetch_add(1, std::memory_order_relaxed);
  ++open_group.depth;
}

Group::~Group() {
  if (!open_) return;
  open_groups.fetch_sub(1, std::memory_order_relaxed);
  if (--open_group.depth > 0) return;
  open_group.kept.clear();
  open_group.refused = Status();
}

Status Group::end() {
  if (!std::exchange(open_, false)) return error(Code::kInvalidArgument, "this group was ended before");
  open_groups.fetch_sub(1, std::memory_order_relaxed);
  if (--open_group.depth > 0) return {};
  std::vector<Kept> kept = std::exchange(open_group.kept, {});
  if (Status refused = std::exchange(open_group.refused, Status()); !refused.ok()) return refused;
  return kept.empty() ? Status() : run_group(kept);
}

}  // namespace hocket
