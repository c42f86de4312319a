// SPDX-License-Identifier: Apache-2.0
// peers/harness.hpp: what every program of bench/compare has in common: it stays alive, and measures what it is told.
//
// A program is one library in one setting, with all its ranks. It is told what to do over a Unix socket by
// bench/compare, and sleeps in between, so that many of them take turns on the same cores within milliseconds. All time
// in the same way: batches of back-to-back calls of about 200 us, a meeting of all ranks before each batch, the slowest
// rank's time, the median over batches. Buffers are plain memory unless the library has memory of its own.
//
// Commands, one a line, and their answers ("ok KEY=VALUE..." or "no REASON"):
//   case COLLECTIVE TYPE BYTES OFFSET   makes buffers, OFFSET bytes off a page, runs once, checks: ok bytes= wrong=
//   time MICROSECONDS                   measures for about that long: ok median_us= min_us= batches= calls=
//   end                                 checks the buffers again and frees them: ok wrong=
//   probe                               a cache line between ranks 0 and 1, one way: ok line_ns=
//
// BYTES are as nccl-tests counts them: all_reduce and broadcast the buffer, the others the buffer of all ranks' parts.
// Errors end the program with a sentence on stderr: it is a measuring device, not a server.
// Uses nothing of hocket, so that it builds with an MPI's compiler alone.
#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace hocket::peers {

[[noreturn]] inline void give_up(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::fflush(stderr);
  std::_Exit(3);
}

inline double now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// ---- What is measured ----

enum class What { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBroadcast };
constexpr const char* kWhatNames[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"};
enum class Type { kFloat32, kFloat64, kInt32, kInt64, kBfloat16, kFloat16 };
constexpr const char* kTypeNames[] = {"float32", "float64", "int32", "int64", "bfloat16", "float16"};

inline bool is_short(Type type) {
  return type == Type::kBfloat16 || type == Type::kFloat16;
}
inline std::size_t size_of(Type type) {
  return is_short(type) ? 2 : type == Type::kFloat32 || type == Type::kInt32 ? 4 : 8;
}

/// One call. `count` is the elements of a rank's part, or of the buffer for all_reduce and broadcast; reductions are
/// sums; broadcast is from rank 0, in `output`.
struct Call {
  What what;
  Type type;
  std::size_t count;
  std::byte* input;
  std::byte* output;
};

/// A library in one setting. One object for each rank.
class Library {
 public:
  virtual ~Library() = default;
  /// Memory of `bytes`, the same on all ranks, zero; page-aligned. Called by all ranks together.
  virtual std::byte* allocate(std::size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) give_up("mmap of " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
    return static_cast<std::byte*>(memory);
  }
  virtual void release(std::byte* memory, std::size_t bytes) { munmap(memory, bytes); }
  /// Elements of 16 bits are no type of all compilers and libraries.
  virtual bool takes(Type type) const { return !is_short(type); }
  virtual void begin(const Call&) {}  ///< before the first of many equal calls
  virtual void call(const Call& call) = 0;
  virtual void finish() {}    ///< after the last
  virtual void progress() {}  ///< while other ranks may still be in a call
  /// The input is `output`, as in MPI_IN_PLACE: what a library has no other form of.
  virtual bool in_place(const Call&) const { return false; }
  /// Threads of its own do the work: then ranks sleep in meetings, and are not pinned.
  virtual bool has_threads() const { return false; }
};

struct Options {
  std::string socket;   ///< of bench/compare
  std::string segment;  ///< a file for memory that all ranks map
  int ranks = 0;        ///< for programs that start their own
  bool threads = false, symmetric = false;
  std::string setting;                  ///< what else a program may be told, such as an algorithm
  std::vector<std::string> namespaces;  ///< network namespaces for ranks in turn
};

inline Options parse_options(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--threads" || flag == "--symmetric") {
      (flag == "--threads" ? o.threads : o.symmetric) = true;
      continue;
    }
    if (i + 1 >= argc) give_up("no value after " + flag);
    const std::string value = argv[++i];
    if (flag == "--socket") {
      o.socket = value;
    } else if (flag == "--segment") {
      o.segment = value;
    } else if (flag == "--ranks") {
      o.ranks = std::atoi(value.c_str());
    } else if (flag == "--setting") {
      o.setting = value;
    } else if (flag == "--namespace") {
      o.namespaces.push_back(value);
    } else {
      give_up("unknown flag " + flag);
    }
  }
  if (o.socket.empty() || o.segment.empty()) give_up("this is started by bench/compare: --socket and --segment");
  return o;
}

