// SPDX-License-Identifier: Apache-2.0
// base/log.hpp: how the library writes a log line. Private; users see hocket/log.hpp.
#pragma once

#include "base/format.hpp"

#include <atomic>
#include <utility>

#include "hocket/log.hpp"

/// `HOCKET_LOG(LogLevel::kDebug, "rank {} tcp connected to rank {}", rank, peer);`: one lower-case sentence, no
/// newline. Neither formats nor evaluates the arguments when the level is off.
#define HOCKET_LOG(level, ...)                                                               \
  do {                                                                                       \
    if (::hocket::log_enabled(level)) ::hocket::detail::format_log_line(level, __VA_ARGS__); \
  } while (0)

namespace hocket {

namespace detail {

// Relaxed: the level guards nothing but itself.
extern std::atomic<LogLevel> current_log_level;

/// Hands a finished line to the callback or to stderr. Never throws.
void write_log_line(LogLevel level, std::string_view line) noexcept;

template <class... Args>
void format_log_line(LogLevel level, fmt::format_string<Args...> text, Args&&... args) {
  write_log_line(level, hocket::format(text, std::forward<Args>(args)...));
}

}  // namespace detail

/// Whether lines of this level are wanted: one relaxed load.
inline bool log_enabled(LogLevel level) noexcept {
  return level <= detail::current_log_level.load(std::memory_order_relaxed);
}

}  // namespace hocket
