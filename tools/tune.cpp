// SPDX-License-Identifier: Apache-2.0
// tools/tune.cpp: `hocket tune`: measures which algorithm, protocol and tile are fastest on this machine, by
// collective, number of ranks and size, and writes the table that HOCKET_TUNING=FILE loads (algorithms/tuning.hpp).
//
// Machines change pace within seconds, so nothing is compared across time: each candidate is timed right beside what
// hocket would choose anyway, several rounds of that, and what counts is the mean of these ratios without extremes.
// Over the sizes the candidates are chosen together: a change from one size to the next has to be worth kSwitchCost, so
// that noise makes no rows. Between two measured sizes that differ in their choice the limit is the geometric mean.
//
// The command starts itself as ranks, once for each number of ranks; rank 0 leaves rows in a file.
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>

#include "algorithms/select.hpp"
#include "algorithms/tuning.hpp"
#include "base/os/clock.hpp"
#include "base/os/mapping.hpp"
#include "base/status.hpp"
#include "bench/perf/collective.hpp"
#include "bench/perf/options.hpp"
#include "bench/perf/plot.hpp"
#include "core/communicator_state.hpp"
#include "core/launch.hpp"
#include "core/tuning_file.hpp"
#include "tools/run.hpp"
#include "tools/usage.hpp"

namespace hocket {
namespace {

/// What a change of the choice from one size to the next must gain, as a logarithm of times: 3 %.
constexpr double kSwitchCost = 0.03;
/// What another choice than the present one must gain: below, noise would decide.
constexpr double kChangeCost = 0.02;
/// A candidate this much slower than the best after two rounds is not looked at again.
constexpr double kGiveUp = 1.25;
constexpr double kUnknown = 1e9;
constexpr double kBatchSeconds = 200e-6;
constexpr std::size_t kSmallTransfer = 4096;  ///< up to here protocols differ
constexpr std::size_t kOneTile = 16384;       ///< from here tiles do

struct Options {
  std::vector<int> ranks = {2, 4, 8};
  std::vector<std::string> collectives = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                          "broadcast",  "reduce",     "gather",         "scatter"};
  std::size_t min_bytes = 8, max_bytes = std::size_t{32} << 20;
  std::string memory = "plain";
  std::string output, base, rows;
  int rounds = 5;
  double measure_ms = 3;
  bool embed = false;
};

bool has_choice_by_size(const perf::PerfCollective& one) {
  return !one.uneven && !one.no_data && !is_message(one.collective);
}

Status parse(int argc, char** argv, Options* o, int* exit_code) {
  CLI::App app(
      "Measures which algorithm, protocol and tile are fastest here and writes a table for HOCKET_TUNING=FILE. Keep "
      "the machine otherwise idle; takes a few minutes.",
      "hocket tune");
  app.set_help_flag("-h,--help", "print this");
  app.add_option("--ranks", o->ranks, "numbers of ranks (default 2,4,8)")->delimiter(',')->check(CLI::Range(2, 128));
  app.add_option("--collectives", o->collectives, "which (default all that have a choice by size)")->delimiter(',');
  const auto bytes = [](std::size_t& target) {
    return [&target](const std::string& text) {
      const auto parsed = perf::parse_bytes(text);
      if (!parsed) throw CLI::ValidationError(text + " is no size");
      target = *parsed;
    };
  };
  app.add_option_function<std::string>("-b,--minbytes", bytes(o->min_bytes), "smallest size (default 8)");
  app.add_option_function<std::string>("-e,--maxbytes", bytes(o->max_bytes),
                                       "largest size (default 32M): of the buffer of all_reduce, broadcast and reduce, "
                                       "of all ranks' chunks together for the others");
  app.add_option("--mem", o->memory, "plain, or symmetric: rows for mem_alloc memory (default plain)")
      ->check(CLI::IsMember({"plain", "symmetric"}));
  app.add_option("--rounds", o->rounds, "how often each is measured beside the present choice (default 5)")
      ->check(CLI::Range(2, 1000));
  app.add_option("--measure-ms", o->measure_ms, "about how long one measurement takes (default 3)")
      ->check(CLI::Range(0.1, 10000.0));
  app.add_option("-o,--output", o->output, "the table's file, replaced (default: print it)");
  app.add_option("--base", o->base,
                 "a table whose rows are kept where nothing was measured (default: the one built in)");
  app.add_flag("--embed", o->embed, "as a C++ literal: what is built in is made so");
  app.add_option("--rows", o->rows, "for the ranks that this command starts")->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& bad) {
    *exit_code = usage_answer(app, bad);
    return error(Code::kInvalidArgument, "flags");
  }
  for (const std::string& name : o->collectives) {
    const auto* found = perf::find_perf_collective(name);
    std::vector<std::string_view> known;
    for (const perf::PerfCollective* one : perf::perf_collectives())
      if (has_choice_by_size(*one)) known.push_back(one->name);
    if (found == nullptr || !has_choice_by_size(*found)) {
      *exit_code = usage_error(
          "hocket tune", found == nullptr ? format("--collectives: unknown collective '{}'{}; there are {}", name,
                                                   nearest_hint(name, known), join(known, ", "))
                                          : format("--collectives: {} has no choice by size; those that have are {}",
                                                   name, join(known, ", ")));
      return error(Code::kInvalidArgument, "collective");
    }
  }
  std::sort(o->ranks.begin(), o->ranks.end());
  return {};
}

