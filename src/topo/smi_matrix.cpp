// SPDX-License-Identifier: Apache-2.0
// topo/smi_matrix.cpp: see smi_matrix.hpp. nvidia-smi's matrix is read here, AMD's tables in amd_tables.cpp.
#include "topo/smi_matrix.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "base/status.hpp"
#include "topo/amd_tables.hpp"
#include "topo/paste.hpp"
#include "topo/words.hpp"

namespace hocket::topo {

namespace {

constexpr std::size_t kLimitDevices = 1024;
constexpr std::size_t kMostMarks = 8;  // words that a log puts before a line

bool is_gpu_name(std::string_view text) {
  return text.starts_with("GPU") && number_in(text.substr(3)).has_value();
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
    const auto links = number_in(text.substr(2));
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

// What `topo -p2p` prints in place of a distance.
bool is_capability(std::string_view text) {
  for (const std::string_view word : {"OK", "NS", "CNS", "GNS", "TNS", "DR"}) {
    if (text == word) return true;
  }
  return false;
}

bool is_list(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789,-") == std::string_view::npos;
}

// Titles of the columns behind the matrix.
bool is_title(std::string_view word) {
  return word == "CPU" || word == "NUMA" || word == "Affinity" || word == "GPU" || word == "ID";
}

// A launcher or a log puts its own mark before each line, with blanks behind it or not: "[1,0]:GPU0", "+GPU0".
std::string_view without_mark(std::string_view word) {
  const auto mark = word.find_last_of(":+>]|)");
  return mark == std::string_view::npos || mark + 1 == word.size() ? word : word.substr(mark + 1);
}

std::string_view from_word(std::string_view line, std::string_view word) {
  return line.substr(static_cast<std::size_t>(word.data() - line.data()));
}

// Models by the name that other tools print near a matrix ("GPU 0: NVIDIA H100 80GB HBM3"), longer names first.
int capability_of_model(std::string_view text) {
  static constexpr std::pair<std::string_view, int> kModels[] = {
      {"GB300", 103}, {"GB200", 100},   {"GH200", 90}, {"B300", 103}, {"B200", 100}, {"H100", 90},
      {"H200", 90},   {"H800", 90},     {"H20", 90},   {"A100", 80},  {"A800", 80},  {"V100", 70},
      {"P100", 60},   {"RTX 3090", 86}, {"A6000", 86}, {"A5000", 86}, {"A40", 86}};
  for (const auto& [model, capability] : kModels) {
    for (const std::string_view maker : {"NVIDIA ", "Tesla ", "GeForce ", "RTX "}) {
      const std::string name = std::string(maker) + std::string(model);
      if (text.find(name) != std::string_view::npos) return capability;
    }
  }
  return 0;
}

// A text that lost its ends of lines: each row on its own line again.
std::vector<std::string_view> a_row_a_line(const std::vector<std::string_view>& lines) {
  std::vector<std::string_view> out;
  for (std::string_view line : lines) {
    const std::vector<std::string_view> tokens = words_of(line);
    std::vector<std::string_view> begins;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const bool letter = (tokens[i][0] | 0x20) >= 'a' && (tokens[i][0] | 0x20) <= 'z';
      const bool name = letter && tokens[i].find_first_of("0123456789") != std::string_view::npos;
      if (name && !cell_of(tokens[i]) && cell_of(tokens[i + 1])) begins.push_back(tokens[i]);
    }
    if (begins.size() > 1) {
      for (const std::string_view begin : begins) {
        const auto at = static_cast<std::size_t>(begin.data() - line.data());
        if (at > 0) out.push_back(line.substr(0, at));
        line.remove_prefix(at);
      }
    }
    out.push_back(line);
  }
  return out;
}

class Parser {
 public:
  Parser(std::vector<std::string_view> lines, const std::string& name, SmiMatrix* matrix)
      : lines_(std::move(lines)), row_names_(names_of_rows(lines_)), name_(name), matrix_(*matrix) {}

