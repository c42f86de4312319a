// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/plot.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>

#include "base/status.hpp"

namespace hocket::perf {
namespace {

// Pixels.
constexpr double kWidth = 960, kHeight = 540;
constexpr double kLeft = 70, kRight = 210, kTop = 70, kBottom = 64;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;

// Okabe and Ito's colours, which people with any colour vision tell apart; the yellow one is too pale for a line.
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
// After the last colour they come again, dashed.
constexpr std::array kDashes = {"", "7 4", "2 4"};

struct Point {
  double bytes, busbw;
};
struct Line {
  std::string name;
  std::vector<Point> points;
};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    }
  }
  return out;
}

std::vector<Line> lines_of(const std::vector<Row>& rows) {
  const bool any_out = std::any_of(rows.begin(), rows.end(), [](const Row& row) { return !row.in_place; });
  std::vector<Line> lines;
  const auto differ = [&](auto field) {
    return std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return row.*field != rows.front().*field; });
  };
  const bool types = differ(&Row::type), ops = differ(&Row::op), roots = differ(&Row::root);
  for (const Row& row : rows) {
    if (row.in_place && any_out) continue;
    std::string name = row.algo;
    if (types) name += " " + row.type;
    if (ops) name += " " + row.op;
    if (roots) name += format(" root {}", row.root);
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& one) { return one.name == name; });
    if (line == lines.end()) line = lines.insert(line, Line{name, {}});
    line->points.push_back({static_cast<double>(std::max<std::size_t>(row.bytes, 1)), row.busbw});
  }
  for (Line& line : lines)
    std::sort(line.points.begin(), line.points.end(), [](const Point& a, const Point& b) { return a.bytes < b.bytes; });
  return lines;
}

// 1, 2 or 5 times a power of ten: about `parts` steps up to `most`.
double step_for(double most, int parts) {
  const double rough = most / parts;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double times : {1.0, 2.0, 5.0})
    if (times * power >= rough * 0.999) return times * power;
  return 10 * power;
}

std::string size_text(double bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) bytes /= 1024, ++unit;
  return format("{:.4g} {}", bytes, kUnits[unit]);
}

}  // namespace

std::string plot_svg(const std::string& title, const std::string& subtitle, const std::vector<Row>& rows) {
  const std::vector<Line> lines = lines_of(rows);
  double least = 1, most = 1, highest = 0;
  bool any = false;
  for (const Line& line : lines)
    for (const Point& point : line.points) {
      least = any ? std::min(least, point.bytes) : point.bytes;
      most = any ? std::max(most, point.bytes) : point.bytes;
      highest = std::max(highest, point.busbw);
      any = true;
    }
  // Whole powers of two, and never of no width or height.
  const double first = std::floor(std::log2(least)), last = std::max(first + 1, std::ceil(std::log2(most)));
  if (!(highest > 0)) highest = 1;
  const double step = step_for(highest, 6);
  const double top = std::ceil(highest / step - 1e-9) * step;
  const auto x_of = [&](double bytes) { return kLeft + (std::log2(bytes) - first) / (last - first) * kPlotWidth; };
  const auto y_of = [&](double busbw) { return kTop + (1 - busbw / top) * kPlotHeight; };
  const double bottom = kTop + kPlotHeight, right = kLeft + kPlotWidth;

  std::string svg = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" height=\"{1:g}\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\">\n"
      "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"#ffffff\"/>\n"
      "<text x=\"{2:g}\" y=\"28\" font-size=\"18\" font-weight=\"bold\">{3}</text>\n"
      "<text x=\"{2:g}\" y=\"50\" fill=\"#555555\">{4}</text>\n",
      kWidth, kHeight, kLeft, escaped(title), escaped(subtitle));

  // Grid, with a label at every line, or at every second and so on where there are many.
  const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  for (int i = 0; i * step <= top * 1.001; ++i) {
    const double y = y_of(i * step);
    svg +=
        format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"{}\"/>\n", kLeft, y, right, i == 0 ? "#555555" : "#dddddd");
    svg += format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.{}f}</text>\n", kLeft - 8, y + 4.5, i * step,
                  digits);
  }
  const int every = static_cast<int>(std::ceil((last - first) / 12));
  for (double power = first; power <= last; power += every) {
    const double x = x_of(std::exp2(power));
    svg += format("<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"#eeeeee\"/>\n", x, kTop, bottom);
    svg += format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x, bottom + 20,
                  size_text(std::exp2(power)));
  }
  svg += format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">size</text>\n", kLeft + kPlotWidth / 2,
                bottom + 46);
  svg += format(
      "<text transform=\"translate(20 {:.1f}) rotate(-90)\" text-anchor=\"middle\">bus bandwidth (GB/s)</text>\n",
      kTop + kPlotHeight / 2);

  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string colour = kColours[i % kColours.size()];
    const std::string dash = kDashes[i / kColours.size() % kDashes.size()];
    const std::string stroke = format("fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-linejoin=\"round\"{}",
                                      colour, dash.empty() ? "" : format(" stroke-dasharray=\"{}\"", dash));
    std::string path, dots;
    for (const Point& point : lines[i].points) {
      const double x = x_of(point.bytes), y = y_of(point.busbw);
      path += format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
      dots += format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{} at {}: {:.2f} GB/s</title></circle>\n", x,
                     y, escaped(lines[i].name), size_text(point.bytes), point.busbw);
    }
    svg += format("<path d=\"{}\" {}/>\n<g fill=\"{}\">\n{}</g>\n", path, stroke, colour, dots);
    const double y = kTop + 10 + 22 * static_cast<double>(i);
    svg += format("<path d=\"M{:.1f} {:.1f}h26\" {}/>\n", right + 18, y, stroke);
    svg += format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", right + 52, y + 4.5, escaped(lines[i].name));
  }
  return svg + "</svg>\n";
}

std::string machine_text() {
  std::string model;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; model.empty() && std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t value = line.find(": ");
    if (value != std::string::npos) model = line.substr(value + 2);
  }
  cpu_set_t allowed;
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  const int usable = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
  const std::string cpus = usable == online || usable == 0 ? format("{} CPU{}", online, online == 1 ? "" : "s")
                                                           : format("{} of {} CPUs", usable, online);
  return model.empty() ? cpus : model + ", " + cpus;
}

}  // namespace hocket::perf
