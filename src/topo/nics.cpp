// SPDX-License-Identifier: Apache-2.0
// topo/nics.cpp: see nics.hpp.
#include "topo/nics.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "base/status.hpp"
#include "topo/device_class.hpp"

namespace hocket::topo {

namespace {

const Node& node_at(const Graph& graph, int node) {
  return graph.nodes[static_cast<std::size_t>(node)];
}

// Interfaces that may have no PCI device in a file and are yet one that reaches other hosts. Everything else without a
// device is made up by the kernel: bridges, tunnels, ends of virtual cables.
bool is_named_like_a_device(std::string_view name) {
  static constexpr std::array<std::string_view, 18> kBegins = {"eth",  "en",   "ib",   "mlx",  "hsn",   "cxi",
                                                               "efa",  "bond", "rdma", "roce", "rocep", "irdma",
                                                               "bnxt", "hfi",  "opa",  "qedr", "rxe",   "NIC"};
  return std::any_of(kBegins.begin(), kBegins.end(),
                     [name](std::string_view begin) { return name.starts_with(begin); });
}

// Functions that a card gives to virtual machines, as makers number them.
bool is_virtual_function(const Node& nic) {
  static constexpr std::pair<std::string_view, std::string_view> kDevices[] = {
      {"15b3", "1014"}, {"15b3", "1016"}, {"15b3", "1018"}, {"15b3", "101a"}, {"15b3", "101c"},
      {"15b3", "101e"}, {"8086", "154c"}, {"8086", "1889"}, {"8086", "145c"}, {"14e4", "1806"},
      {"14e4", "1807"}, {"14e4", "1808"}, {"14e4", "1809"}, {"14e4", "16dc"}};
  return std::any_of(std::begin(kDevices), std::end(kDevices), [&nic](const auto& one) {
    return nic.get("vendor") == one.first && nic.get("device") == one.second;
  });
}

// The card's own function is on the same bus. Inside a virtual machine it is not there, and its part is all there is.
bool is_beside_its_card(const Graph& graph, int nic) {
  const Node& node = node_at(graph, nic);
  const std::vector<int> beside = graph.children(node.parent);
  return std::any_of(beside.begin(), beside.end(), [&](int other) {
    const Node& card = node_at(graph, other);
    return card.kind == NodeKind::kNic && card.get("vendor") == node.get("vendor") && !is_virtual_function(card);
  });
}

}  // namespace

std::string nic_name(const Graph& graph, int nic) {
  const Node& node = node_at(graph, nic);
  for (const std::string_view name : {node.get("rdma"), node.get("netdev"), std::string_view(node.name)}) {
    if (!name.empty()) return std::string(name);
  }
  return format("NIC {}", node.index);
}

std::string why_aside(const Graph& graph, int nic) {
  const Node& node = node_at(graph, nic);
  if (is_wireless(node)) return "wireless";
  if (node.get("state") == "down") return "port is down";
  if (node.get("state") == "other network") return "in another network than the others";
  if (is_virtual_function(node) && is_beside_its_card(graph, nic)) return "virtual function of a card beside it";
  // A device on PCI has a class; a matrix and a verbs listing name devices only; and what is no kernel interface is
  // real.
  const bool device = !node.get("class").empty() || node.get("net0").empty() || node.get("sockets").empty();
  if (!device && !is_named_like_a_device(nic_name(graph, nic))) return "virtual";
  return "";
}

NicPlan plan_nics(const Paths& paths) {
  const Graph& graph = paths.graph();
  NicPlan plan;
  double fastest = 0;
  for (const int nic : graph.of_kind(NodeKind::kNic)) {
    plan.nics.push_back({nic, nic_name(graph, nic), why_aside(graph, nic)});
    if (plan.nics.back().aside.empty() && node_at(graph, nic).rate.origin >= Origin::kReported)
      fastest = std::max(fastest, node_at(graph, nic).rate.bytes_per_second);
  }
  // Where some NICs have verbs, those that only the kernel's network stack reaches are for administration.
  const auto has_verbs = [&graph](const NicUse& use) { return !node_at(graph, use.nic).get("rdma").empty(); };
  const bool any_verbs = std::any_of(plan.nics.begin(), plan.nics.end(),
                                     [&](const NicUse& use) { return use.aside.empty() && has_verbs(use); });
  for (NicUse& use : plan.nics) {
    if (use.aside.empty() && any_verbs && !has_verbs(use) && !node_at(graph, use.nic).get("netdev").empty())
      use.aside = "no verbs";
  }
  // A card for administration beside cards for computing. Of a device on PCI whose speed nobody tells it is not known.
  constexpr double kFarSlower = 8;
  for (NicUse& use : plan.nics) {
    const Node& node = node_at(graph, use.nic);
    const bool known = node.rate.origin >= Origin::kReported || (node.rate.known() && node.get("class").empty());
    if (use.aside.empty() && known && node.rate.bytes_per_second * kFarSlower <= fastest) use.aside = "far slower";
  }

  std::map<int, int> served;  // NIC: GPUs
  bool same = true;
  PathType common = PathType::kDis;
  for (const int gpu : paths.gpus()) {
    NicOfGpu of_gpu;
    of_gpu.gpu = gpu;
    std::size_t usable = 0;
    for (const NicUse& use : plan.nics) {
      if (!use.aside.empty()) continue;
      const PathType type = paths.over_pci(gpu, use.nic).type;
      if (type >= PathType::kNet) continue;
      ++usable;
      if (type < of_gpu.type) {
        of_gpu.type = type;
        of_gpu.nearest.clear();
      }
      if (type == of_gpu.type) of_gpu.nearest.push_back(use.nic);
    }
    same &= usable > 1 && of_gpu.nearest.size() == usable && (common == PathType::kDis || common == of_gpu.type);
    common = of_gpu.type;
    plan.gpus.push_back(std::move(of_gpu));
  }
  plan.flat = same && plan.gpus.size() > 1 && common >= PathType::kPhb;
  for (NicOfGpu& of_gpu : plan.gpus) {
    for (const int nic : of_gpu.nearest) {
      if (of_gpu.chosen < 0 || served[nic] < served[of_gpu.chosen]) of_gpu.chosen = nic;
    }
    if (of_gpu.chosen < 0) continue;
    ++served[of_gpu.chosen];
    of_gpu.bytes_per_second = paths.between(of_gpu.gpu, of_gpu.chosen).bytes_per_second;
    if (const Rate& rate = node_at(graph, of_gpu.chosen).rate; rate.known())
      of_gpu.bytes_per_second = std::min(of_gpu.bytes_per_second, rate.bytes_per_second);
    if (std::find(plan.rails.begin(), plan.rails.end(), of_gpu.chosen) == plan.rails.end())
      plan.rails.push_back(of_gpu.chosen);
  }
  return plan;
}

}  // namespace hocket::topo
