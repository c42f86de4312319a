// SPDX-License-Identifier: Apache-2.0
// communicator.hpp: a group of ranks and what they do together.
//
// Every rank calls the same collectives in the same order on a communicator, with the same count, type, operation and
// root; a difference is found and reported on all of them (Code::kMismatch). A rank that makes no call at all, or waits
// in a send or receive that nobody answers, is waited for: after HOCKET_WARN_AFTER the others say for whom,
// HOCKET_TIMEOUT makes it an error. Buffers are host memory: plain, or from mem_alloc(), which peers reach directly;
// between threads of one process they reach any memory.
// They may be unaligned; output may be input where said. A count of zero is allowed, with null buffers.
//
// Threads: a communicator may be called from any thread; calls on one communicator run one after the other in the order
// in which they came. Different communicators are independent. A blocking call runs on the caller's thread. Errors:
// Code::kInvalidArgument and kUnsupported lose nothing. kPeerLost, kTimeout, kMismatch and kAborted end the
// communicator on every rank: each later call returns the same error; shrink() makes a new one of the survivors.
// Next stop: core/communicator.cpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hocket/reduction.hpp"
#include "hocket/settings.hpp"
#include "hocket/status.hpp"
#include "hocket/types.hpp"
#include "hocket/unique_id.hpp"

namespace hocket {
struct CommunicatorState;  // the inside: core/communicator_state.hpp
}

namespace [[gnu::visibility("default")]] hocket {

class Engine;

/// An all-gather of the caller's (MPI, a store, a file): every rank passes `mine`, all equally long, and gets the
/// concatenation by rank in `all` (mine.size() * size bytes). Called a few times from the thread that creates.
using Exchange = std::function<Status(std::span<const std::byte> mine, std::span<std::byte> all)>;

/// An ordered queue of work on the host. Calls given a stream return at once and run in order on the engine's progress
/// thread; different streams progress side by side. Copyable handle; any thread.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&);
  Stream& operator=(const Stream&);
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;

  /// Waits until everything queued so far has ended; the first error among it, which is then forgotten.
  Status synchronize();
  /// True when nothing is queued or running.
  bool idle() const;

  struct [[gnu::visibility("hidden")]] State;
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

class PendingCommunicator;

/// What one rank holds of a communicator. Movable; the destructor finalizes without waiting for anybody.
class Communicator {
 public:
  /// Blocks until all `size` ranks have come. All pass the same size, each its own rank, and an exchange between
  /// exactly these ranks. Errors name the rank and host that is missing or differs.
  static Result<Communicator> create(Rank rank, int size, Exchange exchange, const Settings& settings = {},
                                     std::shared_ptr<Engine> engine = nullptr);
  /// The same with nothing but an id that all ranks were given (see unique_id.hpp), each id for one communicator. With
  /// several, made by several processes and in the same order everywhere, each serves its share of the hosts. Errors
  /// also name ranks that have not come until HOCKET_START_TIMEOUT, and those that came.
  static Result<Communicator> create(const UniqueId& id, Rank rank, int size, const Settings& settings = {},
                                     std::shared_ptr<Engine> engine = nullptr);
  static Result<Communicator> create(std::span<const UniqueId> ids, Rank rank, int size, const Settings& settings = {},
                                     std::shared_ptr<Engine> engine = nullptr);
  /// The same, returning at once; see PendingCommunicator.
  static PendingCommunicator create_pending(Rank rank, int size, Exchange exchange, const Settings& settings = {},
                                            std::shared_ptr<Engine> engine = nullptr);
  static PendingCommunicator create_pending(const UniqueId& id, Rank rank, int size, const Settings& settings = {},
                                            std::shared_ptr<Engine> engine = nullptr);
  /// Rank and size from whoever started this program: `hocket run` (HOCKET_RANK, HOCKET_SIZE and an inherited
  /// descriptor). A program that nobody started is a world of one. May be called more than once; every rank must call
  /// it equally often.
  static Result<Communicator> from_environment();
  static Result<Communicator> from_environment(const Settings& settings, std::shared_ptr<Engine> engine = nullptr);

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  Rank rank() const noexcept;
  int size() const noexcept;
  const Settings& settings() const noexcept;

  // Blocking collectives, untyped. Counts are elements; a null pointer is allowed with count 0. Buffers must not
  // overlap, but for "in place", which means exactly the address given.

