// SPDX-License-Identifier: Apache-2.0
// sim/fabric.hpp: many machines of one kind and the network between them, as links with capacities and latencies.
//
// A Fabric is made from one machine's Graph. Ranks are its GPUs (of a machine without GPUs: its CPU cores), host after
// host, so rank r is rank r mod ranks_per_host() of host r / ranks_per_host(). Links are those of topo/paths.hpp once
// a host, two for each NIC, and the uplinks of a fat tree; each direction is a link. Nothing is stored per pair of
// ranks of different hosts: a route is computed when it is asked for. Pure after construction.
//
// Rates: a NIC's is its line rate. Of links that GPUs store over, topo/link_speed.hpp has what transfers get, four
// fifths of the line; the line rate is restored here, and one efficiency per protocol (Costs) applied to all.
// Next stop: sim/fold.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hocket/status.hpp"
#include "topo/nics.hpp"
#include "topo/paths.hpp"

namespace hocket::sim {

/// What a hop goes over; time is accounted by it.
enum class Wire : std::uint8_t {
  kCore = 0,     ///< a rank's own copying and reducing
  kMemory = 1,   ///< the memory that a host's cores share
  kNvlink = 2,   ///< NVLink, xGMI
  kPcie = 3,     ///< PCIe and what joins sockets
  kNetwork = 4,  ///< NICs and the switches behind them
};
inline constexpr int kWires = 5;
std::string_view to_string(Wire wire);

/// A protocol: one efficiency for stores, one for puts over NICs, and a latency for each kind of hop.
struct Costs {
  std::string_view name;
  double store_efficiency = 1;                   ///< of the line rate of NVLink, xGMI, PCIe
  double put_efficiency = 1;                     ///< of a NIC's line rate
  std::array<double, kWires> latency_seconds{};  ///< data or credit, one way
  double move_seconds = 0;                       ///< of the lane, for each Move
  double signal_seconds = 0;                     ///< of the lane, for each Signal
  double call_seconds = 0;                       ///< once
  double copy_factor = 1;                        ///< of what cores and memory copy
  double slot_weight = 1;                        ///< of bytes that a core reads from a slot
};

/// What a table of NCCL's latencies says of GPUs (docs/simulator.md); `bulk` and `packet`.
const Costs& gpu_costs(bool packet);
/// Host memory and TCP: the figures of topo/cost.hpp.
const Costs& host_costs();

enum class NetworkKind : std::uint8_t {
  kRails,    ///< NIC k of all hosts on one switch; other rails are reached through the GPU that has them
  kFatTree,  ///< any NIC to any NIC; pods of hosts share uplinks
};

struct NetworkOptions {
  NetworkKind kind = NetworkKind::kRails;
  double oversubscription = 1;      ///< of a pod's uplinks: 1 never limits
  int hosts_per_pod = 32;           ///< below one leaf switch of a fat tree
  double latency_seconds = -1;      ///< between NICs of a pod; below 0: the protocol's
  double nic_bytes_per_second = 0;  ///< 0: as the machine has them; else each GPU gets a NIC of its own of this rate
};

struct FabricOptions {
  int hosts = 1;
  int ranks_per_host = 0;  ///< of a machine without GPUs; 0: one for each CPU that may be used
  NetworkOptions network;
  double core_bytes_per_second = 0;    ///< what one rank copies; 0: GPUs are not limited, CPUs by topo/cost.hpp
  double memory_bytes_per_second = 0;  ///< what a host's ranks copy together; 0: likewise
};

/// The way from one rank to another.
struct Route {
  static constexpr int kMost = 32;
  std::array<int, kMost> links{};
  int count = 0;
  int hops[kWires] = {};  ///< latencies to add
  bool leaves_pod = false;
};

struct FabricLink {
  Wire wire = Wire::kPcie;
  double bytes_per_second = 0;  ///< line rate
};

class Fabric {
 public:
  /// kInvalidArgument where hosts cannot reach each other (no NIC), or two devices of a machine have no path.
  static Result<Fabric> make(const topo::Graph& graph, const FabricOptions& options);

  int hosts() const { return options_.hosts; }
  int ranks_per_host() const { return per_host_; }
  int ranks() const { return options_.hosts * per_host_; }
  int rails() const { return static_cast<int>(rails_.size()); }
  const FabricOptions& options() const { return options_; }
  bool has_gpus() const { return gpus_; }
  /// Rails that local rank `rank` has as its own; -1: none.
  int rail_of(int rank) const { return nic_of_[static_cast<std::size_t>(rank)]; }

  Route route(int from, int to) const;
  /// The links that all copying of a rank passes; empty for GPUs.
  Route engine(int rank) const;
  bool limits_copying() const { return core_first_ >= 0; }

  int link_count() const { return hosts() * links_per_host() + static_cast<int>(spine_.size()); }
  FabricLink link(int id) const;
  double capacity(int id, const Costs& costs) const;
  double latency(const Route& route, const Costs& costs) const;
  /// "host 3 GPU 2 to switch, NVLink"
  std::string link_name(int id) const;

  /// The narrowest link between two neighbours runs at `factor` of its rate, both ways. kInvalidArgument for ranks that
  /// are not there.
  Status slow_link(int from, int to, double factor);
  /// All that a rank does takes 1 / factor as long.
  Status slow_rank(int rank, double factor);
  double speed(int rank) const;
  /// Equal for links, or ranks, that nothing here tells apart.
  double link_factor(int id) const;
  /// No link and no rank is slowed.
  bool even() const { return link_factor_.empty() && rank_factor_.empty(); }

 private:
  struct Local {
    std::vector<int> links;
    int hops[kWires] = {};
  };
  int links_per_host() const { return static_cast<int>(host_links_.size()); }
  Status add_devices(const topo::Paths& paths);
  Status add_network(const topo::Paths& paths);
  const Local& local(int from, int to) const {
    return local_[static_cast<std::size_t>(from) * static_cast<std::size_t>(per_host_) + static_cast<std::size_t>(to)];
  }
  void append(Route& route, int host, const std::vector<int>& links) const;

  FabricOptions options_;
  bool gpus_ = false;
  int per_host_ = 0;
  std::vector<FabricLink> host_links_;
  std::vector<std::string> host_names_;
  std::vector<FabricLink> spine_;
  std::vector<Local> local_;                         // [from][to]
  std::vector<int> nic_of_;                          // [local rank]: rail
  std::vector<int> rails_;                           // first of a rail's two links: out, in
  std::vector<int> rail_owner_;                      // a local rank next to that NIC
  std::vector<std::vector<int>> to_nic_, from_nic_;  // [local rank]: links between it and its NIC
  int core_first_ = -1;                              // core of local rank 0
  int memory_ = -1;
  std::map<int, double> link_factor_;
  std::map<int, double> rank_factor_;
};

}  // namespace hocket::sim