std::string human(std::size_t bytes) {
  if (bytes >= std::size_t{1} << 20) return format("{:.4g} MiB", static_cast<double>(bytes) / (1 << 20));
  if (bytes >= 1024) return format("{:.4g} KiB", static_cast<double>(bytes) / 1024);
  return format("{} B", bytes);
}

// ---- Candidates ----

struct Candidate {
  const Algorithm* algorithm = nullptr;
  Protocol protocol = Protocol::kBulk;
  std::uint64_t tile_bytes = 0;

  bool operator==(const Candidate&) const = default;
};

std::string to_string(const Candidate& c) {
  return format("{}/{}/{}", c.algorithm->name, hocket::to_string(c.protocol),
                c.tile_bytes == 0 ? std::string("auto") : human(c.tile_bytes));
}

/// All that may be worth a look for a call of that many bytes.
std::vector<Candidate> candidates_for(Collective collective, std::size_t bytes, bool symmetric, const World& world) {
  std::vector<Candidate> list;
  for (const Algorithm& a : algorithms()) {
    if (a.collective != collective || (a.zero_copy && !symmetric)) continue;
    const bool bulk_only = a.boards || a.zero_copy;
    std::vector<std::uint64_t> tiles = {0};
    if (bytes > kOneTile && !a.zero_copy) {
      tiles.clear();
      for (std::uint64_t tile = kOneTile; tile <= world.slot_bytes; tile *= 2) tiles.push_back(tile);
    }
    for (const std::uint64_t tile : tiles)
      for (const Protocol protocol : {Protocol::kBulk, Protocol::kFirstLine, Protocol::kPacket}) {
        if (protocol != Protocol::kBulk && (bulk_only || bytes > kSmallTransfer)) continue;
        if (protocol == Protocol::kPacket && !world.direct) continue;
        list.push_back({&a, protocol, tile});
      }
  }
  return list;
}

// ---- One rank ----

class Tuner {
 public:
  Tuner(const Options& options, Communicator subject, Communicator control)
      : options_(options), subject_(std::move(subject)), control_(std::move(control)) {}

