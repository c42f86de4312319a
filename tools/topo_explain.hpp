// SPDX-License-Identifier: Apache-2.0
// tools/topo_explain.hpp: `hocket topo --explain all_reduce --bytes 64M --hosts 4`: what the choice of algorithms says
// of hosts like a machine.
#pragma once

#include <string>

#include "hocket/status.hpp"
#include "topo/search.hpp"

/// With one rank for each GPU (of a machine without GPUs: for each CPU that may be used) on each of `hosts` hosts: what
/// would be chosen, what else could be with predicted times, and what not and why. Times follow from the links
/// (algorithms/predict.hpp), nothing is measured; on a host without GPUs the built-in table, which was, goes before
/// them. kInvalidArgument for an unknown collective, or more ranks than a communicator has.
hocket::Result<std::string> topo_explain(const hocket::topo::Paths& paths, const std::string& collective,
                                         std::uint64_t bytes, int hosts);
