// SPDX-License-Identifier: Apache-2.0
#include "core/membership/exchange.hpp"

#include <cstring>
#include <exception>

#include "base/status.hpp"

namespace hocket::membership {

Status exchange_bytes(const Exchange& exchange, std::span<const std::byte> mine, std::span<std::byte> all,
                      std::string_view what) {
  if (mine.size() == all.size()) {  // a world of one
    std::memcpy(all.data(), mine.data(), mine.size());
    return {};
  }
  Status status;
  try {
    status = exchange(mine, all);
  } catch (const std::exception& e) {
    status = error(Code::kSystem, "the caller's exchange threw: {}", e.what());
  } catch (...) {
    status = error(Code::kSystem, "the caller's exchange threw");
  }
  return status.ok() ? status : Status(status.code(), format("exchanging {}: {}", what, status.text()));
}

Code told_code(std::uint32_t code) {
  const auto c = static_cast<Code>(code);
  return to_string(c) == "unknown error" || c == Code::kOk ? Code::kInternal : c;
}

}  // namespace hocket::membership
