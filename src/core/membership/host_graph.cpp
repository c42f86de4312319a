// SPDX-License-Identifier: Apache-2.0
#include "core/membership/host_graph.hpp"

#include <cstring>
#include <string>

#include "base/log.hpp"
#include "base/status.hpp"
#include "topo/cost.hpp"

namespace hocket::membership {

HostGraph::~HostGraph() {
  if (offset_ != 0) engine_.arena().release(offset_);
}

Status HostGraph::show(const Settings& settings, Rank rank, Outcome& outcome) {
  auto machine = engine_.machine();
  if (!machine.ok()) {
    // Asked for, so not to be passed over.
    if (!settings.topo_file.empty() || !settings.graph_dump_file.empty()) return machine.status();
    HOCKET_LOG(LogLevel::kWarn, "rank {} cannot read the machine's topology: {}", rank, machine.status().text());
    return {};
  }
  graph_ = *machine;
  outcome.cache_bytes = graph_->l3_bytes();
  const topo::LinkCost cost = topo::link_cost(*graph_, topo::LinkKind::kShm);
  outcome.hop_seconds = cost.alpha_seconds;
  outcome.bytes_per_second = cost.beta_bytes_per_second;
  const topo::LinkCost network = topo::link_cost(*graph_, topo::LinkKind::kNet);
  outcome.net_hop_seconds = network.alpha_seconds;
  outcome.net_bytes_per_second = network.beta_bytes_per_second;
  const std::string bytes = graph_->to_bytes();
  Arena& arena = engine_.arena();
  auto offset = arena.reserve(bytes.size(), 4096);
  if (!offset.ok()) return {};
  offset_ = *offset;
  if (!arena.commit(offset_, bytes.size()).ok()) return {};
  std::memcpy(arena.base() + offset_, bytes.data(), bytes.size());
  outcome.graph_offset = offset_;
  outcome.graph_bytes = bytes.size();
  return {};
}

void HostGraph::read(const Member& leader, const PeerView& view, const Outcome& told) {
  const std::uint64_t room = leader.address.arena_bytes;
  if (graph_ || told.graph_bytes == 0 || view.arena == nullptr || told.graph_offset > room ||
      told.graph_bytes > room - told.graph_offset)
    return;
  const auto* bytes = reinterpret_cast<const char*>(view.arena + told.graph_offset);
  auto parsed = topo::Graph::from_bytes(std::string(bytes, told.graph_bytes));
  if (!parsed.ok()) return;
  graph_ = std::make_shared<const topo::Graph>(std::move(*parsed));
  engine_.set_machine(graph_);
}

void HostGraph::read_here() {
  if (graph_) return;
  if (auto machine = engine_.machine(); machine.ok()) graph_ = *machine;
}

}  // namespace hocket::membership