  Result<std::vector<TuningRow>> run() {
    symmetric_ = options_.memory == "symmetric";
    std::vector<TuningRow> rows;
    HOCKET_TRY(make_buffers());
    for (const std::string& name : options_.collectives) {
      HOCKET_ASSIGN(const std::vector<TuningRow> more, tune(*perf::find_perf_collective(name)));
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  }

 private:
  struct Point {
    std::size_t bytes = 0;
    std::vector<Candidate> candidates;
    std::size_t present = 0;                  ///< the candidate that would be chosen anyway
    std::vector<std::vector<double>> ratios;  ///< logarithms of times over the present choice's, one a round
    std::vector<bool> open;                   ///< still looked at
    std::vector<double> cost;                 ///< what comes of them
  };

  const World& world() const { return subject_.state()->world; }
  Where where() const {
    if (!world().direct || world().hosts > 1) return Where::kPuts;
    return symmetric_ ? Where::kSymmetric : world().crowded ? Where::kCrowded : Where::kDirect;
  }

  Status make_buffers() {
    const std::size_t bytes =
        std::max(options_.max_bytes, options_.min_bytes * static_cast<std::size_t>(subject_.size())) + 4096;
    if (symmetric_) {
      HOCKET_ASSIGN(void* input, subject_.mem_alloc(bytes));
      HOCKET_ASSIGN(void* output, subject_.mem_alloc(bytes));
      input_ = static_cast<std::byte*>(input);
      output_ = static_cast<std::byte*>(output);
      return {};
    }
    HOCKET_ASSIGN(input_memory_, os::Mapping::anonymous(bytes));
    HOCKET_ASSIGN(output_memory_, os::Mapping::anonymous(bytes));
    input_ = input_memory_.data();
    output_ = output_memory_.data();
    std::memset(input_, 0, bytes);  // zeros: sums stay zero however often
    std::memset(output_, 0, bytes);
    return {};
  }

  Result<double> greatest(double mine) {
    std::vector<double> all(static_cast<std::size_t>(control_.size()));
    HOCKET_TRY(control_.all_gather(&mine, all.data(), 1, DataType::kFloat64));
    return *std::max_element(all.begin(), all.end());
  }

  /// Makes the candidate the communicator's choice for the collective; false if it does not take such a call. The table
  /// is the way in that HOCKET_TUNING has, so what is measured is what will run.
  Result<bool> use(const perf::PerfCollective& collective, std::size_t bytes, const Candidate& c) {
    Tuning table;
    TuningRow row;
    row.collective = collective.collective;
    row.where = where();
    row.algorithm = c.algorithm;
    row.protocol = c.protocol;
    row.any_protocol = false;
    row.tile_bytes = c.tile_bytes;
    HOCKET_TRY(table.add(row));
    CommunicatorState& state = *subject_.state();
    state.world.tuning = std::make_shared<const Tuning>(std::move(table));
    state.ready.clear();
    const auto choice = choose(collective.collective, bytes, DataType::kFloat32, symmetric_, state.world);
    return choice.ok() && choice->algorithm == c.algorithm && choice->protocol == c.protocol;
  }

  Status call(const perf::PerfCollective& collective, std::size_t bytes, int times) {
    const perf::Call c{subject_, nullptr, input_, output_, bytes / 4, DataType::kFloat32, ReduceOp::kSum, 0};
    for (int i = 0; i < times; ++i) HOCKET_TRY(collective.call(c));
    return {};
  }

  /// Seconds of one call, the slowest rank's, median over batches.
  Result<double> measure(const perf::PerfCollective& collective, std::size_t bytes) {
    HOCKET_TRY(control_.barrier());
    std::int64_t start = os::now_ns();
    HOCKET_TRY(call(collective, bytes, 1));  // makes the plan, and warms up
    HOCKET_TRY(control_.barrier());
    start = os::now_ns();
    HOCKET_TRY(call(collective, bytes, 1));
    HOCKET_ASSIGN(double seconds, greatest(static_cast<double>(os::now_ns() - start) * 1e-9));
    if (seconds > 2e-3 * options_.measure_ms) return seconds;  // long enough to tell
    int calls = std::clamp(static_cast<int>(kBatchSeconds / std::max(seconds, 1e-8)), 1, 2000);
    if (calls > 1) {
      HOCKET_TRY(control_.barrier());
      start = os::now_ns();
      HOCKET_TRY(call(collective, bytes, calls));
      HOCKET_ASSIGN(seconds, greatest(static_cast<double>(os::now_ns() - start) * 1e-9 / calls));
      calls = std::clamp(static_cast<int>(kBatchSeconds / std::max(seconds, 1e-8)), 1, 2000);
    }
    const int batches = std::clamp(static_cast<int>(options_.measure_ms * 1e-3 / (seconds * calls)), 3, 100);
    std::vector<double> mine(static_cast<std::size_t>(batches));
    for (double& time : mine) {
      HOCKET_TRY(control_.barrier());
      start = os::now_ns();
      HOCKET_TRY(call(collective, bytes, calls));
      time = static_cast<double>(os::now_ns() - start) * 1e-9 / calls;
    }
    std::vector<double> all(mine.size() * static_cast<std::size_t>(control_.size()));
    HOCKET_TRY(control_.all_gather(mine.data(), all.data(), mine.size(), DataType::kFloat64));
    return perf::summary_of(perf::over_ranks(all, control_.size(), perf::OverRanks::kMaximum)).median;
  }

  Result<Point> make_point(const perf::PerfCollective& collective, std::size_t bytes) {
    Point point;
    point.bytes = bytes;
    // What would be chosen anyway, by the table that is built in.
    CommunicatorState& state = *subject_.state();
    state.world.tuning = nullptr;
    HOCKET_ASSIGN(const Choice present,
                  choose(collective.collective, bytes, DataType::kFloat32, symmetric_, state.world));
    const Candidate reference{present.algorithm, present.protocol,
                              bytes > kOneTile && !present.algorithm->zero_copy ? present.tile_bytes : 0};
    point.candidates = candidates_for(collective.collective, bytes, symmetric_, state.world);
    const auto found = std::find(point.candidates.begin(), point.candidates.end(), reference);
    point.present = static_cast<std::size_t>(found - point.candidates.begin());
    if (found == point.candidates.end()) point.candidates.push_back(reference);
    point.ratios.resize(point.candidates.size());
    point.open.assign(point.candidates.size(), true);
    point.open[point.present] = false;  // it is the measure
    return point;
  }

  /// Each candidate that is still looked at, beside the present choice, once.
  Status measure_round(const perf::PerfCollective& collective, int round, Point* point) {
    for (std::size_t i = 0; i < point->candidates.size(); ++i) {
      double times[2] = {};
      for (int k = 0; k < 2 && point->open[i]; ++k) {
        // In turns the one and the other first.
        const bool candidate = (k + round) % 2 == 0;
        HOCKET_ASSIGN(const bool runs,
                      use(collective, point->bytes, point->candidates[candidate ? i : point->present]));
        point->open[i] = runs;
        if (!runs) break;
        HOCKET_ASSIGN(times[candidate ? 0 : 1], measure(collective, point->bytes));
      }
      if (point->open[i]) point->ratios[i].push_back(std::log(times[0] / times[1]));
    }
    if (round != 1) return {};
    double best = 0;
    for (const auto& ratios : point->ratios) best = std::min(best, middle(ratios));
    for (std::size_t i = 0; i < point->candidates.size(); ++i)
      if (middle(point->ratios[i]) > best + std::log(kGiveUp)) point->open[i] = false;
    return {};
  }

  /// The mean without the extremes: what was measured in different states of the machine counts, what was disturbed
  /// does not. 0 of nothing.
  static double middle(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const std::size_t cut = values.size() > 3 ? 1 : 0;
    double sum = 0;
    for (std::size_t i = cut; i < values.size() - cut; ++i) sum += values[i];
    return sum / static_cast<double>(values.size() - 2 * cut);
  }

  /// The cheapest way through all sizes, changes included (Viterbi's). Indices of candidates, one for each point.
  static std::vector<std::size_t> best_path(const std::vector<Point>& points) {
    std::vector<std::vector<double>> total(points.size());
    std::vector<std::vector<std::size_t>> from(points.size());
    for (std::size_t p = 0; p < points.size(); ++p) {
      const std::size_t n = points[p].candidates.size();
      total[p].assign(n, 0);
      from[p].assign(n, 0);
      for (std::size_t i = 0; i < n; ++i) {
        double least = p == 0 ? 0 : kUnknown * 1e3;
        for (std::size_t j = 0; p > 0 && j < points[p - 1].candidates.size(); ++j) {
          const double cost =
              total[p - 1][j] + (points[p - 1].candidates[j] == points[p].candidates[i] ? 0 : kSwitchCost);
          if (cost < least) {
            least = cost;
            from[p][i] = j;
          }
        }
        total[p][i] = least + points[p].cost[i];
      }
    }
    std::vector<std::size_t> path(points.size());
    for (std::size_t p = points.size(); p-- > 0;)
      path[p] = p + 1 == points.size()
                    ? static_cast<std::size_t>(std::min_element(total[p].begin(), total[p].end()) - total[p].begin())
                    : from[p + 1][path[p + 1]];
    return path;
  }

  Result<std::vector<TuningRow>> tune(const perf::PerfCollective& collective) {
    std::vector<Point> points;
    // Chunked collectives have a chunk for each rank.
    const bool chunked = collective.wide_input || collective.wide_output;
    const std::size_t most = options_.max_bytes / static_cast<std::size_t>(chunked ? subject_.size() : 1);
    for (std::size_t bytes = options_.min_bytes; bytes <= std::max(most, options_.min_bytes); bytes *= 4) {
      HOCKET_ASSIGN(Point point, make_point(collective, bytes));
      points.push_back(std::move(point));
    }
    // All sizes in each round, so that the rounds of a size are seconds apart: the machine's states change as fast.
    for (int round = 0; round < options_.rounds; ++round)
      for (Point& point : points) HOCKET_TRY(measure_round(collective, round, &point));
    for (Point& point : points)
      for (std::size_t i = 0; i < point.candidates.size(); ++i)
        point.cost.push_back(i == point.present        ? 0
                             : point.ratios[i].empty() ? kUnknown
                                                       : middle(point.ratios[i]) + kChangeCost);
    std::vector<TuningRow> rows;
    if (subject_.rank() != 0 || points.empty()) return rows;
    const std::vector<std::size_t> path = best_path(points);
    print(stderr, "{}, {} ranks, {}\n", collective.name, subject_.size(), hocket::to_string(where()));
    for (std::size_t p = 0; p < points.size(); ++p) {
      const Point& point = points[p];
      const Candidate& chosen = point.candidates[path[p]];
      print(stderr, "  {:>10}  {:<32} {:.2f} of the time of {}\n", human(point.bytes), to_string(chosen),
            std::exp(middle(point.ratios[path[p]])), to_string(point.candidates[point.present]));
      const bool last = p + 1 == points.size();
      if (!last && points[p + 1].candidates[path[p + 1]] == chosen) continue;
      TuningRow row;
      row.collective = collective.collective;
      row.where = where();
      row.max_ranks = static_cast<std::uint64_t>(subject_.size());
      row.max_bytes = last ? TuningRow::kAny
                           : static_cast<std::uint64_t>(std::sqrt(static_cast<double>(point.bytes) *
                                                                  static_cast<double>(points[p + 1].bytes)));
      row.algorithm = chosen.algorithm;
      row.protocol = chosen.protocol;
      row.any_protocol = false;
      row.tile_bytes = chosen.tile_bytes;
      rows.push_back(row);
    }
    return rows;
  }

  const Options& options_;
  Communicator subject_, control_;
  os::Mapping input_memory_, output_memory_;
  std::byte *input_ = nullptr, *output_ = nullptr;
  bool symmetric_ = false;
};

void pin(int rank, int ranks) {
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || ranks > CPU_COUNT(&allowed)) return;
  int left = rank;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed) && left-- == 0) CPU_SET(cpu, &one);
  (void)::sched_setaffinity(0, sizeof one, &one);  // not pinned is measured as well
}

