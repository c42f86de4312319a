// SPDX-License-Identifier: Apache-2.0
// tools/sim.cpp: `hocket sim`: what a collective would take on a machine, or on thousands, by each algorithm.
//
// Exit status: 0; 1 with one line on stderr for a machine, a setting or an algorithm that can't be simulated; 2 for a
// wrong command line.
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include "algorithms/registry.hpp"
#include "base/status.hpp"
#include "bench/perf/options.hpp"
#include "sim/calibration.hpp"
#include "sim/published.hpp"
#include "tools/sim_measure.hpp"
#include "tools/sim_report.hpp"
#include "topo/cost.hpp"
#include "topo/cpu_set.hpp"
#include "topo/hwloc_reader.hpp"
#include "topo/machine_file.hpp"

int sim_main(int argc, char** argv);

namespace {

using namespace hocket::sim;
using hocket::Code;
using hocket::Collective;
using hocket::error;
using hocket::format;
using hocket::print;
using hocket::Result;
using hocket::Status;

struct Arguments {
  std::string collective = "all_reduce";
  std::string machine = "live";
  std::vector<int> hosts = {1};
  std::string algorithms = "all";
  std::uint64_t bytes = 0, least = 0, most = 0;
  int factor = 4;
  std::string network = "rails";
  int pod = 32;
  double latency_us = -1, nic = 0;
  int ranks = 0;
  std::vector<std::string> slow_links, slow_ranks;
  std::string copies = "auto";
  std::string protocol = "auto";
  Setup setup;
  std::string plot;
  bool json = false;
};

/// As every command reads sizes: "64M".
CLI::Validator size_into(std::uint64_t& target, std::uint64_t least = 1) {
  return CLI::Validator(
      [&target, least](std::string& text) {
        const auto bytes = hocket::perf::parse_bytes(text);
        if (!bytes) return format("'{}' is no size: a number, with K, M or G for 1024, 1024^2 or 1024^3", text);
        if (*bytes < least) return format("'{}' is too small: {} or more", text, least);
        target = *bytes;
        return std::string();
      },
      "SIZE");
}

std::string names_of(Collective collective) {
  std::string names;
  for (const std::string_view name : simulated_algorithms(collective))
    names += format("{}{}", names.empty() ? "" : ", ", name);
  return names;
}

int fail(std::string_view text) {
  print(stderr, "hocket sim: {}\n", text);
  return 1;
}

Result<hocket::topo::Graph> graph_of(const std::string& machine) {
  if (machine == "live") return hocket::topo::load_machine({});
  if (const MachineSpec* spec = find_machine(machine)) return machine_of(*spec);
  constexpr std::string_view kSynthetic = "synthetic:";
  if (machine.starts_with(kSynthetic)) return hocket::topo::graph_from_synthetic(machine.substr(kSynthetic.size()));
  auto graph = hocket::topo::graph_from_file(machine);
  if (graph.ok()) return graph;
  std::string known;
  for (const MachineSpec& spec : known_machines()) known += format(" {}", spec.name);
  return error(graph.status().code(), "{}; known without a file:{}", graph.status().text(), known);
}

bool number(std::string_view text, auto* value) {
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return bad == std::errc() && end == text.data() + text.size();
}

/// "3-4=0.5" and "7=0.5".
Status slow(Fabric& fabric, const Arguments& arguments) {
  for (const std::string& text : arguments.slow_links) {
    const std::size_t dash = text.find('-'), equals = text.find('=');
    int from = 0, to = 0;
    double factor = 0;
    if (dash == std::string::npos || equals == std::string::npos || dash > equals ||
        !number(std::string_view(text).substr(0, dash), &from) ||
        !number(std::string_view(text).substr(dash + 1, equals - dash - 1), &to) ||
        !number(std::string_view(text).substr(equals + 1), &factor))
      return error(Code::kInvalidArgument, "--slow-link is RANK-RANK=FACTOR such as 3-4=0.5, not '{}'", text);
    HOCKET_TRY(fabric.slow_link(from, to, factor));
  }
  for (const std::string& text : arguments.slow_ranks) {
    const std::size_t equals = text.find('=');
    int rank = 0;
    double factor = 0;
    if (equals == std::string::npos || !number(std::string_view(text).substr(0, equals), &rank) ||
        !number(std::string_view(text).substr(equals + 1), &factor))
      return error(Code::kInvalidArgument, "--slow-rank is RANK=FACTOR such as 7=0.5, not '{}'", text);
    HOCKET_TRY(fabric.slow_rank(rank, factor));
  }
  return {};
}

Result<NetworkOptions> network_of(const Arguments& arguments) {
  NetworkOptions network;
  network.hosts_per_pod = arguments.pod;
  network.nic_bytes_per_second = arguments.nic * 1e9;
  network.latency_seconds = arguments.latency_us < 0 ? -1 : arguments.latency_us * 1e-6;
  const std::string& text = arguments.network;
  if (text == "rails") return network;
  network.kind = NetworkKind::kFatTree;
  if (text == "fat-tree") return network;
  constexpr std::string_view kFatTree = "fat-tree:";
  if (!text.starts_with(kFatTree) || !number(std::string_view(text).substr(kFatTree.size()), &network.oversubscription))
    return error(Code::kInvalidArgument, "--network is rails, fat-tree or fat-tree:OVERSUBSCRIPTION, not '{}'", text);
  return network;
}

std::vector<std::string> algorithms_of(Collective collective, const Arguments& arguments) {
  std::vector<std::string> names;
  if (arguments.algorithms != "all") {
    for (std::string_view rest = arguments.algorithms; !rest.empty();) {
      const std::size_t comma = rest.find(',');
      names.emplace_back(rest.substr(0, comma));
      rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    }
    return names;
  }
  if (collective == Collective::kAllReduce)
    return {"ring", "tree", "hierarchical", "halving_doubling", "log_step", "two_shot", "one_shot"};
  for (const hocket::Algorithm& a : hocket::algorithms())
    if (a.collective == collective && !a.zero_copy && !a.boards) names.emplace_back(a.name);
  return names;
}

std::vector<std::uint64_t> sizes_of(const Arguments& arguments) {
  if (arguments.least == 0) return {arguments.bytes != 0 ? arguments.bytes : std::uint64_t{1} << 30};
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t bytes = arguments.least; bytes <= arguments.most;
       bytes *= static_cast<std::uint64_t>(arguments.factor))
    sizes.push_back(bytes);
  return sizes;
}

