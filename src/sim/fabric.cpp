// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric.hpp"

#include <algorithm>
#include <cmath>

#include "base/status.hpp"
#include "topo/cost.hpp"

namespace hocket::sim {
namespace {

// What link_speed.hpp's figures are of a line.
constexpr double kUsable = 0.8;
constexpr double kSwitchSeconds = 0.3e-6;

Wire wire_of(topo::EdgeKind kind) {
  switch (kind) {
    case topo::EdgeKind::kNvlink: return Wire::kNvlink;
    case topo::EdgeKind::kNetwork: return Wire::kNetwork;
    case topo::EdgeKind::kMemory: return Wire::kMemory;
    default: return Wire::kPcie;
  }
}

std::string end_name(const topo::Graph& graph, int node) {
  if (node == topo::Paths::kCrossbar) return "switch";
  const topo::Node& at = graph.nodes[static_cast<std::size_t>(node)];
  if (at.kind == topo::NodeKind::kGpu) return "GPU " + gpu_label(graph, node);
  if (at.kind == topo::NodeKind::kNic) return nic_name(graph, node);
  return format("{} {}", to_string(at.kind), at.index);
}

}  // namespace

std::string_view to_string(Wire wire) {
  static constexpr std::string_view kNames[] = {"core", "memory", "NVLink", "PCIe", "network"};
  return kNames[static_cast<std::size_t>(wire)];
}

const Costs& gpu_costs(bool packet) {
  // Latencies a hop: what NCCL plans with for Simple and LL. A packet's line is half flag. docs/simulator.md.
  static constexpr Costs kBulk{.name = "bulk",
                               .store_efficiency = 0.8,
                               .put_efficiency = 0.92,
                               .latency_seconds = {0, 0, 3.4e-6, 5.7e-6, 14e-6},
                               .call_seconds = 8.4e-6};
  static constexpr Costs kPacket{.name = "packet",
                                 .store_efficiency = 0.4,
                                 .put_efficiency = 0.46,
                                 .latency_seconds = {0, 0, 0.6e-6, 1.0e-6, 2.7e-6},
                                 .call_seconds = 6.6e-6};
  return packet ? kPacket : kBulk;
}

const Costs& host_costs() {
  static constexpr Costs kHost{
      .name = "host",
      .store_efficiency = 1,
      .put_efficiency = 0.9,
      .latency_seconds = {0, topo::kLineFarSeconds, topo::kNvlinkSeconds, topo::kPcieSeconds, topo::kTcpSeconds},
      .move_seconds = 20e-9,
      .signal_seconds = 20e-9};
  return kHost;
}

Result<Fabric> Fabric::make(const topo::Graph& graph, const FabricOptions& options) {
  if (options.hosts < 1 || options.hosts > 1 << 17)
    return error(Code::kInvalidArgument, "{} hosts: 1 to {} can be simulated", options.hosts, 1 << 17);
  if (!(options.network.oversubscription > 0) || options.network.hosts_per_pod < 1)
    return error(Code::kInvalidArgument, "a fat tree's oversubscription is above 0, and its pods have hosts");
  Fabric fabric;
  fabric.options_ = options;
  const topo::Paths paths(graph);
  fabric.gpus_ = !paths.gpus().empty();
  HOCKET_TRY(fabric.add_devices(paths));
  if (options.hosts > 1) HOCKET_TRY(fabric.add_network(paths));
  return fabric;
}

Status Fabric::add_devices(const topo::Paths& paths) {
  const topo::Graph& graph = paths.graph();
  const topo::HostCost host = topo::host_cost(graph);
  if (gpus_) {
    per_host_ = static_cast<int>(paths.gpus().size());
  } else {
    per_host_ = options_.ranks_per_host > 0 ? options_.ranks_per_host : std::max(1, static_cast<int>(host.usable_cpus));
  }
  if (per_host_ > 1024) return error(Code::kInvalidArgument, "{} ranks on a host: at most 1024", per_host_);
  for (const topo::Link& link : paths.links()) {
    const Wire wire = wire_of(link.kind);
    double rate = link.bytes_per_second;
    if (wire == Wire::kNvlink || wire == Wire::kPcie) rate /= kUsable;
    host_links_.push_back({wire, rate});
    host_names_.push_back(
        format("{} to {}, {}", end_name(graph, link.from), end_name(graph, link.to), to_string(wire)));
  }
  const auto n = static_cast<std::size_t>(per_host_);
  local_.resize(n * n);
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      Local& way = local_[a * n + b];
      if (!gpus_) {
        way.hops[static_cast<int>(Wire::kMemory)] = 1;
        continue;
      }
      const topo::Path path = paths.between(paths.gpus()[a], paths.gpus()[b]);
      if (path.type >= topo::PathType::kNet)
        return error(Code::kInvalidArgument, "the machine has no path from GPU {} to GPU {}",
                     gpu_label(graph, paths.gpus()[a]), gpu_label(graph, paths.gpus()[b]));
      way.links = path.links;
      const bool nvlink = path.type == topo::PathType::kNvl || path.type == topo::PathType::kNvb;
      way.hops[static_cast<int>(nvlink ? Wire::kNvlink : Wire::kPcie)] = path.type == topo::PathType::kNvb ? 2 : 1;
      std::erase_if(way.links,
                    [&](int l) { return !std::isfinite(host_links_[static_cast<std::size_t>(l)].bytes_per_second); });
      if (way.links.size() + 2 > Route::kMost / 2)
        return error(Code::kUnsupported, "a path of {} links inside a machine", way.links.size());
    }
  const double core = options_.core_bytes_per_second > 0 ? options_.core_bytes_per_second
                      : gpus_                            ? 0
                                                         : host.cache_copy_rate / 2;
  if (core > 0) {
    core_first_ = links_per_host();
    for (int r = 0; r < per_host_; ++r) {
      host_links_.push_back({Wire::kCore, core});
      host_names_.push_back(format("copying of local rank {}", r));
    }
    const double memory =
        options_.memory_bytes_per_second > 0 ? options_.memory_bytes_per_second : host.dram_traffic_rate;
    if (!gpus_ || options_.memory_bytes_per_second > 0) {
      memory_ = links_per_host();
      host_links_.push_back({Wire::kMemory, memory});
      host_names_.push_back("memory");
    }
  }
  return {};
}

