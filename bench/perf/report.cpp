// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/report.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/status.hpp"
#include "bench/perf/plot.hpp"

namespace hocket::perf {
namespace {

constexpr double kTooWide = 1e7;

std::string microseconds(double value) {
  if (value >= kTooWide) return format("{:8.3g}", value);
  return value >= 10000 ? format("{:8.0f}", value) : format("{:8.2f}", value);
}

std::string wrong_text(const Row& row) {
  return row.wrong ? format("{}", *row.wrong) : "N/A";
}

std::string measured(const Row& row) {
  return format(" {} {:7.2f} {:7.2f} {:>6}", microseconds(row.median_us), row.algbw, row.busbw, wrong_text(row));
}

std::string json_text(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += format("\\u{:04x}", static_cast<int>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

// The names of nccl-tests, as its users look for them in a table.
std::string_view table_type(const Row& row) {
  const auto type = parse_type(row.type);
  return type ? nccl_name(*type) : "?";
}
std::string_view table_op(const Row& row) {
  const auto op = parse_op(row.op);
  return op ? nccl_name(*op) : "none";
}

std::string common_columns(const Row& row) {
  return format("{:12} {:13} {:>9} {:>7} {:7}", row.bytes, row.count, table_type(row), table_op(row), row.root);
}

std::string how(const Row& row) {
  return format("{}/{}/{}", row.algo, row.proto, row.transport);
}

}  // namespace

void set_bandwidths(Row& row, double bus_factor) {
  row.algbw = row.median_us > 0 ? static_cast<double>(row.bytes) / row.median_us / 1e3 : 0;
  row.busbw = row.algbw * bus_factor;
}

std::string csv_header() {
  return "collective,type,op,ranks,transport,algo,proto,bytes,count,place,min_us,median_us,p99_us,algbw_GBps,busbw_"
         "GBps,wrong";
}

std::string csv_line(const Row& row) {
  return format("{},{},{},{},{},{},{},{},{},{},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{}", row.collective, row.type, row.op,
                row.ranks, row.transport, row.algo, row.proto, row.bytes, row.count, row.in_place ? "in" : "out",
                row.min_us, row.median_us, row.p99_us, row.algbw, row.busbw, row.wrong ? format("{}", *row.wrong) : "");
}

std::string json_object(const Row& row) {
  return format(
      "{{\"collective\":{},\"type\":{},\"op\":{},\"ranks\":{},\"root\":{},\"transport\":{},\"algo\":{},\"proto\":{},"
      "\"bytes\":{},"
      "\"count\":{},\"place\":\"{}\",\"min_us\":{:.9g},\"median_us\":{:.9g},\"p99_us\":{:.9g},\"algbw_GBps\":{:.9g},"
      "\"busbw_GBps\":{:.9g},\"wrong\":{}}}",
      json_text(row.collective), json_text(row.type), json_text(row.op), row.ranks, row.root, json_text(row.transport),
      json_text(row.algo), json_text(row.proto), row.bytes, row.count, row.in_place ? "in" : "out", row.min_us,
      row.median_us, row.p99_us, row.algbw, row.busbw, row.wrong ? format("{}", *row.wrong) : "null");
}

std::vector<std::string> compare_table(const std::vector<Row>& rows) {
  const Row* best[2] = {nullptr, nullptr};
  std::vector<std::string> algorithms;
  for (const Row& row : rows) {
    const Row*& fastest = best[row.in_place];
    if (!fastest || row.median_us < fastest->median_us) fastest = &row;
    std::string name = format("{}/{}", row.algo, row.proto);
    if (std::find(algorithms.begin(), algorithms.end(), name) == algorithms.end())
      algorithms.push_back(std::move(name));
  }
  std::vector<std::string> lines;
  for (const std::string& name : algorithms) {
    std::string cells, wrong;
    const Row* any = nullptr;
    for (const bool in_place : {false, true}) {
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& one) {
        return one.in_place == in_place && format("{}/{}", one.algo, one.proto) == name;
      });
      if (row == rows.end()) {
        cells += format(" {:>9} {:>7}", "N/A", "N/A");
        continue;
      }
      any = &*row;
      cells += format(" {}{} {:7.2f}", any == best[in_place] ? "*" : " ", microseconds(row->median_us), row->busbw);
      if (row->wrong.value_or(0) > 0) wrong += format(" WRONG {}{}", *row->wrong, in_place ? " in place" : "");
    }
    lines.push_back(format("{} {:<28}{}{}", common_columns(*any), name, cells, wrong));
  }
  return lines;
}

std::string placement_note(const std::vector<RankInfo>& ranks) {
  std::map<std::string_view, std::vector<const RankInfo*>> hosts;
  for (const RankInfo& rank : ranks) hosts[rank.host].push_back(&rank);
  std::string text;
  bool may_meet = false;
  for (const auto& [host, there] : hosts) {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (const RankInfo* rank : there) {
      CPU_OR(&all, &all, &rank->allowed);
      may_meet |= there.size() > 1 && CPU_COUNT(&rank->allowed) > 1;
    }
    const auto cpus = static_cast<std::size_t>(CPU_COUNT(&all));
    if (cpus != 0 && there.size() > cpus)
      text += format("{}{} ranks share {} CPU{} of {}", text.empty() ? "" : ", ", there.size(), cpus,
                     cpus == 1 ? "" : "s", host);
  }
  if (!text.empty()) return text + ": they take turns, so times are those of a crowded host";
  return may_meet ? "not pinned: two ranks may come to run on one CPU; --pin gives each its own" : "";
}

Result<std::unique_ptr<Report>> Report::open(const Options& options, std::string version) {
  std::unique_ptr<Report> report(new Report(options, std::move(version)));
  if (!options.csv.empty()) {
    report->csv_.reset(std::fopen(options.csv.c_str(), "we"));
    if (!report->csv_) return system_error(Code::kInvalidArgument, errno, "--csv {}: can't be written", options.csv);
    print(report->csv_.get(), "{}\n", csv_header());
  }
  if (!options.plot.empty()) {
    report->plot_.reset(std::fopen(options.plot.c_str(), "we"));
    if (!report->plot_) return system_error(Code::kInvalidArgument, errno, "--plot {}: can't be written", options.plot);
  }
  return report;
}

void Report::write_plot() {
  std::vector<std::string> hosts;
  for (const RankInfo& rank : ranks_)
    if (std::find(hosts.begin(), hosts.end(), rank.host) == hosts.end()) hosts.emplace_back(rank.host);
  const Row* any = all_.empty() ? nullptr : &all_.front();
  const std::string title =
      format("{}{} on {} rank{}", options_.collective->name,
             any ? format(", {}{}", any->type, any->op == "none" ? "" : " " + any->op) : std::string(), ranks_.size(),
             ranks_.size() == 1 ? "" : "s");
  const std::string where =
      hosts.size() == 1 ? hosts.front() : format("{} hosts, rank 0 on {}", hosts.size(), hosts.front());
  print(plot_.get(), "{}",
        plot_svg(title,
                 format("{}: {}; {}; hocket {}", where, machine_text(), any ? any->transport : "nothing", version_),
                 all_));
  std::fflush(plot_.get());
}

void Report::head(const std::vector<RankInfo>& ranks, const std::string& description) {
  ranks_ = ranks;
  const std::string placement = placement_note(ranks);
  if (!placement.empty() && options_.json) notes_.push_back(placement);
  if (options_.json) return;
  const Options& o = options_;
  print(stdout, "# hocket {} perf: {}\n", version_, description);
  // The sizes of the rows, which need not end at -e nor begin at -b.
  std::size_t least = SIZE_MAX, most = 0;
  for (const DataType type : o.types) {
    for (const std::size_t count : counts_of(o, type, static_cast<int>(ranks.size()))) {
      const std::size_t bytes = o.collective->bytes_of(count, type, static_cast<int>(ranks.size()));
      least = std::min(least, bytes);
      most = std::max(most, bytes);
    }
  }
  print(stdout, "# minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg iters: {} validation: {}\n",
        least, most, o.step_factor > 1 ? o.step_factor : o.step_bytes, o.step_factor > 1 ? "factor" : "bytes",
        o.warmups ? format("{}", *o.warmups) : "by time", o.iterations ? format("{}", *o.iterations) : "by time",
        o.calls ? format("{}", *o.calls) : "by time", o.checks);
  print(stdout, "# time: median over iterations{}\n#\n# Using ranks\n",
        o.over_ranks == OverRanks::kMaximum   ? " of the slowest rank's time"
        : o.over_ranks == OverRanks::kMinimum ? " of the fastest rank's time"
        : o.over_ranks == OverRanks::kAverage ? " of the ranks' average time"
                                              : " of rank 0's time");
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    print(stdout, "#  Rank {:2} Pid {:6} on {:>10} cpu {}{}\n", r, ranks[r].pid, ranks[r].host, ranks[r].cpu,
          o.pin ? " (pinned)" : "");
  }
  if (!placement.empty()) print(stdout, "# {}\n", placement);
  print(stdout, "#\n");
  if (o.compare) {
    // One line an algorithm, not wider than 120 columns.
    print(stdout, "# {:>10} {:>13} {:>9} {:>7} {:>7} {:<28} {:>17} {:>17}\n", "", "", "", "", "", "* is the fastest",
          "out-of-place", "in-place");
    print(stdout, "# {:>10} {:>13} {:>9} {:>7} {:>7} {:<28} {:>9} {:>7} {:>9} {:>7}\n", "size", "count", "type",
          "redop", "root", "algorithm/protocol", "time", "busbw", "time", "busbw");
    print(stdout, "# {:>10} {:>13} {:>9} {:>7} {:>7} {:<28} {:>9} {:>7} {:>9} {:>7}\n", "(B)", "(elements)", "", "", "",
          "", "(us)", "(GB/s)", "(us)", "(GB/s)");
  } else {
    const char* columns = "#    time   algbw   busbw #wrong";
    print(stdout, "# {:>10} {:>13} {:>9} {:>7} {:>7} {:^32} {:^32}\n", "", "", "", "", "", "out-of-place", "in-place");
    print(stdout, "# {:>10} {:>13} {:>9} {:>7} {:>7} {} {}  algorithm/protocol/transport\n", "size", "count", "type",
          "redop", "root", columns + 1, columns + 1);
    const char* units = "    (us)  (GB/s)  (GB/s)       ";
    print(stdout, "# {:>10} {:>13} {:>9} {:>7} {:>7} {} {}\n", "(B)", "(elements)", "", "", "", units, units);
  }
  std::fflush(stdout);
}