// ---- Where ranks meet ----

constexpr int kMostRanks = 64, kMostBatches = 400;
constexpr std::size_t kPieceBytes = 16384;  // of an all-gather

struct Segment {
  alignas(128) std::atomic<std::uint32_t> arrived;
  alignas(128) std::atomic<std::uint32_t> generation;
  alignas(128) std::atomic<std::uint32_t> command;  // counts them
  char line[256];
  alignas(128) std::atomic<std::uint32_t> ball;
  alignas(128) double times[kMostRanks][kMostBatches];
  std::byte pieces[kMostRanks][kPieceBytes];
};

/// One rank's view of the segment. A meeting is a barrier; ranks spin while each has a core, yield otherwise, sleep
/// where the library's threads need the cores.
class Meeting {
 public:
  Meeting(const std::string& path, int rank, int ranks) : rank_(rank), ranks_(ranks) {
    if (ranks > kMostRanks) give_up("more ranks than " + std::to_string(kMostRanks));
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) crowded_ = ranks > CPU_COUNT(&allowed);
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(Segment)) != 0) give_up(path + ": " + std::strerror(errno));
    void* memory = mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) give_up(path + ": " + std::strerror(errno));
    segment_ = static_cast<Segment*>(memory);
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  ~Meeting() { munmap(segment_, sizeof(Segment)); }

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool crowded() const { return crowded_; }
  Segment& segment() { return *segment_; }
  void serve(Library* library) {
    library_ = library;
    sleep_ = library->has_threads();
  }

  void meet() {
    Segment& s = *segment_;
    const std::uint32_t now = s.generation.load(std::memory_order_acquire);
    if (s.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(ranks_)) {
      s.arrived.store(0, std::memory_order_relaxed);
      s.generation.store(now + 1, std::memory_order_release);
      if (sleep_) futex(s.generation, FUTEX_WAKE, INT_MAX);
      return;
    }
    for (unsigned turns = 1; s.generation.load(std::memory_order_acquire) == now; ++turns) {
      if (sleep_) {
        futex(s.generation, FUTEX_WAIT, now);
        continue;
      }
      if (library_ != nullptr && turns % 16 == 0) library_->progress();
      if (crowded_ || turns > 20000) {
        sched_yield();
      } else {
        relax();
      }
    }
  }

  /// Every rank's `bytes` one after the other, to all.
  void all_gather(const void* mine, std::size_t bytes, void* all) {
    for (std::size_t done = 0; done < bytes || (bytes == 0 && done == 0); done += kPieceBytes) {
      const std::size_t piece = std::min(kPieceBytes, bytes - done);
      if (piece > 0) std::memcpy(segment_->pieces[rank_], static_cast<const std::byte*>(mine) + done, piece);
      meet();
      for (int r = 0; r < ranks_ && piece > 0; ++r)
        std::memcpy(static_cast<std::byte*>(all) + static_cast<std::size_t>(r) * bytes + done, segment_->pieces[r],
                    piece);
      meet();
    }
  }

  double greatest(double mine) {
    segment_->times[rank_][0] = mine;
    meet();
    double most = mine;
    for (int r = 0; r < ranks_; ++r) most = std::max(most, segment_->times[r][0]);
    meet();
    return most;
  }
  double sum(double mine) {
    segment_->times[rank_][0] = mine;
    meet();
    double all = 0;
    for (int r = 0; r < ranks_; ++r) all += segment_->times[r][0];
    meet();
    return all;
  }

  /// Rank 0 has the next command in the segment; the others wait for it, asleep.
  void publish(const std::string& line) {
    std::snprintf(segment_->line, sizeof segment_->line, "%s", line.c_str());
    segment_->command.fetch_add(1, std::memory_order_release);
    futex(segment_->command, FUTEX_WAKE, INT_MAX);
  }
  std::string next(std::uint32_t heard) {
    while (segment_->command.load(std::memory_order_acquire) == heard) futex(segment_->command, FUTEX_WAIT, heard);
    return segment_->line;
  }

 private:
  static void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
    syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
  }

  const int rank_, ranks_;
  bool crowded_ = false, sleep_ = false;
  Segment* segment_ = nullptr;
  Library* library_ = nullptr;
};

// ---- Contents ----

// Small whole numbers: sums of all ranks are exact in every type.
inline double base_value(std::size_t i) {
  return static_cast<double>((i ^ (i >> 7)) & 31);
}