Status Fabric::add_network(const topo::Paths& paths) {
  const auto n = static_cast<std::size_t>(per_host_);
  nic_of_.assign(n, -1);
  to_nic_.resize(n);
  from_nic_.resize(n);
  const auto add_rail = [this](std::string name, double rate, int owner) {
    rails_.push_back(links_per_host());
    rail_owner_.push_back(owner);
    for (const std::string_view way : {"out", "in"}) {
      host_links_.push_back({Wire::kNetwork, rate});
      host_names_.push_back(format("{} {}", name, way));
    }
  };
  const NetworkOptions& network = options_.network;
  if (network.nic_bytes_per_second > 0) {
    if (links_per_host() % 2 != 0) {  // twins stay neighbours
      host_links_.push_back({Wire::kMemory, 1e18});
      host_names_.push_back("unused");
    }
    for (std::size_t r = 0; r < n; ++r) {
      if (!gpus_ && r > 0) {
        nic_of_[r] = 0;
        continue;
      }
      nic_of_[r] = static_cast<int>(r);
      add_rail(format("NIC {}", r), network.nic_bytes_per_second, static_cast<int>(r));
    }
  } else {
    const topo::NicPlan plan = plan_nics(paths);
    if (links_per_host() % 2 != 0) {
      host_links_.push_back({Wire::kMemory, 1e18});
      host_names_.push_back("unused");
    }
    std::map<int, int> rail_of_nic;
    for (std::size_t r = 0; r < n; ++r) {
      int nic = -1;
      if (gpus_) {
        nic = plan.gpus[r].chosen;
      } else {
        for (const topo::NicUse& use : plan.nics)
          if (use.aside.empty() && nic < 0) nic = use.nic;
      }
      if (nic < 0)
        return error(Code::kInvalidArgument,
                     "the machine has no NIC that collectives can use, so hosts cannot reach each other; give each "
                     "rank one with --nic GB/s");
      const topo::Node& node = paths.graph().nodes[static_cast<std::size_t>(nic)];
      const auto [it, fresh] = rail_of_nic.try_emplace(nic, rails());
      if (fresh)
        add_rail(nic_name(paths.graph(), nic), node.rate.known() ? node.rate.bytes_per_second : topo::kNetRate,
                 static_cast<int>(r));
      nic_of_[r] = it->second;
      if (!gpus_) continue;
      to_nic_[r] = paths.between(paths.gpus()[r], nic).links;
      from_nic_[r] = paths.between(nic, paths.gpus()[r]).links;
      for (std::vector<int>* links : {&to_nic_[r], &from_nic_[r]})
        std::erase_if(*links,
                      [&](int l) { return !std::isfinite(host_links_[static_cast<std::size_t>(l)].bytes_per_second); });
    }
  }
  if (network.kind == NetworkKind::kFatTree && network.oversubscription > 1 && hosts() > network.hosts_per_pod) {
    double host_rate = 0;
    for (const int rail : rails_) host_rate += host_links_[static_cast<std::size_t>(rail)].bytes_per_second;
    const int pods = (hosts() + network.hosts_per_pod - 1) / network.hosts_per_pod;
    for (int link = 0; link < 2 * pods; ++link)
      spine_.push_back({Wire::kNetwork, host_rate * network.hosts_per_pod / network.oversubscription});
  }
  return {};
}

