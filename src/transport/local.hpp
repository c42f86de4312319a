// SPDX-License-Identifier: Apache-2.0
// local.hpp: the transport between ranks of one process: the pointer itself.
#pragma once

#include "transport/arena.hpp"
#include "transport/mapped.hpp"

namespace hocket {

class LocalEndpoint final : public MappedEndpoint {
 public:
  /// `arena` outlives the endpoint.
  explicit LocalEndpoint(Arena& arena) : MappedEndpoint(arena.base(), arena.bytes()) {}
  std::string_view transport() const noexcept override;
};

}  // namespace hocket
