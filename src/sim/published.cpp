// SPDX-License-Identifier: Apache-2.0
#include "sim/published.hpp"

#include <array>
#include <cmath>

#include "base/status.hpp"
#include "sim/simulate.hpp"

namespace hocket::sim {
namespace {

// Signalling rates by the makers' data sheets: NVLink 3 and 4 have 25 GB/s a link and direction, NVLink 5 has 50.
constexpr MachineSpec kMachines[] = {
    {"8xA100", 8, 12, 25e9, 25e9},    {"2xA100-bridge", 2, 12, 25e9, 0}, {"8xH800", 8, 8, 25e9, 50e9},
    {"8xH100", 8, 18, 25e9, 50e9},    {"8xH200", 8, 18, 25e9, 50e9},     {"8xB200", 8, 18, 50e9, 50e9},
    {"GB200-NVL72", 72, 18, 50e9, 0},
};

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// NCCL's busbw as people published it. Where a source gives a range, both ends.
constexpr PublishedRow kRows[] = {
    {"8xA100", 1, 0, "all_reduce", Carrier::kStores, 230, 250, 8 * kGiB, "docs.alayanew.com, 2026-05", ""},
    {"2xA100-bridge", 1, 0, "all_reduce", Carrier::kStores, 208, 208, 8 * kGiB, "NVIDIA/nccl-tests issue 178",
     "two PCIe cards joined by bridges: one ring of two GPUs loads each link both ways at once, and PCIe cards clock "
     "lower than SXM ones; the model knows links only"},
    {"8xH800", 1, 0, "all_reduce", Carrier::kMulticast, 215, 215, 8 * kGiB, "NVIDIA/nccl issue 1374",
     "above what its links carry without NVLS"},
    {"8xH100", 1, 0, "all_reduce", Carrier::kMulticast, 460, 480, 8 * kGiB,
     "docs.alayanew.com, 2026-05; NVIDIA/nccl issue 1374 (GTC S62129)", ""},
    {"8xH200", 1, 0, "all_reduce", Carrier::kMulticast, 475, 475, 4 * kGiB, "NVIDIA/nccl-tests issue 272", ""},
    {"8xB200", 1, 0, "all_reduce", Carrier::kMulticast, 830, 830, 8 * kGiB, "NVIDIA/nccl issue 1807",
     "NVLS gets a smaller part of NVLink 5 than of NVLink 4; NCCL's own model has 0.74 for Blackwell and 0.85 for "
     "Hopper"},
    {"GB200-NVL72", 1, 0, "all_reduce", Carrier::kMulticast, 835, 847, 8 * kGiB, "coreweave/nccl-tests pull request 43",
     "18 trays, one NVLink domain: NVLS over 72 GPUs could nearly double a link's rate, but what limits it at that "
     "size is not the links: a GPU must reduce and multiply its part of 72 at a rate that no publication states"},
    {"8xH100", 2, 0, "all_reduce", Carrier::kPuts, 330, 360, 8 * kGiB, "NVIDIA/nccl-tests issue 297",
     "4 to 8 NICs of 400 Gbit/s a host in the source; 8 are assumed"},
    {"8xH100", 2, 0, "all_to_all", Carrier::kPuts, 48, 49, 8 * kGiB, "NVIDIA/nccl-tests issue 267",
     "what each GPU's NIC of 50 GB/s moves, of the part that crosses hosts"},
};

using Efficiencies = std::array<double, kCarriers>;
double& of(Efficiencies& all, Carrier carrier) {
  return all[static_cast<std::size_t>(carrier)];
}

/// The simulator's busbw in GB/s. Multicast has no plan, since hocket has none: each GPU's link out carries its whole
/// buffer to the switch and its n-th part of the result, the link in the same the other way round.
Result<double> model(const PublishedRow& row, const Efficiencies& efficiency) {
  const MachineSpec& spec = *find_machine(row.machine);
  const double n = spec.gpus * row.hosts;
  if (row.carrier == Carrier::kMulticast) {
    const double rate = spec.links * spec.link_bytes * efficiency[static_cast<std::size_t>(Carrier::kMulticast)];
    return bus_factor(Collective::kAllReduce, static_cast<int>(n)) * rate / (1 + 1 / n) / 1e9;
  }
  // What each GPU's NIC carries: of n peers' chunks, those of other hosts.
  if (row.collective == "all_to_all")
    return spec.nic_bytes * efficiency[static_cast<std::size_t>(Carrier::kPuts)] / 1e9;
  Costs costs = gpu_costs(false);
  costs.store_efficiency = efficiency[static_cast<std::size_t>(Carrier::kStores)];
  costs.put_efficiency = efficiency[static_cast<std::size_t>(Carrier::kPuts)];
  const topo::Graph graph = machine_of(spec);
  FabricOptions options{.hosts = row.hosts, .network = {}};
  options.network.kind = NetworkKind::kFatTree;
  HOCKET_ASSIGN(const Fabric fabric, Fabric::make(graph, options));
  const topo::Paths paths(graph);
  const Placement placement = best_placement(fabric, paths, search(paths), 8);
  HOCKET_ASSIGN(const Simulation ring, Simulation::make(fabric, placement, Collective::kAllReduce, "ring", {}));
  HOCKET_ASSIGN(const Price price, ring.price(row.bytes, costs));
  return price.busbw / 1e9;
}

double middle(const PublishedRow& row) {
  return (row.low_gbps + row.high_gbps) / 2;
}

/// The efficiency of the row's carrier that makes the model say what was published.
Result<double> implied(const PublishedRow& row, Efficiencies efficiency) {
  double low = 0.02, high = 2;
  for (int pass = 0; pass < 30; ++pass) {
    of(efficiency, row.carrier) = std::sqrt(low * high);
    HOCKET_ASSIGN(const double gbps, model(row, efficiency));
    (gbps < middle(row) ? low : high) = of(efficiency, row.carrier);
  }
  return std::sqrt(low * high);
}

}  // namespace

std::string_view to_string(Carrier carrier) {
  static constexpr std::string_view kNames[] = {"stores", "multicast", "puts"};
  return kNames[static_cast<std::size_t>(carrier)];
}

std::span<const MachineSpec> known_machines() {
  return kMachines;
}

const MachineSpec* find_machine(std::string_view name) {
  for (const MachineSpec& machine : kMachines)
    if (machine.name == name) return &machine;
  return nullptr;
}

topo::Graph machine_of(const MachineSpec& spec) {
  using topo::NodeKind;
  topo::Graph graph;
  graph.source = spec.name;
  const int host = graph.add(NodeKind::kHost, -1);
  const int numa = graph.add(NodeKind::kNuma, host);
  const int nv_switch = graph.add(NodeKind::kNvSwitch, numa);
  // Figures of a Graph's NVLinks are what transfers get: four fifths (topo/link_speed.hpp).
  const topo::Rate nvlink{spec.links * spec.link_bytes * 0.8, topo::Origin::kNominal};
  const topo::Rate pcie{63e9, topo::Origin::kNominal};
  for (int g = 0; g < spec.gpus; ++g) {
    const int bridge = graph.add(NodeKind::kHostBridge, numa);
    const int pci = graph.add(NodeKind::kPciSwitch, bridge);
    const int gpu = graph.add(NodeKind::kGpu, pci);
    graph.nodes[static_cast<std::size_t>(gpu)].os_index = g;
    graph.edges.push_back({topo::EdgeKind::kNvlink, nv_switch, gpu, spec.links, nvlink});
    graph.edges.push_back({topo::EdgeKind::kPcie, bridge, pci, 1, pcie});
    graph.edges.push_back({topo::EdgeKind::kPcie, pci, gpu, 1, pcie});
    if (spec.nic_bytes == 0) continue;
    const int nic = graph.add(NodeKind::kNic, pci);
    graph.nodes[static_cast<std::size_t>(nic)].rate = {spec.nic_bytes, topo::Origin::kReported};
    graph.nodes[static_cast<std::size_t>(nic)].set("rdma", format("mlx5_{}", g));
    graph.edges.push_back({topo::EdgeKind::kPcie, pci, nic, 1, pcie});
  }
  graph.normalise();
  return graph;
}

std::span<const PublishedRow> published_rows() {
  return kRows;
}

Result<std::vector<Prediction>> predict_published() {
  // First what each row says of its carrier, stores before puts, which use both.
  std::array<double, std::size(kRows)> says{};
  Efficiencies plain{0.8, 0.8, 0.9};
  for (std::size_t r = 0; r < std::size(kRows); ++r) {
    HOCKET_ASSIGN(says[r], implied(kRows[r], plain));
  }
  const auto fitted = [&](Carrier carrier, std::size_t without) {
    double logs = 0;
    int rows = 0;
    for (std::size_t r = 0; r < std::size(kRows); ++r) {
      if (r == without || kRows[r].carrier != carrier) continue;
      logs += std::log(says[r]);
      ++rows;
    }
    return std::exp(logs / std::max(rows, 1));
  };
  std::vector<Prediction> all;
  for (std::size_t r = 0; r < std::size(kRows); ++r) {
    Efficiencies efficiency{};
    for (int c = 0; c < kCarriers; ++c) of(efficiency, static_cast<Carrier>(c)) = fitted(static_cast<Carrier>(c), r);
    HOCKET_ASSIGN(const double gbps, model(kRows[r], efficiency));
    all.push_back({&kRows[r], of(efficiency, kRows[r].carrier), gbps, middle(kRows[r]), gbps / middle(kRows[r]) - 1});
  }
  return all;
}

std::string published_text(const std::vector<Prediction>& predictions) {
  std::string out =
      "a model of NCCL's efficiency (no measurement of hocket)\n\n"
      "Constants: the links' specification, and one efficiency a protocol, fitted on all rows but the one it "
      "predicts.\n\n";
  out += format("{:<14} {:>5} {:<11} {:<10} {:>10} {:>12} {:>10} {:>7}\n", "machine", "hosts", "collective", "protocol",
                "efficiency", "published", "predicted", "error");
  std::string notes;
  for (const Prediction& p : predictions) {
    const PublishedRow& row = *p.row;
    const std::string published = row.low_gbps == row.high_gbps ? format("{:.4g}", row.low_gbps)
                                                                : format("{:.4g}-{:.4g}", row.low_gbps, row.high_gbps);
    out += format("{:<14} {:>5} {:<11} {:<10} {:>10.3f} {:>12} {:>10.1f} {:>+6.1f}%\n", row.machine, row.hosts,
                  row.collective, to_string(row.carrier), p.efficiency, published, p.gbps, 100 * p.error);
    if (std::abs(p.error) > 0.15)
      notes += format("  {}, {} host{}: {}\n", row.machine, row.hosts, row.hosts > 1 ? "s" : "", row.note);
  }
  out += "\nbusbw in GB/s (10^9 bytes), large sizes.\n";
  if (!notes.empty()) out += "More than 15 % off:\n" + notes;
  out += "Sources:\n";
  for (const Prediction& p : predictions)
    out += format("  {}, {} host{}, {}: {}\n", p.row->machine, p.row->hosts, p.row->hosts > 1 ? "s" : "",
                  p.row->collective, p.row->source);
  return out;
}

}  // namespace hocket::sim