/// A 16-bit float with so many bits of exponent; for values that it holds exactly, as small whole numbers are.
template <int exponent_bits>
struct Short {
  std::uint16_t bits = 0;
  Short() = default;
  explicit Short(double value) {
    constexpr int kFraction = 15 - exponent_bits;
    constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
    if (value == 0) return;
    int exponent = 0;
    const double fraction = 2 * std::frexp(value < 0 ? -value : value, &exponent);  // 1 to 2
    bits = static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) | (exponent - 1 + kBias) << kFraction);
    bits = static_cast<std::uint16_t>(bits + std::lround((fraction - 1) * (1 << kFraction)));
  }
  friend bool operator!=(Short a, Short b) { return a.bits != b.bits; }
};

template <class T>
void write_values(std::byte* to, std::size_t count, double add) {
  T* out = reinterpret_cast<T*>(to);
  for (std::size_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(base_value(i) + add);
    std::memcpy(out + i, &value, sizeof value);
  }
}
template <class T>
std::size_t wrong_values(const std::byte* from, std::size_t count, std::size_t first, double times, double add) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    wrong += value != static_cast<T>(times * base_value(first + i) + add);
  }
  return wrong;
}
template <class Function>
auto with_type(Type type, const Function& f) {
  switch (type) {
    case Type::kFloat64: return f(double{});
    case Type::kInt32: return f(std::int32_t{});
    case Type::kInt64: return f(std::int64_t{});
    default: return f(float{});
  }
}

/// Those of 16 bits as well.
template <class Function>
auto with_any_type(Type type, const Function& f) {
  switch (type) {
    case Type::kBfloat16: return f(Short<8>{});
    case Type::kFloat16: return f(Short<5>{});
    default: return with_type(type, f);
  }
}

// ---- Measuring ----

class Server {
 public:
  Server(Library& library, Meeting& meeting, const Options& options) : library_(library), meeting_(meeting) {
    meeting.serve(&library);
    if (meeting.rank() != 0) return;
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (options.socket.size() >= sizeof address.sun_path) give_up(options.socket + ": too long a path");
    std::memcpy(address.sun_path, options.socket.c_str(), options.socket.size() + 1);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      give_up(options.socket + ": " + std::strerror(errno));
  }

  /// Until bench/compare closes the socket.
  void run() {
    // Before the meeting: rank 0 may publish the first command as soon as it leaves.
    std::uint32_t heard = meeting_.segment().command.load();
    meeting_.meet();
    answer("ok ready");
    for (;; ++heard) {
      std::string line;
      if (meeting_.rank() == 0) {
        line = read_line();
        meeting_.publish(line);
      } else {
        line = meeting_.next(heard);
      }
      if (line == "quit") break;
      obey(line);
    }
    meeting_.meet();
  }

