// SPDX-License-Identifier: Apache-2.0
// tools/topo_places.hpp: where the devices of a machine stand in its picture.
//
// NUMA domains are the top row, switches the rows below them, GPUs and NICs the last one; host bridges have no box.
// Lengths are in the units of SVG, y grows downward. Pure. Next stop: topo_picture.cpp draws it.
#pragma once

#include <map>
#include <string>

#include "topo/graph.hpp"

inline constexpr double kPictureLeafHeight = 36;
inline constexpr double kPictureGap = 10;

struct PictureBox {
  double x = 0;  ///< left
  double y = 0;  ///< top
  double width = 0;
  double height = 0;
  double middle() const { return x + width / 2; }
  double bottom() const { return y + height; }
};

struct PicturePlaces {
  std::map<int, PictureBox> boxes;  ///< by Graph node; hosts only where there are several
  double leaf_y = 0;                ///< top of the last row
  double width = 0;                 ///< of all
};

/// `aside`: NICs that are not drawn.
PicturePlaces place_devices(const hocket::topo::Graph& graph, const std::map<int, std::string>& aside);
