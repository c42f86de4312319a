// SPDX-License-Identifier: Apache-2.0
#include "sim/calibration.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>

#include "algorithms/select.hpp"
#include "base/status.hpp"
#include "sim/simulate.hpp"

namespace hocket::sim {
namespace {

constexpr double kBaseRate = 1e9;  // of cores in the Fabric; the constants' rates are factors of it

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

template <class T>
bool number(std::string_view text, T* value) {
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return bad == std::errc() && end == text.data() + text.size();
}

/// As membership.cpp deals slots when nothing is set.
std::uint64_t slots_of(int ranks) {
  return ranks <= 2 ? 16 : ranks <= 4 ? 8 : 4;
}

/// One row, ready to be priced with any constants.
class Case {
 public:
  static Result<Case> make(const Measured& row) {
    Case c;
    c.row_ = row;
    topo::Graph graph;
    graph.add(topo::NodeKind::kHost, -1);
    FabricOptions options{.ranks_per_host = row.ranks, .network = {}, .core_bytes_per_second = kBaseRate};
    options.memory_bytes_per_second = 1e6 * kBaseRate;
    HOCKET_ASSIGN(Fabric fabric, Fabric::make(graph, options));
    c.fabric_ = std::make_unique<Fabric>(std::move(fabric));
    World world;
    world.size = row.ranks;
    world.slots = slots_of(row.ranks);
    const std::string_view names[] = {row.algorithm};
    HOCKET_ASSIGN(world.algorithms, AllowList::parse(row.algorithm, names));
    const bool whole = row.collective == Collective::kAllReduce || row.collective == Collective::kBroadcast ||
                       row.collective == Collective::kReduce;
    const std::uint64_t bytes = whole ? row.bytes : row.bytes / static_cast<std::uint64_t>(row.ranks);
    HOCKET_ASSIGN(const Choice choice, choose(row.collective, bytes, DataType::kFloat32, false, world));
    if (choice.algorithm->name != row.algorithm)
      return error(Code::kUnsupported, "{} is not what would run", row.algorithm);
    const int pieces = pieces_of(*choice.algorithm, row.ranks);
    const Setup setup{.slots = static_cast<int>(world.slots),
                      .slot_bytes = choice.tile_bytes * static_cast<std::uint64_t>(pieces),
                      .tiles_per_round = choice.tiles_per_round,
                      .tile_bytes = choice.tile_bytes};
    HOCKET_ASSIGN(Simulation simulation,
                  Simulation::make(*c.fabric_, plain_placement(*c.fabric_), row.collective, row.algorithm, setup));
    c.simulation_ = std::make_unique<Simulation>(std::move(simulation));
    return c;
  }

  const Measured& row() const { return row_; }

  Result<double> seconds(const HostConstants& constants) const {
    Costs costs{.name = "host"};
    costs.latency_seconds[static_cast<std::size_t>(Wire::kMemory)] = constants.line_seconds;
    costs.move_seconds = constants.move_seconds;
    costs.signal_seconds = constants.signal_seconds;
    costs.call_seconds = constants.call_seconds;
    costs.slot_weight = constants.slot_weight;
    const double buffers = 2.0 * static_cast<double>(row_.bytes) * row_.ranks;
    costs.copy_factor = (buffers <= constants.cache_bytes ? constants.cache_rate : constants.memory_rate) / kBaseRate;
    HOCKET_ASSIGN(const Price price, simulation_->price(row_.bytes, costs));
    return price.seconds;
  }

