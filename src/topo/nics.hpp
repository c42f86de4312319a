// SPDX-License-Identifier: Apache-2.0
// topo/nics.hpp: which NICs serve collectives, which of them is near to each GPU, and the rails that follow.
//
// A rail is a NIC that some GPU uses; rail k of a host talks to rail k of the others. NICs that a kernel made up for
// containers, wireless ones, ports that are down and ones far slower than the rest are set aside, with the reason.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topo/graph.hpp"
#include "topo/paths.hpp"

namespace hocket::topo {

struct NicUse {
  int nic = 0;  ///< Graph node
  std::string name;
  std::string aside;  ///< why it is not used; empty if it can be
};

/// What one GPU sees of the NICs that can be used.
struct NicOfGpu {
  int gpu = 0;                     ///< Graph node
  PathType type = PathType::kDis;  ///< to the nearest, over PCI alone
  std::vector<int> nearest;        ///< Graph nodes, all that are equally near
  int chosen = -1;                 ///< one of them: each serves as few GPUs as possible
  double bytes_per_second = 0;     ///< of the path to it, the NIC's ports included
};

struct NicPlan {
  std::vector<NicUse> nics;    ///< all of the Graph, in its order
  std::vector<NicOfGpu> gpus;  ///< in the order of Paths::gpus(); without NICs, none is chosen
  std::vector<int> rails;      ///< chosen NICs, in the order of their GPUs
  /// Every GPU is equally far from every NIC (a virtual machine that hides its tree): the choice is by number alone.
  bool flat = false;
};

/// "mlx5_0", "eth0", or the PCI bus id.
std::string nic_name(const Graph& graph, int nic);

/// Why this NIC is no network for collectives, by itself: "" if it is one.
std::string why_aside(const Graph& graph, int nic);

NicPlan plan_nics(const Paths& paths);

}  // namespace hocket::topo
