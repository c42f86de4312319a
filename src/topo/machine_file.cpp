// SPDX-License-Identifier: Apache-2.0
// topo/machine_file.cpp: see machine_file.hpp.
#include "topo/machine_file.hpp"

#include <filesystem>

#include "base/status.hpp"
#include "topo/hwloc_reader.hpp"
#include "topo/ibv_reader.hpp"
#include "topo/nccl_reader.hpp"
#include "topo/paste.hpp"
#include "topo/smi_reader.hpp"

namespace hocket::topo {

std::string_view to_string(FileKind kind) {
  switch (kind) {
    case FileKind::kUnknown: return "unknown";
    case FileKind::kHwlocXml: return "hwloc XML";
    case FileKind::kNcclXml: return "NCCL topology";
    case FileKind::kNcclGraph: return "NCCL graph";
    case FileKind::kSmiMatrix: return "matrix";
    case FileKind::kIbv: return "verbs listing";
  }
  return "?";
}

FileKind kind_of_text(std::string_view text) {
  const auto has = [text](std::string_view part) { return text.find(part) != std::string_view::npos; };
  if (has("<topology")) return FileKind::kHwlocXml;
  if (has("<graphs")) return FileKind::kNcclGraph;
  if (has("<system") || (has("<cpu ") && has("numaid="))) return FileKind::kNcclXml;
  // A matrix first: people add what their NICs are called to it.
  if (looks_like_smi(text)) return FileKind::kSmiMatrix;
  if (looks_like_ibv(text)) return FileKind::kIbv;
  return FileKind::kUnknown;
}

Result<Graph> graph_from_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return graph_from_sysfs_tree(path);
  HOCKET_ASSIGN(std::string text, read_small_file(path, 64 << 20));
  text = plain_markup(utf8_of(std::move(text)));
  switch (kind_of_text(text)) {
    case FileKind::kHwlocXml: return graph_from_hwloc_xml(path);
    case FileKind::kNcclXml: return graph_from_nccl_text(std::move(text), path);
    case FileKind::kSmiMatrix: return graph_from_smi_text(text, path);
    case FileKind::kIbv: return graph_from_ibv_text(text, path);
    case FileKind::kNcclGraph:
      return error(Code::kInvalidArgument, "{}: rings and trees that NCCL chose, which tell of no machine", path);
    case FileKind::kUnknown: break;
  }
  return error(Code::kInvalidArgument,
               "{}: neither hwloc XML (<topology>), NCCL topology XML (<system>), the text of nvidia-smi topo -m or "
               "rocm-smi --showtopo, nor that of ibv_devinfo, ibstat or show_gids",
               path);
}

}  // namespace hocket::topo
