// SPDX-License-Identifier: Apache-2.0
// tools/topo_page.cpp: see topo_page.hpp.
#include "tools/topo_page.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/format.hpp"
#include "tools/topo_corpus.hpp"
#include "tools/topo_picture.hpp"
#include "topo/machine_file.hpp"
#include "topo/nics.hpp"
#include "topo/search.hpp"

namespace {

using hocket::format;
using hocket::topo::Graph;
using hocket::topo::NodeKind;
using hocket::topo::Paths;
namespace topo = hocket::topo;

// Rings and trees can be hidden without a script: the boxes come before what they rule.
constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Machines as hocket sees them</title>
<style>
:root{--ink:#1f2933;--soft:#5b6875;--line:#d8dee5;--paper:#f6f7f9;--accent:#2e86ab}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0 auto;max-width:1180px;padding:1.5em}
h1{font-size:1.6em;margin:.2em 0} h2{font-size:1.1em;margin:0} a{color:var(--accent);text-decoration:none}
p{max-width:52em;color:var(--soft)} label{margin-right:1.2em;cursor:pointer}
table{border-collapse:collapse;background:#fff;width:100%;font-size:13px;margin:1em 0 2em}
th,td{text-align:left;padding:.35em .7em;border-bottom:1px solid var(--line)} th{color:var(--soft);font-weight:600}
td.n{text-align:right;font-variant-numeric:tabular-nums}
figure{margin:1.2em 0;padding:1em;background:#fff;border:1px solid var(--line);border-radius:8px;overflow-x:auto}
figcaption{color:var(--soft);margin-bottom:.6em} svg{max-width:100%;height:auto}
#rings:not(:checked)~main .rings,#trees:not(:checked)~main .trees{display:none}
</style></head><body>
<h1>Machines as hocket sees them</h1>
<p>Made by <code>hocket topo --corpus FOLDER --page FILE</code>. Lines are PCI links, redder the fuller the rings make
them; arcs below the GPUs are rings over all of them and, dashed, trees. The bound is what no set of rings (or trees)
exceeds. Figures are GB/s in each direction that transfers get, from link specifications; nothing was measured. Hold the
pointer over a line for its figures.</p>
<input type="checkbox" id="rings" checked><label for="rings">rings</label>
<input type="checkbox" id="trees"><label for="trees">trees</label>
<main>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return out;
}

std::string carried(std::size_t count, double bytes_per_second, double bound) {
  if (count == 0) return "none";
  return format("{}: {:.4g} of {:.4g}", count, bytes_per_second / 1e9, bound / 1e9);
}

}  // namespace

int topo_page(const std::string& folder, const std::string& page) {
  std::string rows, figures;
  int machines = 0;
  std::vector<std::string> left_out;
  for (const std::string& file : files_below(folder)) {
    const hocket::Result<Graph> graph = topo::graph_from_file((std::filesystem::path(folder) / file).string());
    if (!graph.ok() || graph->count(NodeKind::kGpu) == 0) {
      left_out.push_back(file + (graph.ok() ? " (no GPU)" : " (no machine)"));
      continue;
    }
    const Paths paths(*graph);
    const topo::SearchResult found = search(paths);
    const topo::NicPlan nics = plan_nics(paths);
    ++machines;
    const std::string structure = escaped(structure_text(paths, found));
    rows += format(
        "<tr><td><a href=\"#m{}\">{}</a></td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td><td>{}"
        "</td></tr>\n",
        machines, escaped(file), paths.gpus().size(), nics.rails.size(), structure,
        carried(found.machine.rings.size(), found.machine.bytes_per_second, found.machine.bound_bytes_per_second),
        carried(found.trees.trees.size(), found.trees.bytes_per_second, found.trees.bound_bytes_per_second));
    figures +=
        format("<figure id=\"m{}\"><figcaption><h2>{}</h2>{}</figcaption>\n", machines, escaped(file), structure) +
        topo_svg(paths, found, nics, "") + "</figure>\n";
  }
  if (machines == 0) {
    hocket::print(stderr, "hocket topo: no machine with GPUs in {}\n", folder);
    return 1;
  }
  std::ofstream out(page);
  out << kHead
      << "<table><tr><th>machine</th><th>GPUs</th><th>rails</th><th>structure</th><th>rings: GB/s of "
         "bound</th><th>trees: "
         "GB/s of bound</th></tr>\n"
      << rows << "</table>\n"
      << figures;
  if (!left_out.empty()) out << "<p>Not drawn: " << escaped(hocket::join(left_out, ", ")) << ".</p>\n";
  out << "</main></body></html>\n";
  if (out.flush()) return 0;
  hocket::print(stderr, "hocket topo: {} can't be written: {}\n", page, std::strerror(errno));
  return 1;
}