 private:
  Measured row_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Simulation> simulation_;
};

Result<double> loss(const std::vector<const Case*>& cases, const HostConstants& constants) {
  double sum = 0;
  for (const Case* c : cases) {
    HOCKET_ASSIGN(const double seconds, c->seconds(constants));
    const double log = std::log(seconds / c->row().seconds);
    sum += log * log;
  }
  return sum;
}

/// No constant may explain another's time away.
bool plausible(const HostConstants& c) {
  for (const double seconds : {c.line_seconds, c.move_seconds, c.signal_seconds, c.call_seconds})
    if (seconds < 1e-9 || seconds > 1e-4) return false;
  for (const double rate : {c.cache_rate, c.memory_rate})
    if (rate < 1e8 || rate > 1e12) return false;
  return c.slot_weight >= 0.5 && c.slot_weight <= 8;
}

Result<HostConstants> fit(const std::vector<const Case*>& cases, HostConstants best) {
  static constexpr double HostConstants::*kFree[] = {&HostConstants::line_seconds,   &HostConstants::move_seconds,
                                                     &HostConstants::signal_seconds, &HostConstants::call_seconds,
                                                     &HostConstants::cache_rate,     &HostConstants::memory_rate};
  HOCKET_ASSIGN(double least, loss(cases, best));
  for (double step = 2; step > 1.02; step = std::sqrt(step)) {
    for (bool better = true; better;) {
      better = false;
      for (double HostConstants::*constant : kFree)
        for (const double factor : {step, 1 / step}) {
          HostConstants trial = best;
          trial.*constant *= factor;
          if (!plausible(trial)) continue;
          HOCKET_ASSIGN(const double now, loss(cases, trial));
          if (now >= least * 0.999) continue;
          least = now;
          best = trial;
          better = true;
        }
    }
  }
  return best;
}

}  // namespace

Result<std::vector<Measured>> read_perf_csv(std::string_view text, std::string_view name) {
  std::vector<Measured> rows;
  std::map<std::string_view, std::size_t> column;
  int line_number = 0;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++line_number;
    if (line.empty() || line.starts_with('#')) continue;
    const std::vector<std::string_view> fields = fields_of(line);
    if (column.empty()) {
      for (std::size_t f = 0; f < fields.size(); ++f) column[fields[f]] = f;
      for (const std::string_view wanted : {"collective", "ranks", "transport", "algo", "bytes", "place", "median_us"})
        if (!column.contains(wanted))
          return error(Code::kInvalidArgument, "{}:{}: no column '{}': rows of hocket perf --csv are expected", name,
                       line_number, wanted);
      continue;
    }
    if (fields.size() < column.size())
      return error(Code::kInvalidArgument, "{}:{}: {} of {} fields", name, line_number, fields.size(), column.size());
    const auto field = [&](std::string_view of) { return fields[column[of]]; };
    Measured row;
    double us = 0;
    if (!number(field("ranks"), &row.ranks) || !number(field("bytes"), &row.bytes) || !number(field("median_us"), &us))
      return error(Code::kInvalidArgument, "{}:{}: ranks, bytes or median_us is no number", name, line_number);
    if (row.ranks < 1 || row.ranks > 1024 || row.bytes > std::uint64_t{1} << 40 || !(us > 0) || !std::isfinite(us))
      return error(Code::kInvalidArgument, "{}:{}: {} ranks, {} bytes, {} us can't be", name, line_number, row.ranks,
                   row.bytes, us);
    row.algorithm = field("algo");
    row.seconds = us * 1e-6;
    const Algorithm* known = nullptr;
    for (const Algorithm& a : algorithms())
      if (to_string(a.collective) == field("collective") && a.name == row.algorithm) known = &a;
    const bool near = field("transport") == "shm" || field("transport") == "local";
    if (known == nullptr || known->zero_copy || !near || row.ranks < 2 || row.bytes == 0 || field("place") != "out")
      continue;
    row.collective = known->collective;
    rows.push_back(std::move(row));
  }
  if (rows.empty())
    return error(Code::kInvalidArgument,
                 "{} has no row that can be predicted: two ranks or more on shared memory, out of place", name);
  return rows;
}

Result<Calibration> calibrate(const std::vector<Measured>& rows, double cache_bytes) {
  std::vector<Case> cases;
  for (const Measured& row : rows) {
    auto made = Case::make(row);
    if (made.ok()) cases.push_back(std::move(*made));
  }
  if (cases.size() < 8)
    return error(Code::kInvalidArgument, "{} rows are too few to fit seven constants and predict others; 8 are needed",
                 cases.size());
  Calibration result;
  result.constants.cache_bytes = cache_bytes;
  std::map<std::string, int> seen;
  std::vector<const Case*> fitted;
  std::vector<bool> used;
  const auto series = [](const Case& c) {
    return format("{} {} {}", to_string(c.row().collective), c.row().algorithm, c.row().ranks);
  };
  for (const Case& c : cases) {
    used.push_back(seen[series(c)]++ % 2 == 0);
    if (used.back()) fitted.push_back(&c);
  }
  HOCKET_ASSIGN(result.constants, fit(fitted, result.constants));
  std::vector<double> errors;
  for (std::size_t c = 0; c < cases.size(); ++c) {
    HOCKET_ASSIGN(const double seconds, cases[c].seconds(result.constants));
    result.rows.push_back({cases[c].row(), seconds, used[c]});
    if (!used[c]) errors.push_back(std::abs(result.rows.back().error()));
  }
  std::sort(errors.begin(), errors.end());
  if (!errors.empty()) {
    result.median_error = errors[errors.size() / 2];
    result.worst_error = errors.back();
  }
  return result;
}

std::string calibration_text(const Calibration& calibration) {
  const HostConstants& c = calibration.constants;
  std::string out = format(
      "fitted: a signal {:.0f} ns, a Move {:.0f} ns, a Signal {:.0f} ns, a call {:.0f} ns, copying {:.1f} GB/s a core, "
      "{:.1f} beyond {:.0f} MiB, reading another's slot {:.1f} times as dear\n\n",
      c.line_seconds * 1e9, c.move_seconds * 1e9, c.signal_seconds * 1e9, c.call_seconds * 1e9, c.cache_rate / 1e9,
      c.memory_rate / 1e9, c.cache_bytes / (1 << 20), c.slot_weight);
  out += format("{:<14} {:<18} {:>5} {:>11} {:>12} {:>12} {:>8}\n", "collective", "algorithm", "ranks", "bytes",
                "measured us", "predicted us", "error");
  for (const Checked& row : calibration.rows)
    out += format("{:<14} {:<18} {:>5} {:>11} {:>12.3f} {:>12.3f} {:>+7.0f}%{}\n", to_string(row.row.collective),
                  row.row.algorithm, row.row.ranks, row.row.bytes, row.row.seconds * 1e6, row.predicted * 1e6,
                  100 * row.error(), row.fitted ? "  fitted" : "");
  out += format("\nprediction error of rows that were not fitted: median {:.0f} %, worst {:.0f} %\n",
                100 * calibration.median_error, 100 * calibration.worst_error);
  return out;
}

}  // namespace hocket::sim
