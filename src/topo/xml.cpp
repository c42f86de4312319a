// SPDX-License-Identifier: Apache-2.0
// topo/xml.cpp: see xml.hpp.
#include "topo/xml.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/status.hpp"

namespace hocket::topo {

namespace {

// Text of a file, made safe and short enough for a message.
std::string quoted(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string out;
  for (const char c : text.substr(0, kLongest)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return text.size() > kLongest ? out + "…" : out;
}

// Deeper than anything real, and shallow enough to walk by recursion. Iterative, since it guards the recursion.
pugi::xml_node too_deep(const pugi::xml_node& root) {
  int depth = 1;
  pugi::xml_node at = root;
  while (at) {
    if (depth > XmlFile::kLimitDepth) return at;
    if (at.first_child()) {
      at = at.first_child();
      ++depth;
      continue;
    }
    while (at && at != root && !at.next_sibling()) {
      at = at.parent();
      --depth;
    }
    if (!at || at == root) break;
    at = at.next_sibling();
  }
  return {};
}

}  // namespace

Status XmlFile::parse(std::string text, std::string name, const char* root) {
  name_ = std::move(name);
  line_starts_ = {0};
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') line_starts_.push_back(i + 1);
  }
  if (text.size() > kLimitBytes)
    return error(Code::kInvalidArgument, "{}: {} bytes are too many for a topology", name_, text.size());
  const pugi::xml_parse_result parsed =
      document_.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed) {
    // What is missing is noticed at the end, or at the beginning of the element that has none.
    const auto last = text.find_last_not_of(" \t\r\n");
    const auto begin = text.rfind('<');
    const bool open = begin != std::string::npos && text.find('>', begin) == std::string::npos;
    const auto limit = static_cast<std::ptrdiff_t>(open ? begin : last == std::string::npos ? 0 : last);
    const bool cut = parsed.offset >= limit;
    return error(Code::kInvalidArgument, "{}:{}: no XML here: {}{}", name_, line_at(parsed.offset),
                 parsed.description(), cut ? "; the file seems to be cut off" : "");
  }
  const pugi::xml_node first = document_.document_element();
  if (std::string_view(first.name()) != root)
    return error(Code::kInvalidArgument, "{}:{}: the file begins with <{}>, where <{}> is expected", name_,
                 line_at(first.offset_debug()), quoted(first.name()), root);
  if (const pugi::xml_node deep = too_deep(first))
    return error(Code::kInvalidArgument, "{}: elements are nested deeper than {}", where(deep), kLimitDepth);
  return {};
}

int XmlFile::line_at(std::ptrdiff_t offset) const {
  const auto at = static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0));
  return static_cast<int>(std::upper_bound(line_starts_.begin(), line_starts_.end(), at) - line_starts_.begin());
}

std::string XmlFile::where(const pugi::xml_node& element) const {
  std::string text = format("{}:{}: <{}", name_, line_at(element.offset_debug()), quoted(element.name()));
  for (const char* key : {"busid", "numaid", "name", "target", "dev", "id"}) {
    if (const pugi::xml_attribute attribute = element.attribute(key)) {
      text += format(" {}=\"{}\"", key, quoted(attribute.value()));
      break;
    }
  }
  return text + ">";
}

std::optional<long long> parse_integer(std::string_view text) {
  int base = 10;
  const bool negative = text.starts_with('-');
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
    if (text.starts_with('-')) return std::nullopt;
  }
  long long value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (bad != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (negative && base == 16) return std::nullopt;
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  double value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (bad != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace hocket::topo
