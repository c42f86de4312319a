// SPDX-License-Identifier: Apache-2.0
// tools/topo_explain.cpp: see topo_explain.hpp. One algorithm after the other is ruled out, so that the choice tells
// its order.
#include "tools/topo_explain.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "algorithms/select.hpp"
#include "base/status.hpp"
#include "topo/cost.hpp"

namespace topo = hocket::topo;
using hocket::format;

namespace {

hocket::World world_of(const topo::Paths& paths, const topo::SearchResult& result, topo::LinkKind* kind) {
  const topo::Graph& graph = paths.graph();
  hocket::World world;
  world.hosts = graph.count(topo::NodeKind::kHost);
  world.tuning = std::make_shared<const hocket::Tuning>();
  const bool gpus = !paths.gpus().empty();
  *kind = !gpus ? topo::LinkKind::kShm : result.islands.size() == 1 ? topo::LinkKind::kNvlink : topo::LinkKind::kPcie;
  const topo::LinkCost cost = link_cost(graph, *kind);
  world.size = gpus ? static_cast<int>(paths.gpus().size()) : std::max(1, static_cast<int>(graph.cpus.usable_cpus()));
  world.hop_seconds = cost.alpha_seconds;
  const double rings = result.machine.bytes_per_second;
  world.seconds_per_byte = 1 / (gpus && rings > 0 ? rings : cost.beta_bytes_per_second);
  if (const std::uint64_t cache = graph.l3_bytes(); cache > 0) world.cache_bytes = cache;
  return world;
}

}  // namespace

hocket::Result<std::string> topo_explain(const topo::Paths& paths, const topo::SearchResult& result,
                                         const std::string& collective, std::uint64_t bytes) {
  int found = 0;
  std::vector<std::string> names;
  for (; found < hocket::kCollectiveCount; ++found) {
    names.emplace_back(to_string(static_cast<hocket::Collective>(found)));
    if (names.back() == collective) break;
  }
  if (found == hocket::kCollectiveCount)
    return hocket::error(hocket::Code::kInvalidArgument, "there is no collective '{}', but {}", collective,
                         hocket::join(names, ", "));
  topo::LinkKind kind{};
  hocket::World world = world_of(paths, result, &kind);
  std::string out =
      format("{} of {} with {} ranks over {} links: {:.3g} us + bytes / {:.4g} GB/s (nominal, not measured)\n",
             collective, topo::bytes_to_text(bytes), world.size, to_string(kind), world.hop_seconds * 1e6,
             1 / world.seconds_per_byte / 1e9);
  const std::vector<std::string_view> known = hocket::algorithm_names();
  std::string out_of_play;
  for (int place = 1;; ++place) {
    std::vector<hocket::Rejected> rejected;
    const auto choice = choose(static_cast<hocket::Collective>(found), bytes, hocket::DataType::kFloat32, false, world,
                               place == 1 ? &rejected : nullptr);
    for (const hocket::Rejected& one : rejected) out += format("  not {}: {}\n", one.algorithm, one.reason);
    if (!choice.ok()) break;
    out += format("  {}. {}, {}, tiles of {}\n", place, choice->algorithm->name, to_string(choice->protocol),
                  topo::bytes_to_text(choice->tile_bytes));
    out_of_play += format("{}{}", out_of_play.empty() ? "^" : ",", choice->algorithm->name);
    auto allowed = hocket::AllowList::parse(out_of_play, known);
    if (!allowed.ok()) break;  // nothing is left
    world.algorithms = std::move(*allowed);
  }
  return out;
}
