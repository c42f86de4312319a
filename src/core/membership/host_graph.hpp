// SPDX-License-Identifier: Apache-2.0
// membership/host_graph.hpp: the topology of this host, read by one of its ranks, the leader, and shown to the others
// in the leader's memory.
#pragma once

#include <memory>

#include "core/communicator_state.hpp"
#include "core/membership/messages.hpp"
#include "topo/graph.hpp"

namespace hocket::membership {

/// Shown as long as this lives: until the others have read it, whatever happens.
class HostGraph {
 public:
  explicit HostGraph(EngineCore& engine) : engine_(engine) {}
  ~HostGraph();
  HostGraph(const HostGraph&) = delete;
  HostGraph& operator=(const HostGraph&) = delete;

  /// The leader's: reads it, shows it, and fills in what `outcome` tells of it. A machine that cannot be read is a
  /// warning, and an error only where its topology was asked for.
  Status show(const Settings& settings, Rank rank, Outcome& outcome);
  /// The others': where the leader says that it is, if its memory is at hand.
  void read(const Member& leader, const PeerView& view, const Outcome& told);
  /// This process's own, if nobody has shown one.
  void read_here();

  /// Null if it is not known.
  const std::shared_ptr<const topo::Graph>& get() const noexcept { return graph_; }

 private:
  EngineCore& engine_;
  std::shared_ptr<const topo::Graph> graph_;
  std::uint64_t offset_ = 0;  // in the arena, of what is shown
};

}  // namespace hocket::membership