Result<Price> price(const Simulation& simulation, const Fabric& fabric, std::uint64_t bytes,
                    const std::string& protocol) {
  if (protocol == "auto" || !fabric.has_gpus()) return price_best(simulation, fabric, bytes);
  return simulation.price(bytes, gpu_costs(protocol == "packet"));
}

/// One algorithm on one number of hosts.
SimLine line_of(const Fabric& fabric, const Placement& best, Collective collective, const std::string& algorithm,
                const Arguments& arguments) {
  SimLine line{.algorithm = algorithm,
               .hosts = fabric.hosts(),
               .ranks = fabric.ranks(),
               .in_library = in_library(collective, algorithm),
               .why = {},
               .points = {},
               .path = {}};
  // Only neighbours in the order of ranks matter to these; others use all rails as they are.
  const bool ordered = algorithm == "ring" || algorithm == "tree" || algorithm == "chain";
  const Placement& placement = ordered ? best : plain_placement(fabric);
  auto simulation = Simulation::make(fabric, placement, collective, algorithm, arguments.setup);
  if (!simulation.ok()) {
    line.why = simulation.status().text();
    return line;
  }
  line.copies = simulation->world(0).copies;
  line.classes = simulation->classes();
  line.actors = simulation->world(0).all_actors;
  line.exact = simulation->world(0).exact;
  for (const std::uint64_t bytes : sizes_of(arguments)) {
    SimPoint point{bytes, {}, {}, {}};
    auto priced = price(*simulation, fabric, bytes, arguments.protocol);
    if (priced.ok()) {
      if (priced->busiest_link >= 0) point.busiest = fabric.link_name(priced->busiest_link);
      line.path = sim_path(*simulation, *priced);
      priced->path.clear();
      point.price = std::move(*priced);
    } else {
      point.why = priced.status().text();
    }
    line.points.push_back(std::move(point));
  }
  return line;
}

