// SPDX-License-Identifier: Apache-2.0
// tools/topo_json.hpp: what hocket derives from a machine's devices, for programs (`hocket topo --json`).
#pragma once

#include <string>

#include "topo/nics.hpp"
#include "topo/search.hpp"

/// {"structure", "islands", "rings", "nics", "aside", "findings"}: GPUs by the numbers that people use, rates in bytes
/// a second.
std::string devices_json(const hocket::topo::Paths& paths, const hocket::topo::SearchResult& result,
                         const hocket::topo::NicPlan& nics);
