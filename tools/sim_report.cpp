// SPDX-License-Identifier: Apache-2.0
#include "tools/sim_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/format.hpp"
#include "topo/graph.hpp"

using hocket::format;
using hocket::sim::kWires;
using hocket::sim::Price;
using hocket::sim::Spent;
using hocket::sim::Wire;

namespace {

std::string time_text(double seconds) {
  if (seconds < 1e-3) return format("{:.2f} us", seconds * 1e6);
  return seconds < 1 ? format("{:.2f} ms", seconds * 1e3) : format("{:.3f} s", seconds);
}

bool several_sizes(const std::vector<SimLine>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const SimLine& line) { return line.points.size() > 1; });
}

std::string one_size(const std::vector<SimLine>& lines) {
  std::string out = format("{:<18} {:>6} {:>12} {:>11} {:>11} {:>8}  {}\n", "algorithm", "hosts", "time", "algbw GB/s",
                           "busbw GB/s", "protocol", "most loaded link");
  for (const SimLine& line : lines) {
    out += format("{:<18} {:>6} ", sim_name(line), line.hosts);
    if (!line.why.empty() || line.points.empty() || !line.points[0].price) {
      out += format("not simulated: {}\n", !line.why.empty()     ? line.why
                                           : line.points.empty() ? ""
                                                                 : line.points[0].why);
      continue;
    }
    const Price& price = *line.points[0].price;
    out += format("{:>12} {:>11.2f} {:>11.2f} {:>8}  {} ({:.0f} %)\n", time_text(price.seconds), price.algbw / 1e9,
                  price.busbw / 1e9, price.protocol, line.points[0].busiest, 100 * price.busiest_load);
  }
  return out;
}

/// The fastest line for the p-th size.
const SimLine* fastest(const std::vector<SimLine>& lines, int hosts, std::size_t p) {
  const SimLine* best = nullptr;
  for (const SimLine& line : lines) {
    if (line.hosts != hosts || p >= line.points.size() || !line.points[p].price) continue;
    if (best == nullptr || line.points[p].price->seconds < best->points[p].price->seconds) best = &line;
  }
  return best;
}

std::vector<int> hosts_of(const std::vector<SimLine>& lines) {
  std::vector<int> hosts;
  for (const SimLine& line : lines)
    if (std::find(hosts.begin(), hosts.end(), line.hosts) == hosts.end()) hosts.push_back(line.hosts);
  return hosts;
}

std::string many_sizes(const std::vector<SimLine>& lines, int hosts) {
  std::vector<const SimLine*> shown;
  std::string out;
  for (const SimLine& line : lines) {
    if (line.hosts != hosts) continue;
    if (line.points.empty()) {
      out += format("{} is not simulated: {}\n", line.algorithm, line.why);
    } else {
      shown.push_back(&line);
    }
  }
  if (shown.empty()) return out;
  out += format("{:>10}", "size");
  for (const SimLine* line : shown) out += format(" {:>24}", sim_name(*line));
  out += format("\n{:>10}", "");
  for (std::size_t l = 0; l < shown.size(); ++l) out += format(" {:>13} {:>10}", "time", "GB/s");
  out += "  fastest\n";
  std::string last, crossings;
  for (std::size_t p = 0; p < shown[0]->points.size(); ++p) {
    out += format("{:>10}", sim_size(shown[0]->points[p].bytes));
    for (const SimLine* line : shown) {
      const std::optional<Price>& price = line->points[p].price;
      out +=
          price ? format(" {:>13} {:>10.3f}", time_text(price->seconds), price->busbw / 1e9) : format(" {:>24}", "-");
    }
    const SimLine* best = fastest(lines, hosts, p);
    if (best == nullptr) continue;
    out += format("  {}\n", sim_name(*best));
    if (!last.empty() && last != sim_name(*best))
      crossings += format("  between {} and {}: from {} to {}\n", sim_size(shown[0]->points[p - 1].bytes),
                          sim_size(shown[0]->points[p].bytes), last, sim_name(*best));
    last = sim_name(*best);
  }
  out += crossings.empty() ? format("\n{} is the fastest at all sizes\n", last) : "\nthe fastest changes\n" + crossings;
  return out;
}

}  // namespace

std::string sim_name(const SimLine& line) {
  return line.algorithm + (line.in_library ? "" : "*");
}

std::string sim_size(std::uint64_t bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) value /= 1024, ++unit;
  return format("{:.4g} {}", value, kUnits[unit]);
}

std::string sim_table(const std::vector<SimLine>& lines) {
  std::string note;
  for (const SimLine& line : lines)
    if (!line.in_library)
      note =
          format("* {}: a plan that exists in this simulator only; the library does not run it yet\n", line.algorithm);
  if (!several_sizes(lines)) return one_size(lines) + note;
  std::string out = "time, and busbw in GB/s (10^9 bytes)\n\n";
  for (const int hosts : hosts_of(lines)) {
    const auto at = std::find_if(lines.begin(), lines.end(), [&](const SimLine& line) { return line.hosts == hosts; });
    out += format("{}{} host{}, {} ranks\n", at == lines.begin() ? "" : "\n", hosts, hosts == 1 ? "" : "s", at->ranks);
    out += many_sizes(lines, hosts);
  }
  return out + (note.empty() ? "" : "\n" + note);
}

