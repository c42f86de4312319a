// SPDX-License-Identifier: Apache-2.0
// tools/sim_plot.cpp: prices as a picture, both axes logarithmic, so that small messages and crossing points are seen.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/format.hpp"
#include "tools/sim_report.hpp"

using hocket::format;

namespace {

// Pixels.
constexpr double kWidth = 980, kHeight = 560, kLeft = 76, kRight = 230, kTop = 76, kBottom = 64;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
// Okabe and Ito's colours, which people with any colour vision tell apart.
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
constexpr std::array kDashes = {"", "7 4", "2 4", "9 3 2 3"};

struct Point {
  double x, y;
};
struct Series {
  std::string name;
  std::size_t colour = 0, dash = 0;
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

template <class T>
std::size_t place_in(std::vector<T>& all, const T& value) {
  const auto found = std::find(all.begin(), all.end(), value);
  if (found != all.end()) return static_cast<std::size_t>(found - all.begin());
  all.push_back(value);
  return all.size() - 1;
}

/// By size, a series for each algorithm and number of hosts; by hosts, one for each algorithm and size.
std::vector<Series> series_of(const std::vector<SimLine>& lines, bool by_hosts) {
  std::vector<Series> all;
  std::vector<std::string> algorithms;
  std::vector<double> seconds_names;
  bool one_kind = true;
  for (const SimLine& line : lines) one_kind = one_kind && line.hosts == lines.front().hosts;
  for (const SimLine& line : lines)
    for (const SimPoint& point : line.points) {
      if (!point.price || !(point.price->busbw > 0)) continue;
      const double kind = by_hosts ? static_cast<double>(point.bytes) : line.hosts;
      std::string name = line.algorithm + (line.in_library ? "" : " (not in the library)");
      if (by_hosts) {
        name += ", " + sim_size(point.bytes);
      } else if (!one_kind) {
        name += format(", {} host{}", line.hosts, line.hosts == 1 ? "" : "s");
      }
      auto series = std::find_if(all.begin(), all.end(), [&](const Series& s) { return s.name == name; });
      if (series == all.end()) {
        all.push_back({name,
                       place_in(algorithms, line.algorithm) % kColours.size(),
                       place_in(seconds_names, kind) % kDashes.size(),
                       {}});
        series = all.end() - 1;
      }
      series->points.push_back(
          {by_hosts ? static_cast<double>(line.hosts) : static_cast<double>(point.bytes), point.price->busbw / 1e9});
    }
  for (Series& series : all)
    std::sort(series.points.begin(), series.points.end(), [](const Point& a, const Point& b) { return a.x < b.x; });
  return all;
}

/// Where two series of one dash cross and are the fastest.
std::vector<Point> crossings(const std::vector<Series>& all) {
  std::vector<Point> found;
  for (const Series& a : all)
    for (const Series& b : all) {
      if (&a >= &b || a.dash != b.dash) continue;
      for (std::size_t p = 1; p < std::min(a.points.size(), b.points.size()); ++p) {
        const Point a0 = a.points[p - 1], a1 = a.points[p], b0 = b.points[p - 1], b1 = b.points[p];
        if (a0.x != b0.x || a1.x != b1.x) continue;
        const double before = std::log(a0.y / b0.y), after = std::log(a1.y / b1.y);
        if (before * after >= 0) continue;
        const double t = before / (before - after);
        const double x = std::exp(std::log(a0.x) + t * std::log(a1.x / a0.x));
        const double y = std::exp(std::log(a0.y) + t * std::log(a1.y / a0.y));
        const bool top = std::none_of(all.begin(), all.end(), [&](const Series& other) {
          if (other.dash != a.dash || p >= other.points.size() || other.points[p].x != a1.x) return false;
          const Point o0 = other.points[p - 1], o1 = other.points[p];
          return std::exp(std::log(o0.y) + t * std::log(o1.y / o0.y)) > y * 1.0001;
        });
        if (top) found.push_back({x, y});
      }
    }
  return found;
}

}  // namespace

std::string sim_svg(const std::string& title, const std::string& subtitle, const std::vector<SimLine>& lines) {
  const bool by_hosts =
      std::all_of(lines.begin(), lines.end(), [](const SimLine& line) { return line.points.size() <= 1; });
  const std::vector<Series> all = series_of(lines, by_hosts);
  double x_least = 1e300, x_most = 0, y_least = 1e300, y_most = 0;
  for (const Series& series : all)
    for (const Point& point : series.points) {
      x_least = std::min(x_least, point.x);
      x_most = std::max(x_most, point.x);
      y_least = std::min(y_least, point.y);
      y_most = std::max(y_most, point.y);
    }
  if (!(x_most > 0)) x_least = x_most = y_least = y_most = 1;
  const double x0 = std::floor(std::log2(x_least)), x1 = std::max(x0 + 1, std::ceil(std::log2(x_most)));
  const double y0 = std::floor(std::log10(y_least)), y1 = std::max(y0 + 1, std::ceil(std::log10(y_most)));
  const auto x_of = [&](double x) { return kLeft + (std::log2(x) - x0) / (x1 - x0) * kPlotWidth; };
  const auto y_of = [&](double y) { return kTop + (1 - (std::log10(y) - y0) / (y1 - y0)) * kPlotHeight; };
  const double bottom = kTop + kPlotHeight, right = kLeft + kPlotWidth;
  std::string svg = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" height=\"{1:g}\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\">\n<rect width=\"{0:g}\" height=\"{1:g}\" "
      "fill=\"#ffffff\"/>\n<text x=\"{2:g}\" y=\"28\" font-size=\"18\" font-weight=\"bold\">{3}</text>\n<text "
      "x=\"{2:g}\" y=\"50\" fill=\"#555555\">{4}</text>\n",
      kWidth, kHeight, kLeft, escaped(title), escaped(subtitle));
  for (double y = y0; y <= y1; ++y)
    svg += format(
        "<line x1=\"{0:g}\" x2=\"{1:g}\" y1=\"{2:g}\" y2=\"{2:g}\" stroke=\"#dddddd\"/><text x=\"{3:g}\" y=\"{4:g}\" "
        "text-anchor=\"end\">{5:g}</text>\n",
        kLeft, right, y_of(std::pow(10, y)), kLeft - 8, y_of(std::pow(10, y)) + 4, std::pow(10, y));
  const double every = x1 - x0 > 12 ? 2 : 1;
  for (double x = x0; x <= x1; x += every) {
    const double at = x_of(std::exp2(x));
    svg += format(
        "<line x1=\"{0:g}\" x2=\"{0:g}\" y1=\"{1:g}\" y2=\"{2:g}\" stroke=\"#eeeeee\"/><text x=\"{0:g}\" y=\"{3:g}\" "
        "text-anchor=\"middle\" font-size=\"11\">{4}</text>\n",
        at, kTop, bottom, bottom + 18,
        by_hosts ? format("{:g}", std::exp2(x)) : sim_size(static_cast<std::uint64_t>(std::exp2(x))));
  }
  svg += format("<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"middle\">{}</text>\n", kLeft + kPlotWidth / 2, bottom + 44,
                by_hosts ? "hosts" : "bytes");
  svg += format("<text x=\"{:g}\" y=\"{:g}\">busbw, GB/s</text>\n", kLeft - 66, kTop - 10);
  double key = kTop + 6;
  for (const Series& series : all) {
    std::string points;
    for (const Point& point : series.points) points += format("{:.1f},{:.1f} ", x_of(point.x), y_of(point.y));
    svg += format(
        "<polyline fill=\"none\" stroke=\"{0}\" stroke-width=\"2\" stroke-dasharray=\"{1}\" points=\"{2}\"/>\n<line "
        "x1=\"{3:g}\" x2=\"{4:g}\" y1=\"{5:g}\" y2=\"{5:g}\" stroke=\"{0}\" stroke-width=\"2\" "
        "stroke-dasharray=\"{1}\"/><text x=\"{6:g}\" y=\"{7:g}\">{8}</text>\n",
        kColours[series.colour], kDashes[series.dash], points, right + 14, right + 40, key, right + 46, key + 4,
        escaped(series.name));
    key += 20;
  }
  for (const Point& point : crossings(all))
    svg +=
        format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"none\" stroke=\"#000000\" stroke-width=\"1.5\"/>\n",
               x_of(point.x), y_of(point.y));
  svg += format("<text x=\"{:g}\" y=\"{:g}\" fill=\"#555555\" font-size=\"11\">circles: the fastest changes</text>\n",
                right + 14, key + 8);
  return svg + "</svg>\n";
}
