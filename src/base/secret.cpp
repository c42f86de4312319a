// SPDX-License-Identifier: Apache-2.0
// The functions that stay clear of OpenSSL's providers, and so of its threads, locks and exit handlers, are marked as
// deprecated.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/secret.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

#include "base/os/random.hpp"
#include "base/status.hpp"

namespace hocket {

Result<Secret> Secret::random() {
  Secret secret;
  HOCKET_TRY(os::random_bytes(secret.bytes_));
  return secret;
}

Secret Secret::of_text(std::string_view text) noexcept {
  const Digest digest = sha256(std::as_bytes(std::span(text)));
  return Secret(digest);
}

Secret::Secret(std::span<const std::byte, kBytes> bytes) noexcept {
  std::copy(bytes.begin(), bytes.end(), bytes_.begin());
}

Secret::~Secret() {
  OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

Digest sha256(std::span<const std::byte> message) noexcept {
  SHA256_CTX state;
  SHA256_Init(&state);
  SHA256_Update(&state, message.data(), message.size());
  Digest digest;
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &state);
  OPENSSL_cleanse(&state, sizeof state);
  return digest;
}

Digest hmac_sha256(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> parts) noexcept {
  constexpr std::size_t kBlock = SHA256_CBLOCK;
  std::array<std::byte, kBlock> block{};
  if (key.size() > kBlock) {
    const Digest short_key = sha256(key);
    std::copy(short_key.begin(), short_key.end(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  const auto padded = [&](std::byte with) {
    std::array<std::byte, kBlock> bytes = block;
    for (std::byte& b : bytes) b ^= with;
    return bytes;
  };
  SHA256_CTX state;
  Digest digest;
  auto* out = reinterpret_cast<unsigned char*>(digest.data());
  std::array<std::byte, kBlock> pad = padded(std::byte{0x36});
  SHA256_Init(&state);
  SHA256_Update(&state, pad.data(), pad.size());
  for (const std::span<const std::byte> part : parts) SHA256_Update(&state, part.data(), part.size());
  SHA256_Final(out, &state);
  pad = padded(std::byte{0x5c});
  SHA256_Init(&state);
  SHA256_Update(&state, pad.data(), pad.size());
  SHA256_Update(&state, digest.data(), digest.size());
  SHA256_Final(out, &state);
  OPENSSL_cleanse(&state, sizeof state);
  OPENSSL_cleanse(block.data(), block.size());
  OPENSSL_cleanse(pad.data(), pad.size());
  return digest;
}

bool equal_in_constant_time(const Digest& a, const Digest& b) noexcept {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace hocket
