// SPDX-License-Identifier: Apache-2.0
// topo/smi_matrix.hpp: the matrix in the text of `nvidia-smi topo -m`, `rocm-smi --showtopo` or `amd-smi topology`.
//
// Only the text is the subject here; what machine it describes is smi_reader.hpp's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hocket/status.hpp"

namespace hocket::topo {

/// How near two devices are on PCI, from nearest to farthest, in nvidia-smi's words.
enum class Nearness { kUnknown = 0, kPix = 1, kPxb = 2, kPhb = 3, kNode = 4, kSys = 5 };

struct SmiCell {
  Nearness near = Nearness::kUnknown;
  int links = 0;  ///< NVLinks, or xGMI: 1 where their number is not told
  bool operator==(const SmiCell&) const = default;
};

struct SmiDevice {
  std::string column;  ///< "GPU0", "NIC3", "mlx5_1"
  std::string name;    ///< from the legend, else the column
  bool gpu = false;
  bool has_row = false;
  std::string cpus;  ///< "0-31,64-95" as printed; may be empty
  std::string numa;  ///< "0", "0-3"
  std::string gpu_numa;
};

/// cells[i][j], both halves filled from each other. [devices][devices]
struct SmiMatrix {
  std::vector<SmiDevice> devices;
  std::vector<std::vector<SmiCell>> cells;
  bool xgmi = false;
  bool nvlink_hidden = false;  ///< the legend knows no NV#: `topo -mp`, which shows none
  bool cut = false;            ///< some devices have no row
  int compute_capability = 0;  ///< times ten, of the model that the text around the matrix names; 0: none is named
  std::vector<std::string> notes;

  /// The device of that column; -1 if there is none.
  int find(std::string_view column) const;
  /// kInvalidArgument for a name that is there already, or for too many.
  Status add(const std::vector<std::string_view>& columns);
  SmiCell& cell(int row, std::size_t column) { return cells[static_cast<std::size_t>(row)][column]; }
};

/// The text as nvidia-smi would have printed it: paste.hpp, and no quotes, and "GPU0" for "GPU 0" where only that
/// occurs.
std::string plain_matrix(std::string_view text);

/// kInvalidArgument with the line if there is no header of devices or no row under it. `name` is what errors call it.
Result<SmiMatrix> parse_smi(std::string_view text, const std::string& name);

}  // namespace hocket::topo
