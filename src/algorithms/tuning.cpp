// SPDX-License-Identifier: Apache-2.0
// tuning.cpp: reading, checking and printing of tables. Next stop: select.cpp.
#include "algorithms/tuning.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "base/status.hpp"

namespace hocket {
namespace {

constexpr std::array<std::string_view, kWhereCount> kWhereNames = {"direct", "crowded", "symmetric", "puts"};
constexpr std::string_view kMagic = "hocket-tuning";
constexpr std::size_t kFields = 7;
constexpr std::uint64_t kMostTileBytes = std::uint64_t{4} << 20;  // as HOCKET_SLOT_BYTES

constexpr char kDefaultTable[] = {
#include "algorithms/default_tuning.inc"
};

auto order_of(const TuningRow& row) {
  return std::tuple(row.collective, row.where, row.max_ranks, row.max_bytes);
}

std::string number_text(std::uint64_t value) {
  return value == TuningRow::kAny ? std::string("any") : format("{}", value);
}

/// The words of a line, of which no more than one too many are looked at.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  while (words.size() <= kFields) {
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == line.npos) break;
    line.remove_prefix(first);
    const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

/// A whole number from 1, or "any"; nothing if it is neither.
bool read_number(std::string_view word, std::uint64_t* value) {
  if (word == "any") {
    *value = TuningRow::kAny;
    return true;
  }
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), *value);
  return problem == std::errc() && end == word.data() + word.size() && *value > 0 && *value != TuningRow::kAny;
}

/// What is in quotes in an error: printable, and not a page of it.
std::string quoted(std::string_view word) {
  std::string text = "'";
  for (const char c : word.substr(0, 40)) text += c >= ' ' && c <= '~' ? c : '?';
  return text + (word.size() > 40 ? "...'" : "'");
}

template <class Names>
std::string unknown(std::string_view what, std::string_view word, const Names& names) {
  const std::vector<std::string_view> known(std::begin(names), std::end(names));
  return format("unknown {} {}{}; there are {}", what, quoted(word), nearest_hint(word.substr(0, 40), known),
                join(known, ", "));
}

/// Empty: the row can run somewhere.
std::string why_not(const TuningRow& row) {
  const Algorithm& a = *row.algorithm;
  if (a.zero_copy && row.where != Where::kSymmetric)
    return format("{} is for mem_alloc memory, so only for 'symmetric'", a.name);
  if (a.boards && row.where == Where::kPuts) return format("{} needs peers' memory, which 'puts' has not", a.name);
  if (!row.any_protocol && row.protocol != Protocol::kBulk && (a.boards || a.zero_copy))
    return format("{} moves data in bulk, not by {}", a.name, to_string(row.protocol));
  if (!row.any_protocol && row.protocol == Protocol::kPacket && row.where == Where::kPuts)
    return "packets need peers' memory, which 'puts' has not";
  if (row.tile_bytes % 16 != 0 || row.tile_bytes > kMostTileBytes)
    return format("a tile is a multiple of 16 bytes up to {}, or auto", kMostTileBytes);
  return {};
}

/// Empty: `row` is what the words say.
std::string read_row(const std::vector<std::string_view>& words, TuningRow* row) {
  if (words.size() != kFields)
    return format("{} words where {} are needed: collective, where, ranks, bytes, algorithm, protocol, tile",
                  words.size() > kFields ? "more" : format("{}", words.size()), kFields);
  bool found = false;
  std::vector<std::string_view> names;
  for (int c = 0; c < kCollectiveCount && !found; ++c) {
    row->collective = static_cast<Collective>(c);
    names.push_back(to_string(row->collective));
    found = names.back() == words[0];
  }
  if (!found) return unknown("collective", words[0], names);
  const auto where = std::find(kWhereNames.begin(), kWhereNames.end(), words[1]);
  if (where == kWhereNames.end()) return unknown("place", words[1], kWhereNames);
  row->where = static_cast<Where>(where - kWhereNames.begin());
  if (!read_number(words[2], &row->max_ranks)) return format("{} is no number of ranks, nor 'any'", quoted(words[2]));
  if (!read_number(words[3], &row->max_bytes)) return format("{} is no number of bytes, nor 'any'", quoted(words[3]));
  row->algorithm = find_algorithm(row->collective, words[4]);
  if (row->algorithm == nullptr) {
    names.clear();
    for (const Algorithm& a : algorithms())
      if (a.collective == row->collective) names.push_back(a.name);
    return unknown(format("algorithm of {}", to_string(row->collective)), words[4], names);
  }
  row->any_protocol = words[5] == "auto";
  if (!row->any_protocol) {
    names = {"auto"};
    found = false;
    for (int p = 0; p < kProtocolCount && !found; ++p) {
      row->protocol = static_cast<Protocol>(p);
      names.push_back(to_string(row->protocol));
      found = names.back() == words[5];
    }
    if (!found) return unknown("protocol", words[5], names);
  }
  if (words[6] != "auto" && (!read_number(words[6], &row->tile_bytes) || row->tile_bytes == TuningRow::kAny))
    return format("{} is no number of bytes, nor 'auto'", quoted(words[6]));
  return why_not(*row);
}

}  // namespace

