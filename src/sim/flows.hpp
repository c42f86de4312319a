// SPDX-License-Identifier: Apache-2.0
// sim/flows.hpp: transfers that share links, each with its max-min fair rate.
//
// A flow loads each of its links with its rate times a weight: a flow that stands for several equal ones (sim/fold.hpp)
// weighs more where they meet. Rates rise together until a link is full; what passes it is fixed, the rest goes on
// (progressive filling: Bertsekas and Gallager, Data Networks, 1992). A change touches only flows that share a link
// with it, directly or through others. One thread. Next stop: sim/replay.hpp drives it.
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
    double updated = 0;
    int owner = 0;
    std::uint32_t generation = 0;
    std::uint32_t seen = 0;
    bool active = false;
    bool fixed = false;
  };
  struct Link {
    double capacity = 0;
    std::vector<int> flows;
    double left = 0;
    double weight = 0;
    std::uint32_t seen = 0;
    bool dirty = false;
  };

  void touch(int link);
  void gather();
  void fix(Flow& flow, double rate, double now, int id);

  std::vector<Flow> flows_;
  std::vector<int> free_;
  std::vector<Link> links_;
  std::vector<int> dirty_;
  std::uint32_t stamp_ = 0;
  std::vector<int> near_links_, near_flows_, changed_, full_;
};

}  // namespace hocket::sim