Status run_as_rank(const Options& options, const LaunchedRank& me) {
  HOCKET_ASSIGN(Settings settings, Settings::from_environment());
  // What is to be found out must not be told.
  if (!settings.algo.empty() || !settings.proto.empty() || settings.tile_bytes != 0 || !settings.tuning.empty())
    return error(Code::kInvalidArgument,
                 "HOCKET_ALGO, HOCKET_PROTO, HOCKET_TILE_BYTES and HOCKET_TUNING must not be set here");
  HOCKET_ASSIGN(Communicator subject, Communicator::create(me.rank, me.size, me.exchange, settings));
  HOCKET_ASSIGN(Communicator control, Communicator::create(me.rank, me.size, me.exchange, settings));
  pin(me.rank, me.size);
  Tuner tuner(options, std::move(subject), std::move(control));
  HOCKET_ASSIGN(const std::vector<TuningRow> rows, tuner.run());
  if (me.rank != 0) return {};
  Tuning table;
  for (const TuningRow& row : rows) HOCKET_TRY(table.add(row));
  std::ofstream out(options.rows);
  out << table.to_text();
  out.close();
  return out ? Status() : error(Code::kSystem, "{} could not be written", options.rows);
}

// ---- The command ----

Result<Tuning> run_all(const Options& options, int argc, char** argv) {
  Tuning measured;
  for (const int ranks : options.ranks) {
    char rows[] = "/tmp/hocket-tune-XXXXXX";
    const int file = ::mkstemp(rows);
    if (file < 0) return system_error(Code::kSystem, errno, "{}: can't be made", rows);
    ::close(file);
    run::Options start;
    start.ranks = ranks;
    start.name = "hocket tune";
    start.executable = run::this_program();
    start.arguments = {"hocket", "tune"};
    start.arguments.insert(start.arguments.end(), argv + 1, argv + argc);
    start.arguments.insert(start.arguments.end(), {"--rows", rows});
    const Result<int> status = run::run_ranks(start);
    Result<std::shared_ptr<const Tuning>> table =
        status.ok() && *status == 0
            ? load_tuning(rows)
            : Result<std::shared_ptr<const Tuning>>(
                  status.ok() ? error(Code::kSystem, "the run with {} ranks failed", ranks) : status.status());
    ::unlink(rows);
    if (!table.ok()) return table.status();
    for (const TuningRow& row : (*table)->rows()) HOCKET_TRY(measured.add(row));
  }
  return measured;
}

