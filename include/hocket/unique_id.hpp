// SPDX-License-Identifier: Apache-2.0
// unique_id.hpp: what ranks that know nothing of each other need to meet: a secret, and where somebody waits for them.
//
// One process creates an id, hands it to all ranks by whatever way there is (a file, a variable, MPI_Bcast), and each
// rank passes it to Communicator::create. Whoever knows the id can join, so keep it from others: the text belongs in no
// command line. An id is good for one communicator. Next stop: core/bootstrap/bootstrap.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "hocket/settings.hpp"
#include "hocket/status.hpp"

namespace [[gnu::visibility("default")]] hocket {

/// 128 bytes that may be copied and sent as they are. A value; any thread.
struct UniqueId {
  std::array<std::byte, 128> bytes{};

  /// A new id. This process waits for the ranks in a thread of its own until all have come, so it has to live until
  /// then; it may be a rank itself. Uses HOCKET_INTERFACE and HOCKET_PORTS of `settings`. Errors: kInvalidArgument (no
  /// usable address, with all there are), kSystem (all ports taken), kOutOfMemory.
  static Result<UniqueId> create(const Settings& settings = {});

  /// 256 hexadecimal digits.
  std::string to_string() const;
  /// Back again; spaces and line ends around it are allowed. Errors: kInvalidArgument.
  static Result<UniqueId> from_string(std::string_view text);

  friend bool operator==(const UniqueId&, const UniqueId&) noexcept = default;
};
static_assert(sizeof(UniqueId) == 128);

}  // namespace gnu::visibility("default")]]hocket
