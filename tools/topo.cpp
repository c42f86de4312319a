// SPDX-License-Identifier: Apache-2.0
// tools/topo.cpp: `hocket topo`: the machine as hocket sees it, and what it concludes.
//
// Exit status: 0, 2 for wrong usage, or 1 with one line on stderr if a file can't be read.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "tools/topo_corpus.hpp"
#include "tools/topo_explain.hpp"
#include "tools/topo_json.hpp"
#include "tools/topo_page.hpp"
#include "tools/topo_picture.hpp"
#include "tools/usage.hpp"
#include "topo/cost.hpp"
#include "topo/hwloc_reader.hpp"
#include "topo/machine_file.hpp"
#include "topo/nccl_graph.hpp"
#include "topo/nccl_reader.hpp"
#include "topo/near_cpus.hpp"
#include "topo/nics.hpp"
#include "topo/search.hpp"

int topo_main(int argc, char** argv);

namespace {

using hocket::topo::Graph;
using hocket::topo::HostCost;
using hocket::topo::LinkCost;
using hocket::topo::LinkKind;
using hocket::topo::NodeKind;

constexpr LinkKind kLinkKinds[] = {LinkKind::kProcess, LinkKind::kShm, LinkKind::kNvlink, LinkKind::kPcie,
                                   LinkKind::kNet};

// A cost is worth a line where the machine has such a link.
bool has_link(const Graph& graph, LinkKind kind) {
  switch (kind) {
    case LinkKind::kProcess:
    case LinkKind::kShm: return true;
    case LinkKind::kPcie: return graph.count(NodeKind::kGpu) > 0;
    case LinkKind::kNet: return graph.count(NodeKind::kNic) > 0;
    case LinkKind::kNvlink:
      for (const hocket::topo::Edge& edge : graph.edges) {
        if (edge.kind == hocket::topo::EdgeKind::kNvlink) return true;
      }
      return false;
  }
  return false;
}

std::string conclusions_text(const Graph& graph) {
  const HostCost host = host_cost(graph);
  std::string out = "\nwhat hocket derives\n";
  out += hocket::format("  usable CPUs        {:.4g}\n", host.usable_cpus);
  out +=
      hocket::format("  L2 tile budget     {} (L2 {} a core, L3 {}{})\n", hocket::topo::bytes_to_text(host.tile_bytes),
                     hocket::topo::bytes_to_text(host.l2_bytes), hocket::topo::bytes_to_text(host.l3_bytes),
                     graph.l2_bytes() > 0 && graph.l3_bytes() > 0 ? "" : "; what is unknown is assumed");
  out += hocket::format("  core to core       {:.0f} ns a cache line ({}; a default, not measured)\n",
                        host.line_seconds * 1e9,
                        host.one_l3 ? "all allowed CPUs share one cache" : "allowed CPUs span caches");
  for (const LinkKind kind : kLinkKinds) {
    if (!has_link(graph, kind)) continue;
    const LinkCost cost = link_cost(graph, kind);
    out += hocket::format("  {:<7} link       {:.3g} us + bytes / {:.3g} GB/s ({})\n", to_string(kind),
                          cost.alpha_seconds * 1e6, cost.beta_bytes_per_second / 1e9, to_string(cost.origin));
  }
  out += hocket::format("  GPUs               {}\n", graph.count(NodeKind::kGpu));
  out += hocket::format("  NICs               {}\n", graph.count(NodeKind::kNic));
  out += hocket::format("  host id            {}\n",
                        graph.host_id.empty() ? "none" : hocket::topo::json_string(graph.host_id));
  out += hocket::format("  topology digest    {:016x}\n", graph.digest());
  return out;
}

std::string conclusions_json(const Graph& graph) {
  const HostCost host = host_cost(graph);
  std::string links;
  for (const LinkKind kind : kLinkKinds) {
    if (!has_link(graph, kind)) continue;
    const LinkCost cost = link_cost(graph, kind);
    links += hocket::format("{}\"{}\":{{\"alpha_seconds\":{},\"beta_bytes_per_second\":{},\"origin\":\"{}\"}}",
                            links.empty() ? "" : ",", to_string(kind), cost.alpha_seconds, cost.beta_bytes_per_second,
                            to_string(cost.origin));
  }
  return hocket::format(
      "{{\"usable_cpus\":{},\"tile_bytes\":{},\"l2_bytes\":{},\"l3_bytes\":{},\"line_seconds\":{},\"one_l3\":{},"
      "\"links\":{{{}}}}}",
      host.usable_cpus, host.tile_bytes, host.l2_bytes, host.l3_bytes, host.line_seconds, host.one_l3, links);
}

// Rings, trees and NICs, where the machine has GPUs.
std::string devices_text(const Graph& graph) {
  const hocket::topo::Paths paths(graph);
  if (paths.gpus().empty()) return "";
  std::string out = "\n" + search_text(paths, search(paths));
  const hocket::topo::NicPlan plan = plan_nics(paths);
  for (const hocket::topo::NicOfGpu& of_gpu : plan.gpus) {
    out += hocket::format("GPU {}", gpu_label(graph, of_gpu.gpu));
    if (of_gpu.chosen >= 0) {
      std::vector<std::string> names;
      for (const int nic : of_gpu.nearest) names.push_back(nic_name(graph, nic));
      out += hocket::format("  nearest {} {}, uses {} at {:.3g} GB/s", hocket::join(names, ","), to_string(of_gpu.type),
                            nic_name(graph, of_gpu.chosen), of_gpu.bytes_per_second / 1e9);
    }
    const std::string cpus = near_cpus(graph, of_gpu.gpu).to_string();
    out += cpus.empty() ? std::string("  helper threads anywhere: CPUs are unknown\n")
                        : hocket::format("  helper threads on CPUs {}\n", cpus);
  }
  for (const hocket::topo::NicUse& use : plan.nics) {
    if (!use.aside.empty()) out += hocket::format("NIC {} set aside: {}\n", use.name, use.aside);
  }
  if (plan.flat) out += "every GPU is equally far from every NIC: spread by number\n";
  return out;
}

std::string svg_of(const Graph& graph, const std::string& title) {
  const hocket::topo::Paths paths(graph);
  return topo_svg(paths, search(paths), plan_nics(paths), title);
}

// "NVL 240" for each pair, as nvidia-smi would lay it out.
std::string paths_text(const Graph& graph) {
  const hocket::topo::Paths paths(graph);
  std::vector<std::pair<std::string, int>> devices;
  for (const int gpu : paths.gpus()) devices.emplace_back("GPU" + gpu_label(graph, gpu), gpu);
  for (const hocket::topo::NicUse& use : plan_nics(paths).nics) {
    if (use.aside.empty()) devices.emplace_back(use.name, use.nic);
  }
  std::string out;
  for (const auto& [name, node] : devices) out += '\t' + name;
  for (const auto& [name, from] : devices) {
    out += '\n' + name;
    for (const auto& [other, to] : devices) {
      const hocket::topo::Path path = paths.between(from, to);
      out += from == to ? std::string("\tX")
                        : hocket::format("\t{} {:.3g}", to_string(path.type), path.bytes_per_second / 1e9);
    }
  }
  return out + '\n';
}

std::string nccl_graph_of(const Graph& graph) {
  const hocket::topo::Paths paths(graph);
  return to_nccl_graph_xml(paths, search(paths), plan_nics(paths));
}

int save_text(const std::string& xml, const std::string& path) {
  if (path == "-") {
    hocket::print(stdout, "{}", xml);
    return 0;
  }
  std::FILE* file = std::fopen(path.c_str(), "w");
  const bool written = file && std::fwrite(xml.data(), 1, xml.size(), file) == xml.size();
  if ((file && std::fclose(file) != 0) || !written) {
    hocket::print(stderr, "hocket topo: {} can't be written: {}\n", path, std::strerror(errno));
    return 1;
  }
  return 0;
}

}  // namespace

