// SPDX-License-Identifier: Apache-2.0
// topo/amd_tables.hpp: the tables that `rocm-smi --showtopo` and `amd-smi topology` print, as one matrix.
//
// Pure. Next stop: topo/smi_matrix.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topo/smi_matrix.hpp"

namespace hocket::topo {

/// Whether there is a title of such a table among the lines.
bool has_amd_tables(const std::vector<std::string_view>& lines);

/// Fills devices and cells; one half of a cell may stay unknown. kInvalidArgument with the line for no row at all.
Status read_amd_tables(const std::vector<std::string_view>& lines, const std::string& name, SmiMatrix* matrix);

}  // namespace hocket::topo
