// SPDX-License-Identifier: Apache-2.0
// support/faults.hpp: what tests of failures share: a program of mixed collectives whose results are checked, memory
// that a parent and its ranks both see, and how long is too long.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "base/os/clock.hpp"
#include "core/communicator_state.hpp"
#include "hocket/hocket.hpp"
#include "support/processes.hpp"

namespace hocket::test {

/// Bounds in time hold on a machine that is not slowed down. Sanitizers slow it down; HOCKET_TEST_PATIENCE (a factor)
/// says that something else does.
inline double patience() {
  double factor = 1;
  if (const char* text = std::getenv("HOCKET_TEST_PATIENCE")) factor = std::max(1.0, std::strtod(text, nullptr));
#if HOCKET_TEST_TSAN || defined(__SANITIZE_ADDRESS__)
  factor *= 5;
#endif
  return factor;
}

inline int repeats(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::max(1, std::atoi(text)) : otherwise;
}

/// The ways between processes of one host, as HOCKET_TRANSPORT names them.
inline constexpr const char* kProcessTransports[] = {"shm", "tcp"};

/// Settings of ranks that are processes and reach each other by `transport` only.
inline Settings settings_for(std::string_view transport) {
  Settings settings;
  settings.transport = transport;
  settings.tcp_streams = 2;
  return settings;
}

/// Whether all peers are reached by `transport`: a test that runs over another one than it says shows nothing.
inline bool all_peers_by(const Communicator& comm, std::string_view transport) {
  for (Rank p = 0; p < comm.size(); ++p)
    if (p != comm.rank() && comm.state()->channels->peer(p).endpoint->transport() != transport) return false;
  return true;
}

/// The all-gather of a test's ranks as Communicator::create takes it.
inline hocket::Exchange exchange_of(const RankContext& context) {
  return [context](std::span<const std::byte> mine, std::span<std::byte> all) -> Status {
    if (context.exchange(mine.data(), mine.size(), all.data())) return {};
    return Status(Code::kPeerLost, "a rank ended while the ranks met");
  };
}

/// A zeroed T that the parent and the ranks that it forks afterwards all see.
template <class T>
class Shared {
 public:
  Shared() {
    void* memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    value_ = new (memory) T();
  }
  ~Shared() { ::munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  static_assert(std::is_trivially_destructible_v<T>);
  T* value_;
};

/// A line that one process writes and another reads.
struct SharedText {
  std::atomic<std::int64_t> at_ns;  ///< when it was written; 0: not yet
  std::int32_t code;
  char text[2048];

