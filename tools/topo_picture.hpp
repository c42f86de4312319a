// SPDX-License-Identifier: Apache-2.0
// tools/topo_picture.hpp: a machine as a person would draw it, for `hocket topo --svg`.
#pragma once

#include <string>

#include "topo/nics.hpp"
#include "topo/search.hpp"

/// NUMA domains on top, switches below them, GPUs and NICs in one row, NVLinks and NVSwitches under it; each PCI link
/// with its GB/s and coloured by the load that the rings put on it; the rings over all GPUs (of several islands: of the
/// islands) as coloured arcs. Text is escaped. Pure.
std::string topo_svg(const hocket::topo::Paths& paths, const hocket::topo::SearchResult& result,
                     const hocket::topo::NicPlan& nics, const std::string& title);
