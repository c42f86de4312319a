// SPDX-License-Identifier: Apache-2.0
// predict.cpp: see predict.hpp.
//
// Ranks of different hosts compare what follows from these figures, so they must be equal bit for bit: nothing is
// contracted (-ffp-contract=off), and powers and logarithms are of whole numbers.
#include "algorithms/predict.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "algorithms/layout.hpp"

namespace hocket {
namespace {

/// A message among several that one rank handles in a row, in parts of a hop.
constexpr double kEach = 1.0 / 8;
/// What is forwarded is copied once more than what is only sent.
constexpr double kForwarded = 1.25;
/// What another lane adds to a hop: one thread runs all lanes on a host, a thread block each on a device.
constexpr double kLaneOnHost = 1.0 / 8, kLaneOnDevice = 1.0 / 32;

/// Bytes a second where a layout knows nothing: memory of a host, and a common network.
constexpr double kUnknownRate = 10e9, kUnknownNetRate = 1.25e9;

/// Parts of a hop and of the bandwidth that a protocol has. One line instead of data and counter saves the second;
/// lines that each carry their flag cost 8 bytes of 64, and their reader looks at each.
struct Factors {
  double hop = 1, rate = 1;
};
Factors factors_of(Protocol protocol, double transfer, bool device) {
  switch (protocol) {
    case Protocol::kBulk: return {};
    case Protocol::kFirstLine: return {transfer <= 48 ? 0.5 : transfer <= 1024 ? 0.75 : 1, 1};
    case Protocol::kPacket: return {0.5, device ? 56.0 / 64 : 56.0 / 64 / 2};
  }
  return {};
}

bool is_chunked(Collective collective) {
  return collective != Collective::kAllReduce && collective != Collective::kBroadcast &&
         collective != Collective::kReduce;
}

/// Of a number of ranks or hosts; at least 1.
double log2_up(double n) {
  return std::bit_width(static_cast<std::uint64_t>(std::max(2.0, n)) - 1);
}

/// The largest power of two that is not above `n`, and its logarithm.
struct Power {
  double value, log2;
};
Power power_below(double n) {
  const auto whole = static_cast<std::uint64_t>(std::max(1.0, n));
  return {static_cast<double>(std::bit_floor(whole)), static_cast<double>(std::bit_width(whole) - 1)};
}

/// Rounds through all steps: where several tiles share a slot, each round of such tiles ends before the next begins.
double rounds(const Algorithm& algorithm, const World& world, double chunk) {
  return std::max(1.0, std::ceil(chunk * pieces_of(algorithm, world.size) / static_cast<double>(world.slot_bytes)));
}

/// All ranks alike: a hop and seconds a byte.
double alike(const Algorithm& algorithm, double bytes, const World& world, double hop, double per_byte) {
  const std::string_view name = algorithm.name;
  const Collective collective = algorithm.collective;
  const double n = world.size;
  const double log_n = log2_up(n);
  const double total = is_chunked(collective) ? bytes * n : bytes;
  const double scatter = (n - 1) / n * total * per_byte;
  const double once = hop + (n - 1) * kEach * hop;
  if (name == "ring") return (collective == Collective::kAllReduce ? 2 : 1) * ((n - 1) * hop + scatter);
  // An inner rank of a tree has three streams at a time.
  if (name == "tree")
    return (collective == Collective::kAllReduce ? 2 : 1) * (log_n * (1 + kEach) * hop + total * per_byte * kForwarded);
  if (name == "chain") return (n - 1) * hop + total * per_byte;
  if (name == "one_shot") return once + (n - 1) * bytes * per_byte;
  if (name == "two_shot") return 2 * (once + scatter);
  if (name == "direct") return once + (collective == Collective::kBroadcast ? (n - 1) * bytes * per_byte : scatter);
  if (name == "pairwise") return (n - 1) * hop + scatter;
  if (name == "halving_doubling") {
    const auto [p, log_p] = power_below(n);
    const double fold = p == n ? 0 : 2 * (hop + bytes * per_byte);
    return fold + 2 * (rounds(algorithm, world, bytes / p) * log_p * hop + (p - 1) / p * bytes * per_byte * kForwarded);
  }
  if (name == "log_step" || name == "binomial")
    return rounds(algorithm, world, bytes) * log_n * hop + scatter * kForwarded;
  if (name == "bruck")
    return rounds(algorithm, world, bytes) * log_n * hop + log_n * n / 2 * bytes * per_byte * kForwarded;
  return hop;
}

/// By the links of a layout. A host's share of what crosses goes over its rails at the same time as what stays inside,
/// so the slower of the two counts.
double by_links(const Algorithm& algorithm, int lanes, double bytes, const World& world, const Factors& factors) {
  const Layout& layout = *world.layout;
  const topo::HostLinks& links = layout.links;
  const std::string_view name = algorithm.name;
  const Collective collective = algorithm.collective;
  const double n = world.size, hosts = layout.hosts, m = layout.most_on_host;
  const bool crosses = layout.hosts > 1;
  const double hop = (links.hop_seconds > 0 ? links.hop_seconds : 1e-6) * factors.hop;
  const double far = crosses ? (links.net_hop_seconds > 0 ? links.net_hop_seconds : 20e-6) * factors.hop : hop;
  // What is unknown of a host is taken as its slowest known figure, so that nothing seems to cost no time.
  double slowest = 0;
  for (const double rate : {links.ring_rate, links.tree_rate, links.direct_rate, links.step_rate})
    if (rate > 0) slowest = slowest > 0 ? std::min(slowest, rate) : rate;
  if (slowest == 0) slowest = kUnknownRate;
  const auto seconds = [&](double sent, double rate) { return sent / ((rate > 0 ? rate : slowest) * factors.rate); };
  const double net_rate = links.net_rate > 0 ? links.net_rate : kUnknownNetRate;
  const auto net = [&](double sent) { return crosses ? seconds(sent, net_rate) : 0; };
  const double total = is_chunked(collective) ? bytes * n : bytes;
  const double others = n - m;  // ranks on other hosts
  const double once = far + (m - 1) * kEach * hop + others * kEach * far;
  const double along = ((n - hosts) * hop + hosts * far) / n;  // the average hop of a ring
  const double log_local = m > 1 ? log2_up(m) : 0, log_hosts = crosses ? log2_up(hosts) : 0;
  const double log_steps = log_local * hop + log_hosts * far;
  const double twice = collective == Collective::kAllReduce ? 2 : 1;

  const auto rings = static_cast<double>(std::max<std::size_t>(layout.rings.size(), 1));
  const double lane_cost = 1 + (lanes - 1) * (links.device != 0 ? kLaneOnDevice : kLaneOnHost);
  const double ring_rate = links.ring_rate * std::min(1.0, lanes / rings);
  if (name == "ring") {
    const double sent = (n - 1) / n * total;
    return twice * ((n - 1) * along * lane_cost + std::max(seconds(sent, ring_rate), net(sent)));
  }
  if (name == "chain") return (n - 1) * along * lane_cost + std::max(seconds(total, ring_rate), net(total));
  if (name == "tree") {
    const double depth = layout.trees.empty() ? log_local : std::max(layout.depth() - log_hosts, 0.0);
    // Tree rates are for both directions at once, those of memory for one copy at a time.
    const double inside = seconds(total, links.tree_rate) * (links.device != 0 ? 1 : twice * kForwarded);
    return twice * (depth * hop + log_hosts * far) * (1 + kEach) + std::max(inside, net(twice * total));
  }
  if (name == "one_shot") return once + std::max(seconds((n - 1) * bytes, links.direct_rate), net(m * others * bytes));
  if (name == "two_shot")
    return 2 * (once + std::max(seconds((n - 1) / n * bytes, links.direct_rate), net(m * others / n * bytes)));
  if (name == "direct") {
    if (collective == Collective::kBroadcast)
      return once + std::max(seconds((n - 1) * bytes, links.direct_rate), net(others * bytes));
    const bool rooted = collective == Collective::kGather || collective == Collective::kScatter;
    return once + std::max(seconds((n - 1) * bytes, links.direct_rate), net((rooted ? 1 : m) * others * bytes));
  }
  if (name == "pairwise")
    return (m - 1) * hop + others * far +
           std::max(seconds((n - 1) * bytes, links.direct_rate), net(m * others * bytes));
  if (name == "halving_doubling") {
    const double p = power_below(n).value;
    const double fold = p == n ? 0 : 2 * (far + std::max(seconds(bytes, links.step_rate), net(m * bytes)));
    const double each = std::max(seconds((p - 1) / p * bytes, links.step_rate), net(m * (1 - 1 / hosts) * bytes));
    return fold + 2 * (rounds(algorithm, world, bytes / p) * log_steps + each * kForwarded);
  }
  if (name == "log_step")
    return rounds(algorithm, world, bytes) * log_steps +
           kForwarded * std::max(seconds((n - 1) * bytes, links.step_rate), net(m * others * bytes));
  if (name == "binomial")
    return rounds(algorithm, world, bytes) * log_steps +
           kForwarded * std::max(seconds((n - 1) * bytes, links.step_rate), net(others * bytes));
  if (name == "bruck") {
    const double sent = log2_up(n) * n / 2 * bytes;
    return rounds(algorithm, world, bytes) * log_steps +
           kForwarded * std::max(seconds(sent, links.step_rate), net(m * sent));
  }
  return far;
}

}  // namespace

double predicted_seconds(const Algorithm& algorithm, Protocol protocol, int lanes, double bytes, const World& world) {
  const bool device = world.layout && world.layout->links.device != 0;
  const double transfer =
      algorithm.name == "ring" || algorithm.name.starts_with("two_shot") ? bytes / world.size : bytes;
  const Factors factors = factors_of(protocol, transfer, device);
  // Plans that read peers' memory do as their sisters do, and one copy less.
  if (algorithm.boards || algorithm.zero_copy) {
    const std::string_view name =
        algorithm.name.substr(0, algorithm.name.find(algorithm.boards ? "_board" : "_zero_copy"));
    if (const Algorithm* sister = find_algorithm(algorithm.collective, name))
      return predicted_seconds(*sister, protocol, lanes, bytes, world);
  }
  if (world.layout) return by_links(algorithm, lanes, bytes, world, factors);
  const double hop = world.hop_seconds > 0 ? world.hop_seconds : 1e-6;
  const double per_byte = world.seconds_per_byte > 0 ? world.seconds_per_byte : 1e-10;
  const double seconds = alike(algorithm, bytes, world, hop * factors.hop, per_byte / factors.rate);
  return lanes > 1 ? seconds + (lanes - 1) * kLaneOnHost * hop : seconds;
}

}  // namespace hocket
