// SPDX-License-Identifier: Apache-2.0
// topo/machine_file.hpp: a machine from any file that tells of one, whatever its kind.
#pragma once

#include <string>
#include <string_view>

#include "topo/graph.hpp"

namespace hocket::topo {

enum class FileKind { kUnknown, kHwlocXml, kNcclXml, kNcclGraph, kSmiMatrix, kIbv };

std::string_view to_string(FileKind kind);

/// By the content alone. Pure.
FileKind kind_of_text(std::string_view text);

/// hwloc XML, NCCL or RCCL topology XML, the text of nvidia-smi topo -m and its kin, ibv_devinfo or show_gids; or a
/// folder with a machine's sys and proc.
/// kSystem if the file can't be read, kInvalidArgument with file and line for what is none of these or damaged.
Result<Graph> graph_from_file(const std::string& path);

}  // namespace hocket::topo
