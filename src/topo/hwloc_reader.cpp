// SPDX-License-Identifier: Apache-2.0
// topo/hwloc_reader.cpp: see hwloc_reader.hpp. The tree is turned into a Graph by hwloc_graph.cpp.
#include "topo/hwloc_reader.hpp"

#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "base/status.hpp"
#include "topo/child_import.hpp"
#include "topo/hwloc_graph.hpp"
#include "topo/nvml_reader.hpp"
#include "topo/paste.hpp"

namespace hocket::topo {

namespace {

using Topology = std::unique_ptr<hwloc_topology, void (*)(hwloc_topology*)>;

// An initialised, not yet loaded topology with all that could touch a driver, a display or affinity turned off.
Topology new_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return {nullptr, hwloc_topology_destroy};
  Topology topology(raw, hwloc_topology_destroy);
  for (const char* name : {"x86", "pci", "cuda", "nvml", "opencl", "gl", "rsmi", "levelzero"}) {
    // Fails for a component that this hwloc does not have, which is as good.
    (void)hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, name);
  }
  (void)hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  (void)hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  return topology;
}

Result<Graph> load(Topology topology, std::string_view what, const std::string& sysfs_root, bool read_sysfs) {
  if (hwloc_topology_load(topology.get()) != 0)
    return system_error(Code::kInvalidArgument, errno, "hwloc can't load {}", what);
  Graph graph = graph_of_hwloc(topology.get(), sysfs_root, read_sysfs);
  graph.source = what;
  if (graph.cpus.allowed.empty()) graph.cpus.allowed = graph.cpus.online;
  HOCKET_TRY(graph.check());
  return graph;
}

// hwloc's import ends the process (assert) on a malformed set of CPUs or nodes. Looking before gives a line number.
// "0x000000ff,0x00000001", "0xf...f,0x00000000" (all above), "" and "0x0" are what hwloc writes.
bool is_set(std::string_view value) {
  if (value.size() > CpuSet::kLimit) return false;
  constexpr std::string_view kAllAbove = "0xf...f";
  if (value.empty() || value == kAllAbove) return true;
  if (value.starts_with(kAllAbove)) {
    value.remove_prefix(kAllAbove.size());
    if (!value.starts_with(',')) return false;
    value.remove_prefix(1);
  }
  for (;;) {
    const auto comma = value.find(',');
    std::string_view group = value.substr(0, comma);
    if (group.starts_with("0x")) group.remove_prefix(2);
    const bool last = comma == std::string_view::npos;
    // hwloc leaves out a group of zeros between others.
    if (group.size() > 8 || (group.empty() && last)) return false;
    if (group.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) return false;
    if (last) return true;
    value.remove_prefix(comma + 1);
  }
}

// The first set attribute that is no set, as it stands in the file; "" if there is none.
std::string_view first_bad_set(std::string_view text) {
  constexpr std::string_view kSet = "set=\"";  // cpuset, nodeset, complete_cpuset …
  for (auto at = text.find(kSet); at != std::string_view::npos; at = text.find(kSet, at + 1)) {
    const auto begin = at + kSet.size();
    const auto end = text.find('"', begin);
    if (end == std::string_view::npos) return text.substr(at, 40);
    if (!is_set(text.substr(begin, end - begin))) return text.substr(at, std::min<std::size_t>(end - at + 1, 80));
  }
  return {};
}

#if HWLOC_API_VERSION < 0x00030000
void replace_all(std::string* text, std::string_view from, std::string_view to) {
  for (auto at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size()))
    text->replace(at, from.size(), to);
}

// hwloc 2 refuses what hwloc 3 writes, though the two differ only in the version, in elements that hwloc 2 skips, and
// in the type of an OS device, which became a set of bits. So the file is turned into the older form before it is read.
void to_hwloc2(std::string* text) {
  replace_all(text, "<topology version=\"3.0\"", "<topology version=\"2.0\"");
  constexpr std::string_view kType = "osdev_type=\"";
  for (auto at = text->find(kType); at != std::string::npos; at = text->find(kType, at + 1)) {
    const char* begin = text->data() + at + kType.size();
    unsigned bits = 0;
    const auto [end, bad] = std::from_chars(begin, text->data() + text->size(), bits);
    if (bad != std::errc()) continue;
    // 1 storage, 2 memory, 4 GPU, 8 co-processor, 16 network, 32 verbs, 64 DMA: the most telling bit counts.
    const char* type = bits & 32 ? "3" : bits & 8 ? "5" : bits & 16 ? "2" : bits & 4 ? "1" : bits & 64 ? "4" : "0";
    text->replace(at + kType.size(), static_cast<std::size_t>(end - begin), type);
  }
}
#endif

Result<Graph> import_xml(const std::string& text, const std::string& sysfs_root) {
  Topology topology = new_topology();
  if (!topology) return error(Code::kOutOfMemory, "hwloc can't start");
  if (hwloc_topology_set_xmlbuffer(topology.get(), text.c_str(), static_cast<int>(text.size()) + 1) != 0)
    return error(Code::kInvalidArgument, "hwloc rejects this XML");
  return load(std::move(topology), "hwloc xml", sysfs_root, !sysfs_root.empty());
}

