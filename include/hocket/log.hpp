// SPDX-License-Identifier: Apache-2.0
// log.hpp: where hocket's log lines go, and which.
//
// A line is one lower-case sentence. Lines at or above the level go to the callback when one is set, to stderr as
// "hocket: warn: …" otherwise, never to stdout.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace [[gnu::visibility("default")]] hocket {

/// How much is said. Each level includes those before it.
enum class LogLevel : std::uint8_t {
  kError,  ///< something failed; the exact cause
  kWarn,   ///< something looks wrong: a rank is late, a setting is unknown
  kInfo,   ///< once per communicator
  kDebug,  ///< per object
  kTrace,  ///< per operation
};

/// "error", "warn", "info", "debug", "trace"; "?" for a value out of range.
std::string_view to_string(LogLevel level) noexcept;

using LogCallback = std::function<void(LogLevel level, std::string_view line)>;

/// Send all log lines of this process to `callback`; an empty one brings stderr back.
///
/// The callback is called by whichever thread has something to say, by one at a time. It should be quick, as helper
/// threads wait for it; what it throws is dropped. A line that is logged from inside the callback goes to stderr. When
/// set_log_callback returns, the previous callback is not running and never runs again, except where it is itself the
/// caller. A child after fork logs to stderr until it sets its own. Any thread.
void set_log_callback(LogCallback callback);

/// The least important level that is still logged, for the whole process; kWarn at first. Any thread.
///
/// Settings::from_environment() sets it from HOCKET_LOG when that variable is set.
void set_log_level(LogLevel level) noexcept;
LogLevel log_level() noexcept;

}  // namespace gnu::visibility("default")]]hocket
