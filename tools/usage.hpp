// SPDX-License-Identifier: Apache-2.0
// tools/usage.hpp: how every subcommand answers flags that it does not understand: one line on stderr that ends in
// where help is, and exit status 2.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string_view>

#include "base/format.hpp"

namespace hocket {

inline constexpr int kUsageStatus = 2;

/// Says "hocket perf: TEXT; see hocket perf --help". `command` is "hocket perf".
inline int usage_error(std::string_view command, std::string_view text) {
  print(stderr, "{}: {}; see {} --help\n", command, text, command);
  return kUsageStatus;
}

/// What CLI11 threw while `app` read its flags: help on stdout and 0, or an error as above.
inline int usage_answer(const CLI::App& app, const CLI::ParseError& thrown) {
  if (thrown.get_exit_code() == 0) {
    app.exit(thrown);
    return 0;
  }
  return usage_error(app.get_name(), thrown.what());
}

}  // namespace hocket
