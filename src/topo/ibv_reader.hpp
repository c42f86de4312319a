// SPDX-License-Identifier: Apache-2.0
// topo/ibv_reader.hpp: NICs from the text of `ibv_devinfo`, `ibstat`, `ibdev2netdev`, `rdma link` or `show_gids`.
//
// Such a text knows ports, not where they are: the Graph has a host and its NICs. Each kNic has "rdma" (its name),
// "link_layer", "state" ("active", "down"), "guid" (one for all functions of a card), "transport", and with GIDs
// "gid_index" (the one to use), "gid_version", "netdev". Its rate is known from
// ibv_devinfo -v and ibstat only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topo/graph.hpp"

namespace hocket::topo {

bool looks_like_ibv(std::string_view text);

/// kInvalidArgument with the line for a text that names no device.
Result<Graph> graph_from_ibv_text(std::string_view text, const std::string& name);

/// One row of a port's GID table.
struct Gid {
  int index = 0;
  std::string address;   ///< as printed: eight groups of four digits
  bool ipv4 = false;     ///< an IPv4 address is inside
  bool local = false;    ///< fe80: reaches one wire only
  int roce_version = 2;  ///< 1 or 2
};

/// Sets ipv4 and local by the address itself: scripts print an IPv4 column also for addresses that have none inside.
void describe_address(Gid* gid);

/// The row to use for RoCE: version 2 before 1, an IPv4 address before a global before a local one, then the lowest
/// index. -1 for an empty table. Pure.
int best_gid(const std::vector<Gid>& table);

}  // namespace hocket::topo
