// SPDX-License-Identifier: Apache-2.0
// topo/device_class.cpp: see device_class.hpp.
#include "topo/device_class.hpp"

namespace hocket::topo {

NodeKind kind_of_pci(std::string_view code, std::string_view vendor) {
  const std::string_view base = code.substr(0, 2);
  if (code.starts_with("0604")) return NodeKind::kPciSwitch;
  if (code.starts_with("0680") && (vendor == "10de" || vendor.empty())) return NodeKind::kNvSwitch;
  if (base == "02" || code.starts_with("0c06")) return NodeKind::kNic;
  if (base == "12" || code.starts_with("0302")) return NodeKind::kGpu;
  // A display controller of a server's management chip is no GPU in our sense.
  const bool maker = vendor.empty() || vendor == "10de" || vendor == "1002" || vendor == "8086";
  if (base == "03" && maker) return NodeKind::kGpu;
  return NodeKind::kHost;
}

bool is_wireless(const Node& nic) {
  return nic.get("class").starts_with("0280") || nic.get("netdev").starts_with("wl");
}

}  // namespace hocket::topo
