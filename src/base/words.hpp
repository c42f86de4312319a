// SPDX-License-Identifier: Apache-2.0
// base/words.hpp: names that people type: upper and lower case are equal, and a wrong one is answered with the nearest.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hocket {

/// Of ASCII; other bytes stay.
char lower(char c) noexcept;
bool same_word(std::string_view a, std::string_view b) noexcept;
/// Without blanks and tabs at both ends.
std::string_view trim(std::string_view text) noexcept;

/// The one of `names` with the fewest changed letters from `word`, upper and lower case being equal; empty if none is
/// near: within two letters, or a third of the word, and never all of it.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names);
/// ", the nearest is ring", for the text of an error; empty if none is near.
std::string nearest_hint(std::string_view word, std::span<const std::string_view> names);

}  // namespace hocket
