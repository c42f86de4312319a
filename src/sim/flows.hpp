// SPDX-License-Identifier: Apache-2.0
// sim/flows.hpp: transfers that share links, each with its max-min fair rate.
//
// A flow loads each of its links with its rate times a weight: a flow that stands for several equal ones (sim/fold.hpp)
// weighs more where they meet. Rates rise together until a link is full; what passes it is fixed, the rest goes on
// (progressive filling: Bertsekas and Gallager, Data Networks, 1992). The last full link is a flow's bottleneck: it
// gets as much there as any other. Rates are max-min fair if each flow has one, so a change is settled among the flows
// that it touches, and others join only if it takes their bottleneck from them. One thread. Next stop: sim/replay.hpp
// drives it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hocket::sim {

struct WeightedLink {
  int link = 0;
  double weight = 1;
};

class FlowSet {
 public:
  explicit FlowSet(std::vector<double> capacities);

  /// `links` must outlive the flow and not be empty; `owner` is the caller's. It has no rate until settle().
  int add(double now, double bytes, std::span<const WeightedLink> links, int owner);
  void remove(int flow);

  int owner(int flow) const { return flows_[static_cast<std::size_t>(flow)].owner; }
  /// Grows whenever a flow's end changes, and with each new flow of that number.
  std::uint32_t generation(int flow) const { return flows_[static_cast<std::size_t>(flow)].generation; }
  bool active(int flow) const { return flows_[static_cast<std::size_t>(flow)].active; }
  /// When it ends at its present rate.
  double end(int flow) const {
    const Flow& f = flows_[static_cast<std::size_t>(flow)];
    return f.updated + f.left / f.rate;
  }

  bool dirty() const { return !dirty_.empty(); }
  /// Rates of all flows that changes since the last call can have touched; those whose end moved are in the result,
  /// which lives until the next call.
  std::span<const int> settle(double now);

 private:
  struct Flow {
    std::span<const WeightedLink> links;
    double left = 0;
    double rate = 0;
    double next_rate = 0;
    int bottleneck = -1;
    int next_bottleneck = -1;
    double updated = 0;
    int owner = 0;
    std::uint32_t generation = 0;
    std::uint32_t seen = 0;
    bool active = false;
    bool fixed = false;
  };
  struct Use {
    int flow = 0;
    double weight = 1;
  };
  struct Link {
    double capacity = 0;
    std::vector<Use> uses;
    double free = 0;    ///< what flows that are not settled anew leave
    double wanted = 0;  ///< weight of those that are
    // While it is filled:
    double left = 0;
    double weight = 0;
    double level = 0;  ///< rate of flows whose bottleneck it is
    double most = 0;   ///< the highest rate on it
    bool full = false;
    std::uint32_t seen = 0;
    bool dirty = false;
  };
  struct Level {
    double rate = 0;
    int link = 0;
    bool operator>(const Level& other) const { return rate > other.rate; }
  };

  Flow& flow(int id) { return flows_[static_cast<std::size_t>(id)]; }
  Link& link(int id) { return links_[static_cast<std::size_t>(id)]; }
  void touch(int link);
  void join(int flow);
  void fill();
  void fix(Flow& flow, double rate, int bottleneck);
  bool join_losers();
  void join_all();

  std::vector<Flow> flows_;
  std::vector<int> free_;
  std::vector<Link> links_;
  std::vector<int> dirty_;
  std::uint32_t stamp_ = 0;
  std::vector<int> near_links_, near_flows_, changed_;  ///< near: settled anew
  std::vector<Level> levels_;                           ///< heap, lowest first
};

}  // namespace hocket::sim
