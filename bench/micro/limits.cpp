// SPDX-License-Identifier: Apache-2.0
// micro/limits.cpp: what the machine allows, measured by the harness of bench/compare beside the libraries: the bare
// data movement of each collective when every rank loads and stores every other's buffers (direct access), and as many
// meetings of all ranks in each call as --setting says, a cache line each way. With one (the default) each rank knows
// when its output is complete and its input may change; a library needs a second one, since no rank may touch another's
// buffers before that one has come; none is what memory and caches alone allow. No staging. No library is faster where
// its buffers are this large; where a line's way from core to core counts (small messages), the harness's `probe` is
// the limit.
//
// all_reduce: rank r reduces part r of all inputs and stores it in all outputs. all_gather, all_to_all: each copies
// what it gets. reduce_scatter: each reduces its part. broadcast: each but the root copies. Stores go past the caches
// once outputs and inputs together are larger than the last one.
#include <cmath>

#include "bench/peers/harness.hpp"

#if defined(__AVX512F__) || defined(__AVX__)
#include <immintrin.h>
#define LIMITS_STREAMS 1
#endif

namespace {

using namespace hocket::peers;

constexpr std::size_t kLine = 64;

/// A line's worth of elements; the compiler makes what vector registers there are of it.
template <class T>
struct LineOf {
  typedef T Vector __attribute__((vector_size(kLine)));
  static Vector load(const T* from) {
    Vector v;
    std::memcpy(&v, from, kLine);
    return v;
  }
  static void store(T* to, const Vector& v) { std::memcpy(to, &v, kLine); }
  /// Past the caches; `to` is aligned to a line.
  static void stream(T* to, const Vector& v) {
#if defined(__AVX512F__)
    __m512i line;
    std::memcpy(&line, &v, kLine);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line);
#elif defined(__AVX__)
    __m256i halves[2];
    std::memcpy(halves, &v, kLine);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), halves[0]);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to) + 1, halves[1]);
#else
    store(to, v);
#endif
  }
};

void fence() {
#ifdef LIMITS_STREAMS
  _mm_sfence();
#endif
}

bool on_a_line(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kLine == 0;
}

void copy(std::byte* to, const std::byte* from, std::size_t bytes, bool past_caches) {
  if (!past_caches || !on_a_line(to)) {
    std::memcpy(to, from, bytes);
    return;
  }
  using Line = LineOf<unsigned char>;
  auto* out = reinterpret_cast<unsigned char*>(to);
  const auto* in = reinterpret_cast<const unsigned char*>(from);
  std::size_t i = 0;
  for (; i + kLine <= bytes; i += kLine) Line::stream(out + i, Line::load(in + i));
  std::memcpy(out + i, in + i, bytes - i);
  fence();
}

/// The sum of all sources, line by line, into all targets. `fixed` is their number where the compiler is to know it.
template <class T, bool past_caches, int fixed>
void reduce_lines(T* const* targets, std::size_t target_count, const T* const* sources, std::size_t source_count,
                  std::size_t count) {
  using Line = LineOf<T>;
  constexpr std::size_t kStep = kLine / sizeof(T);
  if constexpr (fixed > 0) source_count = fixed;
  const T *first = sources[0], *second = sources[source_count - 1];
  T *near = targets[0], *other = targets[target_count - 1];
  for (std::size_t i = 0; i + kStep <= count; i += kStep) {
    typename Line::Vector sum = Line::load(first + i);
    if constexpr (fixed == 2) {
      sum += Line::load(second + i);
      past_caches ? Line::stream(near + i, sum) : Line::store(near + i, sum);
      if (target_count == 2) past_caches ? Line::stream(other + i, sum) : Line::store(other + i, sum);
    } else {
      for (std::size_t s = 1; s < source_count; ++s) sum += Line::load(sources[s] + i);
      for (std::size_t t = 0; t < target_count; ++t)
        past_caches ? Line::stream(targets[t] + i, sum) : Line::store(targets[t] + i, sum);
    }
  }
  for (std::size_t i = count / kStep * kStep; i < count; ++i) {
    T sum = first[i];
    for (std::size_t s = 1; s < source_count; ++s) sum += sources[s][i];
    for (std::size_t t = 0; t < target_count; ++t) targets[t][i] = sum;
  }
}

template <class T>
void reduce(T* const* targets, std::size_t target_count, const T* const* sources, std::size_t source_count,
            std::size_t count, bool past_caches) {
  for (std::size_t t = 0; t < target_count; ++t) past_caches = past_caches && on_a_line(targets[t]);
  if (source_count == 2) {
    past_caches ? reduce_lines<T, true, 2>(targets, target_count, sources, 2, count)
                : reduce_lines<T, false, 2>(targets, target_count, sources, 2, count);
  } else {
    past_caches ? reduce_lines<T, true, 0>(targets, target_count, sources, source_count, count)
                : reduce_lines<T, false, 0>(targets, target_count, sources, source_count, count);
  }
  if (past_caches) fence();
}

