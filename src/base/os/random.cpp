// SPDX-License-Identifier: Apache-2.0
#include "base/os/random.hpp"

#include <sys/random.h>

#include "base/status.hpp"

namespace hocket::os {

Status random_bytes(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::getrandom(bytes.data(), bytes.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(Code::kSystem, errno, "getrandom of {} bytes", bytes.size());
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<Token> random_token() {
  Token token;
  HOCKET_TRY(random_bytes(std::as_writable_bytes(std::span(&token, 1))));
  return token;
}

std::string to_string(const Token& token) {
  return format("{:016x}{:016x}", token.high, token.low);
}

}  // namespace hocket::os
