// SPDX-License-Identifier: Apache-2.0
// topo/device_class.hpp: what a PCI device is, by its class and maker. Pure.
#pragma once

#include <string_view>

#include "topo/graph.hpp"

namespace hocket::topo {

/// For hexadecimal digits without "0x": `code` is the class ("0302", "030200"), `vendor` may be empty. kGpu, kNic,
/// kNvSwitch, kPciSwitch; kHost for a device that is of no interest.
NodeKind kind_of_pci(std::string_view code, std::string_view vendor);

/// A NIC of class 0280 (or with a wireless interface's name): no network for a collective.
bool is_wireless(const Node& nic);

}  // namespace hocket::topo
