// SPDX-License-Identifier: Apache-2.0
// counters.hpp: what a meeting and its exchanges cost.
#pragma once

#include <string>

#include "core/bootstrap/frames.hpp"

namespace hocket {

/// What start-up cost the process of a rank; frames are counted on all connections of the process.
struct BootstrapCounters {
  int hosts = 0;
  int rounds = 0;  ///< of the all-gathers among leaders, all together
  int exchanges = 0;
  bool leader = false;
  FrameCounters frames;

  std::string to_text() const;
};

}  // namespace hocket
