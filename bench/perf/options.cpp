// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/options.hpp"

#include "base/format.hpp"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "base/settings.hpp"
#include "tools/usage.hpp"

namespace hocket::perf {
namespace {

struct TypeName {
  std::string_view name;
  DataType type;
};
// The first name of a type is nccl-tests' own.
constexpr TypeName kTypes[] = {
    {"float", DataType::kFloat32},
    {"double", DataType::kFloat64},
    {"bfloat16", DataType::kBfloat16},
    {"half", DataType::kFloat16},
    {"int32", DataType::kInt32},
    {"int64", DataType::kInt64},
    {"float32", DataType::kFloat32},
    {"fp32", DataType::kFloat32},
    {"float64", DataType::kFloat64},
    {"fp64", DataType::kFloat64},
    {"bf16", DataType::kBfloat16},
    {"float16", DataType::kFloat16},
    {"fp16", DataType::kFloat16},
    {"int8", DataType::kInt8},
    {"uint8", DataType::kUint8},
    {"uint32", DataType::kUint32},
    {"uint64", DataType::kUint64},
    {"fp8_e4m3", DataType::kFloat8E4M3},
    {"fp8_e5m2", DataType::kFloat8E5M2},
    {"f8e4m3", DataType::kFloat8E4M3},
    {"f8e5m2", DataType::kFloat8E5M2},
    {"float8_e4m3", DataType::kFloat8E4M3},
    {"float8_e5m2", DataType::kFloat8E5M2},
};
struct OpName {
  std::string_view name;
  ReduceOp op;
};
constexpr OpName kOps[] = {{"sum", ReduceOp::kSum},
                           {"prod", ReduceOp::kProduct},
                           {"max", ReduceOp::kMax},
                           {"min", ReduceOp::kMin},
                           {"avg", ReduceOp::kAverage},
                           {"product", ReduceOp::kProduct},
                           {"mulsum", ReduceOp::kPremultipliedSum},
                           {"average", ReduceOp::kAverage},
                           {"premultiplied_sum", ReduceOp::kPremultipliedSum}};

// What nccl-tests has and hocket does not: refused with the reason unless it asks for what happens anyway.
struct NotOffered {
  const char* flags;
  const char* description;
  std::string_view accepted;  // may be given, and changes nothing
  std::string_view reason;
};
constexpr NotOffered kNotOffered[] = {
    {"-g,--ngpus", "GPUs per thread; only 1", "1",
     "a rank is one thread or process with memory of its own: use --ranks N, or -t N for threads as ranks"},
    {"-p,--parallel_init", "only 1", "1", "ranks always start in parallel"},
    {"-y,--stream_null", "only 0", "0", "host memory has no null stream"},
    {"-G,--cudagraph", "only 0", "0", "graphs need GPU buffers, which this command does not have yet"},
    {"-C,--report_cputime", "only 0", "0", "the time of a blocking call is its CPU's time; see the table"},
    {"-N,--run_cycles", "only 1", "1", "run the command several times instead"},
    {"-M,--memory_report", "only 0", "0", "there is no report of memory yet"},
    {"-S,--report_timestamps", "only 0", "0", "there are no timestamps in the table"},
    {"-F,--output_file", "not offered", "", "use --csv FILE, whose columns are hocket's own"},
    {"-J,--output_json", "not offered", "", "use --json, which prints on stdout"},
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

std::string names(std::string_view what) {
  std::string result;
  if (what == "types") {
    for (const TypeName& entry : kTypes) result += format("{} ", entry.name);
  } else {
    for (const OpName& entry : kOps) result += format("{} ", entry.name);
  }
  return result + "all";
}

CLI::Validator bytes_into(std::size_t& target) {
  return CLI::Validator(
      [&target](std::string& text) {
        const auto bytes = parse_bytes(text);
        if (!bytes) return format("'{}' is no size: a number, with K, M or G for 1024, 1024^2 or 1024^3", text);
        target = *bytes;
        return std::string();
      },
      "SIZE");
}

Parsed refused(std::string_view text) {
  return {std::nullopt, usage_error("hocket perf", text)};
}

}  // namespace

std::optional<std::size_t> parse_bytes(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  if (copy.empty() || !(copy[0] == '.' || (copy[0] >= '0' && copy[0] <= '9'))) return std::nullopt;
  if (copy.find_first_of("xXpP") != std::string::npos) return std::nullopt;
  const double value = std::strtod(copy.c_str(), &end);
  double unit = 1;
  std::string suffix = lower(end);
  if (suffix.size() > 1 && suffix.ends_with("ib")) suffix.resize(suffix.size() - 2);
  if (suffix == "k") {
    unit = 1024;
  } else if (suffix == "m") {
    unit = 1024 * 1024;
  } else if (suffix == "g") {
    unit = 1024 * 1024 * 1024;
  } else if (!suffix.empty()) {
    return std::nullopt;
  }
  const double bytes = value * unit;
  if (!std::isfinite(bytes) || bytes < 0 || bytes >= 0x1p62) return std::nullopt;
  return static_cast<std::size_t>(bytes);
}

std::optional<DataType> parse_type(std::string_view name) {
  for (const TypeName& entry : kTypes) {
    if (entry.name == lower(name)) return entry.type;
  }
  return std::nullopt;
}

std::optional<ReduceOp> parse_op(std::string_view name) {
  for (const OpName& entry : kOps) {
    if (entry.name == lower(name)) return entry.op;
  }
  return std::nullopt;
}

std::string_view nccl_name(DataType type) {
  for (const TypeName& entry : kTypes) {
    if (entry.type == type) return entry.name;
  }
  return "?";
}

std::string_view nccl_name(ReduceOp op) {
  for (const OpName& entry : kOps) {
    if (entry.op == op) return entry.name;
  }
  return "?";
}

std::vector<std::size_t> sizes_of(const Options& options) {
  if (options.collective->no_data) return {0};
  std::vector<std::size_t> sizes;
  for (std::size_t size = options.min_bytes; size <= options.max_bytes;) {
    sizes.push_back(size);
    // A size that can't grow (0 times a factor, or no step) is the only one.
    const std::size_t next = options.step_factor > 1 ? size * options.step_factor : size + options.step_bytes;
    if (next <= size) break;
    size = next;
  }
  return sizes;
}

std::vector<std::size_t> counts_of(const Options& options, DataType type, int ranks) {
  std::vector<std::size_t> counts;
  for (const std::size_t bytes : sizes_of(options)) {
    const std::size_t count = options.collective->count_of(bytes, type, ranks);
    if (counts.empty() || count != counts.back()) counts.push_back(count);
  }
  return counts;
}

Parsed parse_options(int argc, const char* const* argv) {
  Options options;
  CLI::App app(
      "Measures a collective on host memory. Flags are those of nccl-tests where these have one.\n"
      "The uneven forms (_v) divide a size in n(n+1)/2 shares for n ranks: rank r has r+1 of them, in all_to_all_v it "
      "sends 1 + (r + p) mod n to rank p; count is that of a share, busbw that of the even form.\n"
      "Without --ranks, the ranks are those that a launcher (hocket run) started; a program that nobody started is one "
      "rank.",
      "hocket perf");
  app.get_formatter()->column_width(34);
  app.set_help_flag("-h,--help", "print this");
  std::string collective, type = "float", op = "sum", memory = "plain";
  int blocking = 1, average = 3, registered = 0, root = 0;
  bool all_threads = false;
  app.add_option(
         "collective", collective,
         "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather, scatter, all_gather_v, "
         "reduce_scatter_v, all_to_all_v, sendrecv or barrier")
      ->required();
  auto* min = app.add_option_function<std::string>(
                     "-b,--minbytes", [](const std::string&) {}, "smallest size (default 32M)")
                  ->check(bytes_into(options.min_bytes));
  auto* max = app.add_option_function<std::string>(
                     "-e,--maxbytes", [](const std::string&) {}, "largest size (default 32M)")
                  ->check(bytes_into(options.max_bytes));
  app.add_option_function<std::string>(
         "-i,--stepbytes", [](const std::string&) {}, "from size to size (default 1M)")
      ->check(bytes_into(options.step_bytes));
  app.add_option("-f,--stepfactor", options.step_factor, "grow sizes by this factor, and not by -i");
  app.add_option("-n,--iters", options.iterations, "iterations (default: for about 50 ms a size, from 5 to 1000)")
      ->check(CLI::Range(1, 1000000));
  app.add_option("-w,--warmup_iters", options.warmups, "calls before (default 5, fewer if they are long)")
      ->check(CLI::Range(0, 1000000));
  app.add_option("-m,--agg_iters", options.calls, "calls per iteration (default: as many as take 200 us, up to 400)")
      ->check(CLI::Range(1, 1000000));
  app.add_option("-c,--check", options.checks, "how often the data is checked after the timed part; 0: not (default 1)")
      ->check(CLI::Range(0, 1000));
  app.add_option("-o,--op", op, names("ops") + " (default sum)");
  app.add_option("-d,--datatype", type, names("types") + " (default float)");
  app.add_option("-r,--root", root, "root of broadcast, reduce, gather and scatter; -1: all in turn (default 0)");
  app.add_option(
         "-z,--blocking", blocking,
         "1: blocking calls on the rank's own thread; 0: calls queued on a stream, synchronized once an iteration "
         "(default 1: on host memory it is the direct way)")
      ->check(CLI::Range(0, 1));
  app.add_option("-a,--average", average,
                 "time of an iteration over ranks: 0 rank 0's, 1 average, 2 min, 3 max (default 3)")
      ->check(CLI::Range(0, 3));
  app.add_option("-T,--timeout", options.timeout_s,
                 "seconds without progress after which a call fails (default 0: never)")
      ->check(CLI::Range(0, 1000000));
  app.add_option("-R,--local_register", registered,
                 "0: plain memory; 2: symmetric memory, as --mem symmetric (default 0)");
  app.add_option("-t,--nthreads", options.threads, "threads of each process, each a rank (default 1)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--ranks", options.ranks, "start this many ranks on this host, as child processes")
      ->check(CLI::Range(1, 4096));
  app.add_flag("--threads", all_threads, "start the ranks of --ranks as threads of one process");
  app.add_flag("--pin", options.pin, "pin rank i to the i-th core that may be used");
  app.add_option("--mem", memory, "plain, or symmetric: memory that all ranks reach directly (default plain)")
      ->check(CLI::IsMember({"plain", "symmetric"}));
  app.add_flag("--compare", options.compare, "each algorithm in turn, side by side");
  app.add_flag("--json", options.json, "print JSON and no table");
  app.add_option("--csv", options.csv, "write rows to this file, which is replaced");
  app.add_option("--plot", options.plot,
                 "draw bus bandwidth over size, one line for each algorithm, into this SVG file, which is replaced; "
                 "measures as --compare does");
  std::vector<std::pair<const NotOffered*, std::string>> not_offered;
  for (const NotOffered& flag : kNotOffered) {
    app.add_option_function<std::string>(
        flag.flags, [&not_offered, &flag](const std::string& value) { not_offered.emplace_back(&flag, value); },
        flag.description);
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& bad) {
    return {std::nullopt, usage_answer(app, bad)};
  }

  options.collective = find_perf_collective(collective);
  if (!options.collective) {
    std::vector<std::string_view> known;
    for (const PerfCollective* c : perf_collectives()) known.push_back(c->name);
    return refused(format("unknown collective '{}'{}; there are {}", collective, nearest_hint(collective, known),
                          join(known, ", ")));
  }
  for (const auto& [flag, value] : not_offered) {
    if (flag->accepted.empty() || value != flag->accepted) {
      return refused(format("{} {} is not offered: {}", flag->flags, value, flag->reason));
    }
  }
  if (registered != 0 && registered != 2) {
    return refused("-R 1 is not offered: there is nothing to gain from registering host memory of one rank alone");
  }
  options.symmetric = memory == "symmetric" || registered == 2;
  if (lower(type) == "all") {
    options.types.clear();
    for (int i = 0; i < kDataTypeCount; ++i) options.types.push_back(static_cast<DataType>(i));
  } else if (const auto one = parse_type(type)) {
    options.types = {*one};
  } else {
    return refused(format("unknown data type '{}': there are {}", type, names("types")));
  }
  if (lower(op) == "all") {
    options.ops = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMax,
                   ReduceOp::kMin, ReduceOp::kAverage, ReduceOp::kPremultipliedSum};
  } else if (const auto one = parse_op(op)) {
    options.ops = {*one};
  } else {
    return refused(format("unknown operation '{}': there are {}", op, names("ops")));
  }
  if (!options.collective->reduces) options.ops = {ReduceOp::kSum};
  // As if the default of the other had been meant to include the one given.
  if (min->count() > 0 && max->count() == 0) options.max_bytes = std::max(options.max_bytes, options.min_bytes);
  if (max->count() > 0 && min->count() == 0) options.min_bytes = std::min(options.max_bytes, options.min_bytes);
  if (options.min_bytes > options.max_bytes) {
    return refused(format("-b {} is more than -e {}", options.min_bytes, options.max_bytes));
  }
  if (root < -1) return refused(format("-r {}: a root is a rank, or -1 for all in turn", root));
  options.root = root < 0 ? std::nullopt : std::optional<Rank>(root);
  options.blocking = blocking == 1;
  if (!options.plot.empty()) {
    if (options.collective->no_data) return refused(format("--plot: {} moves no data", options.collective->name));
    options.compare = true;
  }
  options.over_ranks = static_cast<OverRanks>(average);
  if (all_threads) {
    if (!options.ranks) return refused("--threads needs --ranks N (or use -t N)");
    if (options.threads != 1 && options.threads != *options.ranks)
      return refused("--threads and -t contradict each other");
    options.threads = *options.ranks;
  }
  if (options.ranks && *options.ranks % options.threads != 0) {
    return refused(
        format("--ranks {} can't be divided into processes of {} threads (-t)", *options.ranks, options.threads));
  }
  return {std::move(options), 0};
}

}  // namespace hocket::perf
