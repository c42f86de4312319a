// SPDX-License-Identifier: Apache-2.0
// base/settings.hpp: what the library does with Settings: read, check, compare, print. Its lists of names are read by
// allow_list.hpp. Next stop: settings_table.hpp, a row a setting.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/allow_list.hpp"
#include "base/words.hpp"
#include "hocket/settings.hpp"

namespace hocket {

/// Settings::from_environment() over a block of "NAME=value" texts that ends with a null. Pure but for warnings, which
/// one process of a host gives for all (its launcher's local rank 0). warns: false for who only starts ranks.
Result<Settings> parse_environment(const char* const* environment, bool warns = true);

/// Every variable that begins with HOCKET_ and means something: the settings', those of who starts ranks, and the
/// tests'.
std::vector<std::string_view> known_variables();
/// Whether it is one of those, or of a family (HOCKET_TEST_…) that the tests and ./dev have to themselves.
bool is_known_variable(std::string_view name);
/// For a variable that begins with HOCKET_ and is not known: ", the nearest known one is HOCKET_ALGO"; empty if none is
/// near.
std::string nearest_variable_hint(std::string_view name);

/// Whether settings made in code are within the limits that settings.hpp states. Lists of names are checked where their
/// names are known, by AllowList::parse. Errors: kInvalidArgument with variable, value and what is accepted.
Status validate(const Settings& settings);

/// A number that is equal on two ranks if and only if (but for chance) all settings that must agree do.
std::uint64_t digest(const Settings& settings);

/// "slots (HOCKET_SLOTS) is 4 here and 8 there; …" for all settings that must agree and do not; empty if none.
/// `here` and `there` word the two sides: "on rank 0".
std::string describe_difference(const Settings& a, const Settings& b, std::string_view here = "here",
                                std::string_view there = "there");

/// The settings that must agree, as text that travels to peers: "HOCKET_SLOTS=4\nHOCKET_LANES=0\n…".
std::string agreed_settings_to_text(const Settings& settings);
/// Back again; what the text leaves out has its default. Errors: kInvalidArgument. For text from a wire.
Result<Settings> agreed_settings_from_text(std::string_view text);

/// "HOCKET_SLOTS=4 …": the settings that differ from their defaults, for a log line; empty if none does.
std::string describe_changes(const Settings& settings);

}  // namespace hocket
