// SPDX-License-Identifier: Apache-2.0
// predict.hpp: how long an algorithm should take, by latency a hop and bandwidth a link. Pure.
//
// With a layout (layout.hpp) the figures are those of its links, contention counted: rings and trees have what the
// search found for them, direct algorithms what a switch or a mesh gives when all send to all, and what leaves a host
// shares its rails. Without one there is one latency and one bandwidth for all. None of it is measured here: it orders
// candidates, and a measured table (tuning.hpp) goes before it. Next stop: select.cpp.
#pragma once

#include "algorithms/select.hpp"

namespace hocket {

/// Seconds of a call of `bytes` (as choose() counts them).
double predicted_seconds(const Algorithm& algorithm, Protocol protocol, int lanes, double bytes, const World& world);

}  // namespace hocket
