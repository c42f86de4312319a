// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>

#include "base/format.hpp"

namespace hocket::detail {

std::string vformat(fmt::string_view text, fmt::format_args args) {
  return fmt::vformat(text, args);
}
void vprint(std::FILE* file, fmt::string_view text, fmt::format_args args) {
  fmt::vprint(file, text, args);
}

}  // namespace hocket::detail