/// What was measured, and of `base` what is about other collectives, places or more ranks.
Result<Tuning> merged(const Tuning& measured, const Tuning& base) {
  Tuning all = measured;
  for (const TuningRow& row : base.rows()) {
    std::uint64_t most = 0;
    for (const TuningRow& m : measured.rows())
      if (m.collective == row.collective && m.where == row.where) most = std::max(most, m.max_ranks);
    if (row.max_ranks > most) HOCKET_TRY(all.add(row));
  }
  return all;
}

/// The comments at the head of a table's file, which tell where its rows are from.
std::vector<std::string> comments_of(const std::string& file) {
  std::vector<std::string> comments;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("# collective")) break;
    if (line.starts_with("# ")) comments.push_back(line.substr(2));
  }
  return comments;
}

std::vector<std::string> head(const Options& options, int argc, char** argv, const Tuning& measured) {
  std::string command = "hocket tune";
  for (int i = 1; i < argc; ++i) command += format(" {}", argv[i]);
  utsname system{};
  (void)::uname(&system);
  char day[32] = "?";
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  if (::gmtime_r(&now, &date) != nullptr) std::strftime(day, sizeof day, "%Y-%m-%d", &date);
  std::string places;
  for (int w = 0; w < kWhereCount; ++w)
    for (const int ranks : options.ranks)
      if (std::any_of(measured.rows().begin(), measured.rows().end(), [&](const TuningRow& row) {
            return row.where == static_cast<Where>(w) && row.max_ranks == static_cast<std::uint64_t>(ranks);
          }))
        places +=
            format("{}{} with {} ranks", places.empty() ? "" : ", ", hocket::to_string(static_cast<Where>(w)), ranks);
  std::vector<std::string> lines;
  if (!options.base.empty()) lines = comments_of(options.base);
  lines.push_back(format("made by: {}", command));
  lines.push_back(format("on {}: {}, {} {}", day, perf::machine_text(), system.sysname, system.release));
  lines.push_back(format("measured: {}; float32; the other rows are from the table before", places));
  return lines;
}

}  // namespace
}  // namespace hocket