std::string sim_details(const SimLine& line) {
  if (line.points.empty() || !line.points.back().price) return "";
  const SimPoint& point = line.points.back();
  const Price& price = *point.price;
  const Spent& spent = price.spent;
  std::string out = format("\n{}, {}: critical path of {} hops, {}\n", sim_name(line), sim_size(point.bytes),
                           spent.hops, time_text(price.seconds));
  const auto row = [&](const std::string& name, double seconds) {
    if (seconds > 0.0005 * price.seconds)
      out += format("  {:<34} {:>12} {:>5.1f} %\n", name, time_text(seconds), 100 * seconds / price.seconds);
  };
  for (int w = 0; w < kWires; ++w) {
    const std::string wire(to_string(static_cast<Wire>(w)));
    const auto at = static_cast<std::size_t>(w);
    row(wire + " latency", spent.latency[at]);
    row(wire + " bytes", spent.transfer[at]);
    row(wire + " sharing, or a slow rank", spent.contention[at]);
  }
  row("starting calls, Moves and Signals", spent.overhead);
  for (const std::string& hop : line.path) out += "    " + hop + "\n";
  out += format("  most loaded link: {}: {:.1f} % of its rate, {} in all\n", point.busiest, 100 * price.busiest_load,
                sim_size(static_cast<std::uint64_t>(price.busiest_bytes)));
  out += format("  simulated: {} of {} actors in {} cop{}, {} Moves{}{}\n", line.classes, line.actors, line.copies,
                line.copies == 1 ? "y" : "ies", price.moves, price.extrapolated ? ", steady state extrapolated" : "",
                line.exact ? "" : ", far classes merged or links averaged");
  if (price.doubt > 0)
    out += format("  not steady: the time may be {:.0f} % off\n", std::max(1.0, std::ceil(100 * price.doubt)));
  return out;
}

std::vector<std::string> sim_path(const hocket::sim::Simulation& simulation, const Price& price) {
  constexpr std::size_t kMost = 24;
  std::vector<std::string> out;
  const hocket::sim::FoldedWorld& world = simulation.world(simulation.stages() - 1);
  std::string last;
  int times = 0;
  double seconds = 0;
  const auto flush = [&] {
    if (times > 0 && out.size() < kMost)
      out.push_back(format("{}{}, {}", times > 1 ? format("{} x ", times) : "", last, time_text(seconds)));
    if (times > 0 && out.size() == kMost) out.push_back("...");
    times = 0;
    seconds = 0;
  };
  for (const hocket::sim::Hop& hop : price.path) {
    const hocket::sim::Stream& stream = world.streams[static_cast<std::size_t>(hop.stream)];
    const std::string name = stream.kind == hocket::sim::StreamKind::kEngine
                                 ? format("rank {} copies", stream.from)
                                 : format("rank {} to {} over {}", stream.from, stream.to, to_string(stream.wire));
    if (name != last) flush();
    last = name;
    ++times;
    seconds += hop.end - hop.begin;
  }
  flush();
  return out;
}

std::string sim_json(const std::string& machine, const std::vector<SimLine>& lines) {
  using hocket::topo::json_string;
  std::string rows;
  for (const SimLine& line : lines) {
    if (!line.why.empty())
      rows += format("{}{{\"algorithm\":{},\"hosts\":{},\"error\":{}}}", rows.empty() ? "" : ",\n ",
                     json_string(line.algorithm), line.hosts, json_string(line.why));
    for (const SimPoint& point : line.points) {
      rows += format("{}{{\"algorithm\":{},\"hosts\":{},\"ranks\":{},\"copies\":{},\"bytes\":{}",
                     rows.empty() ? "" : ",\n ", json_string(line.algorithm), line.hosts, line.ranks, line.copies,
                     point.bytes);
      if (!point.price) {
        rows += format(",\"error\":{}}}", json_string(point.why));
        continue;
      }
      const Price& price = *point.price;
      rows += format(
          ",\"protocol\":{},\"seconds\":{:.9g},\"algbw_GBps\":{:.6g},\"busbw_GBps\":{:.6g},\"hops\":{},\"spent\":{{",
          json_string(price.protocol), price.seconds, price.algbw / 1e9, price.busbw / 1e9, price.spent.hops);
      for (int w = 0; w < kWires; ++w) {
        const auto at = static_cast<std::size_t>(w);
        rows += format("{}:{{\"latency\":{:.6g},\"bytes\":{:.6g},\"sharing\":{:.6g}}},",
                       json_string(to_string(static_cast<Wire>(w))), price.spent.latency[at], price.spent.transfer[at],
                       price.spent.contention[at]);
      }
      rows += format(
          "\"overhead\":{:.6g}}},\"busiest_link\":{},\"busiest_load\":{:.4g},\"least_seconds\":{:.9g},"
          "\"exact\":{},\"extrapolated\":{},\"doubt\":{:.3g},\"in_library\":{}}}",
          price.spent.overhead, json_string(point.busiest), price.busiest_load, price.least_seconds, line.exact,
          price.extrapolated, price.doubt, line.in_library);
    }
  }
  return format("{{\"machine\":{},\n\"rows\":[{}]}}\n", json_string(machine), rows);
}
