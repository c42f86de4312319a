// SPDX-License-Identifier: Apache-2.0
#include "transport/local.hpp"

namespace hocket {

std::string_view LocalEndpoint::transport() const noexcept {
  return "local";
}

}  // namespace hocket