int tune_main(int argc, char** argv) {
  using namespace hocket;
  Options options;
  int code = 1;
  if (!parse(argc, argv, &options, &code).ok()) return code;
  const auto fail = [](const Status& status) {
    print(stderr, "hocket tune: {}\n", status.to_string());
    return 1;
  };
  if (!options.rows.empty()) {
    auto settings = Settings::from_environment();
    if (!settings.ok()) return fail(settings.status());
    const auto launched = launched_from_environment(*settings);
    if (!launched.ok()) return fail(launched.status());
    if (!*launched) return fail(error(Code::kInvalidArgument, "--rows is for ranks"));
    const Status status = run_as_rank(options, **launched);
    return status.ok() ? 0 : fail(status);
  }
  std::shared_ptr<const Tuning> base(std::shared_ptr<void>(), &default_tuning());
  if (!options.base.empty()) {
    auto loaded = load_tuning(options.base);
    if (!loaded.ok()) return fail(loaded.status());
    base = *loaded;
  }
  // Before minutes are spent.
  std::ofstream out;
  if (!options.output.empty()) {
    out.open(options.output, std::ios::app);
    if (!out) return fail(system_error(Code::kInvalidArgument, errno, "-o {}: can't be written", options.output));
    out.close();
  }
  const auto measured = run_all(options, argc, argv);
  if (!measured.ok()) return fail(measured.status());
  const auto table = merged(*measured, *base);
  if (!table.ok()) return fail(table.status());
  std::string text = table->to_text(head(options, argc, argv, *measured));
  if (options.embed) text = format("R\"hocket({})hocket\"\n", text);
  if (options.output.empty()) {
    print(stdout, "{}", text);
    return 0;
  }
  out.open(options.output);
  out << text;
  out.close();
  if (out) return 0;
  print(stdout, "{}", text);
  return fail(error(Code::kSystem, "-o {}: could not be written, so the table is above", options.output));
}
