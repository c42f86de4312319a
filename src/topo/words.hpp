// SPDX-License-Identifier: Apache-2.0
// topo/words.hpp: lines cut into words, fields and numbers, as the readers of people's text need them.
//
// Views into the text that was given. Pure.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace hocket::topo {

/// Without blanks and tabs at both ends.
std::string_view trimmed(std::string_view text);
/// What blanks and tabs part; none of them is empty.
std::vector<std::string_view> words_of(std::string_view line);
/// What tabs part, trimmed; empty ones count.
std::vector<std::string_view> fields_of(std::string_view line);
std::vector<std::string_view> lines_of(std::string_view text);
/// All of `text` as a decimal number from 0 on.
std::optional<int> number_in(std::string_view text);

}  // namespace hocket::topo