void Fabric::append(Route& route, int host, const std::vector<int>& links) const {
  for (const int link : links) route.links[static_cast<std::size_t>(route.count++)] = host * links_per_host() + link;
}

Route Fabric::route(int from, int to) const {
  Route route;
  if (from == to) return route;
  const int host_a = from / per_host_, host_b = to / per_host_;
  int a = from % per_host_;
  const int b = to % per_host_;
  if (host_a == host_b) {
    const Local& way = local(a, b);
    append(route, host_a, way.links);
    std::copy(std::begin(way.hops), std::end(way.hops), std::begin(route.hops));
    return route;
  }
  const int rail_b = nic_of_[static_cast<std::size_t>(b)];
  int rail_a = nic_of_[static_cast<std::size_t>(a)];
  if (options_.network.kind == NetworkKind::kRails && rail_a != rail_b) {
    // Rails do not meet: over to the GPU that has the rail, and from there.
    const int owner = rail_owner_[static_cast<std::size_t>(rail_b)];
    const Local& way = local(a, owner);
    append(route, host_a, way.links);
    for (int w = 0; w < kWires; ++w) route.hops[w] += way.hops[w];
    a = owner;
    rail_a = rail_b;
  }
  append(route, host_a, to_nic_[static_cast<std::size_t>(a)]);
  route.links[static_cast<std::size_t>(route.count++)] =
      host_a * links_per_host() + rails_[static_cast<std::size_t>(rail_a)];
  const int pod_a = host_a / options_.network.hosts_per_pod, pod_b = host_b / options_.network.hosts_per_pod;
  if (pod_a != pod_b) {
    route.leaves_pod = options_.network.kind == NetworkKind::kFatTree;
    if (!spine_.empty()) {
      const int first = hosts() * links_per_host();
      route.links[static_cast<std::size_t>(route.count++)] = first + 2 * pod_a;
      route.links[static_cast<std::size_t>(route.count++)] = first + 2 * pod_b + 1;
    }
  }
  route.links[static_cast<std::size_t>(route.count++)] =
      host_b * links_per_host() + rails_[static_cast<std::size_t>(rail_b)] + 1;
  append(route, host_b, from_nic_[static_cast<std::size_t>(b)]);
  route.hops[static_cast<int>(Wire::kNetwork)] += 1;
  return route;
}

