// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/runner.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include "algorithms/registry.hpp"
#include "algorithms/select.hpp"
#include "base/os/clock.hpp"
#include "base/os/mapping.hpp"
#include "base/status.hpp"
#include "bench/perf/values.hpp"
#include "core/communicator_state.hpp"

namespace hocket::perf {
namespace {

constexpr double kBatchSeconds = 200e-6;
constexpr int kMostCalls = 400;
constexpr double kIterationsSeconds = 50e-3;
constexpr int kFewestIterations = 5, kMostIterations = 1000;
constexpr double kWarmupSeconds = 100e-3;
constexpr int kWarmups = 5;

double seconds_since(std::int64_t start_ns) {
  return static_cast<double>(os::now_ns() - start_ns) * 1e-9;
}

// One communicator under test, with memory for the largest size.
struct Subject {
  std::string algorithm;  ///< forced; empty: hocket's own choice
  Communicator communicator;
  os::Mapping plain_input, plain_output;
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  bool fits = true;
};

// What is measured now.
struct Task {
  DataType type;
  ReduceOp op;
  Rank root;
  std::size_t count;
  bool in_place;
};

class Runner {
 public:
  Runner(const Options& options, const Participant& participant)
      : options_(options), me_(participant), collective_(*options.collective) {}

  Result<std::size_t> run() {
    HOCKET_TRY(agree(pin()));
    HOCKET_TRY(agree(introduce()));
    HOCKET_TRY(make_subjects());
    std::vector<Rank> roots = {0};
    if (collective_.rooted && options_.root) roots = {*options_.root};
    if (collective_.rooted && !options_.root) {
      roots.clear();
      for (Rank r = 0; r < me_.size; ++r) roots.push_back(r);
    }
    std::size_t wrong = 0;
    for (const DataType type : options_.types) {
      for (const ReduceOp op : options_.ops) {
        for (const Rank root : roots) {
          for (const std::size_t count : counts_of(options_, type, me_.size)) {
            HOCKET_ASSIGN(const std::size_t more, run_size(type, op, root, count));
            wrong += more;
          }
        }
        if (collective_.no_data) break;
      }
      if (collective_.no_data) break;
    }
    if (me_.report) me_.report->foot();
    Status finalized;
    for (Subject& subject : subjects_) {
      if (Status status = subject.communicator.finalize(); finalized.ok()) finalized = std::move(status);
    }
    // Nobody leaves while others still have their communicators: a process that ends is a lost peer to these.
    HOCKET_TRY(agree(finalized));
    return wrong;
  }

  // The communicators end on all ranks, so that nobody waits for this one.
  void abort(const Status& status) {
    for (Subject& subject : subjects_) subject.communicator.abort(status.text());
  }

 private:
  // -- Between ranks, beside what is measured --

  template <class T>
  Result<std::vector<T>> gather(std::span<const T> mine) {
    std::vector<T> all(mine.size() * static_cast<std::size_t>(me_.size));
    HOCKET_TRY(me_.exchange(std::as_bytes(mine), std::as_writable_bytes(std::span(all))));
    return all;
  }

  template <class T>
  Result<T> maximum(T mine) {
    HOCKET_ASSIGN(const std::vector<T> all, gather(std::span<const T>(&mine, 1)));
    return *std::max_element(all.begin(), all.end());
  }

  /// The same end on all ranks: what went wrong here, or that it did elsewhere.
  Status agree(const Status& mine) {
    HOCKET_ASSIGN(const int worst, maximum(static_cast<int>(mine.code())));
    if (!mine.ok()) return mine;
    if (worst != 0) return error(static_cast<Code>(worst), "another rank gave up");
    return {};
  }

  // -- Preparation --