void Report::note(const std::string& text) {
  notes_.push_back(text);
  if (options_.json) return;
  clear_progress();
  print(stdout, "# {}\n", text);
  std::fflush(stdout);
}

void Report::rows(const std::vector<Row>& rows) {
  clear_progress();
  for (const Row& row : rows) {
    wrong_ += row.wrong.value_or(0);
    all_.push_back(row);
    if (csv_) print(csv_.get(), "{}\n", csv_line(row));
  }
  if (csv_) std::fflush(csv_.get());
  if (options_.json || rows.empty()) return;
  if (options_.compare) {
    compare_lines(rows);
  } else {
    table_line(rows);
  }
  std::fflush(stdout);
}

void Report::table_line(const std::vector<Row>& rows) {
  const Row *out = nullptr, *in = nullptr;
  for (const Row& row : rows) (row.in_place ? in : out) = &row;
  const std::string none = format(" {:>8} {:>7} {:>7} {:>6}", "N/A", "N/A", "N/A", "N/A");
  const Row& any = out ? *out : *in;
  std::string used = how(any);
  if (out && in && how(*in) != used) used += " " + how(*in);
  print(stdout, "{}{}{}  {}\n", common_columns(any), out ? measured(*out) : none, in ? measured(*in) : none, used);
}

void Report::compare_lines(const std::vector<Row>& rows) {
  for (const std::string& line : compare_table(rows)) print(stdout, "{}\n", line);
}