 private:
  std::string read_line() {
    std::size_t end;
    while ((end = input_.find('\n')) == std::string::npos) {
      char more[256];
      const ssize_t n = read(socket_, more, sizeof more);
      if (n <= 0) return "quit";
      input_.append(more, static_cast<std::size_t>(n));
    }
    const std::string line = input_.substr(0, end);
    input_.erase(0, end + 1);
    return line;
  }
  void answer(const std::string& text) {
    if (meeting_.rank() != 0) return;
    const std::string line = text + "\n";
    if (write(socket_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::_Exit(0);
  }

  void obey(const std::string& line) {
    char what[32] = {}, type[32] = {};
    unsigned long long bytes = 0, offset = 0;
    double budget = 0;
    if (std::sscanf(line.c_str(), "case %31s %31s %llu %llu", what, type, &bytes, &offset) == 4) {
      begin(what, type, bytes, offset);
    } else if (std::sscanf(line.c_str(), "time %lf", &budget) == 1) {
      measure(budget);
    } else if (line == "end") {
      end();
    } else if (line == "probe") {
      probe();
    } else {
      answer("no such command");
    }
  }

  template <std::size_t n>
  static int index_of(const char* const (&names)[n], const std::string& name) {
    for (std::size_t i = 0; i < n; ++i)
      if (name == names[i]) return static_cast<int>(i);
    return -1;
  }

  void begin(const std::string& what, const std::string& type, std::size_t bytes, std::size_t offset) {
    const int w = index_of(kWhatNames, what), t = index_of(kTypeNames, type);
    if (w < 0 || t < 0 || !library_.takes(static_cast<Type>(t))) return answer("no such collective or type");
    if (open_) return answer("no: a case is open");
    const auto ranks = static_cast<std::size_t>(meeting_.ranks());
    call_.what = static_cast<What>(w);
    call_.type = static_cast<Type>(t);
    const std::size_t element = size_of(call_.type);
    const bool parts = call_.what != What::kAllReduce && call_.what != What::kBroadcast;
    call_.count = std::max<std::size_t>(1, bytes / element / (parts ? ranks : 1));
    whole_ = call_.count * (parts ? ranks : 1);
    // A page more, as malloc takes it for its header: buffers exactly a power of two apart are slower on some machines.
    held_ = (whole_ * element + offset + 4095) / 4096 * 4096 + 4096;
    input_memory_ = library_.allocate(held_);
    output_memory_ = library_.allocate(held_);
    call_.input = input_memory_ + offset;
    call_.output = output_memory_ + offset;
    open_ = true;
    calls_ = 0;
    library_.begin(call_);
    const double wrong = checked_call();
    answer("ok bytes=" + std::to_string(whole_ * element) + " wrong=" + std::to_string(static_cast<long long>(wrong)));
  }

  void end() {
    if (!open_) return answer("no case is open");
    const double wrong = checked_call();
    library_.finish();
    library_.release(input_memory_, held_);
    library_.release(output_memory_, held_);
    open_ = false;
    answer("ok wrong=" + std::to_string(static_cast<long long>(wrong)));
  }

  /// How many elements one call leaves wrong, on all ranks together.
  double checked_call() {
    fill();
    meeting_.meet();
    library_.call(call_);
    meeting_.meet();
    const double wrong = meeting_.sum(static_cast<double>(wrong_here()));
    // From here on calls repeat. In place, sums that start at 0 stay finite.
    if (library_.in_place(call_)) std::memset(call_.output, 0, whole_ * size_of(call_.type));
    return wrong;
  }

  double batch(int calls) {
    meeting_.meet();
    const double start = now_us();
    for (int i = 0; i < calls; ++i) library_.call(call_);
    return (now_us() - start) / calls;
  }
  static int calls_for(double us) { return std::clamp(static_cast<int>(200 / std::max(us, 0.02)), 1, 2000); }

  void measure(double budget) {
    if (!open_) return answer("no case is open");
    // Also the caches' warm-up after whoever ran before. The first guess may be far off, as that call was cold.
    double us = meeting_.greatest(batch(std::max(calls_, 1)));
    for (int i = 0; i < 3 && us < 2000; ++i) {
      calls_ = calls_for(us);
      us = std::min(us, meeting_.greatest(batch(calls_)));
    }
    calls_ = calls_for(us);
    const int batches = std::clamp(static_cast<int>(budget / (us * calls_)), 3, kMostBatches);
    double* mine = meeting_.segment().times[meeting_.rank()];
    for (int b = 0; b < batches; ++b) mine[b] = batch(calls_);
    meeting_.meet();
    if (meeting_.rank() == 0) {
      std::vector<double> slowest(mine, mine + batches);
      for (int r = 1; r < meeting_.ranks(); ++r)
        for (int b = 0; b < batches; ++b)
          slowest[static_cast<std::size_t>(b)] =
              std::max(slowest[static_cast<std::size_t>(b)], meeting_.segment().times[r][b]);
      std::sort(slowest.begin(), slowest.end());
      const std::size_t n = slowest.size();
      char text[160];
      std::snprintf(text, sizeof text, "ok median_us=%.5f min_us=%.5f batches=%d calls=%d",
                    (slowest[(n - 1) / 2] + slowest[n / 2]) / 2, slowest[0], batches, calls_);
      meeting_.meet();
      answer(text);
    } else {
      meeting_.meet();
    }
  }

  void probe() {
    constexpr int kRounds = 300, kRepetitions = 7;
    std::vector<double> times;
    std::atomic<std::uint32_t>& ball = meeting_.segment().ball;
    if (meeting_.rank() == 0) ball.store(0);
    for (int repetition = 0; repetition < kRepetitions; ++repetition) {
      meeting_.meet();
      const double start = now_us();
      std::uint32_t value = static_cast<std::uint32_t>(repetition) * 2 * kRounds;
      for (int i = 0; i < kRounds; ++i, value += 2) {
        const auto wait = [&](std::uint32_t until) {
          while (ball.load(std::memory_order_acquire) != until) relax();
        };
        if (meeting_.rank() == 0) {
          ball.store(value + 1, std::memory_order_release);
          wait(value + 2);
        } else if (meeting_.rank() == 1) {
          wait(value + 1);
          ball.store(value + 2, std::memory_order_release);
        }
      }
      times.push_back((now_us() - start) * 1e3 / kRounds / 2);
    }
    meeting_.meet();
    std::sort(times.begin(), times.end());
    answer("ok line_ns=" + std::to_string(times[times.size() / 2]));
  }

  void fill() {
    const int me = meeting_.rank(), ranks = meeting_.ranks();
    const std::size_t element = size_of(call_.type);
    std::memset(call_.output, 0x7f, whole_ * element);
    with_any_type(call_.type, [&](auto zero) {
      using T = decltype(zero);
      if (call_.what == What::kAllToAll) {
        for (int to = 0; to < ranks; ++to)
          write_values<T>(call_.input + static_cast<std::size_t>(to) * call_.count * element, call_.count,
                          me + 100 * to);
      } else {
        const bool one = call_.what == What::kAllGather;
        write_values<T>(call_.input, one ? call_.count : whole_, me);
      }
      if (call_.what == What::kBroadcast && me == 0) write_values<T>(call_.output, call_.count, 7);
    });
    if (library_.in_place(call_)) std::memcpy(call_.output, call_.input, whole_ * element);
  }

  std::size_t wrong_here() const {
    const int me = meeting_.rank(), ranks = meeting_.ranks();
    const std::size_t part = call_.count * size_of(call_.type);
    const double others = ranks * (ranks - 1) / 2.0;
    return with_any_type(call_.type, [&](auto zero) {
      using T = decltype(zero);
      std::size_t wrong = 0;
      switch (call_.what) {
        case What::kAllReduce: return wrong_values<T>(call_.output, call_.count, 0, ranks, others);
        case What::kReduceScatter:
          return wrong_values<T>(call_.output, call_.count, static_cast<std::size_t>(me) * call_.count, ranks, others);
        case What::kBroadcast: return wrong_values<T>(call_.output, call_.count, 0, 1, 7);
        default:
          for (int r = 0; r < ranks; ++r)
            wrong += wrong_values<T>(call_.output + static_cast<std::size_t>(r) * part, call_.count, 0, 1,
                                     call_.what == What::kAllToAll ? r + 100 * me : r);
          return wrong;
      }
    });
  }

  Library& library_;
  Meeting& meeting_;
  int socket_ = -1;
  std::string input_;
  Call call_{};
  std::size_t whole_ = 0, held_ = 0;
  std::byte *input_memory_ = nullptr, *output_memory_ = nullptr;
  bool open_ = false;
  int calls_ = 0;
};

// ---- Ranks ----

/// Rank i on the i-th core that may be used, while there is one for each; else wherever the kernel likes.
inline void place(int rank, int ranks, bool pin) {
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || !pin || ranks > CPU_COUNT(&allowed)) return;
  int left = rank;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed) && left-- == 0) CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
}

