// SPDX-License-Identifier: Apache-2.0
// topo/link_speed.cpp: see link_speed.hpp.
#include "topo/link_speed.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <string>

namespace hocket::topo {

namespace {

struct Generation {
  double transfers;  // GT/s
  double payload;    // bytes/s of one lane after line coding
  double usable;     // bytes/s of one lane that transfers get
};
constexpr std::array<Generation, 6> kGenerations = {{{2.5, 250e6, 187.5e6},
                                                     {5, 500e6, 375e6},
                                                     {8, 8e9 * 128 / 130 / 8, 750e6},
                                                     {16, 16e9 * 128 / 130 / 8, 1.5e9},
                                                     {32, 32e9 * 128 / 130 / 8, 3e9},
                                                     {64, 64e9 * 242 / 256 / 8, 6e9}}};
constexpr double kUsableOfUnknown = 12e9;

bool is_width(double lanes) {
  for (const int width : {1, 2, 4, 8, 12, 16, 32}) {
    if (std::abs(lanes - width) < 0.01) return true;
  }
  return false;
}

}  // namespace

Rate pcie_rate(std::string_view speed, std::string_view width) {
  double transfers = 0;
  int lanes = 0;
  const auto parsed = std::from_chars(speed.data(), speed.data() + speed.size(), transfers);
  const auto [end, bad] = std::from_chars(width.data(), width.data() + width.size(), lanes);
  if (parsed.ec != std::errc() || bad != std::errc() || end != width.data() + width.size()) return {};
  const std::string_view unit(parsed.ptr, static_cast<std::size_t>(speed.data() + speed.size() - parsed.ptr));
  if (unit != " GT/s" && unit != " GT/s PCIe") return {};
  if (!is_width(lanes)) return {};
  for (const Generation& generation : kGenerations) {
    if (transfers == generation.transfers) return {generation.payload * lanes, Origin::kReported};
  }
  return {};
}

double usable_pcie(const Rate& rate) {
  if (!rate.known()) return kUsableOfUnknown;
  // The generation follows from the rate, but for factors that are equal anyway.
  for (const Generation& generation : kGenerations) {
    const double lanes = rate.bytes_per_second / generation.payload;
    if (is_width(lanes)) return generation.usable * std::round(lanes);
  }
  return rate.bytes_per_second * (kGenerations[2].usable / kGenerations[2].payload);
}

double nvlink_bytes_per_second(int compute_capability) {
  if (compute_capability >= 100) return 40.1e9;
  if (compute_capability >= 90) return 20.6e9;
  if (compute_capability == 86 || compute_capability == 89) return 12e9;
  if (compute_capability >= 70 || compute_capability <= 0) return 20e9;
  return 18e9;
}

double xgmi_bytes_per_second(std::string_view architecture) {
  if (architecture.starts_with("gfx")) architecture.remove_prefix(3);
  if (architecture.starts_with("94") || architecture.starts_with("95")) return 48e9;
  if (architecture == "910" || architecture == "90a") return 36e9;
  return 24e9;
}

double socket_bytes_per_second(std::string_view arch, std::string_view vendor, int family, int model) {
  if (arch == "ppc64") return 32e9;
  if (arch == "arm64") return 6e9;
  if (vendor.find("AMD") != std::string_view::npos) return 16e9;
  if (vendor == "GenuineIntel" && family == 6) {
    if (model >= 0xcf) return 40e9;  // Emerald Rapids
    if (model >= 0x8f) return 22e9;  // Sapphire Rapids
    if (model >= 0x55) return 10e9;  // Skylake
    return 6e9;
  }
  return 6e9;
}

}  // namespace hocket::topo
