// SPDX-License-Identifier: Apache-2.0
// base/status.hpp: how the library makes a Status. Private, so that no public header needs fmt.
#pragma once

#include "base/format.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include "hocket/status.hpp"

/// Return the error of `expr` (a Status) to the caller; go on otherwise.
#define HOCKET_TRY(expr)                                                              \
  do {                                                                                \
    if (::hocket::Status hocket_try_ = (expr); !hocket_try_.ok()) return hocket_try_; \
  } while (0)

#define HOCKET_CONCAT_(a, b) a##b
#define HOCKET_CONCAT(a, b) HOCKET_CONCAT_(a, b)

/// `HOCKET_ASSIGN(auto fd, open_it());`: the value of a Result, or return its error.
#define HOCKET_ASSIGN(target, expr)                                                                           \
  auto HOCKET_CONCAT(hocket_result_, __LINE__) = (expr);                                                      \
  if (!HOCKET_CONCAT(hocket_result_, __LINE__).ok()) return HOCKET_CONCAT(hocket_result_, __LINE__).status(); \
  target = std::move(HOCKET_CONCAT(hocket_result_, __LINE__)).value()

namespace hocket {

/// `error(Code::kPeerLost, "rank {} …", peer)`.
template <class... Args>
Status error(Code code, fmt::format_string<Args...> text, Args&&... args) {
  return Status(code, hocket::format(text, std::forward<Args>(args)...));
}

/// The same for a failed system call: appends the text of `number` (an errno).
template <class... Args>
Status system_error(Code code, int number, fmt::format_string<Args...> text, Args&&... args) {
  char buffer[128];
  const char* reason = ::strerror_r(number, buffer, sizeof buffer);
  return Status(code,
                hocket::format("{}: {} (errno {})", hocket::format(text, std::forward<Args>(args)...), reason, number));
}

}  // namespace hocket
