// SPDX-License-Identifier: Apache-2.0
#include "sim/flows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hocket::sim {
namespace {
// Links this near to the fullest count as full too, so that equal ones are settled at once.
constexpr double kSame = 1e-9;
}  // namespace

FlowSet::FlowSet(std::vector<double> capacities) : links_(capacities.size()) {
  for (std::size_t l = 0; l < capacities.size(); ++l) links_[l].capacity = capacities[l];
}

void FlowSet::touch(int link) {
  Link& at = links_[static_cast<std::size_t>(link)];
  if (at.dirty) return;
  at.dirty = true;
  dirty_.push_back(link);
}

int FlowSet::add(double now, double bytes, std::span<const WeightedLink> links, int owner) {
  int id = 0;
  if (free_.empty()) {
    id = static_cast<int>(flows_.size());
    flows_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Flow& flow = flows_[static_cast<std::size_t>(id)];
  const std::uint32_t generation = flow.generation + 1;
  flow = {};
  flow.links = links;
  flow.left = bytes;
  flow.updated = now;
  flow.owner = owner;
  flow.generation = generation;
  flow.active = true;
  for (const WeightedLink& link : links) {
    links_[static_cast<std::size_t>(link.link)].flows.push_back(id);
    touch(link.link);
  }
  return id;
}

void FlowSet::remove(int id) {
  Flow& flow = flows_[static_cast<std::size_t>(id)];
  for (const WeightedLink& link : flow.links) {
    std::vector<int>& there = links_[static_cast<std::size_t>(link.link)].flows;
    const auto found = std::find(there.begin(), there.end(), id);
    *found = there.back();
    there.pop_back();
    touch(link.link);
  }
  flow.active = false;
  ++flow.generation;
  free_.push_back(id);
}

void FlowSet::gather() {
  ++stamp_;
  near_links_.clear();
  near_flows_.clear();
  const auto visit = [this](int link) {
    Link& at = links_[static_cast<std::size_t>(link)];
    if (at.seen == stamp_) return;
    at.seen = stamp_;
    at.left = at.capacity;
    at.weight = 0;
    near_links_.push_back(link);
  };
  for (const int link : dirty_) {
    links_[static_cast<std::size_t>(link)].dirty = false;
    visit(link);
  }
  dirty_.clear();
  for (std::size_t next = 0; next < near_links_.size(); ++next) {
    for (const int id : links_[static_cast<std::size_t>(near_links_[next])].flows) {
      Flow& flow = flows_[static_cast<std::size_t>(id)];
      if (flow.seen == stamp_) continue;
      flow.seen = stamp_;
      flow.fixed = false;
      near_flows_.push_back(id);
      for (const WeightedLink& link : flow.links) {
        visit(link.link);
        links_[static_cast<std::size_t>(link.link)].weight += link.weight;
      }
    }
  }
}

void FlowSet::fix(Flow& flow, double rate, double now, int id) {
  flow.fixed = true;
  for (const WeightedLink& link : flow.links) {
    Link& at = links_[static_cast<std::size_t>(link.link)];
    at.left = std::max(0.0, at.left - rate * link.weight);
    at.weight -= link.weight;
  }
  if (std::abs(rate - flow.rate) <= kSame * rate) return;
  flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.updated));
  flow.updated = now;
  flow.rate = rate;
  ++flow.generation;
  changed_.push_back(id);
}

std::span<const int> FlowSet::settle(double now) {
  gather();
  changed_.clear();
  std::size_t unfixed = near_flows_.size();
  while (unfixed > 0) {
    double fill = std::numeric_limits<double>::infinity();
    for (const int link : near_links_) {
      const Link& at = links_[static_cast<std::size_t>(link)];
      if (at.weight > kSame) fill = std::min(fill, at.left / at.weight);
    }
    full_.clear();
    for (const int link : near_links_) {
      const Link& at = links_[static_cast<std::size_t>(link)];
      if (at.weight > kSame && at.left / at.weight <= fill * (1 + kSame)) full_.push_back(link);
    }
    if (full_.empty()) break;
    for (const int link : full_)
      for (const int id : links_[static_cast<std::size_t>(link)].flows) {
        Flow& flow = flows_[static_cast<std::size_t>(id)];
        if (flow.fixed) continue;
        fix(flow, std::max(fill, 1e-3), now, id);
        --unfixed;
      }
  }
  return changed_;
}

}  // namespace hocket::sim
