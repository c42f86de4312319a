// SPDX-License-Identifier: Apache-2.0
#include "base/words.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/format.hpp"

namespace hocket {

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_word(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trim(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names) {
  std::string_view best;
  std::size_t best_distance = SIZE_MAX;
  for (const std::string_view name : names) {
    // The optimal string alignment distance: at(i, j) changes turn i letters of `word` into j letters of `name`, where
    // a letter more, less or other and two neighbours swapped are one change each.
    const std::size_t width = name.size() + 1;
    std::vector<std::size_t> table((word.size() + 1) * width);
    const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return table[i * width + j]; };
    const auto same = [&](std::size_t i, std::size_t j) { return lower(word[i - 1]) == lower(name[j - 1]); };
    for (std::size_t i = 0; i <= word.size(); ++i) {
      for (std::size_t j = 0; j <= name.size(); ++j) {
        if (i == 0 || j == 0) {
          at(i, j) = i + j;
          continue;
        }
        at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + (same(i, j) ? 0 : 1)});
        if (i > 1 && j > 1 && same(i, j - 1) && same(i - 1, j)) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
    if (table.back() < best_distance) {
      best_distance = table.back();
      best = name;
    }
  }
  // Farther ones have nothing to do with what was meant.
  const bool near = best_distance <= std::max<std::size_t>(2, word.size() / 3) && best_distance < word.size();
  return near ? best : std::string_view();
}

std::string nearest_hint(std::string_view word, std::span<const std::string_view> names) {
  const std::string_view nearest = nearest_name(word, names);
  return nearest.empty() ? std::string() : format(", the nearest is {}", nearest);
}

}  // namespace hocket
