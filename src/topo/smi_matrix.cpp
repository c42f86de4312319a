// SPDX-License-Identifier: Apache-2.0
// topo/smi_matrix.cpp: see smi_matrix.hpp.
#include "topo/smi_matrix.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "base/status.hpp"

namespace hocket::topo {

namespace {

constexpr std::size_t kLimitDevices = 1024;

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> out;
  while (true) {
    const auto begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return out;
    const auto end = std::min(line.find_first_of(" \t", begin), line.size());
    out.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

std::vector<std::string_view> fields(std::string_view line) {
  std::vector<std::string_view> out;
  while (true) {
    const auto end = line.find('\t');
    out.push_back(trimmed(line.substr(0, end)));
    if (end == std::string_view::npos) return out;
    line.remove_prefix(end + 1);
  }
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (bad != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

bool is_gpu_name(std::string_view text) {
  return text.starts_with("GPU") && number(text.substr(3)).has_value();
}

// What a whole cell says; nothing if it is no cell. kUnknown with no links is the device itself, or "N/A".
std::optional<SmiCell> cell_of(std::string_view text) {
  if (text == "X" || text == "N/A") return SmiCell{};
  if (text == "PIX") return SmiCell{Nearness::kPix, 0};
  if (text == "PXB") return SmiCell{Nearness::kPxb, 0};
  if (text == "PHB") return SmiCell{Nearness::kPhb, 0};
  if (text == "NODE") return SmiCell{Nearness::kNode, 0};
  if (text == "SYS" || text == "SOC") return SmiCell{Nearness::kSys, 0};
  if (text.starts_with("NV")) {
    const auto links = number(text.substr(2));
    if (links && *links >= 1 && *links <= 64) return SmiCell{Nearness::kUnknown, *links};
  }
  return std::nullopt;
}

// A cell whose end was lost and that ran into the CPU list behind it: "PH0-115". The list is handed back.
std::optional<SmiCell> torn_cell(std::string_view text, std::string_view* rest) {
  const auto digits = text.find_first_of("0123456789");
  if (digits == std::string_view::npos || digits == 0) return std::nullopt;
  const std::string_view word = text.substr(0, digits);
  static constexpr std::pair<std::string_view, Nearness> kBegins[] = {{"PIX", Nearness::kPix},
                                                                      {"PXB", Nearness::kPxb},
                                                                      {"PHB", Nearness::kPhb},
                                                                      {"NODE", Nearness::kNode},
                                                                      {"SYS", Nearness::kSys}};
  for (const auto& [whole, near] : kBegins) {
    if (whole.starts_with(word) && (word.size() >= 2 || whole[0] == 'S')) {
      *rest = text.substr(digits);
      return SmiCell{near, 0};
    }
  }
  return std::nullopt;
}

bool is_list(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789,-") == std::string_view::npos;
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& name) : name_(name) {
    while (!text.empty()) {
      const auto end = text.find('\n');
      lines_.push_back(text.substr(0, end));
      if (end == std::string_view::npos) break;
      text.remove_prefix(end + 1);
    }
  }

  Result<SmiMatrix> parse() {
    const bool amd = std::any_of(lines_.begin(), lines_.end(), [](std::string_view line) {
      return line.find("Weight between two GPUs") != std::string_view::npos ||
             line.find("Link Type between two GPUs") != std::string_view::npos ||
             line.find("LINK TYPE TABLE") != std::string_view::npos;
    });
    HOCKET_TRY(amd ? read_amd() : read_nvidia());
    mirror();
    return std::move(matrix_);
  }

 private:
  template <class... Args>
  void note(std::size_t line, fmt::format_string<Args...> text, Args&&... args) {
    constexpr std::size_t kMost = 50;
    if (matrix_.notes.size() >= kMost) return;
    matrix_.notes.push_back(format("{}:{}: {}", name_, line + 1, hocket::format(text, std::forward<Args>(args)...)));
  }

  int device(std::string_view column) const {
    for (std::size_t i = 0; i < matrix_.devices.size(); ++i) {
      if (matrix_.devices[i].column == column) return static_cast<int>(i);
    }
    return -1;
  }

  Status add_devices(const std::vector<std::string_view>& names, std::size_t line) {
    for (const std::string_view column : names) {
      if (device(column) >= 0) {
        return error(Code::kInvalidArgument, "{}:{}: the header names {} twice", name_, line + 1, column);
      }
      SmiDevice one;
      one.column = one.name = column;
      one.gpu = is_gpu_name(column);
      matrix_.devices.push_back(std::move(one));
    }
    if (matrix_.devices.size() > kLimitDevices)
      return error(Code::kInvalidArgument, "{}:{}: {} devices are too many", name_, line + 1, matrix_.devices.size());
    const std::size_t n = matrix_.devices.size();
    matrix_.cells.assign(n, std::vector<SmiCell>(n));
    return {};
  }

  // ---- nvidia-smi

  // Titles of the columns behind the matrix.
  static bool is_title(std::string_view word) {
    return word == "CPU" || word == "NUMA" || word == "Affinity" || word == "GPU" || word == "ID";
  }

  // "GPU0 GPU1 NIC0 CPU Affinity …", perhaps wrapped; the line behind it.
  Result<std::size_t> read_header() {
    for (std::size_t line = 0; line < lines_.size(); ++line) {
      std::vector<std::string_view> names = words(lines_[line]);
      if (names.empty() || !is_gpu_name(names[0])) continue;
      if (names.size() > 1 && cell_of(names[1])) continue;  // a row: its header was lost
      std::size_t next = line + 1;
      const auto is_header = [](std::string_view word) {
        return is_title(word) || (!cell_of(word) && !is_list(word) && word.back() != ':');
      };
      while (next < lines_.size()) {  // a header that the terminal wrapped goes on with names that are no row
        const std::vector<std::string_view> more = words(lines_[next]);
        if (more.empty() || more[0] == names[0] || !std::all_of(more.begin(), more.end(), is_header)) break;
        names.insert(names.end(), more.begin(), more.end());
        ++next;
      }
      std::vector<std::string_view> devices;
      for (const std::string_view word : names) {
        if (is_title(word)) break;
        devices.push_back(word);
      }
      for (const std::string_view word : names) {
        has_cpus_ |= word == "CPU";
        has_numa_ |= word == "NUMA";
      }
      HOCKET_TRY(add_devices(devices, line));
      return next;
    }
    return error(Code::kInvalidArgument, "{}: no header such as 'GPU0 GPU1 … CPU Affinity', so no matrix", name_);
  }

  Status read_nvidia() {
    HOCKET_ASSIGN(std::size_t line, read_header());
    const std::size_t first = line;
    bool legend = false;
    bool legend_has_nv = false;
    int last_row = -1;
    std::size_t last_cells = 0;
    for (; line < lines_.size(); ++line) {
      const std::vector<std::string_view> tokens = words(lines_[line]);
      if (tokens.empty()) continue;
      if (const int row = device(tokens[0]); row >= 0 && tokens.size() > 1 && tokens[1] != "=") {
        last_cells = read_row(row, line);
        last_row = row;
        continue;
      }
      if (tokens.size() >= 3 && tokens[1] == "=") {
        legend = true;
        legend_has_nv |= tokens[0] == "NV#";
        continue;
      }
      if (tokens.size() >= 2 && tokens[0].ends_with(':')) {
        if (const int at = device(tokens[0].substr(0, tokens[0].size() - 1)); at >= 0)
          matrix_.devices[static_cast<std::size_t>(at)].name = tokens[1];
        continue;
      }
      if (last_row >= 0 && last_cells < matrix_.devices.size() && cell_of(tokens[0]))
        last_cells = continue_row(last_row, last_cells, tokens, line);
    }
    if (last_row < 0)
      return error(Code::kInvalidArgument, "{}:{}: a header of {} devices and no row under it", name_, first,
                   matrix_.devices.size());
    matrix_.nvlink_hidden = legend && !legend_has_nv;
    return {};
  }

  static std::size_t good_cells(const std::vector<std::string_view>& texts, std::size_t n) {
    std::size_t good = 0;
    for (std::size_t i = 1; i < texts.size() && i <= n; ++i) good += cell_of(texts[i]).has_value();
    return good;
  }

  // Returns how many cells the row had.
  std::size_t read_row(int row, std::size_t line) {
    SmiDevice& device = matrix_.devices[static_cast<std::size_t>(row)];
    if (device.has_row) {
      note(line, "a second row of {}, skipped", device.column);
      return matrix_.devices.size();
    }
    device.has_row = true;
    const std::size_t n = matrix_.devices.size();
    // Tabs tell empty cells; where they were lost, words are all there is.
    std::vector<std::string_view> texts = fields(lines_[line]);
    while (!texts.empty() && texts[0].empty()) texts.erase(texts.begin());
    const std::vector<std::string_view> by_words = words(lines_[line]);
    const bool tabs = texts.size() > 1 && good_cells(texts, n) >= good_cells(by_words, n);
    if (!tabs) texts = by_words;
    std::size_t at = 1;
    std::size_t column = 0;
    std::string_view torn_rest;
    bool torn = false;
    for (; column < n && at < texts.size(); ++column, ++at) {
      if (const auto cell = cell_of(texts[at])) {
        cell_at(row, column) = *cell;
        continue;
      }
      if (!tabs && is_list(texts[at])) break;  // the row was cut and its CPU list follows
      if (const auto cell = torn_cell(texts[at], &torn_rest)) {
        cell_at(row, column) = *cell;
        torn = true;
        note(line, "{} and {}: '{}' is no cell, taken as its beginning says", device.column,
             matrix_.devices[column].column, texts[at]);
        ++column;
        ++at;
        break;
      }
      note(line, "{} and {}: '{}' is no cell, taken as unknown", device.column, matrix_.devices[column].column,
           texts[at]);
    }
    if (column < n) note(line, "{}: {} of {} cells, the rest is taken from the other rows", device.column, column, n);
    if (torn) {
      device.cpus = torn_rest;
      read_affinity(&device, texts, at, false, tabs);
    } else if (column == n) {
      read_affinity(&device, texts, at, has_cpus_, tabs);
    }
    return column;
  }

  void read_affinity(SmiDevice* device, const std::vector<std::string_view>& texts, std::size_t at, bool cpus,
                     bool tabs) {
    const auto take = [&](std::string* out) {
      if (at >= texts.size()) return;
      if (is_list(texts[at])) *out = texts[at];
      if (tabs || is_list(texts[at])) ++at;
    };
    if (cpus) take(&device->cpus);
    if (has_numa_) take(&device->numa);
    while (tabs && at < texts.size() && texts[at].empty()) ++at;
    take(&device->gpu_numa);
  }

  std::size_t continue_row(int row, std::size_t column, const std::vector<std::string_view>& tokens, std::size_t line) {
    SmiDevice& device = matrix_.devices[static_cast<std::size_t>(row)];
    std::size_t at = 0;
    for (; at < tokens.size() && column < matrix_.devices.size(); ++at, ++column) {
      const auto cell = cell_of(tokens[at]);
      if (!cell) break;
      cell_at(row, column) = *cell;
    }
    note(line, "goes on with the row of {}", device.column);
    if (column == matrix_.devices.size()) read_affinity(&device, tokens, at, has_cpus_, false);
    return column;
  }

  SmiCell& cell_at(int row, std::size_t column) { return matrix_.cells[static_cast<std::size_t>(row)][column]; }

  // ---- rocm-smi, amd-smi

  enum class Table { kNone, kWeight, kHops, kType };

  Status read_amd() {
    matrix_.xgmi = true;
    Table table = Table::kNone;
    std::map<Table, std::vector<std::vector<std::string>>> tables;
    std::size_t rows = 0;
    for (std::size_t line = 0; line < lines_.size(); ++line) {
      const std::string_view text = lines_[line];
      const auto has = [&text](std::string_view part) { return text.find(part) != std::string_view::npos; };
      if (has("Weight between") || has("WEIGHT TABLE")) {
        table = Table::kWeight;
      } else if (has("Hops between") || has("HOPS TABLE")) {
        table = Table::kHops;
      } else if (has("Link Type between") || has("LINK TYPE TABLE")) {
        table = Table::kType;
      } else if (has("Numa Node:")) {
        read_numa_line(text);
      } else if (has("=====") || has("TABLE")) {
        table = Table::kNone;
      } else if (table != Table::kNone) {
        const std::vector<std::string_view> tokens = words(text);
        if (tokens.empty()) continue;
        const int row = device(tokens[0]);
        if (matrix_.devices.empty()) {
          HOCKET_TRY(add_devices(tokens, line));
          for (SmiDevice& one : matrix_.devices) one.gpu = true;
        } else if (row >= 0 && tokens.size() > 1 && device(tokens[1]) < 0) {
          auto& values = tables[table];
          values.resize(matrix_.devices.size());
          values[static_cast<std::size_t>(row)].assign(tokens.begin() + 1, tokens.end());
          if (tokens.size() - 1 != matrix_.devices.size())
            note(line, "{}: {} of {} cells", tokens[0], tokens.size() - 1, matrix_.devices.size());
          matrix_.devices[static_cast<std::size_t>(row)].has_row = true;
          ++rows;
        }
      }
    }
    if (rows == 0) return error(Code::kInvalidArgument, "{}: tables of links with no row", name_);
    for (std::size_t i = 0; i < matrix_.devices.size(); ++i) {
      for (std::size_t j = 0; j < matrix_.devices.size(); ++j) {
        const auto value = [&](Table which) -> std::string {
          const auto found = tables.find(which);
          if (found == tables.end() || i >= found->second.size() || j >= found->second[i].size()) return "";
          return found->second[i][j];
        };
        if (i != j)
          cell_at(static_cast<int>(i), j) = amd_cell(value(Table::kType), value(Table::kHops), value(Table::kWeight));
      }
    }
    return {};
  }

  // The kernel counts 15 for an xGMI link and 20 for a way to a CPU over PCIe, 12 or 32 more between sockets.
  static SmiCell amd_cell(const std::string& type, const std::string& hops, const std::string& weight) {
    const int steps = number(hops).value_or(0);
    const int cost = number(weight).value_or(0);
    if (type == "XGMI" || (type.empty() && cost > 0 && cost <= 15))
      return steps <= 1 && cost < 30 ? SmiCell{Nearness::kUnknown, 1} : SmiCell{};
    if (steps == 0 && cost == 0) return {};
    const bool near = steps > 0 ? steps <= 2 : cost <= 40;
    return {near ? Nearness::kNode : Nearness::kSys, 0};
  }

  // "GPU[0]  : (Topology) Numa Node: 0"
  void read_numa_line(std::string_view text) {
    const auto open = text.find('[');
    const auto close = text.find(']');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) return;
    const int at = device(format("GPU{}", text.substr(open + 1, close - open - 1)));
    const std::string_view value = trimmed(text.substr(text.rfind(':') + 1));
    if (at >= 0 && number(value)) matrix_.devices[static_cast<std::size_t>(at)].numa = value;
  }

  // ---- Both halves

  void mirror() {
    const std::size_t n = matrix_.devices.size();
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = i + 1; j < n; ++j) {
        SmiCell& a = matrix_.cells[i][j];
        SmiCell& b = matrix_.cells[j][i];
        const SmiCell none;
        if (a == b) continue;
        if (a != none && b != none) {
          matrix_.notes.push_back(format("{}: {} and {}: the two halves of the matrix differ, the farther is taken",
                                         name_, matrix_.devices[i].column, matrix_.devices[j].column));
          const bool links = a.links > 0 && b.links > 0;
          a = links ? SmiCell{Nearness::kUnknown, std::min(a.links, b.links)} : (a.near > b.near ? a : b);
          b = a;
        }
        if (a == none) a = b;
        if (b == none) b = a;
      }
    }
  }

