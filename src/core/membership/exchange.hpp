// SPDX-License-Identifier: Apache-2.0
// membership/exchange.hpp: one all-gather by whatever exchange the caller has.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "hocket/communicator.hpp"

namespace hocket::membership {

/// Errors: the exchange's own, with `what` was exchanged; kSystem if it threw.
Status exchange_bytes(const Exchange& exchange, std::span<const std::byte> mine, std::span<std::byte> all,
                      std::string_view what);

/// The same of one T a rank, in `all`, by rank.
template <class T>
Status exchange_all(const Exchange& exchange, const T& mine, std::vector<T>* all, std::string_view what) {
  return exchange_bytes(exchange, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(*all)), what);
}

/// A code that a rank has told; kInternal if there is no such.
Code told_code(std::uint32_t code);

}  // namespace hocket::membership
