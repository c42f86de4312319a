// SPDX-License-Identifier: Apache-2.0
// topo/cost.hpp: the numbers of the cost model: a message of B bytes takes alpha + B / beta.
//
// Figures that the Graph has are used; the others are the constants below. Nothing is measured here: the choice of an
// algorithm must be the same in every run on the same machines. Next stop: algorithms/select.cpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "topo/graph.hpp"

namespace hocket::topo {

/// Measured on two cores of an AMD EPYC (Zen 5) virtual machine under Linux 6.18, unless said otherwise; other
/// machines differ by a factor of two or three, which moves a choice between neighbours and not between extremes.
inline constexpr double kLineNearSeconds = 30e-9;   ///< a cache line from core to core below one L3: 22 to 36 ns
inline constexpr double kLineFarSeconds = 185e-9;   ///< between L3s or packages: 175 to 195 ns
inline constexpr double kCacheCopyRate = 60e9;      ///< one core reading what another has in its L2
inline constexpr double kDramCopyRate = 21e9;       ///< one core copying from DRAM to DRAM (reads + writes: twice that)
inline constexpr double kDramTrafficRate = 58e9;    ///< reads and writes together of one NUMA domain
inline constexpr double kSwitchSeconds = 1.2e-6;    ///< sched_yield to another process on the same core
inline constexpr double kTcpSeconds = 15e-6;        ///< TCP over Ethernet, kernel stack at both ends; nominal
inline constexpr double kLoopbackSeconds = 5e-6;    ///< TCP between two processes of one host: 4 to 7 us
inline constexpr double kLoopbackRate = 3e9;        ///< of the same, both ways at once: 1.4 to 4.5 GB/s
inline constexpr double kVerbsSeconds = 2e-6;       ///< RDMA write over one switch; nominal
inline constexpr double kNetRate = 1.25e9;          ///< 10 Gbit/s, if no port tells its rate
inline constexpr double kPcieSeconds = 1e-6;        ///< a peer write over PCIe with its flag; nominal
inline constexpr double kPcieRate = 12e9;           ///< 16 lanes of PCIe 3.0, if no link tells its rate
inline constexpr double kNvlinkSeconds = 1e-6;      ///< a peer write over NVLink with its flag; nominal
inline constexpr double kNvlinkRate = 40e9;         ///< two links of 20 GB/s, if no link tells its rate
inline constexpr std::uint64_t kL2Bytes = 1 << 20;  ///< if the Graph doesn't know its cores' L2
inline constexpr std::uint64_t kL3Bytes = 8 << 20;  ///< if the Graph doesn't know its L3

/// What ranks on one host pay.
struct HostCost {
  double line_seconds = kLineNearSeconds;       ///< a cache line between two of the allowed CPUs, the farther case
  bool one_l3 = true;                           ///< all allowed CPUs are below one L3
  double cache_copy_rate = kCacheCopyRate;      ///< bytes/s a core, data in cache
  double dram_copy_rate = kDramCopyRate;        ///< bytes/s a core, data in DRAM
  double dram_traffic_rate = kDramTrafficRate;  ///< bytes/s read + written, all domains with allowed CPUs together
  double usable_cpus = 1;                       ///< affinity and cgroup quota
  std::uint64_t l2_bytes = kL2Bytes;            ///< one core's share
  std::uint64_t l3_bytes = kL3Bytes;            ///< the smallest with allowed CPUs
  std::uint64_t tile_bytes = 256 << 10;         ///< what a core can hold in L2 beside its own work: see l2_tile_budget

  bool operator==(const HostCost&) const = default;
};

enum class LinkKind : std::uint8_t {
  kProcess = 0,  ///< threads of one process
  kShm = 1,      ///< processes of one host
  kNvlink = 2,
  kPcie = 3,
  kNet = 4,
};

std::string_view to_string(LinkKind kind);

struct LinkCost {
  double alpha_seconds = 0;          ///< one small message, one way
  double beta_bytes_per_second = 0;  ///< one sender and one receiver, one direction, large messages
  Origin origin = Origin::kNominal;  ///< of beta; kNominal for a constant of this file

  double seconds(double bytes) const { return alpha_seconds + bytes / beta_bytes_per_second; }
  bool operator==(const LinkCost&) const = default;
};

/// A quarter of the L2, a power of two from 16 KiB to 256 KiB: the tile that is read, the one that is written, the one
/// ahead and what else the core does.
std::uint64_t l2_tile_budget(std::uint64_t l2_bytes);

/// Pure, any Graph, also an empty one.
HostCost host_cost(const Graph& graph);
/// The slowest link of its kind that the Graph has, since a collective runs at that speed; for kNet the fastest port.
LinkCost link_cost(const Graph& graph, LinkKind kind);

}  // namespace hocket::topo
