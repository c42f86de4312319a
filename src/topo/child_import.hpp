// SPDX-License-Identifier: Apache-2.0
// topo/child_import.hpp: a reader that may crash, in a process of its own.
//
// hwloc trusts its XML: a set that is missing or a number that is too large ends the program that imports it. A file
// that somebody pasted must not end a caller of ours, so only the child is lost.
#pragma once

#include <functional>

#include "topo/graph.hpp"

namespace hocket::topo {

/// Runs `make` in a child process and takes its Graph as bytes. kInvalidArgument with its words if it refuses, if it
/// crashes (the signal is named) or if it is silent for 30 s. `make` may change its process as it likes: the caller's
/// is another one. Any thread.
Result<Graph> graph_from_child(const std::function<Result<Graph>()>& make);

}  // namespace hocket::topo
