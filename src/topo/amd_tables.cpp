// SPDX-License-Identifier: Apache-2.0
// topo/amd_tables.cpp: see amd_tables.hpp.
#include "topo/amd_tables.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "base/status.hpp"
#include "topo/words.hpp"

namespace hocket::topo {

namespace {

enum class Table { kNone, kWeight, kHops, kType, kBandwidth };

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Of rocm-smi, then of amd-smi. Nothing for a line that is no title.
std::optional<Table> title(std::string_view line) {
  if (has(line, "Weight between") || has(line, "WEIGHT TABLE")) return Table::kWeight;
  if (has(line, "Hops between") || has(line, "HOPS TABLE")) return Table::kHops;
  if (has(line, "Link Type between") || has(line, "LINK TYPE TABLE")) return Table::kType;
  if (has(line, "NUMA BW TABLE") || (has(line, "====") && has(line, "Bandwidth"))) return Table::kBandwidth;
  if (has(line, "=====") || has(line, "TABLE")) return Table::kNone;
  return std::nullopt;
}

// "50000-200000" MB/s, of one link and of all: 4. One where that is not told.
int links_in(std::string_view bandwidth) {
  const auto dash = bandwidth.find('-');
  if (dash == std::string_view::npos) return 1;
  const int one = number_in(bandwidth.substr(0, dash)).value_or(0);
  const int all = number_in(bandwidth.substr(dash + 1)).value_or(0);
  constexpr int kMostLinks = 16;
  return one > 0 && all % one == 0 && all / one >= 1 && all / one <= kMostLinks ? all / one : 1;
}

// The kernel counts 15 for an xGMI link and 20 for a way to a CPU over PCIe, 12 or 32 more between sockets.
SmiCell amd_cell(const std::string& type, const std::string& hops, const std::string& weight,
                 const std::string& bandwidth) {
  const int steps = number_in(hops).value_or(0);
  const int cost = number_in(weight).value_or(0);
  if (type == "XGMI" || (type.empty() && cost > 0 && cost <= 15)) {
    const bool direct = steps <= 1 && cost < 30 && bandwidth != "0-0";
    return direct ? SmiCell{Nearness::kUnknown, links_in(bandwidth)} : SmiCell{};
  }
  if (steps == 0 && cost == 0) return {};
  const bool near = steps > 0 ? steps <= 2 : cost <= 40;
  return {near ? Nearness::kNode : Nearness::kSys, 0};
}

// "GPU[0]  : (Topology) Numa Node: 0"
void read_numa_line(std::string_view text, SmiMatrix* matrix) {
  const auto open = text.find('[');
  const auto close = text.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return;
  const int at = matrix->find(format("GPU{}", text.substr(open + 1, close - open - 1)));
  const std::string_view value = trimmed(text.substr(text.rfind(':') + 1));
  if (at >= 0 && number_in(value)) matrix->devices[static_cast<std::size_t>(at)].numa = value;
}

// "GPU3" or a bus id, as these tables call devices.
bool is_device_name(std::string_view word) {
  return (word.starts_with("GPU") && number_in(word.substr(3))) || std::count(word.begin(), word.end(), ':') == 2;
}

}  // namespace

bool has_amd_tables(const std::vector<std::string_view>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](std::string_view line) {
    const std::optional<Table> table = title(line);
    return table && *table != Table::kNone && *table != Table::kBandwidth;
  });
}

Status read_amd_tables(const std::vector<std::string_view>& lines, const std::string& name, SmiMatrix* matrix) {
  matrix->xgmi = true;
  Table table = Table::kNone;
  std::map<Table, std::vector<std::vector<std::string>>> tables;
  std::size_t rows = 0;
  for (std::size_t line = 0; line < lines.size(); ++line) {
    if (const std::optional<Table> next = title(lines[line])) {
      table = *next;
      continue;
    }
    if (has(lines[line], "Numa Node:")) {
      read_numa_line(lines[line], matrix);
      continue;
    }
    const std::vector<std::string_view> tokens = words_of(lines[line]);
    if (table == Table::kNone || tokens.empty()) continue;
    if (matrix->devices.empty()) {
      if (!std::all_of(tokens.begin(), tokens.end(), is_device_name)) continue;
      if (Status bad = matrix->add(tokens); !bad.ok())
        return error(bad.code(), "{}:{}: {}", name, line + 1, bad.text());
      for (SmiDevice& one : matrix->devices) one.gpu = true;
      continue;
    }
    const int row = matrix->find(tokens[0]);
    if (row < 0 || tokens.size() < 2 || matrix->find(tokens[1]) >= 0) continue;
    auto& values = tables[table];
    values.resize(matrix->devices.size());
    values[static_cast<std::size_t>(row)].assign(tokens.begin() + 1, tokens.end());
    if (tokens.size() - 1 != matrix->devices.size() && matrix->notes.size() < 50)
      matrix->notes.push_back(
          format("{}:{}: {}: {} of {} cells", name, line + 1, tokens[0], tokens.size() - 1, matrix->devices.size()));
    matrix->devices[static_cast<std::size_t>(row)].has_row = true;
    ++rows;
  }
  if (rows == 0) return error(Code::kInvalidArgument, "{}: tables of links with no row", name);
  for (std::size_t i = 0; i < matrix->devices.size(); ++i) {
    for (std::size_t j = 0; j < matrix->devices.size(); ++j) {
      const auto value = [&](Table which) -> std::string {
        const auto found = tables.find(which);
        if (found == tables.end() || i >= found->second.size() || j >= found->second[i].size()) return "";
        return found->second[i][j];
      };
      if (i != j)
        matrix->cell(static_cast<int>(i), j) =
            amd_cell(value(Table::kType), value(Table::kHops), value(Table::kWeight), value(Table::kBandwidth));
    }
  }
  return {};
}

}  // namespace hocket::topo