/// All of them on these hosts, in their order; as many at once as this process may use CPUs.
std::vector<SimLine> lines_of(const Fabric& fabric, const Placement& best, Collective collective,
                              const std::vector<std::string>& algorithms, const Arguments& arguments) {
  std::vector<SimLine> lines(algorithms.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < lines.size(); i = next++)
      lines[i] = line_of(fabric, best, collective, algorithms[i], arguments);
  };
  const auto allowed = hocket::topo::CpuSet::of_this_process();
  const std::size_t cpus = allowed.ok() ? allowed->to_vector().size() : 1;
  std::vector<std::jthread> others;
  while (others.size() + 1 < std::min(cpus, lines.size())) others.emplace_back(work);
  work();
  others.clear();  // joins
  return lines;
}

Status write(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if ((file != nullptr && std::fclose(file) != 0) || !written)
    return error(Code::kSystem, "{} can't be written: {}", path, std::strerror(errno));
  return {};
}

Status simulate(const Arguments& arguments) {
  std::optional<Collective> collective;
  for (int c = 0; c < hocket::kCollectiveCount; ++c)
    if (to_string(static_cast<Collective>(c)) == arguments.collective) collective = static_cast<Collective>(c);
  if (!collective) return error(Code::kInvalidArgument, "there is no collective '{}'", arguments.collective);
  HOCKET_ASSIGN(const hocket::topo::Graph graph, graph_of(arguments.machine));
  const hocket::topo::Paths paths(graph);
  const hocket::topo::SearchResult rings = search(paths);
  int most = 64;
  if (arguments.copies != "auto" && (!number(arguments.copies, &most) || most < 1))
    return error(Code::kInvalidArgument, "--copies is auto or a number, not '{}'", arguments.copies);
  FabricOptions options;
  options.ranks_per_host = arguments.ranks;
  HOCKET_ASSIGN(options.network, network_of(arguments));
  std::vector<SimLine> lines;
  for (const int hosts : arguments.hosts) {
    options.hosts = hosts;
    HOCKET_ASSIGN(Fabric fabric, Fabric::make(graph, options));
    if (fabric.ranks() < 2)
      return error(Code::kInvalidArgument, "one rank has nobody to talk to; see --hosts and --ranks");
    HOCKET_TRY(slow(fabric, arguments));
    const Placement best =
        arguments.copies == "1" ? plain_placement(fabric) : best_placement(fabric, paths, rings, most);
    for (SimLine& line : lines_of(fabric, best, *collective, algorithms_of(*collective, arguments), arguments)) {
      if (arguments.algorithms != "all" && !line.why.empty())
        return error(Code::kInvalidArgument, "{}: {}", line.algorithm, line.why);
      lines.push_back(std::move(line));
    }
  }
  const std::string title = format("{} on {}", arguments.collective, arguments.machine);
  std::string subtitle = "simulated, not measured";
  if (arguments.hosts.size() == 1)
    subtitle += format("; {} ranks on {} host{}, {}", lines.front().ranks, lines.front().hosts,
                       lines.front().hosts == 1 ? "" : "s", arguments.network);
  if (!arguments.plot.empty()) HOCKET_TRY(write(arguments.plot, sim_svg(title, subtitle, lines)));
  if (arguments.json) {
    print(stdout, "{}", sim_json(arguments.machine, lines));
    return {};
  }
  print(stdout, "{}: {}\n\n{}", title, subtitle, sim_table(lines));
  if (arguments.hosts.size() > 1 || lines.front().points.size() > 1) return {};
  for (const SimLine& line : lines) print(stdout, "{}", sim_details(line));
  return {};
}

Status check(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return error(Code::kSystem, "{} can't be read: {}", file, std::strerror(errno));
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  HOCKET_ASSIGN(const std::vector<Measured> rows, read_perf_csv(text, file));
  const hocket::topo::HostCost host = hocket::topo::host_cost(hocket::topo::load_machine({}));
  HOCKET_ASSIGN(const Calibration calibration, calibrate(rows, static_cast<double>(host.l3_bytes)));
  print(stdout, "{}", calibration_text(calibration));
  return {};
}

Status published() {
  HOCKET_ASSIGN(const std::vector<Prediction> predictions, predict_published());
  print(stdout, "{}", published_text(predictions));
  return {};
}

}  // namespace

