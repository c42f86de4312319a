// SPDX-License-Identifier: Apache-2.0
#include "algorithms/layout.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"
#include "algorithms/dump.hpp"
#include "algorithms/predict.hpp"
#include "algorithms/select.hpp"
#include "base/status.hpp"
#include "topo/graph.hpp"
#include "topo/machine_file.hpp"
#include "topo/nccl_reader.hpp"
#include "topo/search.hpp"

namespace hocket {
namespace {

using topo::HostLayout;

Layout joined(const std::vector<std::int32_t>& host) {
  std::map<int, int> ranks;
  for (const int h : host) ++ranks[h];
  std::vector<HostLayout> layouts;
  for (const auto& [h, count] : ranks) layouts.push_back(topo::plain_layout(count));
  Result<Layout> layout = join_hosts(host, layouts);
  EXPECT_TRUE(layout.ok()) << layout.status().to_string();
  return *layout;
}

int crossings_by_rank(const std::vector<std::int32_t>& host) {
  int count = 0;
  for (std::size_t r = 0; r < host.size(); ++r) count += host[r] != host[(r + 1) % host.size()];
  return count;
}

TEST(Layout, RanksDealtInTurnCrossAsOftenAsThereAreHosts) {
  for (const int hosts : {2, 3, 5})
    for (const int each : {1, 2, 4, 7}) {
      std::vector<std::int32_t> host;
      for (int r = 0; r < hosts * each; ++r) host.push_back(r % hosts);
      const Layout layout = joined(host);
      EXPECT_EQ(crossings_by_rank(host), hosts * each);
      EXPECT_EQ(layout.crossings(0), hosts);
      // A tree crosses as often as it must.
      ASSERT_EQ(layout.trees.size(), 2u);
      for (const std::vector<Rank>& tree : layout.trees) {
        int crossings = 0;
        for (std::size_t r = 0; r < tree.size(); ++r)
          crossings += tree[r] >= 0 && host[r] != host[static_cast<std::size_t>(tree[r])];
        EXPECT_EQ(crossings, hosts - 1);
      }
    }
}

TEST(Layout, HostsThatAreInnerInOneTreeAreLeavesOfTheOther) {
  std::vector<std::int32_t> host;
  for (int r = 0; r < 32; ++r) host.push_back(r / 4);
  const Layout layout = joined(host);
  std::vector<std::set<int>> inner(2);
  for (std::size_t t = 0; t < 2; ++t)
    for (std::size_t r = 0; r < host.size(); ++r) {
      const Rank parent = layout.trees[t][r];
      if (parent >= 0 && host[r] != host[static_cast<std::size_t>(parent)])
        inner[t].insert(host[static_cast<std::size_t>(parent)]);
    }
  for (const int h : inner[0]) EXPECT_FALSE(inner[1].contains(h)) << "host " << h;
  EXPECT_LE(layout.depth(), 3 + 2 + 1);
}

TEST(Layout, RanksInOrderOfHostsKeepTheRingByRank) {
  EXPECT_TRUE(joined({0, 0, 0, 1, 1, 2}).rings.empty());
  EXPECT_FALSE(joined({0, 1, 0}).rings.empty());
}

TEST(Layout, ATreeHungUpAtAnotherRootHasTheSameEdges) {
  const Layout layout = joined({0, 1, 2, 0, 1, 2, 0, 1, 2, 0});
  using Edges = std::set<std::pair<Rank, Rank>>;
  const auto edges = [](const std::vector<Rank>& parents) {
    Edges all;
    for (std::size_t r = 0; r < parents.size(); ++r)
      if (parents[r] >= 0) all.insert(std::minmax(static_cast<Rank>(r), parents[r]));
    return all;
  };
  for (const std::vector<Rank>& tree : layout.trees)
    for (Rank root = 0; root < 10; ++root) {
      const std::vector<Rank> turned = rooted_at(tree, root);
      EXPECT_EQ(turned[static_cast<std::size_t>(root)], -1);
      EXPECT_EQ(edges(turned), edges(tree));
    }
}

TEST(Layout, WhatIsNoOrderOrNoTreeIsRefused) {
  Layout layout = joined({0, 1, 0, 1});
  EXPECT_TRUE(check_layout(layout, 4).ok());
  EXPECT_FALSE(check_layout(layout, 5).ok());
  Layout twice = layout;
  twice.rings = {{0, 1, 1, 2}};
  EXPECT_EQ(check_layout(twice, 4).code(), Code::kInvalidArgument);
  Layout cycle = layout;
  cycle.trees = {{-1, 2, 3, 1}};
  EXPECT_EQ(check_layout(cycle, 4).code(), Code::kInvalidArgument);
  Layout out = layout;
  out.trees = {{-1, 4, 0, 0}};
  EXPECT_EQ(check_layout(out, 4).code(), Code::kInvalidArgument);
  // A host's own layout that does not fit it.
  const std::vector<std::int32_t> host = {0, 0, 0};
  const std::vector<HostLayout> layouts = {topo::plain_layout(2)};
  EXPECT_EQ(join_hosts(host, layouts).status().code(), Code::kInvalidArgument);
}

TEST(Layout, TheDigestTellsLayoutsApart) {
  const Layout a = joined({0, 1, 0, 1}), b = joined({0, 1, 1, 0});
  EXPECT_EQ(a.digest(), joined({0, 1, 0, 1}).digest());
  EXPECT_NE(a.digest(), b.digest());
  Layout slower = a;
  slower.links.net_rate += 1;
  EXPECT_NE(a.digest(), slower.digest());
}

TEST(Layout, ARingPlanOverHostsDealtInTurnIsAFewLoops) {
  std::vector<std::int32_t> host;
  for (int r = 0; r < 256; ++r) host.push_back(r % 4);
  const Layout layout = joined(host);
  const PlanArgs by_rank{.world = 256, .rank = 17};
  PlanArgs by_host = by_rank;
  by_host.layout = &layout;
  EXPECT_EQ(ring_all_reduce(by_host).steps.size(), ring_all_reduce(by_rank).steps.size());
  EXPECT_LT(ring_all_gather(by_host).steps.size(), 8 * ring_all_gather(by_rank).steps.size());
}

// The machines of tests/topologies.

topo::Graph machine(const std::string& name) {
  const Result<topo::Graph> graph =
      topo::graph_from_file(std::string(HOCKET_SOURCE_DIR) + "/tests/topologies/machines/" + name);
  EXPECT_TRUE(graph.ok()) << graph.status().to_string();
  return *graph;
}

TEST(HostLayout, FollowsTheRingsThatTheSearchFound) {
  const topo::Graph graph = machine("cube-mesh-renamed.xml");
  const topo::Paths paths(graph);
  const topo::SearchResult found = search(paths);
  const HostLayout layout = host_layout(graph, paths.gpus());
  EXPECT_EQ(layout.why_plain, "");
  EXPECT_EQ(layout.links.device, 1u);
  ASSERT_EQ(layout.rings.size(), std::min<std::size_t>(found.machine.rings.size(), topo::kMostLayoutRings));
  EXPECT_GT(layout.rings.size(), 1u);
  for (const std::vector<int>& ring : layout.rings)
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const int from = paths.gpus()[static_cast<std::size_t>(ring[i])];
      const int to = paths.gpus()[static_cast<std::size_t>(ring[(i + 1) % ring.size()])];
      EXPECT_EQ(paths.between(from, to).type, topo::PathType::kNvl);
    }
  EXPECT_NEAR(layout.links.ring_rate, found.machine.bytes_per_second, 1);
}

TEST(HostLayout, RingsLeaveAHostNearOneRailAndComeInNearTheSame) {
  // Two GPUs and one NIC below each of two switches: a ring that leaves from one switch's GPU comes in at the other's
  // of that switch, so it needs no other rail.
  std::string text = "<system version=\"1\">";
  for (int domain = 0; domain < 2; ++domain) {
    text += "<cpu numaid=\"" + std::to_string(domain) + "\" arch=\"x86_64\" vendor=\"AuthenticAMD\">";
    const auto pci = [&](int device, std::string_view kind, const std::string& inside) {
      return format(
          "<pci busid=\"000{}:{:02x}:00.0\" class=\"{}\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">{}</pci>",
          domain + 1, device, kind, inside);
    };
    std::string below;
    for (int g = 0; g < 2; ++g)
      below += pci(2 + g, "0x030200", format("<gpu dev=\"{0}\" rank=\"{0}\" sm=\"80\" gdr=\"1\"/>", 2 * domain + g));
    below +=
        pci(5, "0x020700",
            format("<nic><net name=\"mlx5_{0}\" dev=\"{0}\" port=\"1\" gdr=\"1\" speed=\"200000\"/></nic>", domain));
    text += pci(1, "0x060400", below) + "</cpu>";
  }
  const Result<topo::Graph> graph = topo::graph_from_nccl_text(text + "</system>", "rails.xml");
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  const HostLayout host = host_layout(*graph, topo::Paths(*graph).gpus());
  EXPECT_EQ(host.rail, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(host.links.rails, 2u);
  const std::vector<std::int32_t> of_rank = {0, 0, 0, 0, 1, 1, 1, 1};
  const std::vector<HostLayout> layouts(2, host);
  const Result<Layout> layout = join_hosts(of_rank, layouts);
  ASSERT_TRUE(layout.ok()) << layout.status().to_string();
  std::set<int> used;
  for (int lane = 0; lane < std::max(static_cast<int>(layout->rings.size()), 1); ++lane) {
    for (std::size_t i = 0; i < 8; ++i) {
      const std::span<const Rank> ring = layout->ring(lane);
      const Rank from = ring.empty() ? static_cast<Rank>(i) : ring[i];
      const Rank to = ring.empty() ? static_cast<Rank>((i + 1) % 8) : ring[(i + 1) % 8];
      const Layout::RailPair rails = layout->rails(from, to);
      if (of_rank[static_cast<std::size_t>(from)] == of_rank[static_cast<std::size_t>(to)]) {
        EXPECT_EQ(rails.sender, -1);
        continue;
      }
      EXPECT_EQ(rails.sender, rails.receiver) << from << " to " << to;
      used.insert(rails.sender);
    }
  }
  EXPECT_FALSE(used.contains(-1));
}

TEST(HostLayout, SomeOfTheGpusAreSearchedAsIfThereWereNoOthers) {
  const topo::Graph graph = machine("cube-mesh-renamed.xml");
  const std::vector<int> all = topo::Paths(graph).gpus();
  const std::vector<int> four(all.begin(), all.begin() + 4);
  const HostLayout layout = host_layout(graph, four);
  EXPECT_EQ(layout.why_plain, "");
  for (const std::vector<int>& ring : layout.rings) EXPECT_EQ(ring.size(), 4u);
  // Ranks may have their GPUs in any order.
  const std::vector<int> backwards(four.rbegin(), four.rend());
  EXPECT_EQ(host_layout(graph, backwards).links.ring_rate, layout.links.ring_rate);
}

TEST(HostLayout, TheSameQuestionIsSearchedOnce) {
  const topo::Graph graph = machine("cube-mesh-renamed.xml");
  const topo::Graph other = machine("two-hives-rccl.xml");
  const std::vector<int> all = topo::Paths(graph).gpus();
  const std::vector<int> four(all.begin(), all.begin() + 4);
  topo::HostLayouts known;
  const HostLayout first = known.of(graph, all);
  EXPECT_EQ(known.of(graph, all).rings, first.rings);
  EXPECT_EQ(known.of(graph, all).links, first.links);
  EXPECT_EQ(known.searches(), 1);
  EXPECT_EQ(known.of(graph, four).rings, host_layout(graph, four).rings);
  EXPECT_EQ(known.of(other, topo::Paths(other).gpus()).rings, host_layout(other, topo::Paths(other).gpus()).rings);
  EXPECT_EQ(known.searches(), 3);
}

TEST(HostLayout, SharedOrMissingGpusMakeItPlainWithAReason) {
  const topo::Graph graph = machine("cube-mesh-renamed.xml");
  const std::vector<int> all = topo::Paths(graph).gpus();
  const std::vector<int> shared = {all[0], all[0]}, some = {all[0], -1}, none = {-1, -1}, wrong = {0, all[1]};
  EXPECT_NE(host_layout(graph, shared).why_plain, "");
  EXPECT_NE(host_layout(graph, some).why_plain, "");
  EXPECT_NE(host_layout(graph, wrong).why_plain, "");
  EXPECT_EQ(host_layout(graph, none).why_plain, "");
  EXPECT_EQ(host_layout(graph, none).links.device, 0u);
}

TEST(HostLayout, GpusAreFoundByNumberAndByAddress) {
  const topo::Graph graph = machine("cube-mesh-renamed.xml");
  for (const int gpu : graph.of_kind(topo::NodeKind::kGpu)) {
    const topo::Node& node = graph.nodes[static_cast<std::size_t>(gpu)];
    EXPECT_EQ(topo::find_gpu(graph, std::to_string(node.os_index >= 0 ? node.os_index : node.index)), gpu);
    if (!node.name.empty()) {
      EXPECT_EQ(topo::find_gpu(graph, node.name), gpu);
    }
  }
  EXPECT_EQ(topo::find_gpu(graph, "99"), -1);
  EXPECT_EQ(topo::find_gpu(graph, ""), -1);
  EXPECT_EQ(topo::find_gpu(graph, "0"), topo::find_gpu(graph, "00") >= 0 ? topo::find_gpu(graph, "0") : -1);
}

// The choice on such layouts.

World world_on(const std::string& name, int hosts) {
  const topo::Graph graph = machine(name);
  const std::vector<int> gpus = topo::Paths(graph).gpus();
  const HostLayout host = host_layout(graph, gpus);
  std::vector<std::int32_t> of_rank;
  for (int h = 0; h < hosts; ++h) of_rank.insert(of_rank.end(), gpus.size(), h);
  const std::vector<HostLayout> layouts(static_cast<std::size_t>(hosts), host);
  Result<Layout> layout = join_hosts(of_rank, layouts);
  EXPECT_TRUE(layout.ok()) << layout.status().to_string();
  World world;
  world.size = static_cast<int>(of_rank.size());
  world.hosts = hosts;
  world.direct = hosts == 1;
  world.layout = std::make_shared<const Layout>(std::move(*layout));
  return world;
}

TEST(ChoiceByLinks, LargeCallsGetALaneForEachRingAndSmallOnesFew) {
  World world = world_on("cube-mesh-renamed.xml", 1);
  const auto names = algorithm_names();
  world.algorithms = *AllowList::parse("ring", names, "HOCKET_ALGO");
  const auto small = choose(Collective::kAllReduce, 1024, DataType::kFloat32, false, world);
  const auto large = choose(Collective::kAllReduce, 1u << 30, DataType::kFloat32, false, world);
  ASSERT_TRUE(small.ok() && large.ok());
  EXPECT_EQ(large->lanes, static_cast<int>(world.layout->rings.size()));
  EXPECT_LT(small->lanes, large->lanes);
  world.lanes = 2;
  EXPECT_EQ(choose(Collective::kAllReduce, 1u << 30, DataType::kFloat32, false, world)->lanes, 2);
}

TEST(ChoiceByLinks, AMeshRingsWhereASwitchGoesStraight) {
  // In a cube mesh some GPUs do not reach each other in a hop: large calls go around rings.
  const auto mesh =
      choose(Collective::kAllReduce, 1u << 28, DataType::kFloat32, false, world_on("cube-mesh-renamed.xml", 1));
  ASSERT_TRUE(mesh.ok());
  EXPECT_EQ(mesh->algorithm->name, "ring");
  const auto tiny = choose(Collective::kAllReduce, 8, DataType::kFloat32, false, world_on("cube-mesh-renamed.xml", 1));
  EXPECT_EQ(tiny->algorithm->name, "one_shot");
}

TEST(ChoiceByLinks, WhatCrossesHostsSharesTheirRails) {
  // Two-shot sends what each rank owns to every rank of the other hosts: as a ring does, but for latency. One-shot
  // sends all to all, so it is for small calls only.
  const World world = world_on("cube-mesh-renamed.xml", 3);
  for (const std::uint64_t bytes : {std::uint64_t{1} << 20, std::uint64_t{1} << 28}) {
    const auto choice = choose(Collective::kAllReduce, bytes, DataType::kFloat32, false, world);
    ASSERT_TRUE(choice.ok());
    EXPECT_NE(choice->algorithm->name, "one_shot") << bytes;
  }
}

TEST(ChoiceByLinks, CandidatesBeginWithTheChoiceAndTellWhatIsRuledOut) {
  for (const int hosts : {1, 2}) {
    World world = world_on("cube-mesh-renamed.xml", hosts);
    world.reproducible = true;
    for (std::uint64_t bytes = 8; bytes < std::uint64_t{1} << 32; bytes *= 16) {
      const std::vector<Candidate> all = candidates(Collective::kAllReduce, bytes, false, world);
      const auto choice = choose(Collective::kAllReduce, bytes, DataType::kFloat32, false, world);
      ASSERT_TRUE(choice.ok());
      bool found = false, refused = false;
      for (const Candidate& one : all) {
        if (!one.why_not.empty()) {
          refused = true;
          continue;
        }
        EXPECT_GT(one.seconds, 0);
        if (found) continue;
        found = true;
        EXPECT_EQ(one.algorithm, choice->algorithm);
        EXPECT_EQ(one.protocol, choice->protocol);
        EXPECT_EQ(one.lanes, choice->lanes);
        EXPECT_EQ(one.tile_bytes, choice->tile_bytes);
        EXPECT_TRUE(one.algorithm->ordered);
      }
      EXPECT_TRUE(found && refused);
    }
  }
}

// The program's own tuner.

World tuned(std::function<std::optional<TunerChoice>(const TunerCall&)> choose_one) {
  World world;
  world.size = 4;
  world.tuner = std::make_shared<const Tuner>(Tuner{"mine", 3, std::move(choose_one)});
  return world;
}

TEST(Tuner, ItsChoiceIsTakenAndNoOpinionIsTheUsualChoice) {
  const World world = tuned([](const TunerCall& call) -> std::optional<TunerChoice> {
    if (call.bytes < 1000) return std::nullopt;
    return TunerChoice{"ring", "bulk", 2};
  });
  World plain = world;
  plain.tuner = nullptr;
  const auto large = choose(Collective::kAllReduce, 1 << 20, DataType::kFloat32, false, world);
  ASSERT_TRUE(large.ok()) << large.status().to_string();
  EXPECT_EQ(large->algorithm->name, "ring");
  EXPECT_EQ(large->lanes, 2);
  EXPECT_TRUE(large->by_tuner);
  const auto small = choose(Collective::kAllReduce, 8, DataType::kFloat32, false, world);
  EXPECT_FALSE(small->by_tuner);
  EXPECT_EQ(small->algorithm, choose(Collective::kAllReduce, 8, DataType::kFloat32, false, plain)->algorithm);
}

TEST(Tuner, SeesTheCallAndItsCandidates) {
  TunerCall seen;
  std::vector<TunerCandidate> listed;
  const World world = tuned([&](const TunerCall& call) -> std::optional<TunerChoice> {
    seen = call;
    listed.assign(call.candidates.begin(), call.candidates.end());
    return std::nullopt;
  });
  ASSERT_TRUE(choose(Collective::kAllGather, 4096, DataType::kBfloat16, true, world).ok());
  EXPECT_EQ(seen.collective, Collective::kAllGather);
  EXPECT_EQ(seen.bytes, 4096u);
  EXPECT_EQ(seen.type, DataType::kBfloat16);
  EXPECT_TRUE(seen.symmetric);
  EXPECT_EQ(seen.ranks, 4);
  ASSERT_FALSE(listed.empty());
  EXPECT_GT(listed.front().seconds, 0);
  (void)choose(Collective::kAllGatherV, 4096, DataType::kBfloat16, true, world);
  EXPECT_EQ(seen.bytes, 0u) << "nobody knows all lengths";
  seen.collective = Collective::kBarrier;
  for (const Collective never : {Collective::kBarrier, Collective::kSend, Collective::kReceive, Collective::kExchange})
    (void)choose(never, 8, DataType::kFloat32, false, world);
  EXPECT_EQ(seen.collective, Collective::kBarrier) << "not asked";
}

TEST(Tuner, SeesOperatorAndRoot) {
  TunerCall seen;
  const World world = tuned([&](const TunerCall& call) -> std::optional<TunerChoice> {
    seen = call;
    return std::nullopt;
  });
  (void)choose(Collective::kReduce, 8, DataType::kFloat32, false, world, nullptr, needs_of(ReduceOp::kMax, false), 3);
  EXPECT_EQ(seen.op, ReduceOp::kMax);
  EXPECT_EQ(seen.root, 3);
  (void)choose(Collective::kAllGather, 8, DataType::kFloat32, false, world);
  EXPECT_EQ(seen.root, -1);
}

TEST(Tuner, MayAskForTheLanesThatTheSettingsName) {
  World world = tuned([](const TunerCall&) { return TunerChoice{"ring", "", 3}; });
  world.lanes = 3;
  const auto choice = choose(Collective::kAllReduce, 1 << 20, DataType::kFloat32, false, world);
  ASSERT_TRUE(choice.ok()) << choice.status().to_string();
  EXPECT_EQ(choice->lanes, 3);
}

TEST(Predict, AnUnknownRateIsNoInfiniteOne) {
  World known;
  known.size = 4;
  Layout layout;
  layout.host.assign(4, 0);
  layout.links.hop_seconds = 1e-6;
  layout.links.ring_rate = 1e9;
  known.layout = std::make_shared<const Layout>(layout);
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != Collective::kAllReduce) continue;
    const double seconds = predicted_seconds(algorithm, Protocol::kBulk, 1, 1e9, known);
    EXPECT_GT(seconds, 0.5) << algorithm.name << ": a gigabyte at no more than a gigabyte a second";
    EXPECT_TRUE(std::isfinite(seconds)) << algorithm.name;
  }
}