  void set(std::string_view line, Code status = Code::kOk) {
    const std::int64_t now = os::now_ns();
    code = static_cast<std::int32_t>(status);
    const std::size_t n = std::min(line.size(), sizeof text - 1);
    std::memcpy(text, line.data(), n);
    text[n] = '\0';
    at_ns.store(now, std::memory_order_release);
  }
  bool is_set() const { return at_ns.load(std::memory_order_acquire) != 0; }
};

/// What element i of rank r's input of call k holds.
constexpr std::int32_t mixed_value(int r, std::uint64_t k, std::size_t i) {
  return static_cast<std::int32_t>((static_cast<std::uint64_t>(r) * 131 + k * 29 + i * 7) % 1009);
}

/// Call k of a program that is the same on all ranks: all collectives in turn, counts from 1 to `largest`. When it
/// succeeded its output is checked, and `wrong` grows by the elements that are not what they must be.
inline Status mixed_call(Communicator& comm, std::uint64_t k, std::uint64_t* wrong, std::size_t largest = 20000,
                         Stream* stream = nullptr) {
  const int n = comm.size(), me = comm.rank();
  const auto ranks = static_cast<std::size_t>(n), mine = static_cast<std::size_t>(me);
  const std::size_t counts[] = {1, 3, 12, 64, 257, 1000, 5003, 20000, largest};
  const std::size_t count = std::min(counts[(k * 5 + k / 8) % std::size(counts)], largest);
  const auto filled = [&](int rank, std::size_t elements, std::size_t from = 0) {
    std::vector<std::int32_t> v(elements);
    for (std::size_t i = 0; i < elements; ++i) v[i] = mixed_value(rank, k, from + i);
    return v;
  };
  const auto summed = [&](std::size_t elements, std::size_t from = 0) {
    std::vector<std::int32_t> v(elements);
    for (int r = 0; r < n; ++r)
      for (std::size_t i = 0; i < elements; ++i) v[i] += mixed_value(r, k, from + i);
    return v;
  };
  constexpr DataType type = DataType::kInt32;
  constexpr ReduceOp sum = ReduceOp::kSum;
  const auto ended = [&](Status status) { return status.ok() && stream != nullptr ? stream->synchronize() : status; };
  std::vector<std::int32_t> in, out, expected;
  const Rank root = static_cast<Rank>(k / 8 % ranks);
  Status status;
  switch (k % 8) {
    case 0:
      in = filled(me, count), out.resize(count), expected = summed(count);
      status = ended(stream ? comm.all_reduce(in.data(), out.data(), count, type, sum, *stream)
                            : comm.all_reduce(in.data(), out.data(), count, type, sum));
      break;
    case 1:
      in = filled(me, count), out.resize(count * ranks);
      for (int r = 0; r < n; ++r)
        for (const std::int32_t v : filled(r, count)) expected.push_back(v);
      status = ended(stream ? comm.all_gather(in.data(), out.data(), count, type, *stream)
                            : comm.all_gather(in.data(), out.data(), count, type));
      break;
    case 2:
      in = filled(me, count * ranks), out.resize(count), expected = summed(count, count * mine);
      status = ended(stream ? comm.reduce_scatter(in.data(), out.data(), count, type, sum, *stream)
                            : comm.reduce_scatter(in.data(), out.data(), count, type, sum));
      break;
    case 3:
      in = filled(me, count * ranks), out.resize(count * ranks);
      for (int r = 0; r < n; ++r)
        for (const std::int32_t v : filled(r, count, count * mine)) expected.push_back(v);
      status = ended(stream ? comm.all_to_all(in.data(), out.data(), count, type, *stream)
                            : comm.all_to_all(in.data(), out.data(), count, type));
      break;
    case 4:
      in = me == root ? filled(root, count) : std::vector<std::int32_t>(count);
      out.resize(count), expected = filled(root, count);
      status = ended(stream ? comm.broadcast(in.data(), out.data(), count, type, root, *stream)
                            : comm.broadcast(in.data(), out.data(), count, type, root));
      break;
    case 5:
      in = filled(me, count), out.resize(count), expected = me == root ? summed(count) : out;
      status = ended(stream ? comm.reduce(in.data(), out.data(), count, type, sum, root, *stream)
                            : comm.reduce(in.data(), out.data(), count, type, sum, root));
      break;
    case 6: return ended(stream ? comm.barrier(*stream) : comm.barrier());
    default: {
      if (n == 1) return {};
      // Around a ring; a send returns when it was taken, so somebody must receive first.
      const Rank next = (me + 1) % n, before = (me + n - 1) % n;
      in = filled(me, count), out.resize(count), expected = filled(before, count);
      const auto send = [&] {
        return ended(stream ? comm.send(in.data(), count, type, next, *stream)
                            : comm.send(in.data(), count, type, next));
      };
      const auto receive = [&] {
        return ended(stream ? comm.receive(out.data(), count, type, before, *stream)
                            : comm.receive(out.data(), count, type, before));
      };
      status = me % 2 == 0 ? send() : receive();
      if (status.ok()) status = me % 2 == 0 ? receive() : send();
      break;
    }
  }
  if (status.ok())
    for (std::size_t i = 0; i < out.size(); ++i) *wrong += out[i] != expected[i];
  return status;
}

/// Whether `text` names this rank as "rank 2 (pid 17 on …)".
inline bool names(std::string_view text, int rank, pid_t pid) {
  return text.find("rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + " on ") != std::string_view::npos;
}
/// Whether it names this rank so and no other.
inline bool names_only(std::string_view text, int rank, pid_t pid) {
  const auto count = [text](const std::string& what) {
    int found = 0;
    for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  const int here = count("rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + " on ");
  return here > 0 && here == count(" (pid ");
}

}  // namespace hocket::test