  Status parse() {
    HOCKET_ASSIGN(std::size_t line, read_header());
    const std::size_t first = line;
    bool legend = false;
    bool legend_has_nv = false;
    int last_row = -1;
    std::size_t last_cells = 0;
    for (; line < lines_.size(); ++line) {
      const std::vector<std::string_view> tokens = words_of(lines_[line]);
      if (tokens.empty()) continue;
      if (const std::string_view begin = row_in(tokens); !begin.empty()) {
        lines_[line] = from_word(lines_[line], begin);
        last_row = matrix_.find(begin);
        last_cells = read_row(last_row, line);
        continue;
      }
      if (tokens.size() >= 3 && tokens[1] == "=") {
        legend = true;
        legend_has_nv |= tokens[0] == "NV#";
        continue;
      }
      if (tokens.size() >= 2 && tokens[0].ends_with(':')) {
        if (const int at = matrix_.find(tokens[0].substr(0, tokens[0].size() - 1)); at >= 0)
          matrix_.devices[static_cast<std::size_t>(at)].name = tokens[1];
        continue;
      }
      if (last_row >= 0 && last_cells < matrix_.devices.size() && cell_of(tokens[0]))
        last_cells = continue_row(last_row, last_cells, tokens, line);
    }
    if (last_row < 0)
      return error(Code::kInvalidArgument, "{}:{}: a header of {} devices and no row under it", name_, first,
                   matrix_.devices.size());
    matrix_.nvlink_hidden = legend && !legend_has_nv && !any_links();
    return {};
  }

 private:
  template <class... Args>
  void note(std::size_t line, fmt::format_string<Args...> text, Args&&... args) {
    constexpr std::size_t kMost = 50;
    if (matrix_.notes.size() >= kMost) return;
    matrix_.notes.push_back(format("{}:{}: {}", name_, line + 1, hocket::format(text, std::forward<Args>(args)...)));
  }

  // ---- Header

  // "GPU0 GPU1 NIC0 CPU Affinity …", perhaps behind a mark, perhaps wrapped; the line behind it.
  Result<std::size_t> read_header() {
    for (std::size_t line = 0; line < lines_.size(); ++line) {
      std::vector<std::string_view> names = header_in(words_of(lines_[line]));
      if (names.empty()) continue;
      if (names.size() > 1 && is_capability(names[1])) continue;
      std::size_t next = line + 1;
      const auto is_header = [](std::string_view word) {
        return is_title(word) || (!cell_of(word) && !is_list(word) && word.back() != ':');
      };
      bool titles = std::any_of(names.begin(), names.end(), is_title);
      while (next < lines_.size()) {  // a header that the terminal wrapped goes on with names that are no row
        const std::vector<std::string_view> more = words_of(lines_[next]);
        if (more.empty() || more[0] == names[0] || !std::all_of(more.begin(), more.end(), is_header)) break;
        if (!titles && !is_title(more[0]) && !std::any_of(more.begin(), more.end(), is_column)) break;
        titles |= std::any_of(more.begin(), more.end(), is_title);
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
      HOCKET_TRY(check_rows(devices[0]));
      if (Status bad = matrix_.add(devices); !bad.ok())
        return error(bad.code(), "{}:{}: the header: {}", name_, line + 1, bad.text());
      return next;
    }
    return header_of_rows();
  }

  // A device's column: letters and a digit somewhere ("mlx5_bond_0", "NIC3").
  static bool is_column(std::string_view word) { return word.find_first_of("0123456789") != std::string_view::npos; }

  // The words from the first GPU on, if these are a header: names of devices, not the cells of a row.
  std::vector<std::string_view> header_in(std::vector<std::string_view> tokens) const {
    for (std::size_t i = 0; i < tokens.size() && i <= kMostMarks; ++i) {
      const std::string_view name = without_mark(tokens[i]);
      if (!is_gpu_name(name)) continue;
      if (i + 1 < tokens.size() && cell_of(tokens[i + 1])) return {};  // a row: its header was lost
      // A sentence may speak of GPU0 as well.
      const auto titles = std::find_if(tokens.begin(), tokens.end(), is_title);
      const bool marked = i > 0 || name.size() != tokens[i].size();
      if (marked || titles == tokens.end()) {
        const bool names = std::all_of(tokens.begin() + static_cast<std::ptrdiff_t>(i), titles, is_column);
        if (!names || (marked && !row_names_.contains(name))) return {};
      }
      tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i));
      tokens[0] = name;
      return tokens;
    }
    return {};
  }

  // Names that stand before a cell somewhere, at a line's beginning or behind a mark.
  static std::set<std::string_view> names_of_rows(const std::vector<std::string_view>& lines) {
    std::set<std::string_view> names;
    for (const std::string_view line : lines) {
      const std::vector<std::string_view> tokens = words_of(line);
      for (std::size_t i = 0; i + 1 < tokens.size() && i <= kMostMarks; ++i) {
        if (cell_of(tokens[i + 1])) names.insert(without_mark(tokens[i]));
      }
    }
    return names;
  }