Status Report::close() {
  const auto end = [](auto& file, std::string_view option, const std::string& name) -> Status {
    if (!file) return {};
    const bool failed = std::ferror(file.get()) != 0;
    errno = 0;
    if (std::fclose(file.release()) == 0 && !failed) return {};
    return system_error(Code::kSystem, errno != 0 ? errno : EIO, "{} {}: not all could be written", option, name);
  };
  const Status csv = end(csv_, "--csv", options_.csv), plot = end(plot_, "--plot", options_.plot);
  return csv.ok() ? plot : csv;
}

void Report::foot() {
  clear_progress();
  if (plot_) write_plot();
  double sum = 0;
  for (const Row& row : all_) sum += row.busbw;
  const double average = all_.empty() ? 0 : sum / static_cast<double>(all_.size());
  if (!options_.json) {
    if (options_.checks > 0) {
      print(stdout, "# Out of bounds values : {} {}\n", wrong_, wrong_ == 0 ? "OK" : "FAILED");
    } else {
      print(stdout, "# Out of bounds values : not checked\n");
    }
    print(stdout, "# Avg bus bandwidth    : {:.6g}\n#\n", average);
    std::fflush(stdout);
    return;
  }
  std::string ranks, rows, notes;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    ranks += format("{}{{\"rank\":{},\"host\":{},\"pid\":{},\"cpu\":{}}}", r ? "," : "", r, json_text(ranks_[r].host),
                    ranks_[r].pid, ranks_[r].cpu);
  }
  for (const Row& row : all_) rows += format("{}\n{}", rows.empty() ? "" : ",", json_object(row));
  for (const std::string& note : notes_) notes += format("{}{}", notes.empty() ? "" : ",", json_text(note));
  print(stdout,
        "{{\"version\":{},\"ranks\":[{}],\"notes\":[{}],\"rows\":[{}],\n\"average_busbw_GBps\":{:.9g},\"wrong\":{}}}\n",
        json_text(version_), ranks, notes, rows, average, options_.checks > 0 ? format("{}", wrong_) : "null");
  std::fflush(stdout);
}

void Report::progress(const std::string& text) {
  if (!::isatty(STDERR_FILENO)) return;
  print(stderr, "\r\033[K{} ...", text);
  std::fflush(stderr);
  progress_shown_ = true;
}

void Report::clear_progress() {
  if (!progress_shown_) return;
  print(stderr, "\r\033[K");
  std::fflush(stderr);
  progress_shown_ = false;
}

}  // namespace hocket::perf
