// SPDX-License-Identifier: Apache-2.0
// core/reduction.hpp: the inside of a Reduction, and what a call needs of it.
#pragma once

#include <cstdint>
#include <string>

#include "hocket/reduction.hpp"
#include "hocket/status.hpp"

namespace hocket {

struct Reduction::User {
  std::string name;
  DataType type = DataType::kFloat32;
  Function function;
  Commutative commutative = Commutative::kYes;
  std::uint64_t id = 0;  ///< of name, type and commutative: what ranks must agree on; never 0
};

/// Whether a call on elements of `type` can reduce like this. kInvalidArgument, with the reason.
Status check_reduction(const Reduction& reduction, DataType type);

/// The scalar of a premultiplied sum as ScaleFunction takes it (exec/reduce.hpp), read now. The reduction was checked.
std::uint64_t scalar_bits(const Reduction& reduction, DataType type);

}  // namespace hocket
