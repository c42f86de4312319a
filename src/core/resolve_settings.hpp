// SPDX-License-Identifier: Apache-2.0
// core/resolve_settings.hpp: what settings stand for on this machine: names, files, devices.
//
// A communicator takes them from here when it is made, and `hocket doctor` looks through the same functions at what one
// would be refused for. Next stop: core/membership.cpp, core/engine.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "base/settings.hpp"
#include "topo/graph.hpp"

namespace hocket {

/// The settings' lists of names.
struct AllowedNames {
  AllowList algorithms, protocols, transports;
};
/// Any thread. Errors: kInvalidArgument with the variable, the name that there is not, and those that there are.
Result<AllowedNames> allowed_names(const Settings& settings);

/// This machine, with the devices of topo_file if that is set. Any thread. Errors: those of the file, with the variable
/// that named it.
Result<topo::Graph> machine_by(const Settings& settings);

/// The node of the GPU that `gpu` asks for (Settings::gpu) by the rank at `local_place` among those of its host. Pure.
/// Errors: kInvalidArgument with the GPUs that there are; kUnsupported if `machine` is null.
Result<std::int32_t> gpu_of(const std::string& gpu, const topo::Graph* machine, std::ptrdiff_t local_place);

/// All for which this machine would refuse a communicator of these settings as rank 0, each with its variable; nothing
/// is written or made. Reads the files that are named. Any thread.
std::vector<Status> problems_of(const Settings& settings);

}  // namespace hocket