  /// input, output: count elements; in place: output == input.
  Status all_reduce(const void* input, void* output, std::size_t count, DataType type, const Reduction& op);
  /// input: count elements; output: size * count by rank; in place: input == output + rank * count.
  Status all_gather(const void* input, void* output, std::size_t count, DataType type);
  /// input: size * count elements; output: count, the reduced chunk `rank`; in place: output == input + rank * count.
  Status reduce_scatter(const void* input, void* output, std::size_t count, DataType type, const Reduction& op);
  /// input, output: size * count elements; chunk p of input goes to rank p, chunk p of output came from it. Not in
  /// place.
  Status all_to_all(const void* input, void* output, std::size_t count, DataType type);
  /// input is read on root only; output on all ranks; in place: output == input.
  Status broadcast(const void* input, void* output, std::size_t count, DataType type, Rank root);
  /// output is written on root only; in place there: output == input.
  Status reduce(const void* input, void* output, std::size_t count, DataType type, const Reduction& op, Rank root);
  /// input: count elements; output, on root only: size * count by rank; in place there: input == output + rank * count.
  Status gather(const void* input, void* output, std::size_t count, DataType type, Rank root);
  /// input, on root only: size * count by rank; output: count; in place there: output == input + rank * count.
  Status scatter(const void* input, void* output, std::size_t count, DataType type, Rank root);
  /// Nobody returns before everybody has come.
  Status barrier();
  /// Returns when `to` has taken the data. Counts and types of the two sides must be equal. Messages of one pair keep
  /// order.
  Status send(const void* input, std::size_t count, DataType type, Rank to);
  Status receive(void* output, std::size_t count, DataType type, Rank from);

  // Parts of different lengths. Counts and offsets are elements, one for each rank; no offsets: packed in the order of
  // ranks. Parts must not overlap. Counts may be zero, also all of them.

  /// counts, equal on all ranks: what each rank brings. input: counts[rank]; output: everybody's; in place: input ==
  /// output + offset[rank].
  Status all_gather_v(const void* input, void* output, std::span<const std::size_t> counts, DataType type,
                      std::span<const std::size_t> offsets = {});
  /// counts, equal on all ranks: what each rank gets. input: all parts; output: counts[rank]; in place: output == input
  /// + offset[rank].
  Status reduce_scatter_v(const void* input, void* output, std::span<const std::size_t> counts, DataType type,
                          const Reduction& op, std::span<const std::size_t> offsets = {});
  /// send_counts[p] elements go to rank p, receive_counts[p] come from it: each pair must agree on its own. Not in
  /// place.
  Status all_to_all_v(const void* input, std::span<const std::size_t> send_counts, void* output,
                      std::span<const std::size_t> receive_counts, DataType type,
                      std::span<const std::size_t> send_offsets = {},
                      std::span<const std::size_t> receive_offsets = {});

  // The same on a stream: they return when queued. Buffers must stay until the stream got there. What goes wrong later
  // is returned by Stream::synchronize() and shown by async_error().
  Status all_reduce(const void* input, void* output, std::size_t count, DataType type, const Reduction& op,
                    Stream& stream);
  Status all_gather(const void* input, void* output, std::size_t count, DataType type, Stream& stream);
  Status reduce_scatter(const void* input, void* output, std::size_t count, DataType type, const Reduction& op,
                        Stream& stream);
  Status all_to_all(const void* input, void* output, std::size_t count, DataType type, Stream& stream);
  Status broadcast(const void* input, void* output, std::size_t count, DataType type, Rank root, Stream& stream);
  Status reduce(const void* input, void* output, std::size_t count, DataType type, const Reduction& op, Rank root,
                Stream& stream);
  Status gather(const void* input, void* output, std::size_t count, DataType type, Rank root, Stream& stream);
  Status scatter(const void* input, void* output, std::size_t count, DataType type, Rank root, Stream& stream);
  Status barrier(Stream& stream);
  Status send(const void* input, std::size_t count, DataType type, Rank to, Stream& stream);
  Status receive(void* output, std::size_t count, DataType type, Rank from, Stream& stream);
  Status all_gather_v(const void* input, void* output, std::span<const std::size_t> counts, DataType type,
                      std::span<const std::size_t> offsets, Stream& stream);
  Status reduce_scatter_v(const void* input, void* output, std::span<const std::size_t> counts, DataType type,
                          const Reduction& op, std::span<const std::size_t> offsets, Stream& stream);
  Status all_to_all_v(const void* input, std::span<const std::size_t> send_counts, void* output,
                      std::span<const std::size_t> receive_counts, DataType type,
                      std::span<const std::size_t> send_offsets, std::span<const std::size_t> receive_offsets,
                      Stream& stream);

