// SPDX-License-Identifier: Apache-2.0
// secret.hpp: a secret that the ranks of a job share, and HMAC-SHA-256 with it.
//
// Sources: RFC 2104 (HMAC), FIPS 180-4 (SHA-256). Of libcrypto only SHA-256 and its comparison in constant time are
// used, which have no global state: a program may use another version of it beside ours. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

#include "hocket/status.hpp"

namespace hocket {

using Digest = std::array<std::byte, 32>;

/// 32 bytes that nobody else knows. Overwritten at the end.
class Secret {
 public:
  static constexpr std::size_t kBytes = 32;

  /// Errors: kSystem.
  static Result<Secret> random();
  /// From a text of any length, such as a variable.
  static Secret of_text(std::string_view text) noexcept;
  explicit Secret(std::span<const std::byte, kBytes> bytes) noexcept;
  Secret(const Secret&) noexcept = default;
  Secret& operator=(const Secret&) noexcept = default;
  ~Secret();

  std::span<const std::byte, kBytes> bytes() const noexcept { return bytes_; }

 private:
  Secret() noexcept = default;
  std::array<std::byte, kBytes> bytes_{};
};

Digest sha256(std::span<const std::byte> message) noexcept;

/// HMAC-SHA-256 of the parts one after the other. `key` may have any length.
Digest hmac_sha256(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> parts) noexcept;

/// In a time that does not depend on where they differ.
bool equal_in_constant_time(const Digest& a, const Digest& b) noexcept;

}  // namespace hocket
