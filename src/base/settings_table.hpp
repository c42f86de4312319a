// SPDX-License-Identifier: Apache-2.0
// base/settings_table.hpp: one row a setting: its variable, what it accepts, how it is read and printed. All that is
// done with settings follows from it.
//
// Adding a setting: a field with its comment in hocket/settings.hpp, and a row in settings_table.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "hocket/settings.hpp"

namespace hocket {

struct SettingRow {
  std::string_view name;
  std::string_view field;
  bool must_agree;  ///< between the ranks of a communicator
  std::string_view accepted;
  bool (*parse)(std::string_view text, Settings& settings);  ///< false if the text is not accepted
  std::string (*print)(const Settings& settings);
};

std::span<const SettingRow> setting_rows() noexcept;
/// Null if there is none of this name.
const SettingRow* find_setting(std::string_view name) noexcept;

}  // namespace hocket