  // Typed forms over spans: the type is the element's, counts come from the spans and are checked against each other.
  template <class T>
  Status all_reduce(std::span<const T> input, std::span<T> output, const Reduction& op = ReduceOp::kSum);
  /// In place.
  template <class T>
  Status all_reduce(std::span<T> buffer, const Reduction& op = ReduceOp::kSum);
  template <class T>
  Status all_gather(std::span<const T> input, std::span<T> output);
  template <class T>
  Status reduce_scatter(std::span<const T> input, std::span<T> output, const Reduction& op = ReduceOp::kSum);
  template <class T>
  Status all_to_all(std::span<const T> input, std::span<T> output);
  /// In place: root's buffer goes to everybody's.
  template <class T>
  Status broadcast(std::span<T> buffer, Rank root);
  template <class T>
  Status reduce(std::span<const T> input, std::span<T> output, Rank root, const Reduction& op = ReduceOp::kSum);
  template <class T>
  Status gather(std::span<const T> input, std::span<T> output, Rank root);
  template <class T>
  Status scatter(std::span<const T> input, std::span<T> output, Rank root);
  template <class T>
  Status send(std::span<const T> input, Rank to);
  template <class T>
  Status receive(std::span<T> output, Rank from);

  // Memory that the other ranks of this communicator reach directly. Collective: all ranks pass the same bytes, and get
  // memory of their own that is zero. When input and output of a call lie in it on all ranks, calls move data without
  // staging; a rank that passes other memory in such a call is a mismatch.
  Result<void*> mem_alloc(std::size_t bytes);
  /// Collective; every rank passes what its mem_alloc of the same call returned.
  Status mem_free(void* memory);

  /// Collective: ranks with equal color form a communicator, ordered by key, then rank. Negative color: none (an empty
  /// result).
  Result<Communicator> split(int color, int key);
  /// Collective: a new communicator of the same ranks, whose calls are independent of this one's.
  Result<Communicator> duplicate();
  /// A larger communicator: the ranks of this one keep their numbers, and new processes or threads join as ranks size()
  /// to new_size - 1 by create(id, rank, new_size). Called by all ranks of this one, which goes on to exist. The id is
  /// one that nobody has used; only rank 0's counts, the others may pass an empty one.
  Result<Communicator> grow(const UniqueId& id, int new_size);
  /// A new communicator of the ranks that are not in `excluded`, in their order. Called by exactly those ranks; after a
  /// failure, too: ranks known to be lost are excluded as well, and ranks that do not come within `patience` become
  /// lost. The excluded can no longer touch what the survivors use. This communicator is aborted by it. If a rank that
  /// may still run maps mem_alloc memory of this communicator, the call is refused with the reason, unless
  /// Settings::fence_excluded allows that its process is killed.
  Result<Communicator> shrink(std::span<const Rank> excluded = {},
                              std::chrono::milliseconds patience = std::chrono::seconds(5));

  /// Ends the communicator on all ranks at once, from any thread; running calls return kAborted with this reason. So do
  /// those of communicators that were split, duplicated or grown from this one.
  void abort(std::string_view reason = {});
  /// The same for this communicator alone: those that were made of it go on. shrink() can then make a new one of its
  /// ranks, also with nobody excluded.
  void revoke(std::string_view reason = {});
  /// Waits for queued work; collective only in that a rank's own work must have ended. The object is unusable
  /// afterwards.
  Status finalize();
  /// The error that ended the communicator, as soon as it is known here, also outside of calls; else ok. Any thread;
  /// cheap.
  Status async_error() const;

  /// What a call would do: algorithm, protocol, lanes, tile, transport per peer, number of roundings of an element, and
  /// why what ranks before it in the table was not taken. Text for people.
  std::string explain(Collective collective, std::size_t count, DataType type,
                      const Reduction& op = ReduceOp::kSum) const;
  /// How the ranks reach each other and how long each phase of the creation took. Text for people.
  std::string describe() const;

  const std::shared_ptr<CommunicatorState>& state() const { return state_; }
  explicit Communicator(std::shared_ptr<CommunicatorState> state);

