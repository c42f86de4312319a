// SPDX-License-Identifier: Apache-2.0
// tools/topo_explain.hpp: `hocket topo --explain all_reduce --bytes 64M`: what the choice of algorithms says of a
// machine.
#pragma once

#include <string>

#include "hocket/status.hpp"
#include "topo/search.hpp"

/// With one rank for each GPU (of a machine without GPUs: for each CPU that may be used): the algorithms of a
/// collective in the order of choice, with protocol and tile. Bandwidth is that of the rings over all GPUs, the rest
/// nominal (topo/cost.hpp); a measured table plays no part, since none was measured on such links. kInvalidArgument for
/// an unknown collective.
hocket::Result<std::string> topo_explain(const hocket::topo::Paths& paths, const hocket::topo::SearchResult& result,
                                         const std::string& collective, std::uint64_t bytes);
