// SPDX-License-Identifier: Apache-2.0
// topo/words.cpp: see words.hpp.
#include "topo/words.hpp"

#include <algorithm>
#include <charconv>

namespace hocket::topo {

namespace {

std::vector<std::string_view> parted(std::string_view text, char at) {
  std::vector<std::string_view> out;
  while (true) {
    const auto end = text.find(at);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> out;
  while (true) {
    const auto begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return out;
    const auto end = std::min(line.find_first_of(" \t", begin), line.size());
    out.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> out = parted(line, '\t');
  for (std::string_view& field : out) field = trimmed(field);
  return out;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out = parted(text, '\n');
  if (out.back().empty()) out.pop_back();
  return out;
}

std::optional<int> number_in(std::string_view text) {
  int value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (bad != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace hocket::topo
