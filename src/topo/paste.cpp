// SPDX-License-Identifier: Apache-2.0
// topo/paste.cpp: see paste.hpp.
#include "topo/paste.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace hocket::topo {

namespace {

/// What stands at the beginning of the rest of a text, and what it becomes.
struct Replacement {
  std::size_t length = 0;  ///< 0: nothing of the kind
  std::string_view by;
};

// Characters outside ASCII that pages and word processors put in place of plain ones.
Replacement wide_character(std::string_view rest) {
  static constexpr std::pair<std::string_view, std::string_view> kWide[] = {
      {"\xc2\xa0", " "},      {"\xe2\x80\x87", " "}, {"\xe2\x80\x89", " "}, {"\xe2\x80\xaf", " "},
      {"\xe3\x80\x80", " "},  {"\xe2\x80\x8b", ""},  {"\xef\xbb\xbf", ""},  {"\xe2\x80\x90", "-"},
      {"\xe2\x80\x91", "-"},  {"\xe2\x80\x92", "-"}, {"\xe2\x80\x93", "-"}, {"\xe2\x94\x82", "\t"},
      {"\xe2\x94\x83", "\t"}, {"\xe2\x94\x80", "-"}, {"\xe2\x80\x94", "-"}, {"\xe2\x88\x92", "-"}};
  for (const auto& [from, to] : kWide) {
    if (rest.starts_with(from)) return {from.size(), to};
  }
  return {};
}

// "\x1b[4m"; "[0m" is what is left where the escape character was lost.
std::size_t colour_length(std::string_view rest) {
  if (rest.starts_with("\x1b(")) return std::min<std::size_t>(rest.size(), 3);  // a character set
  const bool escaped = rest.starts_with("\x1b[");
  if (!escaped && !rest.starts_with('[')) return 0;
  std::size_t end = escaped ? 2 : 1;
  const std::size_t begin = end;
  while (end < rest.size() && end < begin + 16 && std::string_view("0123456789;?").find(rest[end]) != rest.npos) ++end;
  if (end >= rest.size()) return 0;
  const bool letter = (rest[end] >= 'a' && rest[end] <= 'z') || (rest[end] >= 'A' && rest[end] <= 'Z');
  if (escaped) return letter ? end + 1 : 2;
  return rest[end] == 'm' && end > begin ? end + 1 : 0;
}

// "<td>", "</tr>", "<br/>", "&nbsp;". Other things in angle brackets stay.
Replacement markup(std::string_view rest) {
  static constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&nbsp;", " "}, {"&#160;", " "}, {"&emsp;", " "}, {"&ensp;", " "}, {"&lt;", "<"},
      {"&gt;", ">"},   {"&amp;", "&"},  {"&quot;", ""},  {"&#9;", "\t"},  {"&Tab;", "\t"}};
  for (const auto& [from, to] : kEntities) {
    if (rest.starts_with(from)) return {from.size(), to};
  }
  if (!rest.starts_with('<')) return {};
  static constexpr std::pair<std::string_view, std::string_view> kTags[] = {
      {"br", "\n"},   {"tr", "\n"},      {"p", "\n"},       {"div", "\n"},   {"li", "\n"},  {"pre", "\n"},
      {"td", "\t"},   {"th", "\t"},      {"b", ""},         {"i", ""},       {"em", ""},    {"u", ""},
      {"strong", ""}, {"span", ""},      {"code", ""},      {"table", "\n"}, {"tbody", ""}, {"thead", ""},
      {"font", ""},   {"details", "\n"}, {"summary", "\n"}, {"stdout", ""},  {"stderr", ""}};
  const bool closing = rest.starts_with("</");
  const std::string_view inside = rest.substr(closing ? 2 : 1);
  std::string name;
  while (name.size() < inside.size() && name.size() < 12 && ((inside[name.size()] | 0x20) >= 'a') &&
         ((inside[name.size()] | 0x20) <= 'z'))
    name += static_cast<char>(inside[name.size()] | 0x20);
  const auto known =
      std::find_if(std::begin(kTags), std::end(kTags), [&](const auto& tag) { return tag.first == name; });
  if (known == std::end(kTags)) return {};
  // Attributes stand on the tag's line.
  const auto end = rest.find_first_of(">\n");
  if (end == rest.npos || rest[end] != '>' || end > 300) return {};
  // A cell ends where it is closed, all else breaks the line at its beginning as well.
  const bool cell = known->second == "\t";
  return {end + 1, cell && !closing ? std::string_view() : known->second};
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// A log in JSON, or a text in a program: tabs and line ends as people write them in quotes.
std::string unquoted(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == 't' || text[i + 1] == 'n')) {
      out += text[++i] == 't' ? '\t' : '\n';
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::string clean_paste(std::string_view text) {
  std::string plain;
  if (!has(text, "\t") && (has(text, "\\tGPU") || has(text, "0\\t"))) {
    plain = unquoted(text);
    text = plain;
  }
  std::string out;
  bool line_start = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    const auto c = static_cast<unsigned char>(text[i]);
    if (const std::size_t colour = colour_length(rest); colour > 0) {
      i += colour - 1;
      continue;
    }
    Replacement special = c >= 0x80 ? wide_character(rest) : Replacement();
    if (c == '<' || c == '&') special = markup(rest);
    if (c == '\\' && rest.size() > 1 && std::string_view("_*|#[]-").find(rest[1]) != rest.npos)
      special = {1, ""};  // Markdown's way to write these
    if (rest.starts_with("**")) special = {2, ""};
    if (special.length > 0) {
      out += special.by;
      if (special.by == "\n") line_start = true;
      i += special.length - 1;
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

std::string tabs_for_commas(std::string text) {
  const bool plain = has(text, "GPU0,GPU1") || has(text, "GPU0,X,") || has(text, "GPU0, X ,");
  const bool quoted = has(text, "\"GPU0\",\"");
  if (!plain && !quoted) return text;
  bool inside = false;
  std::string out;
  for (const char c : text) {
    if (c == '"') {
      inside = !inside;
    } else {
      inside &= c != '\n';
      out += c == ',' && !inside ? '\t' : c;
    }
  }
  return out;
}

std::string plain_markup(std::string text) {
  if (has(text, "<") || !has(text, "&lt;")) return text;
  static constexpr std::pair<std::string_view, char> kEntities[] = {{"&lt;", '<'},  {"&gt;", '>'},   {"&quot;", '"'},
                                                                    {"&#34;", '"'}, {"&#39;", '\''}, {"&amp;", '&'}};
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i);
    const auto known = std::find_if(std::begin(kEntities), std::end(kEntities),
                                    [rest](const auto& entity) { return rest.starts_with(entity.first); });
    out += known == std::end(kEntities) ? text[i] : known->second;
    if (known != std::end(kEntities)) i += known->first.size() - 1;
  }
  return out;
}

std::string utf8_of(std::string text) {
  const bool little = text.starts_with("\xff\xfe");
  if (!little && !text.starts_with("\xfe\xff")) return text;
  std::string out;
  const auto unit = [&](std::size_t at) {
    const auto first = static_cast<unsigned char>(text[at]);
    const auto second = static_cast<unsigned char>(text[at + 1]);
    return static_cast<std::uint32_t>(little ? first | second << 8 : first << 8 | second);
  };
  for (std::size_t i = 2; i + 1 < text.size(); i += 2) {
    std::uint32_t code = unit(i);
    if (code >= 0xd800 && code < 0xdc00 && i + 3 < text.size()) {
      const std::uint32_t low = unit(i + 2);
      if (low >= 0xdc00 && low < 0xe000) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        i += 2;
      }
    }
    if (code >= 0xd800 && code < 0xe000) code = 0xfffd;
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
    } else if (code < 0x10000) {
      out += {static_cast<char>(0xe0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3f)),
              static_cast<char>(0x80 | (code & 0x3f))};
    } else {
      out += {static_cast<char>(0xf0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 0x3f)),
              static_cast<char>(0x80 | (code >> 6 & 0x3f)), static_cast<char>(0x80 | (code & 0x3f))};
    }
  }
  return out;
}

}  // namespace hocket::topo
