// SPDX-License-Identifier: Apache-2.0
#include "sim/flows.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace hocket::sim {
namespace {
// Rates this near to each other are equal, so that equal flows stay so.
constexpr double kSame = 1e-9;
// After so many rounds of flows that join, all that could do so.
constexpr int kMostJoins = 8;
}  // namespace

FlowSet::FlowSet(std::vector<double> capacities) : links_(capacities.size()) {
  for (std::size_t l = 0; l < capacities.size(); ++l) links_[l].capacity = capacities[l];
}

void FlowSet::touch(int id) {
  Link& at = link(id);
  if (at.dirty) return;
  at.dirty = true;
  dirty_.push_back(id);
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
    links_[static_cast<std::size_t>(link.link)].uses.push_back({id, link.weight});
    touch(link.link);
  }
  return id;
}

void FlowSet::remove(int id) {
  Flow& flow = flows_[static_cast<std::size_t>(id)];
  for (const WeightedLink& link : flow.links) {
    std::vector<Use>& there = links_[static_cast<std::size_t>(link.link)].uses;
    const auto found = std::find_if(there.begin(), there.end(), [id](const Use& use) { return use.flow == id; });
    *found = there.back();
    there.pop_back();
    touch(link.link);
  }
  flow.active = false;
  ++flow.generation;
  free_.push_back(id);
}

/// Its rate is settled anew, on links whose other flows keep theirs for now.
void FlowSet::join(int id) {
  Flow& joining = flow(id);
  if (joining.seen == stamp_) return;
  joining.seen = stamp_;
  near_flows_.push_back(id);
  for (const WeightedLink& use : joining.links) {
    Link& at = link(use.link);
    if (at.seen != stamp_) {
      at.seen = stamp_;
      at.free = at.capacity;
      at.wanted = 0;
      for (const Use& other : at.uses) {
        // This flow, too: it is taken out below.
        const Flow& sharing = flow(other.flow);
        if (sharing.seen != stamp_ || other.flow == id) at.free -= other.weight * sharing.rate;
      }
      near_links_.push_back(use.link);
    }
    at.free += use.weight * joining.rate;
    at.wanted += use.weight;
  }
}

void FlowSet::fix(Flow& at, double rate, int bottleneck) {
  at.fixed = true;
  at.next_rate = rate;
  at.next_bottleneck = bottleneck;
  for (const WeightedLink& use : at.links) {
    Link& there = link(use.link);
    there.left = std::max(0.0, there.left - rate * use.weight);
    there.weight -= use.weight;
    there.most = std::max(there.most, rate);
  }
}

/// Progressive filling of the near links by the near flows.
void FlowSet::fill() {
  levels_.clear();
  for (const int id : near_flows_) flow(id).fixed = false;
  for (const int id : near_links_) {
    Link& at = link(id);
    at.left = std::max(0.0, at.free);
    at.weight = at.wanted;
    at.most = 0;
    at.full = false;
    levels_.push_back({at.left / at.weight, id});
  }
  std::make_heap(levels_.begin(), levels_.end(), std::greater<>());
  double rate = 0;
  while (!levels_.empty()) {
    std::pop_heap(levels_.begin(), levels_.end(), std::greater<>());
    Level lowest = levels_.back();
    levels_.pop_back();
    Link& at = link(lowest.link);
    if (at.weight <= kSame) continue;
    // A link's level rises whenever a flow that gets less is fixed elsewhere.
    const double now = at.left / at.weight;
    if (now > lowest.rate * (1 + kSame)) {
      levels_.push_back({now, lowest.link});
      std::push_heap(levels_.begin(), levels_.end(), std::greater<>());
      continue;
    }
    if (now > rate * (1 + kSame)) rate = std::max(now, 1e-3);
    at.full = true;
    at.level = rate;
    for (const Use& use : at.uses) {
      Flow& there = flow(use.flow);
      if (there.seen == stamp_ && !there.fixed) fix(there, rate, lowest.link);
    }
  }
}

/// Flows that have no bottleneck any more join: false if there are none.
bool FlowSet::join_losers() {
  const std::size_t before = near_flows_.size(), links = near_links_.size();
  for (std::size_t l = 0; l < links; ++l) {
    const int id = near_links_[l];
    const Link& at = link(id);
    const bool busy = at.left <= kSame * at.capacity * 10;
    for (std::size_t u = 0; u < at.uses.size(); ++u) {
      const Flow& there = flow(at.uses[u].flow);
      if (there.seen == stamp_) continue;
      const bool takes_more = at.full && there.rate > at.level * (1 + kSame);
      const bool gets_less = there.bottleneck == id && (!busy || at.most > there.rate * (1 + kSame));
      if (takes_more || gets_less) join(at.uses[u].flow);
    }
  }
  return near_flows_.size() > before;
}

void FlowSet::join_all() {
  for (std::size_t l = 0; l < near_links_.size(); ++l) {
    const Link& at = link(near_links_[l]);
    for (std::size_t u = 0; u < at.uses.size(); ++u) join(at.uses[u].flow);
  }
}

std::span<const int> FlowSet::settle(double now) {
  ++stamp_;
  near_links_.clear();
  near_flows_.clear();
  changed_.clear();
  for (const int id : dirty_) {
    Link& at = link(id);
    at.dirty = false;
    for (const Use& use : at.uses)
      if (const Flow& there = flow(use.flow); there.rate == 0 || there.bottleneck == id) join(use.flow);
  }
  dirty_.clear();
  for (int joins = 0;; ++joins) {
    fill();
    if (!join_losers()) break;
    if (joins == kMostJoins) join_all();
  }
  for (const int id : near_flows_) {
    Flow& at = flow(id);
    at.bottleneck = at.next_bottleneck;
    if (std::abs(at.next_rate - at.rate) <= kSame * at.next_rate) continue;
    at.left = std::max(0.0, at.left - at.rate * (now - at.updated));
    at.updated = now;
    at.rate = at.next_rate;
    ++at.generation;
    changed_.push_back(id);
  }
  return changed_;
}

}  // namespace hocket::sim