Route Fabric::engine(int rank) const {
  Route route;
  if (core_first_ < 0) return route;
  const int base = rank / per_host_ * links_per_host();
  route.links[static_cast<std::size_t>(route.count++)] = base + core_first_ + rank % per_host_;
  if (memory_ >= 0) route.links[static_cast<std::size_t>(route.count++)] = base + memory_;
  return route;
}

FabricLink Fabric::link(int id) const {
  const int inside = hosts() * links_per_host();
  return id < inside ? host_links_[static_cast<std::size_t>(id % links_per_host())]
                     : spine_[static_cast<std::size_t>(id - inside)];
}

double Fabric::link_factor(int id) const {
  const auto it = link_factor_.find(id);
  return it == link_factor_.end() ? 1 : it->second;
}

double Fabric::capacity(int id, const Costs& costs) const {
  const FabricLink at = link(id);
  double rate = at.bytes_per_second * link_factor(id);
  if (at.wire == Wire::kNvlink || at.wire == Wire::kPcie) rate *= costs.store_efficiency;
  if (at.wire == Wire::kNetwork) rate *= costs.put_efficiency;
  if (at.wire == Wire::kCore || at.wire == Wire::kMemory) rate *= costs.copy_factor;
  return rate;
}

double Fabric::latency(const Route& route, const Costs& costs) const {
  double seconds = 0;
  for (int w = 0; w < kWires; ++w) {
    const bool given = w == static_cast<int>(Wire::kNetwork) && options_.network.latency_seconds >= 0;
    seconds +=
        route.hops[w] * (given ? options_.network.latency_seconds : costs.latency_seconds[static_cast<std::size_t>(w)]);
  }
  // Up and down again is two switches more.
  return seconds + (route.leaves_pod ? 2 * kSwitchSeconds : 0);
}

std::string Fabric::link_name(int id) const {
  const int inside = hosts() * links_per_host();
  if (id >= inside) return format("pod {} {}", (id - inside) / 2, (id - inside) % 2 == 0 ? "up" : "down");
  const std::string& name = host_names_[static_cast<std::size_t>(id % links_per_host())];
  return hosts() == 1 ? name : format("host {} {}", id / links_per_host(), name);
}

Status Fabric::slow_link(int from, int to, double factor) {
  if (from < 0 || to < 0 || from >= ranks() || to >= ranks() || from == to)
    return error(Code::kInvalidArgument, "there is no link {}-{}: ranks are 0 to {}", from, to, ranks() - 1);
  if (!(factor > 0) || !std::isfinite(factor))
    return error(Code::kInvalidArgument, "a link's factor is above 0, not {}", factor);
  const Route way = route(from, to);
  int narrowest = -1;
  for (int l = 0; l < way.count; ++l) {
    const int id = way.links[static_cast<std::size_t>(l)];
    if (narrowest < 0 || link(id).bytes_per_second < link(narrowest).bytes_per_second) narrowest = id;
  }
  if (narrowest < 0) return error(Code::kUnsupported, "ranks {} and {} are joined by memory, not by a link", from, to);
  const int inside = hosts() * links_per_host();
  const int first = narrowest < inside ? narrowest / links_per_host() * links_per_host() : inside;
  const int twin = first + ((narrowest - first) ^ 1);
  for (const int id : {narrowest, twin}) link_factor_[id] = link_factor(id) * factor;
  return {};
}

Status Fabric::slow_rank(int rank, double factor) {
  if (rank < 0 || rank >= ranks())
    return error(Code::kInvalidArgument, "there is no rank {}: ranks are 0 to {}", rank, ranks() - 1);
  if (!(factor > 0) || !std::isfinite(factor))
    return error(Code::kInvalidArgument, "a rank's factor is above 0, not {}", factor);
  rank_factor_[rank] = factor;
  return {};
}

double Fabric::speed(int rank) const {
  const auto it = rank_factor_.find(rank);
  return it == rank_factor_.end() ? 1 : it->second;
}

}  // namespace hocket::sim