  const std::string& name_;
  std::vector<std::string_view> lines_;
  bool has_cpus_ = false;
  bool has_numa_ = false;
  SmiMatrix matrix_;
};

}  // namespace

std::string clean_paste(std::string_view text) {
  std::string out;
  bool line_start = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == 0x1b && i + 1 < text.size() && text[i + 1] == '[') {  // a colour
      i += 2;
      while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x40) ++i;
      continue;
    }
    if (c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) == 0xa0) {  // no-break blank
      out += ' ';
      ++i;
      continue;
    }
    if (c == 0xef && text.substr(i).starts_with("\xef\xbb\xbf")) {
      i += 2;
      continue;
    }
    if (c == '\r' || c == '`') continue;
    if (line_start && (c == '>' || c == ' ')) {  // quoted mail, indented text
      continue;
    }
    line_start = c == '\n';
    if (c == '|') {
      out += '\t';
    } else {
      out += c < 0x20 && c != '\n' && c != '\t' ? ' ' : text[i];
    }
  }
  return out;
}

Result<SmiMatrix> parse_smi(std::string_view text, const std::string& name) {
  constexpr std::size_t kLimitBytes = 4 << 20;
  if (text.size() > kLimitBytes)
    return error(Code::kInvalidArgument, "{}: {} bytes are too many for a matrix of devices", name, text.size());
  const std::string clean = clean_paste(text);
  return Parser(clean, name).parse();
}

}  // namespace hocket::topo
