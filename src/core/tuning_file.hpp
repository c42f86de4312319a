// SPDX-License-Identifier: Apache-2.0
// core/tuning_file.hpp: a tuning table (algorithms/tuning.hpp) from a file.
#pragma once

#include <memory>
#include <string>

#include "algorithms/tuning.hpp"

namespace hocket {

/// Any thread. Errors: kInvalidArgument with HOCKET_TUNING, the file, and the line where it is no table, or why it
/// cannot be read.
Result<std::shared_ptr<const Tuning>> load_tuning(const std::string& file);

}  // namespace hocket