 private:
  std::shared_ptr<CommunicatorState> state_;
};

/// A communicator that is being made. Movable; destroying it aborts it.
class PendingCommunicator {
 public:
  PendingCommunicator(PendingCommunicator&&) noexcept;
  PendingCommunicator& operator=(PendingCommunicator&&) noexcept;
  ~PendingCommunicator();

  /// True when wait() returns at once. Any thread.
  bool ready() const;
  /// The communicator, or why there is none. Once.
  Result<Communicator> wait();
  /// wait() returns kAborted at once; an exchange that is running is left to end by itself. Any thread.
  void abort();

  struct [[gnu::visibility("hidden")]] State;
  explicit PendingCommunicator(std::shared_ptr<State> state);

 private:
  std::shared_ptr<State> state_;
};

namespace detail {
Status unequal_spans(std::string_view what, std::size_t expected, std::size_t got);
}

template <class T>
Status Communicator::all_reduce(std::span<const T> input, std::span<T> output, const Reduction& op) {
  if (input.size() != output.size()) return detail::unequal_spans("all_reduce output", input.size(), output.size());
  return all_reduce(input.data(), output.data(), input.size(), data_type_of<T>(), op);
}

template <class T>
Status Communicator::all_reduce(std::span<T> buffer, const Reduction& op) {
  return all_reduce(buffer.data(), buffer.data(), buffer.size(), data_type_of<T>(), op);
}

template <class T>
Status Communicator::all_gather(std::span<const T> input, std::span<T> output) {
  const std::size_t n = static_cast<std::size_t>(size());
  if (output.size() != input.size() * n)
    return detail::unequal_spans("all_gather output", input.size() * n, output.size());
  return all_gather(input.data(), output.data(), input.size(), data_type_of<T>());
}

template <class T>
Status Communicator::reduce_scatter(std::span<const T> input, std::span<T> output, const Reduction& op) {
  const std::size_t n = static_cast<std::size_t>(size());
  if (input.size() != output.size() * n)
    return detail::unequal_spans("reduce_scatter input", output.size() * n, input.size());
  return reduce_scatter(input.data(), output.data(), output.size(), data_type_of<T>(), op);
}

template <class T>
Status Communicator::all_to_all(std::span<const T> input, std::span<T> output) {
  const std::size_t n = static_cast<std::size_t>(size());
  if (input.size() != output.size()) return detail::unequal_spans("all_to_all output", input.size(), output.size());
  if (input.size() % n != 0)
    return detail::unequal_spans("all_to_all input (a multiple of the size)", input.size() / n * n, input.size());
  return all_to_all(input.data(), output.data(), input.size() / n, data_type_of<T>());
}

template <class T>
Status Communicator::broadcast(std::span<T> buffer, Rank root) {
  return broadcast(buffer.data(), buffer.data(), buffer.size(), data_type_of<T>(), root);
}

template <class T>
Status Communicator::reduce(std::span<const T> input, std::span<T> output, Rank root, const Reduction& op) {
  if (rank() == root && input.size() != output.size())
    return detail::unequal_spans("reduce output", input.size(), output.size());
  return reduce(input.data(), output.data(), input.size(), data_type_of<T>(), op, root);
}

template <class T>
Status Communicator::gather(std::span<const T> input, std::span<T> output, Rank root) {
  const std::size_t n = static_cast<std::size_t>(size());
  if (rank() == root && output.size() != input.size() * n)
    return detail::unequal_spans("gather output", input.size() * n, output.size());
  return gather(input.data(), output.data(), input.size(), data_type_of<T>(), root);
}

template <class T>
Status Communicator::scatter(std::span<const T> input, std::span<T> output, Rank root) {
  const std::size_t n = static_cast<std::size_t>(size());
  if (rank() == root && input.size() != output.size() * n)
    return detail::unequal_spans("scatter input", output.size() * n, input.size());
  return scatter(input.data(), output.data(), output.size(), data_type_of<T>(), root);
}

template <class T>
Status Communicator::send(std::span<const T> input, Rank to) {
  return send(input.data(), input.size(), data_type_of<T>(), to);
}

template <class T>
Status Communicator::receive(std::span<T> output, Rank from) {
  return receive(output.data(), output.size(), data_type_of<T>(), from);
}

}  // namespace gnu::visibility("default")]]hocket