/// `rank_main` for every rank, in processes or threads of their own. Returns the exit status.
inline int start_ranks(const Options& o, const std::function<void(int rank)>& rank_main) {
  if (o.ranks < 1 || o.ranks > kMostRanks) give_up("--ranks: from 1 to " + std::to_string(kMostRanks));
  if (o.threads) {
    std::vector<std::thread> threads;
    for (int r = 0; r < o.ranks; ++r) threads.emplace_back(rank_main, r);
    for (std::thread& thread : threads) thread.join();
    return 0;
  }
  std::vector<pid_t> children;
  for (int r = 0; r < o.ranks; ++r) {
    const pid_t child = fork();
    if (child < 0) give_up(std::string("fork: ") + std::strerror(errno));
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (!o.namespaces.empty()) {
        const std::string path = "/run/netns/" + o.namespaces[static_cast<std::size_t>(r) % o.namespaces.size()];
        const int space = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (space < 0 || syscall(SYS_setns, space, 0x40000000 /* CLONE_NEWNET */) != 0)
          give_up(path + ": " + std::strerror(errno));
      }
      rank_main(r);
      std::fflush(nullptr);
      std::_Exit(0);
    }
    children.push_back(child);
  }
  int status = 0;
  for (std::size_t left = children.size(); left > 0; --left) {
    int how = 0;
    if (waitpid(-1, &how, 0) < 0) break;
    if (how == 0) continue;
    // One rank less, and the others would wait for it for ever.
    if (status == 0)
      for (const pid_t child : children) kill(child, SIGKILL);
    status = 1;
  }
  return status;
}

}  // namespace hocket::peers