std::string_view to_string(Where where) noexcept {
  const auto i = static_cast<std::size_t>(where);
  return i < kWhereNames.size() ? kWhereNames[i] : "?";
}

Result<Tuning> Tuning::parse(std::string_view text, std::string_view name) {
  if (text.size() > kMostBytes)
    return error(Code::kInvalidArgument, "{}: {} bytes are no tuning table, which has up to {}", name, text.size(),
                 kMostBytes);
  Tuning tuning;
  tuning.name_ = std::string(name);
  bool headed = false;
  for (int line = 1; !text.empty(); ++line) {
    const std::string_view here = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), here.size() + 1));
    const std::vector<std::string_view> words = words_of(here);
    if (words.empty()) continue;
    if (!headed) {
      if (words[0] != kMagic || words.size() != 2)
        return error(Code::kInvalidArgument,
                     "{}, line {}: this is no tuning table: it begins with {} and not with '{} {}'", name, line,
                     quoted(words[0]), kMagic, kVersion);
      if (words[1] != format("{}", kVersion))
        return error(
            Code::kInvalidArgument,
            "{}, line {}: a table of version {}, this hocket reads version {}: make a new one by `hocket tune`", name,
            line, quoted(words[1]), kVersion);
      headed = true;
      continue;
    }
    TuningRow row;
    if (const std::string wrong = read_row(words, &row); !wrong.empty())
      return error(Code::kInvalidArgument, "{}, line {}: {}", name, line, wrong);
    if (!tuning.rows_.empty()) {
      const TuningRow& before = tuning.rows_.back();
      // Sorted, so that what is read is what was written, and no row hides another.
      if (order_of(row) <= order_of(before))
        return error(
            Code::kInvalidArgument,
            "{}, line {}: rows of a table rise by collective, where, ranks and bytes, but this one follows {} {} "
            "{} {}",
            name, line, to_string(before.collective), to_string(before.where), number_text(before.max_ranks),
            number_text(before.max_bytes));
    }
    tuning.rows_.push_back(row);
  }
  if (!headed)
    return error(Code::kInvalidArgument, "{}: this is no tuning table: it does not begin with '{} {}'", name, kMagic,
                 kVersion);
  tuning.update_digest();
  return tuning;
}

std::string Tuning::to_text(const std::vector<std::string>& comments) const {
  std::string text = format("{} {}\n", kMagic, kVersion);
  for (const std::string& comment : comments) text += format("# {}\n", comment);
  text += format("# {:<15} {:<10} {:<6} {:<11} {:<19} {:<11} {}\n", "collective", "where", "ranks", "bytes",
                 "algorithm", "protocol", "tile");
  for (const TuningRow& row : rows_)
    text += format("{:<17} {:<10} {:<6} {:<11} {:<19} {:<11} {}\n", to_string(row.collective), to_string(row.where),
                   number_text(row.max_ranks), number_text(row.max_bytes), row.algorithm->name,
                   row.any_protocol ? "auto" : to_string(row.protocol),
                   row.tile_bytes == 0 ? "auto" : format("{}", row.tile_bytes));
  return text;
}

Status Tuning::add(const TuningRow& row) {
  if (row.algorithm == nullptr || row.algorithm->collective != row.collective || row.max_ranks == 0 ||
      row.max_bytes == 0)
    return error(Code::kInvalidArgument, "a row needs an algorithm of its collective, and limits above 0");
  if (const std::string wrong = why_not(row); !wrong.empty()) return error(Code::kInvalidArgument, "{}", wrong);
  const auto at = std::lower_bound(rows_.begin(), rows_.end(), row,
                                   [](const TuningRow& a, const TuningRow& b) { return order_of(a) < order_of(b); });
  if (at != rows_.end() && order_of(*at) == order_of(row))
    return error(Code::kInvalidArgument, "there is such a row: {} {} {} {}", to_string(row.collective),
                 to_string(row.where), number_text(row.max_ranks), number_text(row.max_bytes));
  rows_.insert(at, row);
  update_digest();
  return {};
}

const TuningRow* Tuning::find(Collective collective, Where where, int ranks, std::uint64_t bytes) const noexcept {
  for (const TuningRow& row : rows_) {
    if (row.collective != collective || row.where != where) continue;
    if (static_cast<std::uint64_t>(ranks) <= row.max_ranks && bytes <= row.max_bytes) return &row;
  }
  return nullptr;
}

void Tuning::update_digest() {
  if (rows_.empty()) {
    digest_ = 0;
    return;
  }
  // FNV-1a, then mixed once more, as the settings' digest is.
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : to_text()) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  digest_ = (hash ^ (hash >> 33)) | 1;
}

const Tuning& default_tuning() {
  // Never destroyed: progress threads may still choose at exit.
  static const Tuning& table = *new Tuning([] {
    auto parsed = Tuning::parse(std::string_view(kDefaultTable, sizeof kDefaultTable - 1), "default");
    if (parsed.ok()) return std::move(*parsed);
    // A unit test rules this out.
    HOCKET_LOG(LogLevel::kError, "the built-in tuning table is not used: {}", parsed.status().text());
    return Tuning();
  }());
  return table;
}

}  // namespace hocket
