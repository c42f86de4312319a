// SPDX-License-Identifier: Apache-2.0
// topo/findings.hpp: what a healthy machine would not have, in words for people.
//
// One GPU that lost its NVLinks drops a whole job to a tenth of its speed, and nothing else says so. GPUs are compared
// with their like on the same machine, and with what their kind is known to have. Pure.
#pragma once

#include <string>
#include <vector>

#include "topo/paths.hpp"

namespace hocket::topo {

std::vector<std::string> findings_of(const Paths& paths);

}  // namespace hocket::topo