  // Not a matrix of `topo -p2p`.
  Status check_rows(std::string_view first) const {
    for (std::size_t line = 0; line < lines_.size(); ++line) {
      const std::vector<std::string_view> tokens = words_of(lines_[line]);
      if (tokens.size() < 3 || tokens[0] != first || tokens[1] != "X" || !is_capability(tokens[2])) continue;
      return error(Code::kInvalidArgument,
                   "{}:{}: '{}' says what works between two GPUs and not how near they are: this is nvidia-smi topo "
                   "-p2p; take nvidia-smi topo -m",
                   name_, line + 1, tokens[2]);
    }
    return {};
  }

  // Without a header the rows name the devices, if each has its X where it should.
  Result<std::size_t> header_of_rows() {
    std::vector<std::string_view> devices;
    std::size_t first = lines_.size();
    bool square = true;
    for (std::size_t line = 0; line < lines_.size(); ++line) {
      const std::vector<std::string_view> tokens = words_of(lines_[line]);
      if (tokens.size() < 2 || !cell_of(tokens[1]) || !is_column(tokens[0]) || cell_of(tokens[0])) continue;
      if (devices.empty() && !is_gpu_name(tokens[0])) continue;
      first = std::min(first, line);
      devices.push_back(tokens[0]);
      square &= tokens.size() > devices.size() && tokens[devices.size()] == "X";
    }
    if (devices.empty())
      return error(Code::kInvalidArgument, "{}: no header such as 'GPU0 GPU1 … CPU Affinity', so no matrix", name_);
    if (!square)
      return error(
          Code::kInvalidArgument,
          "{}:{}: the line with the names of the columns is missing, and the rows alone do not tell them: copy "
          "the whole output of nvidia-smi topo -m",
          name_, first + 1);
    if (Status bad = matrix_.add(devices); !bad.ok())
      return error(bad.code(), "{}:{}: {}", name_, first + 1, bad.text());
    note(first, "the line with the names of the columns is missing, taken from the rows");
    has_cpus_ = has_numa_ = true;
    return first;
  }

  bool any_links() const {
    return std::any_of(matrix_.cells.begin(), matrix_.cells.end(), [](const std::vector<SmiCell>& row) {
      return std::any_of(row.begin(), row.end(), [](const SmiCell& cell) { return cell.links > 0; });
    });
  }

  // ---- Rows

  // The word with which a row begins: a device with a cell behind it. "" if the line is no row.
  std::string_view row_in(const std::vector<std::string_view>& tokens) const {
    for (std::size_t i = 0; i + 1 < tokens.size() && i <= kMostMarks; ++i) {
      if (const std::string_view plain = without_mark(tokens[i]); matrix_.find(plain) >= 0) {
        std::string_view ignored;
        const bool cell = cell_of(tokens[i + 1]) || torn_cell(tokens[i + 1], &ignored);
        if (cell || (i == 0 && tokens[1] != "=" && matrix_.find(tokens[1]) < 0)) return plain;
        return {};
      }
    }
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
    std::vector<std::string_view> texts = fields_of(lines_[line]);
    while (!texts.empty() && texts[0].empty()) texts.erase(texts.begin());
    const std::vector<std::string_view> by_words = words_of(lines_[line]);
    const bool tabs = texts.size() > 1 && good_cells(texts, n) >= good_cells(by_words, n);
    if (!tabs) texts = by_words;
    std::size_t at = 1;
    std::size_t column = 0;
    std::string_view torn_rest;
    bool torn = false;
    for (; column < n && at < texts.size(); ++column, ++at) {
      if (const auto cell = cell_of(texts[at])) {
        matrix_.cell(row, column) = *cell;
        continue;
      }
      if (!tabs && is_list(texts[at])) break;  // the row was cut and its CPU list follows
      if (const auto cell = torn_cell(texts[at], &torn_rest)) {
        matrix_.cell(row, column) = *cell;
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
      if (tabs || is_list(texts[at]) || texts[at] == "N/A") ++at;
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
      matrix_.cell(row, column) = *cell;
    }
    note(line, "goes on with the row of {}", device.column);
    if (column == matrix_.devices.size()) read_affinity(&device, tokens, at, has_cpus_, false);
    return column;
  }

  std::vector<std::string_view> lines_;
  std::set<std::string_view> row_names_;
  const std::string& name_;
  SmiMatrix& matrix_;
  bool has_cpus_ = false;
  bool has_numa_ = false;
};

// Fills both halves from each other.
void mirror(const std::string& name, SmiMatrix* matrix) {
  const std::size_t n = matrix->devices.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      SmiCell& a = matrix->cells[i][j];
      SmiCell& b = matrix->cells[j][i];
      const SmiCell none;
      if (a == b) continue;
      if (a != none && b != none) {
        matrix->notes.push_back(format("{}: {} and {}: the two halves of the matrix differ, the farther is taken", name,
                                       matrix->devices[i].column, matrix->devices[j].column));
        const bool links = a.links > 0 && b.links > 0;
        a = links ? SmiCell{Nearness::kUnknown, std::min(a.links, b.links)} : (a.near > b.near ? a : b);
        b = a;
      }
      if (a == none) a = b;
      if (b == none) b = a;
    }
  }
}

