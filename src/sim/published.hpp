// SPDX-License-Identifier: Apache-2.0
// sim/published.hpp: what others measured with NCCL on real machines, beside what the simulator says of them.
//
// A machine is its links' specification: lines and their signalling rate, NICs and their line rate. Besides those the
// model has one constant a protocol, an efficiency. Each machine is predicted with constants fitted on all others. It
// is a model of NCCL's efficiency, and no measurement of hocket. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hocket/status.hpp"
#include "topo/graph.hpp"

namespace hocket::sim {

/// What carries the bytes; each has one efficiency.
enum class Carrier : std::uint8_t {
  kStores,     ///< a ring by stores over NVLink
  kMulticast,  ///< NVLS: the switch reduces and multiplies
  kPuts,       ///< a ring whose NICs are the narrowest
};
inline constexpr int kCarriers = 3;
std::string_view to_string(Carrier carrier);

struct MachineSpec {
  std::string_view name;
  int gpus = 8;
  int links = 0;          ///< NVLinks a GPU
  double link_bytes = 0;  ///< bytes/s a link and direction, signalling
  double nic_bytes = 0;   ///< bytes/s, one NIC a GPU; 0: none
};
std::span<const MachineSpec> known_machines();
/// Null if there is none of that name.
const MachineSpec* find_machine(std::string_view name);
/// GPUs on one switch, each with a NIC beside it.
topo::Graph machine_of(const MachineSpec& spec);

struct PublishedRow {
  std::string_view machine;
  int hosts = 1;
  int gpus = 0;  ///< that took part on each host; 0: all
  std::string_view collective = "all_reduce";
  Carrier carrier = Carrier::kStores;
  double low_gbps = 0, high_gbps = 0;  ///< busbw, GB/s
  std::uint64_t bytes = std::uint64_t{8} << 30;
  std::string_view source;
  std::string_view note;  ///< why the model may miss it
};
std::span<const PublishedRow> published_rows();

struct Prediction {
  const PublishedRow* row = nullptr;
  double efficiency = 0;  ///< of its carrier, fitted on the others
  double gbps = 0;
  double published = 0;  ///< the middle
  double error = 0;      ///< predicted / published - 1
};

/// Every row by constants of the others. Errors: those of the simulator.
Result<std::vector<Prediction>> predict_published();
/// The table, with its title and an explanation for each row that is off by more than 15 %.
std::string published_text(const std::vector<Prediction>& predictions);

}  // namespace hocket::sim