TEST(Tuner, UnevenCallsAreCutAsWithoutOne) {
  World world = tuned([](const TunerCall& call) -> std::optional<TunerChoice> {
    return TunerChoice{std::string(call.candidates.front().algorithm), "", 0};
  });
  world.tile_bytes = 16 << 10;  // of more than one tile each
  World plain = world;
  plain.tuner = nullptr;
  for (const Collective uneven : {Collective::kAllGatherV, Collective::kReduceScatterV, Collective::kAllToAllV}) {
    const auto by_tuner = choose(uneven, 0, DataType::kFloat32, false, world);
    const auto by_rule = choose(uneven, 0, DataType::kFloat32, false, plain);
    ASSERT_TRUE(by_tuner.ok() && by_rule.ok());
    EXPECT_TRUE(by_tuner->by_tuner);
    EXPECT_EQ(by_tuner->algorithm, by_rule->algorithm);
    EXPECT_EQ(by_tuner->tile_bytes, by_rule->tile_bytes);
    EXPECT_EQ(by_tuner->tiles_per_round, by_rule->tiles_per_round);
    EXPECT_EQ(by_tuner->stream_output, by_rule->stream_output);
  }
}

TEST(Tuner, AChoiceThatCannotBeUsedIsAnErrorThatNamesIt) {
  const auto refused = [](const TunerChoice& wanted, const std::function<void(World&)>& change, std::string_view why) {
    World world = tuned([wanted](const TunerCall&) { return wanted; });
    change(world);
    const auto choice = choose(Collective::kAllReduce, 1 << 20, DataType::kFloat32, false, world);
    ASSERT_FALSE(choice.ok());
    EXPECT_EQ(choice.status().code(), Code::kInvalidArgument);
    EXPECT_NE(choice.status().text().find("tuner 'mine'"), std::string_view::npos) << choice.status().text();
    EXPECT_NE(choice.status().text().find(why), std::string_view::npos) << choice.status().text();
  };
  const auto nothing = [](World&) {};
  refused(
      {"ring", "", 0}, [](World& w) { w.reproducible = true; }, "HOCKET_REPRODUCIBLE");
  refused({"two_shot_zero_copy", "", 0}, nothing, "mem_alloc");
  refused(
      {"one_shot_board", "", 0}, [](World& w) { w.direct = false; }, "load each other's memory");
  refused({"pairwise", "", 0}, nothing, "there are one_shot");
  refused({"ring", "carrier_pigeon", 0}, nothing, "bulk, first_line, packet");
  refused({"ring", "packet", 0}, nothing, "does not carry");
  refused({"ring", "", 9}, nothing, "9 lanes");
  refused({"tree", "", 2}, nothing, "2 lanes");
  refused({"tree", "", -1}, nothing, "-1 lanes");
  refused(
      {"ring", "", 2}, [](World& w) { w.lanes = 3; }, "HOCKET_LANES=3 rules that out");
}

TEST(Tuner, WhatItThrowsIsAnErrorOfTheCall) {
  const World world =
      tuned([](const TunerCall&) -> std::optional<TunerChoice> { throw std::runtime_error("no table for this"); });
  const auto choice = choose(Collective::kAllReduce, 8, DataType::kFloat32, false, world);
  EXPECT_EQ(choice.status().code(), Code::kInvalidArgument);
  EXPECT_NE(choice.status().text().find("no table for this"), std::string_view::npos);
}

}  // namespace
}  // namespace hocket
