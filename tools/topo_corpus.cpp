// SPDX-License-Identifier: Apache-2.0
// tools/topo_corpus.cpp: see topo_corpus.hpp; what is right of each file: topo_answers.hpp.
#include "tools/topo_corpus.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <vector>

#include "base/status.hpp"
#include "tools/topo_answers.hpp"
#include "topo/cpu_budget.hpp"
#include "topo/machine_file.hpp"
#include "topo/nccl_graph.hpp"
#include "topo/nccl_reader.hpp"
#include "topo/nics.hpp"
#include "topo/search.hpp"
#include "topo/smi_matrix.hpp"

namespace {

using hocket::format;
using hocket::Result;
using hocket::topo::Graph;
using hocket::topo::NodeKind;
using hocket::topo::Paths;
using hocket::topo::PathType;
namespace topo = hocket::topo;
namespace fs = std::filesystem;

using Answer = TopoAnswer;

struct Row {
  std::string file;
  std::string gpus = "-";
  std::string nics = "-";
  std::string structure;
  std::string rings = "-";
  std::string total = "-";
  std::string trees = "-";
  std::string nccl = "-";
  std::string near = "-";
  double milliseconds = 0;
  std::vector<std::string> wrong;
  std::vector<std::string> remarks;
  bool checked = false;
};

void expect(Row* row, const Answer& answer, const std::string& key, const std::string& found) {
  const auto known = answer.find(key);
  if (known == answer.end()) return;
  row->checked = true;
  if (known->second != found) row->wrong.push_back(format("{} is {}, right is {}", key, found, known->second));
}

std::string class_of(const Graph& graph, const topo::SearchResult& result) {
  std::string name = "pci";
  for (const topo::Island& island : result.islands) {
    if (island.kind == topo::IslandKind::kSwitched || island.kind == topo::IslandKind::kMixed) name = "switch";
    if (island.kind == topo::IslandKind::kMesh && name == "pci") name = island.gpus.size() > 2 ? "mesh" : "pair";
  }
  if (name == "pci" && !graph.nodes[0].get("nvlink").empty()) name = "unknown";
  return name;
}

std::string rings_of(const topo::SearchResult& result, bool bounds) {
  std::vector<std::string> counts;
  for (const topo::Island& island : result.islands) {
    if (island.kind == topo::IslandKind::kAlone) continue;
    if (!bounds) {
      counts.push_back(format("{}", island.rings.rings.size()));
    } else {
      // No bound in rings, but in bytes, where hops share links.
      counts.push_back(island.rings.bound_rings > 0 ? format("{}", island.rings.bound_rings) : "-");
    }
  }
  return counts.empty() ? "-" : hocket::join(counts, "+");
}

// "0,1:PXB:mlx5_0;2:SYS:mlx5_0,mlx5_1"
std::string near_of(const Graph& graph, const topo::NicPlan& plan) {
  std::vector<std::pair<std::string, std::string>> groups;  // what is near, GPUs
  for (const topo::NicOfGpu& of_gpu : plan.gpus) {
    std::vector<std::string> names;
    for (const int nic : of_gpu.nearest) names.push_back(nic_name(graph, nic));
    const std::string what = names.empty() ? "none" : format("{}:{}", to_string(of_gpu.type), hocket::join(names, ","));
    const std::string label = gpu_label(graph, of_gpu.gpu);
    if (!groups.empty() && groups.back().first == what) {
      groups.back().second += "," + label;
    } else {
      groups.emplace_back(what, label);
    }
  }
  std::vector<std::string> texts;
  texts.reserve(groups.size());
  for (const auto& [what, gpus] : groups) texts.push_back(format("{}:{}", gpus, what));
  return texts.empty() ? "-" : hocket::join(texts, ";");
}

std::string usable_of(const topo::NicPlan& plan) {
  std::vector<std::string> names;
  for (const topo::NicUse& use : plan.nics) {
    if (use.aside.empty()) names.push_back(use.name);
  }
  return names.empty() ? "none" : hocket::join(names, ",");
}

std::string gids_of(const Graph& graph) {
  std::vector<std::string> texts;
  for (const int nic : graph.of_kind(NodeKind::kNic)) {
    const topo::Node& node = graph.nodes[static_cast<std::size_t>(nic)];
    if (!node.get("gid_index").empty()) texts.push_back(format("{}:{}", node.get("rdma"), node.get("gid_index")));
  }
  return texts.empty() ? "-" : hocket::join(texts, ",");
}

// The tree must say of every pair what the matrix says.
void check_matrix(const std::string& text, const Graph& graph, const Paths& paths, Row* row) {
  const Result<topo::SmiMatrix> matrix = topo::parse_smi(text, row->file);
  if (!matrix.ok()) return;
  std::map<std::string, int> node_of;
  for (const int gpu : graph.of_kind(NodeKind::kGpu)) node_of["GPU" + topo::gpu_label(graph, gpu)] = gpu;
  for (const int nic : graph.of_kind(NodeKind::kNic)) node_of[topo::nic_name(graph, nic)] = nic;
  int differ = 0;
  for (std::size_t a = 0; a < matrix->devices.size(); ++a) {
    for (std::size_t b = 0; b < matrix->devices.size(); ++b) {
      const topo::Nearness near = matrix->cells[a][b].near;
      if (a == b || near == topo::Nearness::kUnknown) continue;
      static constexpr PathType kTypes[] = {PathType::kDis, PathType::kPix,  PathType::kPxb,
                                            PathType::kPhb, PathType::kNode, PathType::kSys};
      const PathType type = paths.over_pci(node_of[matrix->devices[a].name], node_of[matrix->devices[b].name]).type;
      differ += type != kTypes[static_cast<int>(near)];
    }
  }
  if (differ == 0) return;
  const std::string text_of = format("{} cells differ from the tree", differ);
  const bool said = std::any_of(graph.notes.begin(), graph.notes.end(),
                                [](const std::string& note) { return note.find("believed") != std::string::npos; });
  (said ? row->remarks : row->wrong).push_back(text_of);
}

void check_nccl(const fs::path& folder, const topo::SearchResult& result, Row* row) {
  const fs::path path = folder / "nccl-graph" / (fs::path(row->file).stem().string() + ".graph.xml");
  Result<std::string> text = topo::read_small_file(path.string(), 1 << 20);
  if (!text.ok()) return;
  const auto graphs = topo::parse_nccl_graphs(std::move(*text), path.string());
  if (!graphs.ok()) return;
  for (const topo::NcclGraph& one : *graphs) {
    if (one.id != 0 || one.channels.empty()) continue;
    const double total = one.intra_bytes_per_second * static_cast<double>(one.channels.size());
    row->nccl = format("{}x{:.4g}", one.channels.size(), one.intra_bytes_per_second / 1e9);
    row->checked = true;
    // NCCL counted 22 GB/s a link of Volta before it settled on 20: then the number of rings is what compares.
    const bool as_many = result.machine.rings.size() >= one.channels.size();
    if (result.machine.bytes_per_second < total * (1 - 1e-9) && !as_many)
      row->wrong.push_back(
          format("rings carry {:.4g} GB/s, NCCL's {:.4g}", result.machine.bytes_per_second / 1e9, total / 1e9));
  }
}

void fill_machine(const fs::path& folder, const fs::path& path, const Answer& answer, Row* row) {
  const auto start = std::chrono::steady_clock::now();
  Result<Graph> graph = topo::graph_from_file(path.string());
  if (!graph.ok()) {
    row->structure = std::string(graph.status().text());
    row->wrong.push_back("not read");
    return;
  }
  const Paths paths(*graph);
  const topo::SearchResult result = search(paths);
  const topo::NicPlan plan = plan_nics(paths);
  row->milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();

  const auto aside =
      std::count_if(plan.nics.begin(), plan.nics.end(), [](const auto& nic) { return !nic.aside.empty(); });
  row->gpus = format("{}", paths.gpus().size());
  row->nics = aside > 0 ? format("{}-{}", plan.nics.size(), aside) : format("{}", plan.nics.size());
  row->structure = structure_text(paths, result);
  if (rings_of(result, false) != "-") row->rings = rings_of(result, false) + "/" + rings_of(result, true);
  if (!result.machine.rings.empty())
    row->total =
        format("{:.4g}/{:.4g}", result.machine.bytes_per_second / 1e9, result.machine.bound_bytes_per_second / 1e9);
  if (const topo::TreeSet& trees = result.trees; !trees.trees.empty())
    row->trees = format("{}{} {:.4g}/{:.4g}", trees.trees.size(),
                        trees.bound_trees > 0 ? format("/{}", trees.bound_trees) : std::string(),
                        trees.bytes_per_second / 1e9, trees.bound_bytes_per_second / 1e9);
  for (const std::string& finding : result.findings) row->remarks.push_back(finding);
  if (plan.flat) row->remarks.push_back("no nearness known, NICs by number");

  // Proofs that hold for any machine.
  for (const topo::Island& island : result.islands) {
    if (island.gpus.size() < 2) continue;
    if (hocket::Status bad = check_rings(paths, island.gpus, island.rings); !bad.ok())
      row->wrong.emplace_back(bad.text());
  }
  if (!result.machine.rings.empty()) {
    if (hocket::Status bad = check_rings(paths, paths.gpus(), result.machine); !bad.ok())
      row->wrong.emplace_back(bad.text());
  }
  if (hocket::Status bad = check_trees(paths, paths.gpus(), result.trees); !bad.ok())
    row->wrong.emplace_back(bad.text());
  if (!result.machine.rings.empty() && result.trees.trees.empty()) row->wrong.push_back("rings, but no tree");
  const Result<Graph> saved = topo::graph_from_nccl_text(to_nccl_xml(*graph), "saved");
  if (!saved.ok()) row->wrong.push_back(format("what is saved does not read: {}", saved.status().text()));
  if (saved.ok() && graph->source.starts_with("nccl") && saved->digest() != graph->digest())
    row->wrong.push_back("what is saved reads differently");
  if (graph->source.starts_with("matrix")) {
    Result<std::string> text = topo::read_small_file(path.string(), 1 << 20);
    if (text.ok()) check_matrix(*text, *graph, paths, row);
  }
  check_nccl(folder, result, row);

  expect(row, answer, "gpus", row->gpus);
  expect(row, answer, "nics", format("{}", plan.nics.size()));
  expect(row, answer, "aside", format("{}", aside));
  expect(row, answer, "class", class_of(*graph, result));
  expect(row, answer, "rings", rings_of(result, false));
  expect(row, answer, "trees", format("{}", result.trees.trees.size()));
  expect(row, answer, "packages", format("{}", graph->count(NodeKind::kPackage)));
  expect(row, answer, "devices", format("{}", graph->count(NodeKind::kPciDevice)));
  expect(row, answer, "switches", format("{}", graph->count(NodeKind::kPciSwitch)));
  expect(row, answer, "usable", usable_of(plan));
  expect(row, answer, "gids", gids_of(*graph));
  expect(row, answer, "notes", graph->notes.empty() ? "no" : "yes");
  const auto sockets = std::count_if(graph->nodes.begin(), graph->nodes.end(), [](const topo::Node& node) {
    return node.kind == NodeKind::kNuma && !node.cpus.empty();
  });
  expect(row, answer, "domains", format("{}", sockets));
  const std::string near = near_of(*graph, plan);
  if (!answer.contains("near")) {
    row->near = plan.nics.empty() || paths.gpus().empty() ? "-" : "unchecked";
  } else {
    row->near = near == answer.at("near") ? "right" : "wrong";
    expect(row, answer, "near", near);
  }
}

// A file of NCCL's choices: rings visit all their GPUs once, and are disjoint where the machine's file is beside it.
void fill_graph(const fs::path& folder, const fs::path& path, Row* row) {
  Result<std::string> text = topo::read_small_file(path.string(), 1 << 20);
  if (!text.ok()) return row->wrong.push_back(std::string(text.status().text()));
  const auto graphs = topo::parse_nccl_graphs(std::move(*text), path.string());
  if (!graphs.ok()) return row->wrong.push_back(std::string(graphs.status().text()));
  row->checked = true;
  std::vector<std::string> parts;
  for (const topo::NcclGraph& graph : *graphs) {
    static constexpr const char* kNames[] = {"rings", "trees", "chains", "NVLS", "direct"};
    if (graph.channels.empty() || graph.id > 4) continue;
    parts.push_back(
        format("{} {} at {:.4g}", graph.channels.size(), kNames[graph.id], graph.intra_bytes_per_second / 1e9));
    if (graph.id != 0) continue;
    row->gpus = format("{}", graph.channels[0].gpus.size());
    row->nccl = format("{}x{:.4g}", graph.channels.size(), graph.intra_bytes_per_second / 1e9);
    const auto sorted = [](const std::vector<topo::NcclDevice>& devices) {
      std::vector<std::pair<int, int>> all;
      all.reserve(devices.size());
      for (const topo::NcclDevice& device : devices) all.emplace_back(device.host, device.dev);
      std::sort(all.begin(), all.end());
      return all;
    };
    const auto first = sorted(graph.channels[0].gpus);
    for (const topo::NcclChannel& channel : graph.channels) {
      const auto all = sorted(channel.gpus);
      if (all != first || std::adjacent_find(all.begin(), all.end()) != all.end())
        row->wrong.push_back("a ring does not visit every GPU once");
    }
  }
  row->structure = parts.empty() ? "no channel" : hocket::join(parts, ", ");
  const fs::path machine = folder / "nccl-xml" / (path.stem().stem().string() + ".xml");
  if (fs::exists(machine)) row->remarks.push_back("compared in the row of its machine");
}

// A packed /sys and /proc: unpacked beside the temporary files, and read as a folder.
void fill_archive(const fs::path& folder, const fs::path& path, const Answer& answer, Row* row) {
  // Tens of thousands of small files: in memory where that is possible.
  std::error_code absent;
  const fs::path base = fs::is_directory("/dev/shm", absent) ? fs::path("/dev/shm") : fs::temp_directory_path();
  std::string place = (base / "hocket-topo-XXXXXX").string();
  if (::mkdtemp(place.data()) == nullptr) return row->wrong.push_back("no temporary folder");
  const pid_t child = ::fork();
  if (child == 0) {
    ::execlp("tar", "tar", "-xf", path.c_str(), "-C", place.c_str(), nullptr);
    ::_exit(127);
  }
  int state = 0;
  ::waitpid(child, &state, 0);
  fs::path root;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(place, ignored)) {
    if (fs::is_directory(entry.path() / "sys", ignored)) root = entry.path();
  }
  if (state != 0 || root.empty()) {
    row->wrong.push_back("tar can't unpack it, or there is no sys in it");
  } else {
    fill_machine(folder, root, answer, row);
  }
  // The archive may hold read-only folders.
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(place, fs::directory_options::skip_permission_denied, ignored))
    fs::permissions(entry.path(), fs::perms::owner_all, fs::perm_options::add | fs::perm_options::nofollow, ignored);
  fs::remove_all(place, ignored);
}