int topo_main(int argc, char** argv) {
  CLI::App app("Shows this machine, or one from a file, as hocket sees it.", "hocket topo");
  bool json = false;
  std::string from;
  std::string save;
  std::string graph_file;
  app.add_flag("--json", json, "print JSON: {\"graph\": ..., \"derived\": ..., \"devices\": ...}");
  app.add_option("--from", from,
                 "a file that tells of a machine: hwloc XML (lstopo FILE.xml), NCCL or RCCL topology XML, the text of "
                 "nvidia-smi topo -m, rocm-smi --showtopo, ibv_devinfo or show_gids; or synthetic:\"package:2 numa:1 "
                 "l3:2 core:4 pu:1\"");
  app.add_option("--save", save,
                 "write the machine as NCCL topology XML into this file ('-': stdout) and print no more");
  std::string corpus;
  std::string answers;
  std::string page;
  bool table = false;
  app.add_option("--corpus", corpus, "with --table: read every file below this folder and print a row for each");
  app.add_flag("--table", table, "see --corpus");
  app.add_option("--page", page,
                 "with --corpus: write a page of pictures for a browser into this file, in place of a table");
  app.add_option("--answers", answers,
                 "what is right for the files of --corpus; default: answers.txt in that folder, else what is built in");
  app.add_option("--graph", graph_file,
                 "write the rings and trees as NCCL graph XML (for NCCL_GRAPH_FILE) into this file ('-': stdout)");
  std::string svg;
  bool path_types = false;
  std::string explained;
  std::uint64_t bytes = 1 << 20;
  int hosts = 1;
  app.add_option(
      "--explain", explained,
      "print what a collective would use here, what else it could with predicted times, and what not and why");
  app.add_option("--hosts", hosts, "with --explain: so many hosts like this one")->check(CLI::Range(1, 1 << 20));
  app.add_option("--bytes", bytes,
                 "with --explain: of the buffer, or of one rank's chunk; 64M and the like are understood")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--svg", svg, "draw the machine, with rings and loads, into this file ('-': stdout)");
  app.add_flag("--paths", path_types, "print the kind of path between any two GPUs and NICs, and its GB/s");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return hocket::usage_answer(app, e);
  }
  if (!corpus.empty() && !page.empty()) return topo_page(corpus, page);
  if (!corpus.empty()) return topo_corpus(corpus, answers);

  Graph graph;
  constexpr std::string_view kSynthetic = "synthetic:";
  if (from.empty()) {
    hocket::topo::ReaderOptions options;
    if (const char* id = std::getenv("HOCKET_HOST_ID")) options.host_id = id;
    graph = hocket::topo::load_machine(options);
  } else {
    hocket::Result<Graph> loaded = from.starts_with(kSynthetic)
                                       ? hocket::topo::graph_from_synthetic(from.substr(kSynthetic.size()))
                                       : hocket::topo::graph_from_file(from);
    if (!loaded.ok()) {
      hocket::print(stderr, "hocket topo: {}\n", loaded.status().text());
      return 1;
    }
    graph = std::move(*loaded);
  }
  if (!save.empty()) return save_text(to_nccl_xml(graph), save);
  if (!graph_file.empty()) return save_text(nccl_graph_of(graph), graph_file);
  if (!svg.empty()) return save_text(svg_of(graph, from.empty() ? "this machine" : from), svg);
  if (!explained.empty()) {
    const hocket::topo::Paths paths(graph);
    const hocket::Result<std::string> text = topo_explain(paths, explained, bytes, hosts);
    hocket::print(text.ok() ? stdout : stderr, "{}{}",
                  text.ok() ? "" : "hocket topo: ", text.ok() ? *text : std::string(text.status().text()) + "\n");
    return text.ok() ? 0 : 1;
  }
  if (path_types) {
    hocket::print(stdout, "{}", paths_text(graph));
    return 0;
  }
  if (json) {
    const hocket::topo::Paths paths(graph);
    hocket::print(stdout, "{{\"graph\":{},\"derived\":{},\n\"devices\":{}}}\n", graph.to_json(),
                  conclusions_json(graph), devices_json(paths, search(paths), plan_nics(paths)));
  } else {
    hocket::print(stdout, "{}{}{}", graph.to_text(), conclusions_text(graph), devices_text(graph));
  }
  return 0;
}