int sim_main(int argc, char** argv) {
  CLI::App app("Prices a collective on a machine and many like it, from the plans that the library runs.",
               "hocket sim");
  Arguments arguments;
  bool table = false, calibrates = false;
  std::string against, keep;
  app.add_option("collective,--collective", arguments.collective, "all_reduce, all_gather, reduce_scatter ...");
  app.add_option("--machine", arguments.machine,
                 "live (this one), a file as hocket topo --from takes it, or a known one such as 8xH100");
  app.add_option("--hosts", arguments.hosts, "how many of them; several, as in 1,8,64, for a plot over hosts")
      ->delimiter(',');
  app.add_option(
      "--algo", arguments.algorithms,
      format("all, or some, as in ring,tree. Of all_reduce: {}. hierarchical is a plan that the library does not "
             "run yet. A wrong name lists those of another collective",
             names_of(Collective::kAllReduce)));
  std::string size;  // what CLI11 keeps; size_into has the value
  app.add_option("--bytes", size, "one size, as hocket perf counts it; default 1G")->check(size_into(arguments.bytes));
  app.add_option("-b,--minbytes", size, "the first of several sizes")->check(size_into(arguments.least));
  app.add_option("-e,--maxbytes", size, "the last one")->check(size_into(arguments.most));
  app.add_option("-f,--stepfactor", arguments.factor, "from one to the next")->check(CLI::Range(2, 1 << 20));
  app.add_option("--network", arguments.network, "rails, fat-tree or fat-tree:OVERSUBSCRIPTION");
  app.add_option("--pod", arguments.pod, "hosts below one leaf switch of a fat tree")->check(CLI::Range(1, 1 << 17));
  app.add_option("--latency", arguments.latency_us, "between hosts, microseconds; default: the protocol's");
  app.add_option("--nic", arguments.nic, "give each GPU (or host without GPUs) a NIC of so many GB/s");
  app.add_option("--ranks", arguments.ranks, "ranks a host, of a machine without GPUs")->check(CLI::Range(1, 1024));
  app.add_option("--slow-link", arguments.slow_links, "RANK-RANK=FACTOR: the narrowest link between them, both ways");
  app.add_option("--slow-rank", arguments.slow_ranks, "RANK=FACTOR: of its speed");
  app.add_option(
      "--copies", arguments.copies,
      "rings and trees side by side: auto (one for each ring of the machine, or rail), or at most so many; 1 "
      "is one in the order of ranks");
  app.add_option("--protocol", arguments.protocol, "of GPUs: auto, bulk or packet")
      ->check(CLI::IsMember({"auto", "bulk", "packet"}));
  app.add_option("--slots", arguments.setup.slots, "slots of a channel")->check(CLI::Range(2, 64));
  app.add_option("--slot-bytes", size, "of a slot")->check(size_into(arguments.setup.slot_bytes));
  app.add_option("--tile", size, "of a chunk in flight at once; 0: chosen")
      ->check(size_into(arguments.setup.tile_bytes, 0));
  app.add_option("--tiles-per-round", arguments.setup.tiles_per_round, "tiles of a step")->check(CLI::Range(1, 63));
  app.add_flag("--full", arguments.setup.full, "event by event over all ranks, nothing folded or extrapolated");
  app.add_option("--plot", arguments.plot, "draw busbw over sizes, or over hosts, into this SVG file");
  app.add_flag("--json", arguments.json, "print JSON");
  app.add_flag("--published", table, "compare with what others measured with NCCL, and print no more");
  app.add_option("--against", against, "a file of hocket perf --csv: fit to half of its rows and predict the others");
  app.add_flag("--calibrate", calibrates, "measure here with hocket perf (a minute), then as --against");
  app.add_option("--keep", keep, "with --calibrate: where to leave the measured rows");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if ((arguments.least == 0) != (arguments.most == 0) || arguments.least > arguments.most)
    return fail("-b and -e are the first and last size: both, and in this order");
  if (arguments.setup.tiles_per_round >= arguments.setup.slots)
    arguments.setup.tiles_per_round = arguments.setup.slots - 1;
  Status status;
  if (table) {
    status = published();
  } else if (calibrates) {
    const std::string file = keep.empty() ? format("/tmp/hocket-sim-{}.csv", ::getpid()) : keep;
    status = sim_measure(file);
    if (status.ok()) status = check(file);
    if (keep.empty()) std::remove(file.c_str());
  } else {
    status = against.empty() ? simulate(arguments) : check(against);
  }
  return status.ok() ? 0 : fail(status.text());
}
