// SPDX-License-Identifier: Apache-2.0
// base/settings.hpp: what the library does with Settings: check, compare, print, and read its lists of names.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hocket/settings.hpp"
#include "hocket/types.hpp"

namespace hocket {

/// Settings::from_environment() over a block of "NAME=value" texts that ends with a null. Pure but for warnings, which
/// one process of a host gives for all (its launcher's local rank 0). warns: false for who only starts ranks.
Result<Settings> parse_environment(const char* const* environment, bool warns = true);

/// Every variable that begins with HOCKET_ and means something: the settings', those of who starts ranks, and the
/// tests'.
std::vector<std::string_view> known_variables();
/// Whether it is one of those, or of a family (HOCKET_TEST_…) that the tests and ./dev have to themselves.
bool is_known_variable(std::string_view name);

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

/// Which names a list in NCCL's syntax allows, for each collective. A value.
class AllowList {
 public:
  /// Allows everything.
  AllowList() = default;

  /// Reads `text`, see settings.hpp. `known_names` are all names that make sense, in lower case; borrowed for the call.
  /// `variable` is for the error. Errors: kInvalidArgument for an unknown name (with the nearest known one), an unknown
  /// collective, one that is listed twice, an empty name, and a list that leaves nothing.
  static Result<AllowList> parse(std::string_view text, std::span<const std::string_view> known_names,
                                 std::string_view variable = "list");

  /// Whether `collective` may use `name`.
  bool allows(Collective collective, std::string_view name) const noexcept;

  /// Whether anything is ruled out for `collective`: then a choice that finds nothing names the list in its error.
  bool restricts(Collective collective) const noexcept;

  /// Whether `collective` has an entry of its own, and to forget what holds for it.
  bool names(Collective collective) const noexcept { return own_[static_cast<std::size_t>(collective)]; }
  void lift(Collective collective) noexcept { rules_[static_cast<std::size_t>(collective)] = {}; }

  /// The list as it was written.
  const std::string& text() const noexcept { return text_; }

 private:
  struct Rule {
    bool all_but = true;  // the names are excluded, else they alone are allowed
    std::vector<std::string> names;
  };
  std::string text_;
  std::array<Rule, kCollectiveCount> rules_;
  std::array<bool, kCollectiveCount> own_{};
};

/// The one of `names` with the fewest changed letters from `word`, upper and lower case being equal; empty if no names.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names);

}  // namespace hocket