void print_row(const Row& row) {
  std::string verdict = !row.wrong.empty() ? "WRONG: " + hocket::join(row.wrong, "; ")
                        : row.checked      ? "right"
                                           : "unchecked";
  if (!row.remarks.empty()) verdict += " (" + hocket::join(row.remarks, "; ") + ")";
  hocket::print(stdout, "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.0f} | {} |\n", row.file, row.gpus, row.nics,
                row.structure, row.rings, row.total, row.trees, row.nccl, row.near, row.milliseconds, verdict);
}

}  // namespace

std::vector<std::string> files_below(const std::string& folder) {
  std::error_code failed;
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || name.ends_with(".md") || name == "answers.txt") continue;
    files.push_back(fs::relative(entry.path(), folder).string());
  }
  if (failed || files.empty()) hocket::print(stderr, "hocket topo: no files in {}\n", folder);
  std::sort(files.begin(), files.end());
  return files;
}

int topo_corpus(const std::string& folder, const std::string& answers_path) {
  const std::vector<std::string> files = files_below(folder);
  if (files.empty()) return 1;
  const TopoAnswers answers = TopoAnswers::load(answers_path, folder);
  hocket::print(stdout,
                "| file | GPUs | NICs-set aside | structure | rings/bound of each island | GB/s of all rings/bound | "
                "trees/bound, GB/s/bound "
                "| NCCL | nearest NICs | ms | verdict |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  int right = 0;
  int wrong = 0;
  for (const std::string& file : files) {
    const fs::path path = fs::path(folder) / file;
    Row row;
    row.file = file;
    const Answer answer = answers.of(file);
    const Result<std::string> head = topo::read_small_file(path.string(), 64 << 20);
    if (file.ends_with(".tar.bz2")) {
      fill_archive(folder, path, answer, &row);
    } else if (head.ok() && topo::kind_of_text(*head) == topo::FileKind::kNcclGraph) {
      fill_graph(folder, path, &row);
    } else if (file.ends_with(".facts.txt")) {
      row.structure = "facts for people, no machine";
      row.checked = true;
    } else {
      fill_machine(folder, path, answer, &row);
    }
    if (answer.contains("why")) row.remarks.push_back(answer.at("why"));
    print_row(row);
    wrong += !row.wrong.empty();
    right += row.wrong.empty() && row.checked;
  }
  hocket::print(stdout, "\n{} files: {} right, {} wrong, {} unchecked; {}\n", files.size(), right, wrong,
                static_cast<int>(files.size()) - right - wrong, answers.source());
  return wrong == 0 ? 0 : 1;
}