// Rows that are not there leave open what no other row tells.
void note_what_is_cut(const std::string& name, SmiMatrix* matrix) {
  std::vector<std::string> without;
  for (const SmiDevice& device : matrix->devices) {
    if (!device.has_row) without.push_back(device.column);
  }
  if (without.empty()) return;
  matrix->cut = true;
  int open = 0;
  for (std::size_t i = 0; i < matrix->devices.size(); ++i) {
    for (std::size_t j = i + 1; j < matrix->devices.size(); ++j)
      open += !matrix->devices[i].has_row && !matrix->devices[j].has_row && matrix->cells[i][j] == SmiCell{};
  }
  matrix->notes.push_back(format("{}: the text was cut: no row of {}{}", name, join(without, ", "),
                                 open > 0 ? format(", so {} pairs of devices are unknown", open)
                                          : std::string("; the other rows tell all of it")));
}

}  // namespace

int SmiMatrix::find(std::string_view column) const {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].column == column) return static_cast<int>(i);
  }
  return -1;
}

Status SmiMatrix::add(const std::vector<std::string_view>& columns) {
  if (devices.size() + columns.size() > kLimitDevices)
    return error(Code::kInvalidArgument, "{} devices are too many", devices.size() + columns.size());
  for (const std::string_view column : columns) {
    if (find(column) >= 0) return error(Code::kInvalidArgument, "{} stands there twice", column);
    SmiDevice one;
    one.column = one.name = column;
    one.gpu = is_gpu_name(column);
    devices.push_back(std::move(one));
  }
  cells.assign(devices.size(), std::vector<SmiCell>(devices.size()));
  return {};
}

std::string plain_matrix(std::string_view text) {
  std::string clean = tabs_for_commas(clean_paste(text));
  std::replace(clean.begin(), clean.end(), '"', ' ');
  bool numbered = false;
  bool apart = false;
  const auto is_digit = [&clean](std::size_t at) { return at < clean.size() && clean[at] >= '0' && clean[at] <= '9'; };
  for (auto at = clean.find("GPU"); at != std::string::npos; at = clean.find("GPU", at + 3)) {
    numbered |= is_digit(at + 3);
    apart |= at + 3 < clean.size() && clean[at + 3] == ' ' && is_digit(at + 4);
  }
  if (numbered || !apart) return clean;
  std::string out;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    const bool between = clean[i] == ' ' && i >= 3 && clean.compare(i - 3, 3, "GPU") == 0 && is_digit(i + 1);
    if (!between) out += clean[i];
  }
  return out;
}

Result<SmiMatrix> parse_smi(std::string_view text, const std::string& name) {
  constexpr std::size_t kLimitBytes = 4 << 20;
  if (text.size() > kLimitBytes)
    return error(Code::kInvalidArgument, "{}: {} bytes are too many for a matrix of devices", name, text.size());
  const std::string clean = plain_matrix(text);
  const std::vector<std::string_view> lines = lines_of(clean);
  SmiMatrix matrix;
  HOCKET_TRY(has_amd_tables(lines) ? read_amd_tables(lines, name, &matrix)
                                   : Parser(a_row_a_line(lines), name, &matrix).parse());
  matrix.compute_capability = matrix.xgmi ? 0 : capability_of_model(clean);
  mirror(name, &matrix);
  note_what_is_cut(name, &matrix);
  return matrix;
}

}  // namespace hocket::topo
