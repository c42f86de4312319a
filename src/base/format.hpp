// SPDX-License-Identifier: Apache-2.0
// base/format.hpp: text from values. fmt's checks of the format stay in the header; its machinery is compiled once, in
// format.cpp, which keeps fmt out of the library's needs and halves the time of a build.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace hocket {
namespace detail {
std::string vformat(fmt::string_view text, fmt::format_args args);
void vprint(std::FILE* file, fmt::string_view text, fmt::format_args args);
}  // namespace detail

template <class... Args>
std::string format(fmt::format_string<Args...> text, Args&&... args) {
  return detail::vformat(text, fmt::make_format_args(args...));
}

template <class... Args>
void print(std::FILE* file, fmt::format_string<Args...> text, Args&&... args) {
  detail::vprint(file, text, fmt::make_format_args(args...));
}

/// "a, b, c".
template <class Range>
std::string join(const Range& texts, std::string_view separator) {
  std::string all;
  for (const auto& text : texts) {
    if (&text != &*std::begin(texts)) all += separator;
    all += text;
  }
  return all;
}

}  // namespace hocket