  Status pin() {
    if (!options_.pin) return {};
    cpu_set_t allowed, one;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) < 0)
      return system_error(Code::kSystem, errno, "sched_getaffinity");
    const int cores = CPU_COUNT(&allowed);
    if (me_.size > cores) {
      return error(Code::kInvalidArgument, "--pin: {} ranks, but only {} cores may be used", me_.size, cores);
    }
    int left = me_.rank;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed) && left-- == 0) CPU_SET(cpu, &one);
    }
    if (::sched_setaffinity(0, sizeof one, &one) < 0) return system_error(Code::kSystem, errno, "sched_setaffinity");
    return {};
  }

  Status introduce() {
    RankInfo mine{};
    if (::gethostname(mine.host, sizeof mine.host - 1) < 0) std::strcpy(mine.host, "?");
    mine.pid = ::getpid();
    mine.cpu = ::sched_getcpu();
    if (::sched_getaffinity(0, sizeof mine.allowed, &mine.allowed) != 0) CPU_ZERO(&mine.allowed);
    HOCKET_ASSIGN(const std::vector<RankInfo> all, gather(std::span<const RankInfo>(&mine, 1)));
    if (!me_.report) return {};
    const int processes = me_.size / options_.threads;
    me_.report->head(all,
                     format("{}, {} rank{} in {} process{}, {} calls, {} memory", collective_.name, me_.size,
                            me_.size == 1 ? "" : "s", processes, processes == 1 ? "" : "es",
                            options_.blocking ? "blocking" : "stream", options_.symmetric ? "symmetric" : "plain"));
    return {};
  }

  Status make_subjects() {
    HOCKET_ASSIGN(Settings settings, Settings::from_environment());
    if (options_.timeout_s > 0) settings.timeout = std::chrono::seconds(options_.timeout_s);
    if (me_.size == 1 && !options_.ranks)
      note(
          "this is one rank alone, so nothing goes from rank to rank: --ranks N starts N of them on this host, "
          "`hocket run --hosts a:4,b:4 hocket perf ...` on several");
    if (copies_only()) note("one rank has nobody to send to: a copy in its own memory is measured");
    if (!options_.compare) return add_subject({}, settings);
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.collective != collective_.collective) continue;
      Settings forced = settings;
      forced.algo = format("{}:{}", to_string(algorithm.collective), algorithm.name);
      const Status added = add_subject(std::string(algorithm.name), forced);
      if (added.code() == Code::kUnsupported) {
        note(format("{}: {}", algorithm.name, added.text()));
      } else {
        HOCKET_TRY(added);
      }
    }
    if (subjects_.empty()) return error(Code::kUnsupported, "no algorithm fits these ranks");
    return {};
  }

  Status add_subject(std::string algorithm, const Settings& settings) {
    HOCKET_ASSIGN(Communicator communicator, Communicator::create(me_.rank, me_.size, me_.exchange, settings));
    Subject& subject =
        subjects_.emplace_back(Subject{std::move(algorithm), std::move(communicator), {}, {}, nullptr, nullptr, true});
    // The longest input and output of all sizes and types.
    std::size_t input_bytes = 1, output_bytes = 1;
    for (const DataType type : options_.types) {
      const std::size_t count = collective_.count_of(options_.max_bytes, type, me_.size);
      // The last rank's are the longest, and symmetric memory is equally long on all.
      input_bytes = std::max(input_bytes, collective_.input_count(me_.size, me_.size - 1, count) * size_of(type));
      output_bytes = std::max(output_bytes, collective_.output_count(me_.size, me_.size - 1, count) * size_of(type));
    }
    // In place both are in the longer one.
    if (collective_.in_place) output_bytes = std::max(output_bytes, input_bytes);
    if (options_.symmetric) {
      HOCKET_ASSIGN(void* input, subject.communicator.mem_alloc(input_bytes));
      HOCKET_ASSIGN(void* output, subject.communicator.mem_alloc(output_bytes));
      subject.input = static_cast<std::byte*>(input);
      subject.output = static_cast<std::byte*>(output);
      return {};
    }
    auto input = os::Mapping::anonymous(input_bytes);
    auto output = os::Mapping::anonymous(output_bytes);
    HOCKET_TRY(agree(!input.ok() ? input.status() : output.ok() ? Status() : output.status()));
    subject.plain_input = std::move(*input);
    subject.plain_output = std::move(*output);
    subject.input = subject.plain_input.data();
    subject.output = subject.plain_output.data();
    return {};
  }

  // -- One size --

  Result<std::size_t> run_size(DataType type, ReduceOp op, Rank root, std::size_t count) {
    Task task{type, op, root, count, false};
    const std::size_t bytes = collective_.bytes_of(count, type, me_.size);
    std::vector<Row> rows;
    std::size_t wrong = 0;
    for (const bool in_place : {false, true}) {
      if (in_place && !collective_.in_place) continue;
      task.in_place = in_place;
      for (Subject& subject : subjects_) {
        if (!subject.fits) continue;
        if (me_.report) {
          me_.report->progress(format("{} {} {} {} bytes {}{}", collective_.name, to_string(type),
                                      collective_.reduces ? to_string(op) : "", bytes, in_place ? "in place " : "",
                                      subject.algorithm));
        }
        HOCKET_ASSIGN(std::optional<Row> row, measure(subject, task));
        if (!row) continue;
        wrong += row->wrong.value_or(0);
        rows.push_back(std::move(*row));
      }
    }
    if (me_.report) me_.report->rows(rows);
    return wrong;
  }

  const std::byte* input_of(const Subject& subject, const Task& task) const {
    if (!task.in_place) return subject.input;
    return subject.output + (collective_.wide_output && !collective_.wide_input ? own_chunk(task) : 0);
  }
  std::byte* output_of(const Subject& subject, const Task& task) const {
    return subject.output + (task.in_place && collective_.wide_input && !collective_.wide_output ? own_chunk(task) : 0);
  }
  std::size_t own_chunk(const Task& task) const {
    return collective_.chunk_at(me_.rank, task.count) * size_of(task.type);
  }
  std::size_t input_bytes(const Task& task) const {
    return collective_.input_count(me_.size, me_.rank, task.count) * size_of(task.type);
  }
  std::size_t output_bytes(const Task& task) const {
    return collective_.output_count(me_.size, me_.rank, task.count) * size_of(task.type);
  }

  Status call(Subject& subject, const Task& task, Stream* stream) {
    return collective_.call({subject.communicator, stream, input_of(subject, task), output_of(subject, task),
                             task.count, task.type, reduction_of(task), task.root});
  }

  Status call_many(Subject& subject, const Task& task, int calls) {
    if (options_.blocking) {
      for (int i = 0; i < calls; ++i) HOCKET_TRY(call(subject, task, nullptr));
      return {};
    }
    for (int i = 0; i < calls; ++i) HOCKET_TRY(call(subject, task, &stream_));
    return stream_.synchronize();
  }

  Reduction reduction_of(const Task& task) const {
    if (task.op == ReduceOp::kPremultipliedSum) return Reduction::premultiplied(scalar_of(me_.rank));
    return task.op;
  }

  Contents contents_of(const Task& task) const { return {task.type, collective_.reduces, task.op, me_.size, round_}; }

  void prepare(Subject& subject, const Task& task) {
    ++round_;
    const std::size_t both = std::max(input_bytes(task), output_bytes(task));
    poison(subject.output, task.in_place ? both : output_bytes(task));
    fill(contents_of(task), me_.rank, 0, collective_.input_count(me_.size, me_.rank, task.count),
         const_cast<std::byte*>(input_of(subject, task)));
  }

  std::size_t count_wrong_here(const Subject& subject, const Task& task) const {
    const Contents contents = contents_of(task);
    const std::byte* output = output_of(subject, task);
    std::size_t wrong = 0;
    for (const Expected& part : collective_.expected(me_.size, me_.rank, task.root, task.count)) {
      wrong += count_wrong(contents, part.from, part.input, part.count, output + part.output * size_of(task.type));
    }
    // An input that the call changed is as wrong as an output.
    if (!task.in_place) {
      wrong +=
          count_wrong(contents, me_.rank, 0, collective_.input_count(me_.size, me_.rank, task.count), subject.input);
    }
    return wrong;
  }

  // Nothing: the forced algorithm does not take this call, on any rank; its subject is left out from now on.
  Result<std::optional<Row>> measure(Subject& subject, const Task& task) {
    prepare(subject, task);
    HOCKET_TRY(subject.communicator.barrier());
    std::int64_t start = os::now_ns();
    const Status first = call_many(subject, task, 1);
    double seconds = seconds_since(start);
    if (options_.compare && first.code() == Code::kUnsupported) {
      subject.fits = false;
      note(format("{}: {}", subject.algorithm, why_not(subject, task, first)));
      HOCKET_TRY(agree(Status()));
      return std::optional<Row>();
    }
    HOCKET_TRY(agree(first));
    std::size_t wrong = options_.checks > 0 ? count_wrong_here(subject, task) : 0;

    // From here on the calls repeat. In place that would add up to infinities, which some machines take longer for.
    if (task.in_place && collective_.reduces)
      std::memset(subject.output, 0, std::max(input_bytes(task), output_bytes(task)));
    HOCKET_ASSIGN(seconds, maximum(seconds));
    const int warmups =
        options_.warmups.value_or(std::clamp(static_cast<int>(kWarmupSeconds / std::max(seconds, 1e-9)), 1, kWarmups));
    HOCKET_TRY(subject.communicator.barrier());
    start = os::now_ns();
    HOCKET_TRY(call_many(subject, task, warmups));
    if (warmups > 0) {
      HOCKET_ASSIGN(seconds, maximum(seconds_since(start) / warmups));
    }
    // A first guess from a few calls is too rough to fill a batch.
    int calls = options_.calls.value_or(calls_for(seconds));
    if (!options_.calls && calls > 1) {
      start = os::now_ns();
      HOCKET_TRY(call_many(subject, task, calls));
      HOCKET_ASSIGN(seconds, maximum(seconds_since(start) / calls));
      calls = calls_for(seconds);
    }
    const int iterations = options_.iterations.value_or(iterations_for(seconds * calls));

    std::vector<double> mine(static_cast<std::size_t>(iterations));
    for (double& time : mine) {
      HOCKET_TRY(subject.communicator.barrier());
      start = os::now_ns();
      HOCKET_TRY(call_many(subject, task, calls));
      time = seconds_since(start) / calls;
    }
    HOCKET_ASSIGN(const std::vector<double> all, gather(std::span<const double>(mine)));
    const Summary summary = summary_of(over_ranks(all, me_.size, options_.over_ranks));

    for (int i = 0; i < options_.checks; ++i) {
      prepare(subject, task);
      HOCKET_TRY(subject.communicator.barrier());
      HOCKET_TRY(call_many(subject, task, 1));
      wrong += count_wrong_here(subject, task);
    }
    HOCKET_ASSIGN(const std::vector<std::size_t> wrongs, gather(std::span<const std::size_t>(&wrong, 1)));

    Row row;
    row.collective = collective_.name;
    row.type = to_string(task.type);
    row.op = collective_.reduces ? to_string(task.op) : "none";
    row.ranks = me_.size;
    describe(subject, task, row);
    row.bytes = collective_.bytes_of(task.count, task.type, me_.size);
    row.count = task.count;
    row.root = collective_.rooted ? task.root : -1;
    row.in_place = task.in_place;
    row.min_us = summary.minimum * 1e6;
    row.median_us = summary.median * 1e6;
    row.p99_us = summary.p99 * 1e6;
    if (options_.checks > 0) {
      row.wrong = 0;
      for (const std::size_t n : wrongs) *row.wrong += n;
    }
    set_bandwidths(row, collective_.bus_factor(me_.size));
    return std::optional<Row>(std::move(row));
  }

  // The forced algorithm's own reason; that the others are ruled out is no news.
  std::string why_not(const Subject& subject, const Task& task, const Status& status) const {
    std::vector<Rejected> rejected;
    const auto none = choose(collective_.collective, task.count * size_of(task.type), task.type, is_direct(subject),
                             subject.communicator.state()->world, &rejected, needs_of(task.op, false));
    for (const Rejected& one : rejected) {
      if (!none.ok() && one.algorithm == subject.algorithm) return one.reason;
    }
    return std::string(status.text());
  }

  // Peers reach the buffers where they are.
  bool is_direct(const Subject& subject) const {
    return options_.symmetric || subject.communicator.state()->world.one_process;
  }

  // Algorithm, protocol and transport, as the library chose them.
  void describe(const Subject& subject, const Task& task, Row& row) const {
    const CommunicatorState& state = *subject.communicator.state();
    // The choice goes by the bytes that the API's count makes.
    const auto choice = choose(collective_.collective, task.count * size_of(task.type), task.type, is_direct(subject),
                               state.world, nullptr, needs_of(task.op, false));
    if (copies_only()) {
      row.algo = row.proto = "copy";
      row.transport = "self";
      return;
    }
    row.algo = choice.ok() ? choice->algorithm->name : "?";
    row.proto = choice.ok() ? to_string(choice->protocol) : "?";
    std::vector<std::string> transports;
    for (Rank peer = 0; peer < me_.size; ++peer) {
      if (peer == me_.rank || !state.channels->peer(peer).endpoint) continue;
      std::string name(state.channels->peer(peer).endpoint->transport());
      if (std::find(transports.begin(), transports.end(), name) == transports.end())
        transports.push_back(std::move(name));
    }
    row.transport = transports.empty() ? "self" : join(transports, "+");
  }

  bool copies_only() const { return me_.size == 1 && collective_.collective == Collective::kSend; }

  void note(const std::string& text) {
    if (me_.report) me_.report->note(text);
  }

  const Options& options_;
  const Participant& me_;
  const PerfCollective& collective_;
  std::deque<Subject> subjects_;  // which stay where they are
  Stream stream_;
  std::uint32_t round_ = 0;
};

}  // namespace

int calls_for(double seconds) {
  return std::clamp(static_cast<int>(std::ceil(kBatchSeconds / std::max(seconds, 1e-9))), 1, kMostCalls);
}

int iterations_for(double seconds_of_batch) {
  return std::clamp(static_cast<int>(kIterationsSeconds / std::max(seconds_of_batch, 1e-9)), kFewestIterations,
                    kMostIterations);
}

Result<std::size_t> run_rank(const Options& options, const Participant& participant) {
  if (options.collective->rooted && options.root && *options.root >= participant.size) {
    return error(Code::kInvalidArgument, "-r {}: there are only ranks 0 to {}", *options.root, participant.size - 1);
  }
  Runner runner(options, participant);
  Result<std::size_t> result = runner.run();
  if (!result.ok()) runner.abort(result.status());
  return result;
}

}  // namespace hocket::perf
