// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/status.hpp"
#include "core/bootstrap/root.hpp"
#include "core/bootstrap/root_address.hpp"

namespace hocket {
namespace {

std::uint64_t checksum_of(const RootAddress& root) {
  const auto bytes = std::as_bytes(std::span(&root, 1)).first(sizeof root - sizeof root.checksum);
  const Digest digest = sha256(bytes);
  std::uint64_t sum = 0;
  std::memcpy(&sum, digest.data(), sizeof sum);
  return sum;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<RootAddress> RootAddress::of(const UniqueId& id) {
  RootAddress root;
  std::memcpy(&root, id.bytes.data(), sizeof root);
  if (root.magic != kMagic) {
    return error(Code::kInvalidArgument,
                 "the id begins with {:#010x} instead of {:#010x}: it was not made by UniqueId::create of this version "
                 "of hocket",
                 root.magic, kMagic);
  }
  if (root.checksum != checksum_of(root)) {
    return error(Code::kInvalidArgument, "the id was changed on the way: its check sum is wrong");
  }
  if (root.address_count < 1 || root.address_count > kMaxAddresses || root.port == 0) {
    return error(Code::kInvalidArgument, "the id names {} addresses and port {}", root.address_count, root.port);
  }
  return root;
}

UniqueId RootAddress::to_id() const {
  RootAddress root = *this;
  root.checksum = checksum_of(root);
  UniqueId id;
  std::memcpy(id.bytes.data(), &root, sizeof root);
  return id;
}

std::vector<os::NetAddress> RootAddress::net_addresses() const {
  std::vector<os::NetAddress> all;
  for (int i = 0; i < address_count; ++i)
    all.push_back({.bytes = addresses[static_cast<std::size_t>(i)], .scope = 0, .port = port, .reserved = 0});
  return all;
}

Result<UniqueId> UniqueId::create(const Settings& settings) {
  HOCKET_ASSIGN(const Secret secret, Secret::random());
  return open_root(secret, settings, {});
}

std::string UniqueId::to_string() const {
  std::string text;
  for (const std::byte b : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[static_cast<std::size_t>(b) >> 4];
    text += kDigits[static_cast<std::size_t>(b) & 15];
  }
  return text;
}

Result<UniqueId> UniqueId::from_string(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first != std::string_view::npos) text = text.substr(first, text.find_last_not_of(kSpace) - first + 1);
  UniqueId id;
  // The text is not repeated in errors: most of it may be a secret.
  if (text.size() != 2 * id.bytes.size()) {
    return error(Code::kInvalidArgument, "an id has {} hexadecimal digits, this text {} characters",
                 2 * id.bytes.size(), text.size());
  }
  for (std::size_t i = 0; i < id.bytes.size(); ++i) {
    const int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return error(Code::kInvalidArgument, "character {} of the id is no digit", 2 * i + 1);
    id.bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
  HOCKET_TRY(RootAddress::of(id).status());
  return id;
}

}  // namespace hocket
