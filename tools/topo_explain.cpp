// SPDX-License-Identifier: Apache-2.0
// tools/topo_explain.cpp: see topo_explain.hpp.
#include "tools/topo_explain.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "algorithms/layout.hpp"
#include "algorithms/select.hpp"
#include "base/status.hpp"
#include "topo/host_layout.hpp"

namespace topo = hocket::topo;
using hocket::format;

namespace {

constexpr int kMostRanks = 1 << 20;

hocket::Result<hocket::World> world_of(const topo::Paths& paths, int hosts) {
  const topo::Graph& graph = paths.graph();
  std::vector<int> gpus = paths.gpus();
  const bool devices = !gpus.empty();
  if (!devices) gpus.assign(static_cast<std::size_t>(std::max(1, static_cast<int>(graph.cpus.usable_cpus()))), -1);
  if (hosts < 1 || gpus.size() * static_cast<std::size_t>(hosts) > kMostRanks)
    return hocket::error(hocket::Code::kInvalidArgument, "{} hosts of {} ranks: from 1 host to {} ranks are possible",
                         hosts, gpus.size(), kMostRanks);
  hocket::World world;
  world.hosts = hosts;
  world.size = static_cast<int>(gpus.size()) * hosts;
  world.direct = hosts == 1;
  if (const std::uint64_t cache = graph.l3_bytes(); cache > 0) world.cache_bytes = cache;
  const topo::HostLayout host = host_layout(graph, gpus);
  world.hop_seconds = host.links.hop_seconds;
  if (host.links.ring_rate > 0) world.seconds_per_byte = 1 / host.links.ring_rate;
  if (hosts == 1 && !devices) return world;
  std::vector<std::int32_t> of_rank;
  for (int h = 0; h < hosts; ++h) of_rank.insert(of_rank.end(), gpus.size(), h);
  HOCKET_ASSIGN(hocket::Layout layout,
                hocket::join_hosts(of_rank, std::vector<topo::HostLayout>(static_cast<std::size_t>(hosts), host)));
  world.layout = std::make_shared<const hocket::Layout>(std::move(layout));
  return world;
}

std::string seconds_text(double seconds) {
  return seconds < 1e-3 ? format("{:.3g} us", seconds * 1e6)
         : seconds < 1  ? format("{:.3g} ms", seconds * 1e3)
                        : format("{:.3g} s", seconds);
}

std::string links_text(const topo::HostLinks& links, int hosts) {
  const auto rate = [](double bytes_per_second) {
    return bytes_per_second > 0 ? format("{:.4g}", bytes_per_second / 1e9) : std::string("?");
  };
  std::string text = format("  links     {:.3g} us a hop; GB/s: rings {}, trees {}, all to all {}, pairs {}\n",
                            links.hop_seconds * 1e6, rate(links.ring_rate), rate(links.tree_rate),
                            rate(links.direct_rate), rate(links.step_rate));
  if (hosts > 1)
    text +=
        format("  network   {:.3g} us a hop, {} GB/s a host{}\n", links.net_hop_seconds * 1e6, rate(links.net_rate),
               links.rails > 0 ? format(" over {} rail{}", links.rails, links.rails == 1 ? "" : "s") : std::string());
  return text;
}

}  // namespace

hocket::Result<std::string> topo_explain(const topo::Paths& paths, const std::string& collective, std::uint64_t bytes,
                                         int hosts) {
  int found = 0;
  std::vector<std::string> names;
  for (; found < hocket::kCollectiveCount; ++found) {
    names.emplace_back(to_string(static_cast<hocket::Collective>(found)));
    if (names.back() == collective) break;
  }
  if (found == hocket::kCollectiveCount)
    return hocket::error(hocket::Code::kInvalidArgument, "there is no collective '{}', but {}", collective,
                         hocket::join(names, ", "));
  HOCKET_ASSIGN(const hocket::World world, world_of(paths, hosts));
  const auto kind = static_cast<hocket::Collective>(found);
  std::string out = format("{} of {} with {} ranks on {} host{}\n", collective, topo::bytes_to_text(bytes), world.size,
                           hosts, hosts == 1 ? "" : "s");
  if (world.layout) {
    out += format("  layout    {}\n", world.layout->to_text());
    out += links_text(world.layout->links, hosts);
  }
  if (world.size == 1)
    return out + "  nothing goes from rank to rank: input is copied to output, or stays where it is\n";
  HOCKET_ASSIGN(const hocket::Choice choice, choose(kind, bytes, hocket::DataType::kFloat32, false, world));
  std::set<std::string_view> told;
  std::string refused;
  int place = 0;
  for (const hocket::Candidate& one : candidates(kind, bytes, false, world)) {
    if (!told.insert(one.algorithm->name).second) continue;  // in another way that is not as good
    if (!one.why_not.empty()) {
      refused += format("  not {}: {}\n", one.algorithm->name, one.why_not);
      continue;
    }
    ++place;
    out += format("  {}. {}, {}, {} lane{}, tiles of {}: {}, {:.4g} GB/s{}\n", place, one.algorithm->name,
                  to_string(one.protocol), one.lanes, one.lanes == 1 ? "" : "s", topo::bytes_to_text(one.tile_bytes),
                  seconds_text(one.seconds), static_cast<double>(bytes) / one.seconds / 1e9,
                  place > 1         ? ""
                  : choice.measured ? "  <- chosen, by measured rows"
                                    : "  <- chosen");
  }
  return out + refused + "  times are predicted from the links, not measured; GB/s are bytes by time\n";
}