/// Memory that all ranks have at the same addresses: mapped before they are forked. Each rank has its share; both
/// buffers of a case are cut from it.
struct Shared {
  // Not a round number: on some processors (AMD's way predictor) two addresses whose low 28 bits are equal push each
  // other out of the first cache, which costs 5 times here, and would not happen to buffers of separate programs.
  static constexpr std::size_t kShareBytes = (std::size_t{3} << 30) + std::size_t{5003} * 4096;
  std::byte* base = nullptr;
  /// How often each rank has come to a meeting; 128 bytes apart.
  struct alignas(128) Arrival {
    std::atomic<std::uint64_t> count;
  };
  Arrival* arrivals = nullptr;

  explicit Shared(int ranks) {
    const std::size_t all = kShareBytes * static_cast<std::size_t>(ranks);
    void* memory = mmap(nullptr, all + sizeof(Arrival) * kMostRanks, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) give_up(std::string("mmap: ") + std::strerror(errno));
    base = static_cast<std::byte*>(memory);
    arrivals = reinterpret_cast<Arrival*>(base + all);
  }
};

class Limits : public Library {
 public:
  Limits(Shared& shared, Meeting& meeting, int meetings)
      : shared_(shared),
        me_(meeting.rank()),
        ranks_(meeting.ranks()),
        meetings_(meetings),
        crowded_(meeting.crowded()) {
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    cache_bytes_ = cache > 0 ? static_cast<std::size_t>(cache) : std::size_t{32} << 20;
  }

  std::byte* allocate(std::size_t bytes) override {
    if (used_ + bytes > Shared::kShareBytes) give_up("buffers of more than 3 GiB");
    std::byte* mine = share(me_) + used_;
    used_ += (bytes + 4095) / 4096 * 4096;
    return mine;
  }
  void release(std::byte* memory, std::size_t bytes) override {
    madvise(memory, bytes, MADV_REMOVE);
    used_ = 0;
  }

  void call(const Call& c) override {
    if (meetings_ > 1) meet();
    with_type(c.type, [&](auto zero) { move<decltype(zero)>(c); });
    if (meetings_ > 0) meet();
  }

 private:
  void meet() {
    shared_.arrivals[me_].count.store(++met_, std::memory_order_release);
    for (int r = 0; r < ranks_; ++r)
      while (shared_.arrivals[r].count.load(std::memory_order_acquire) < met_) crowded_ ? void(sched_yield()) : relax();
  }
  std::byte* share(int rank) const { return shared_.base + Shared::kShareBytes * static_cast<std::size_t>(rank); }
  /// The same place in another rank's memory.
  template <class T>
  T* at(int rank, std::byte* mine) const {
    return reinterpret_cast<T*>(share(rank) + (mine - share(me_)));
  }

  template <class T>
  void move(const Call& c) {
    const auto ranks = static_cast<std::size_t>(ranks_);
    const std::size_t part_bytes = c.count * sizeof(T);
    const bool parts = c.what != What::kAllReduce && c.what != What::kBroadcast;
    const bool past_caches = 2 * part_bytes * ranks * (parts ? ranks : 1) > cache_bytes_;
    const T* sources[kMostRanks] = {};
    T* targets[kMostRanks] = {};
    switch (c.what) {
      case What::kAllReduce: {
        constexpr std::size_t kUnit = 64 / sizeof(T);
        const std::size_t units = (c.count + kUnit - 1) / kUnit, me = static_cast<std::size_t>(me_);
        const std::size_t from = std::min(units * me / ranks * kUnit, c.count);
        const std::size_t to = std::min(units * (me + 1) / ranks * kUnit, c.count);
        for (std::size_t r = 0; r < ranks; ++r) {
          sources[r] = at<T>(static_cast<int>(r), c.input) + from;
          targets[r] = at<T>(static_cast<int>(r), c.output) + from;
        }
        return reduce(targets, ranks, sources, ranks, to - from, past_caches);
      }
      case What::kReduceScatter:
        for (std::size_t r = 0; r < ranks; ++r)
          sources[r] = at<T>(static_cast<int>(r), c.input) + c.count * static_cast<std::size_t>(me_);
        targets[0] = reinterpret_cast<T*>(c.output);
        return reduce(targets, 1, sources, ranks, c.count, past_caches);
      case What::kAllGather:
        for (int r = 0; r < ranks_; ++r)
          copy(c.output + static_cast<std::size_t>(r) * part_bytes, at<std::byte>(r, c.input), part_bytes, past_caches);
        return;
      case What::kAllToAll:
        for (int r = 0; r < ranks_; ++r)
          copy(c.output + static_cast<std::size_t>(r) * part_bytes,
               at<std::byte>(r, c.input) + static_cast<std::size_t>(me_) * part_bytes, part_bytes, past_caches);
        return;
      case What::kBroadcast:
        if (me_ != 0) copy(c.output, at<std::byte>(0, c.output), part_bytes, past_caches);
        return;
    }
  }

  Shared& shared_;
  const int me_, ranks_, meetings_;
  const bool crowded_;
  std::uint64_t met_ = 0;
  std::size_t cache_bytes_ = 0, used_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  Shared shared(options.ranks);
  return start_ranks(options, [&](int rank) {
    Meeting meeting(options.segment, rank, options.ranks);
    place(rank, options.ranks, true);
    Limits library(shared, meeting, options.setting.empty() ? 1 : std::atoi(options.setting.c_str()));
    Server(library, meeting, options).run();
  });
}
