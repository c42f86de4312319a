// SPDX-License-Identifier: Apache-2.0
// base/allow_list.hpp: settings that are lists of names, for all collectives or for one: "ring", "^a,b",
// "allreduce:ring;broadcast:^tree".
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hocket/status.hpp"
#include "hocket/types.hpp"

namespace hocket {

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

}  // namespace hocket
