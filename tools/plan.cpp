// SPDX-License-Identifier: Apache-2.0
// tools/plan.cpp: `hocket plan`: one rank's plan as text, and with --check the proof of all ranks' plans together.
//
// Exit status: 0; 2 for flags that make no sense; 1 with one line on stderr when there is no such plan or the checker
// finds a fault.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "algorithms/dump.hpp"
#include "base/settings.hpp"
#include "base/status.hpp"
#include "checker/worlds.hpp"
#include "tools/usage.hpp"

int plan_main(int argc, char** argv);

namespace {

using namespace hocket;

/// What --check finds out about a world.
struct Proof {
  int cases = 0;
  std::uint64_t steps = 0;
  int resident = 0;
  bool packets = false;
  bool posted = false;
  bool equal_bits = true;
  std::uint64_t count = 0;  ///< of `links`
  std::vector<LinkUse> links;
};

/// The counts, tiles, slots, places and protocols of the property test, for one world.
Result<Proof> prove(const PlanWorld& world) {
  Proof proof;
  proof.packets = world.packets();
  proof.posted = world.posted();
  Checker checker;
  const auto n = static_cast<std::uint64_t>(world.size());
  for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, n - 1, n, n + 1, 7 * n + 3})
    for (const int slots : {2, 3})
      for (int k = 1; k < slots; ++k)
        for (const int tiles : {1, 2, slots, slots + 1, 2 * slots + 1})
          for (const bool in_place : {false, true}) {
            if (in_place && !may_be_in_place(world.collective())) continue;
            CheckCall call{.plans = &world, .count = count, .tiles_per_round = k, .in_place = in_place};
            call.tile = tile_for(world, call, static_cast<std::uint64_t>(tiles));
            CheckCall other = call;
            other.tile += 1;
            other.tiles_per_round = 1;
            const CheckCall calls[] = {call, call, other};
            for (int mode = 0; mode < 3; ++mode) {
              if ((mode == 1 && !world.packets()) || (mode == 2 && !world.posted())) continue;
              CheckOptions options{.slots = slots,
                                   .protocol = mode == 1 ? Protocol::kPacket : Protocol::kBulk,
                                   .posted = mode == 2,
                                   .order = static_cast<Order>(proof.cases % 3),
                                   .seed = static_cast<std::uint64_t>(proof.cases + 1)};
              auto report = checker.check(calls, options);
              if (!report.ok())
                return error(report.status().code(), "count {}, tile {}, {} slots, {} tiles a round, {} place, {}: {}",
                             count, call.tile, slots, k, in_place ? "in" : "out of",
                             mode == 0   ? "bulk"
                             : mode == 1 ? "packets"
                                         : "posted",
                             report.status().text());
              ++proof.cases;
              proof.steps += report->steps;
              proof.equal_bits &= report->equal_bits;
              proof.count = count;
              proof.links = std::move(report->links);
            }
          }
  HOCKET_ASSIGN(proof.resident, resident(world));
  return proof;
}

void print_proof(const Proof& proof, int n) {
  print(stdout, "proven: {} cases, {} steps (counts 0 to {}, 1 to 7 tiles, 2 and 3 slots, in and out of place)\n",
        proof.cases, proof.steps, 7 * n + 3);
  print(stdout, "{} lanes of a rank must progress at once; packets: {}; posted puts: {}; equal bits on all ranks: {}\n",
        proof.resident, proof.packets ? "yes" : "no", proof.posted ? "yes" : "no (it reads peers' memory)",
        proof.equal_bits ? "yes" : "no");
  print(stdout, "per link, elements for a count of {}, data signals, credit signals:\n", proof.count);
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < n; ++to) {
      const LinkUse& use = proof.links[static_cast<std::size_t>(from * n + to)];
      if (use.elements != 0 || use.data_signals != 0 || use.credit_signals != 0)
        print(stdout, "  {:3} -> {:3} {:8} {:5} {:5}\n", from, to, use.elements, use.data_signals, use.credit_signals);
    }
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