// What is left when hwloc fails: the CPUs, nothing about caches and memory.
Graph flat_machine(const CpuBudget& cpus) {
  Graph graph;
  const int host = graph.add(NodeKind::kHost, -1);
  graph.nodes[0].cpus = cpus.online.empty() ? cpus.allowed : cpus.online;
  for (const int cpu : graph.nodes[0].cpus.to_vector()) {
    const int core = graph.add(NodeKind::kCore, host);
    graph.nodes[static_cast<std::size_t>(core)].cpus = CpuSet::range(cpu, cpu);
    graph.nodes[static_cast<std::size_t>(core)].os_index = cpu;
  }
  graph.normalise();
  return graph;
}

}  // namespace

std::string read_host_id(const std::string& override_id, const std::string& root, std::vector<std::string>* notes) {
  if (!override_id.empty()) return override_id;
  Result<std::string> text = read_small_file(root + "/proc/sys/kernel/random/boot_id", 4096);
  std::string id = text.ok() ? first_line(std::move(*text)) : std::string();
  if (id.empty()) {
    notes->push_back(format("no boot id ({}): set HOCKET_HOST_ID to a name that is unique to this host",
                            text.ok() ? "the file is empty" : std::string(text.status().text())));
  }
  return id;
}

Graph load_machine(const ReaderOptions& options) {
  // Libraries below hwloc (libudev) share a random state without a lock.
  static std::mutex* const one_at_a_time = new std::mutex();
  const std::lock_guard lock(*one_at_a_time);
  std::vector<std::string> notes;
  const CpuBudget cpus = read_cpu_budget(options.root, &notes);
  const std::string host_id = read_host_id(options.host_id, options.root, &notes);
  Graph graph;
  Topology topology = new_topology();
  Result<Graph> loaded = topology ? load(std::move(topology), "live", options.root, true)
                                  : Result<Graph>(error(Code::kOutOfMemory, "hwloc can't start"));
  if (loaded.ok()) {
    graph = std::move(*loaded);
    if (options.root.empty()) {
      add_nvlinks(&graph);
      graph.normalise();
    }
  } else {
    graph = flat_machine(cpus);
    notes.push_back(format("caches, memory and devices unknown: {}", loaded.status().text()));
  }
  graph.source = "live";
  graph.host_id = host_id;
  graph.cpus = cpus;
  graph.notes.insert(graph.notes.begin(), notes.begin(), notes.end());
  return graph;
}

Result<Graph> graph_from_hwloc_xml(const std::string& path, const std::string& sysfs_root) {
  HOCKET_ASSIGN(std::string text, read_small_file(path, 64 << 20));
  text = plain_markup(utf8_of(std::move(text)));
  if (text.find('\0') != std::string::npos || text.find("<topology") == std::string::npos)
    return error(Code::kInvalidArgument, "{}: no hwloc XML (there is no <topology> element)", path);
  std::string cut;
  if (text.find("</topology>") == std::string::npos)
    cut = format("; the file ends at line {} without </topology>, so it seems to be cut off",
                 1 + std::count(text.begin(), text.end(), '\n'));
  if (const std::string_view bad = first_bad_set(text); !bad.empty()) {
    const auto line = 1 + std::count(text.cbegin(), text.cbegin() + (bad.data() - text.data()), '\n');
    return error(Code::kInvalidArgument, "{}:{}: '{}' is no set of CPUs or nodes{}", path, line, bad, cut);
  }
  // Words around it, as where it was pasted into a page.
  text.erase(0, std::min(text.find("<?xml"), text.find("<topology")));
#if HWLOC_API_VERSION < 0x00030000
  if (text.find("<topology version=\"3.0\"") != std::string::npos) to_hwloc2(&text);
#endif
  Result<Graph> graph = graph_from_child([&text, &sysfs_root] { return import_xml(text, sysfs_root); });
  if (!graph.ok()) return error(graph.status().code(), "{}: {}{}", path, graph.status().text(), cut);
  graph->source = "hwloc xml " + path;
  return graph;
}

Result<Graph> graph_from_sysfs_tree(const std::string& root) {
  if (::access((root + "/sys").c_str(), R_OK) != 0)
    return error(Code::kInvalidArgument, "{}: no folder with a machine's sys and proc", root);
  Result<Graph> graph = graph_from_child([&root]() -> Result<Graph> {
    // hwloc takes a root by variable only; in the child it is nobody else's.
    (void)::setenv("HWLOC_FSROOT", root.c_str(), 1);
    Topology topology = new_topology();
    if (!topology) return error(Code::kOutOfMemory, "hwloc can't start");
    return load(std::move(topology), "sysfs", root, true);
  });
  if (!graph.ok()) return error(graph.status().code(), "{}: {}", root, graph.status().text());
  graph->source = "sysfs " + root;
  return graph;
}

Result<Graph> graph_from_synthetic(const std::string& description) {
  Topology topology = new_topology();
  if (!topology) return error(Code::kOutOfMemory, "hwloc can't start");
  if (hwloc_topology_set_synthetic(topology.get(), description.c_str()) != 0)
    return error(Code::kInvalidArgument, "'{}' describes no machine to hwloc", description);
  HOCKET_ASSIGN(Graph graph, load(std::move(topology), "synthetic", "", false));
  graph.source = "synthetic " + description;
  return graph;
}

}  // namespace hocket::topo
