// SPDX-License-Identifier: Apache-2.0
// random.hpp: unpredictable bytes from the kernel, for secrets and ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "hocket/status.hpp"

namespace hocket::os {

/// Fills `bytes`. Errors: kSystem.
Status random_bytes(std::span<std::byte> bytes);

/// 128 random bits: two are never equal by chance.
struct Token {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const Token&, const Token&) noexcept = default;
};

Result<Token> random_token();

/// 32 hexadecimal digits.
std::string to_string(const Token& token);

}  // namespace hocket::os