void print_json(const Plan& plan, const Proof* proof) {
  const PlanHeader& h = plan.header;
  print(stdout,
        "{{\"collective\": {}, \"algorithm\": {}, \"world\": {}, \"rank\": {}, \"root\": {}, \"channels\": {}, "
        "\"pieces\": {}, "
        "\"work_entries\": {}, \"lanes\": [",
        json_string(to_string(h.collective)), json_string(plan.algorithm()), h.world, h.rank, h.root, h.channels,
        h.pieces, h.work_entries);
  const PlanView view = plan.view();
  for (std::size_t l = 0; l < plan.lanes.size(); ++l) {
    const LaneProgram& lane = plan.lanes[l];
    print(stdout, "{}{{\"part\": {}, \"parts\": {}, \"steps\": [", l == 0 ? "" : ", ", lane.part, lane.parts);
    for (std::uint32_t at = 0; at < lane.count; ++at)
      print(stdout, "{}{}", at == 0 ? "" : ", ", json_string(step_text(view, lane, at)));
    print(stdout, "]}}");
  }
  print(stdout, "]");
  if (proof != nullptr) {
    print(stdout,
          ", \"proof\": {{\"cases\": {}, \"steps\": {}, \"resident\": {}, \"packets\": {}, \"posted\": {}, "
          "\"equal_bits\": {}, "
          "\"count\": {}, \"links\": [",
          proof->cases, proof->steps, proof->resident, proof->packets, proof->posted, proof->equal_bits, proof->count);
    bool first = true;
    for (int from = 0; from < h.world; ++from)
      for (int to = 0; to < h.world; ++to) {
        const LinkUse& use = proof->links[static_cast<std::size_t>(from * h.world + to)];
        if (use.elements == 0 && use.data_signals == 0 && use.credit_signals == 0) continue;
        print(stdout, "{}{{\"from\": {}, \"to\": {}, \"elements\": {}, \"data_signals\": {}, \"credit_signals\": {}}}",
              first ? "" : ", ", from, to, use.elements, use.data_signals, use.credit_signals);
        first = false;
      }
    print(stdout, "]}}");
  }
  print(stdout, "}}\n");
}

int fail(std::string_view text) {
  print(stderr, "hocket plan: {}\n", text);
  return 1;
}

}  // namespace

int plan_main(int argc, char** argv) {
  CLI::App app{"Print what one rank does for a collective, and prove that all ranks' plans work together.",
               "hocket plan"};
  std::string collective_name = "all_reduce";
  std::string algorithm_name = "ring";
  PlanArgs args{.world = 4};
  bool check = false;
  bool json = false;
  bool list = false;
  app.add_option(
      "collective", collective_name,
      "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather, scatter, barrier, send, the "
      "uneven all_gather_v, reduce_scatter_v and all_to_all_v, or exchange");
  app.add_option("--algo", algorithm_name, "the algorithm (--list shows them)");
  app.add_option("--ranks", args.world, "world size")->check(CLI::Range(1, 1 << 14));
  app.add_option("--rank", args.rank, "whose plan");
  app.add_option("--root", args.root, "root of a broadcast or reduce; the receiver of what rank 0 sends");
  app.add_option("--lanes", args.lanes, "lanes, where the algorithm allows a choice")->check(CLI::Range(1, 8));
  app.add_flag("--check", check, "prove all ranks' plans with the checker");
  app.add_flag("--json", json, "print JSON");
  app.add_flag("--list", list, "list all algorithms");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return usage_answer(app, e);
  }
  if (list) {
    for (const Algorithm& a : algorithms())
      print(stdout, "{:16} {:19} {}\n", to_string(a.collective), a.name, a.source);
    return 0;
  }
  const Algorithm* algorithm = nullptr;
  std::string known;
  bool collective_known = false;
  for (const Algorithm& a : algorithms()) {
    if (to_string(a.collective) != collective_name) continue;
    collective_known = true;
    known += format("{}{}", known.empty() ? "" : ", ", a.name);
    if (a.name == algorithm_name) algorithm = &a;
  }
  const auto refuse = [](std::string_view text) { return usage_error("hocket plan", text); };
  if (!collective_known) {
    std::vector<std::string_view> names;
    for (const Algorithm& a : algorithms())
      if (names.empty() || names.back() != to_string(a.collective)) names.push_back(to_string(a.collective));
    return refuse(format("there is no collective '{}'{}; there are {}", collective_name,
                         nearest_hint(collective_name, names), join(names, ", ")));
  }
  if (algorithm == nullptr && app.count("--algo") == 0)
    return refuse(format("{} has no ring: choose by --algo {}", collective_name, known));
  if (algorithm == nullptr)
    return refuse(format("{} has no algorithm '{}', but {}", collective_name, algorithm_name, known));
  if (args.rank < 0 || args.rank >= args.world || args.root < 0 || args.root >= args.world)
    return refuse(format("ranks and roots are 0 to {}", args.world - 1));
  if (algorithm->max_world != 0 && args.world > algorithm->max_world)
    return refuse(format("{} {} is for at most {} ranks", collective_name, algorithm_name, algorithm->max_world));
  if (args.lanes > 1 && !algorithm->many_lanes) return refuse(format("{} has the lanes it has", algorithm_name));
  const bool pair = algorithm->collective == Collective::kSend || algorithm->collective == Collective::kReceive;
  if (pair && args.root == 0) args.root = args.world - 1;
  if (pair && algorithm->collective == Collective::kReceive && args.rank == 0) args.rank = args.root;
  auto plan = plan_of(*algorithm, args);
  if (!plan.ok()) return fail(plan.status().text());
  Proof proof;
  if (check) {
    auto world = plan_world(*algorithm, args);
    if (!world.ok()) return fail(world.status().text());
    auto proven = prove(*world);
    if (!proven.ok()) return fail(proven.status().text());
    proof = std::move(proven).value();
  }
  if (json) {
    print_json(*plan, check ? &proof : nullptr);
  } else {
    print(stdout, "{}", to_text(*plan));
    if (check) print_proof(proof, args.world);
  }
  return 0;
}
