// SPDX-License-Identifier: Apache-2.0
// topo/nccl_reader.cpp: see nccl_reader.hpp. One walk makes the tree; NVLinks are joined when all devices are known.
#include "topo/nccl_reader.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/status.hpp"
#include "topo/device_class.hpp"
#include "topo/link_speed.hpp"
#include "topo/nccl_links.hpp"
#include "topo/xml.hpp"

namespace hocket::topo {

namespace {

constexpr int kLimitNodes = 1 << 14;
constexpr int kLimitLinks = 1000;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

// "0x10DE" -> "10de".
std::string hex_digits(std::string_view text) {
  std::string out = lower(text);
  if (out.starts_with("0x")) out.erase(0, 2);
  return out;
}

class Builder {
 public:
  Builder(const XmlFile& file, std::string name) : file_(file), name_(std::move(name)) {}

  Result<Graph> build() {
    for (const pugi::xml_node& element : file_.root().children()) {
      if (std::string_view(element.name()) == "cpu") {
        HOCKET_TRY(add_cpu(element));
      } else if (element.type() == pugi::node_element) {
        note("{}: not known here, skipped", file_.where(element));
      }
    }
    if (numas_.empty())
      return error(Code::kInvalidArgument, "{}: <system> has no <cpu>, so it describes no machine", name_);
    place_repeated_nets();
    join_numas();
    join_links(name_, reports_, by_bus_, &graph_);
    say_what_is_not_told();
    for (const auto& [text, times] : assumed_)
      note("{}{}", text, times > 1 ? format(" ({} times)", times) : std::string());
    graph_.source = "nccl xml " + name_;
    graph_.normalise();
    HOCKET_TRY(graph_.check());
    return std::move(graph_);
  }

 private:
  Node& at(int node) { return graph_.nodes[static_cast<std::size_t>(node)]; }

  template <class... Args>
  void note(fmt::format_string<Args...> text, Args&&... args) {
    constexpr std::size_t kMost = 100;
    if (graph_.notes.size() < kMost) graph_.notes.push_back(hocket::format(text, std::forward<Args>(args)...));
  }
  // The same assumption about many elements is one note, with the first of them.
  void assume(const pugi::xml_node& element, const std::string& text) {
    const auto [known, added] = first_place_.try_emplace(text, file_.where(element) + ": " + text);
    ++assumed_[known->second];
  }

  Result<int> add(NodeKind kind, int parent, const pugi::xml_node& element) {
    if (graph_.nodes.size() >= kLimitNodes)
      return error(Code::kInvalidArgument, "{}: more than {} devices, no machine has so many", file_.where(element),
                   kLimitNodes);
    return graph_.add(kind, parent);
  }

  void keep(int node, const pugi::xml_node& element, std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      if (const pugi::xml_attribute attribute = element.attribute(key)) at(node).set(key, attribute.value());
    }
  }

  // A skeleton has PCI devices only; NCCL finds the rest on the machine itself.
  void say_what_is_not_told() {
    bool any = false;
    for (const Node& node : graph_.nodes) {
      if (node.kind == NodeKind::kGpu && !node.get("dev").empty()) return;
      any |= node.kind == NodeKind::kGpu || node.kind == NodeKind::kPciDevice;
    }
    if (!any) return;
    at(0).set("nvlink", "unknown");
    note("{}: a skeleton without <gpu>: NVLinks and what the devices are is for the machine itself to tell", name_);
  }

  // ---- CPUs

  int host_of(const pugi::xml_node& cpu) {
    const std::string hash = cpu.attribute("host_hash").value();
    const auto known = hosts_.find(hash);
    if (known != hosts_.end()) return known->second;
    const int host = graph_.add(NodeKind::kHost, -1);
    at(host).os_index = static_cast<int>(hosts_.size());
    if (!hash.empty()) at(host).set("host_hash", hash);
    return hosts_[hash] = host;
  }

  Status add_cpu(const pugi::xml_node& cpu) {
    const int host = host_of(cpu);
    const std::string_view id = cpu.attribute("numaid").value();
    const auto number = parse_integer(id);
    int numa_id = -1;
    if (number && *number >= -1 && *number < CpuSet::kLimit) {
      numa_id = static_cast<int>(*number);
    } else {
      note("{}: numaid \"{}\" is no number of a NUMA domain, taken as unknown", file_.where(cpu), id);
    }
    const auto known = std::find_if(numas_.begin(), numas_.end(), [&](int numa) {
      return at(numa).parent == host && at(numa).os_index == numa_id && numa_id >= 0;
    });
    int numa = -1;
    if (known != numas_.end()) {
      note("{}: a second element for this NUMA domain, its devices are added to the first", file_.where(cpu));
      numa = *known;
    } else {
      HOCKET_ASSIGN(numa, add(NodeKind::kNuma, host, cpu));
      numas_.push_back(numa);
      at(numa).os_index = numa_id;
      keep(numa, cpu, {"arch", "vendor", "familyid", "modelid"});
      add_affinity(numa, host, cpu);
    }
    for (const pugi::xml_node& child : cpu.children()) HOCKET_TRY(add_below(child, numa));
    return {};
  }

  void add_affinity(int numa, int host, const pugi::xml_node& cpu) {
    const pugi::xml_attribute mask = cpu.attribute("affinity");
    if (!mask || mask.value()[0] == '\0') return;
    Result<CpuSet> cpus = CpuSet::parse_mask(mask.value());
    if (!cpus.ok()) {
      note("{}: affinity: {}; taken as unknown", file_.where(cpu), cpus.status().text());
      return;
    }
    CpuSet& all = graph_.cpus.allowed;
    if (all.intersects(*cpus) && hosts_.size() == 1)
      note("{}: CPUs {} also belong to another <cpu>", file_.where(cpu), (all & *cpus).to_string());
    for (const int other : numas_) {
      if (other == numa || at(other).parent != host || at(other).cpus.empty() || cpus->empty()) continue;
      // Kernels number domains by their first CPU; a file with crossed masks was written by hand.
      if (at(other).os_index < 0 || at(numa).os_index < 0 || at(other).cpus.intersects(*cpus)) continue;
      if ((at(other).os_index < at(numa).os_index) != (at(other).cpus.first() < cpus->first()))
        note(
            "{}: NUMA {} has CPUs {} and NUMA {} has {}: the masks may be exchanged; compare with the machine's own "
            "map",
            file_.where(cpu), at(numa).os_index, cpus->to_string(), at(other).os_index, at(other).cpus.to_string());
    }
    all = all | *cpus;
    graph_.cpus.online = all;
    at(host).cpus = at(host).cpus | *cpus;
    at(numa).cpus = std::move(*cpus);
  }

  // Every domain reaches every other one of its host, at what its CPU's kind is known for.
  void join_numas() {
    for (std::size_t a = 0; a < numas_.size(); ++a) {
      for (std::size_t b = a + 1; b < numas_.size(); ++b) {
        const Node& node = at(numas_[a]);
        if (node.parent != at(numas_[b]).parent) continue;
        const int family = static_cast<int>(parse_integer(node.get("familyid")).value_or(0) & 0xffff);
        const int model = static_cast<int>(parse_integer(node.get("modelid")).value_or(0) & 0xffff);
        const double rate = socket_bytes_per_second(node.get("arch"), node.get("vendor"), family, model);
        graph_.edges.push_back({EdgeKind::kSocket, numas_[a], numas_[b], 1, {rate, Origin::kNominal}, 0});
      }
    }
  }

  // ---- Devices

  Status add_below(const pugi::xml_node& element, int parent) {
    const std::string_view what = element.name();
    if (what == "pci") return add_pci(element, parent);
    if (what == "nic") return add_loose_nets(element, parent);
    if (element.type() == pugi::node_element) note("{}: not known here, skipped", file_.where(element));
    return {};
  }

  Status add_pci(const pugi::xml_node& pci, int parent) {
    const std::string bus = usual_bus_id(lower(pci.attribute("busid").value()));
    if (!is_bus_id(bus)) note("{}: \"{}\" is no PCI bus id", file_.where(pci), bus);
    const NodeKind kind = kind_of(pci);
    if (kind == NodeKind::kHost) return {};  // neither GPU, NIC nor switch
    const auto [known, added] = by_bus_.try_emplace({host_above(parent), bus}, -1);
    if (!added && !bus.empty()) {
      note("{}: this bus id stands in the file twice, the second is skipped", file_.where(pci));
      return {};
    }
    HOCKET_ASSIGN(const int node, add(kind, parent, pci));
    known->second = node;
    at(node).name = bus;
    for (const char* key : {"vendor", "device", "subsystem_vendor", "subsystem_device", "class"}) {
      if (pci.attribute(key)) at(node).set(key, hex_digits(pci.attribute(key).value()));
    }
    keep(node, pci, {"link_speed", "link_width"});
    graph_.edges.push_back({EdgeKind::kPcie, parent, node, 1, link_rate(pci, kind), 0});
    for (const pugi::xml_node& child : pci.children()) {
      const std::string_view what = child.name();
      if (what == "gpu" && kind == NodeKind::kGpu) {
        if (!at(node).get("dev").empty()) {
          note("{}: a second <gpu> of one PCI device (a part of it), skipped", file_.where(child));
          continue;
        }
        add_gpu(child, node);
      } else if (what == "nic" && kind == NodeKind::kNic) {
        add_ports(child, node);
      } else {
        HOCKET_TRY(add_below(child, node));
      }
    }
    return {};
  }

  static bool has(const pugi::xml_node& element, const char* child) { return !element.child(child).empty(); }

  // kHost for what is of no interest.
  NodeKind kind_of(const pugi::xml_node& pci) {
    if (has(pci, "pci")) {
      if (has(pci, "gpu")) note("{}: holds a GPU and other devices, taken as a switch", file_.where(pci));
      return NodeKind::kPciSwitch;
    }
    if (has(pci, "gpu")) return NodeKind::kGpu;
    if (has(pci, "nic")) return NodeKind::kNic;
    const std::string code = hex_digits(pci.attribute("class").value());
    if (code.empty()) return NodeKind::kPciDevice;
    return kind_of_pci(code, hex_digits(pci.attribute("vendor").value()));
  }

  int host_above(int node) const { return graph_.ancestor(node, NodeKind::kHost); }

  Rate link_rate(const pugi::xml_node& pci, NodeKind kind) {
    std::string speed = pci.attribute("link_speed").value();
    std::string width = pci.attribute("link_width").value();
    if (width.empty() || width == "0") width = "16";
    if (speed.empty()) {
      if (pci.attribute("link_speed")) assume(pci, "link_speed is empty, taken as PCIe 3.0");
      if (!pci.attribute("link_width")) return {};
    }
    const bool leads_to_gpu = kind == NodeKind::kGpu || kind == NodeKind::kPciSwitch;
    if (leads_to_gpu && speed.starts_with("2.5 ")) {
      assume(pci, "2.5 GT/s is no speed that a GPU works at (an idle or virtual link), taken as PCIe 3.0");
      return {};
    }
    const Rate rate = pcie_rate(speed, width);
    if (rate.known()) return rate;
    if (!speed.empty() && pcie_rate(speed, "16").known()) {
      assume(pci, format("link_width \"{}\" is no number of lanes, taken as 16", width));
      return pcie_rate(speed, "16");
    }
    if (!speed.empty()) assume(pci, format("link_speed \"{}\" is none, taken as PCIe 3.0", speed));
    Rate nominal = pcie_rate("8.0 GT/s", width);
    if (nominal.known()) nominal.origin = Origin::kNominal;
    return nominal;
  }

  void add_gpu(const pugi::xml_node& gpu, int node) {
    keep(node, gpu, {"dev", "rank", "sm", "gdr", "gcn", "arch", "mlopart"});
    if (const auto dev = parse_integer(gpu.attribute("dev").value()); dev && *dev >= 0 && *dev < kLimitNodes)
      at(node).os_index = static_cast<int>(*dev);
    for (const pugi::xml_node& link : gpu.children()) {
      const std::string_view what = link.name();
      if (what == "nvlink" || what == "xgmi") {
        const auto count = parse_integer(link.attribute("count").as_string("1"));
        if (!count || *count < 0 || *count > kLimitLinks) {
          note("{}: count \"{}\" is no number of links, left out", file_.where(link), link.attribute("count").value());
          continue;
        }
        if (*count == 0) continue;
        reports_.push_back({node, usual_bus_id(lower(link.attribute("target").value())),
                            hex_digits(link.attribute("tclass").value()), static_cast<int>(*count), what == "xgmi",
                            file_.where(link)});
      } else if (what == "c2c") {
        add_c2c(link, node);
      } else if (link.type() == pugi::node_element) {
        note("{}: not known here, skipped", file_.where(link));
      }
    }
  }

  void add_c2c(const pugi::xml_node& link, int gpu) {
    const auto megabytes = parse_real(link.attribute("bw").value());
    const auto count = parse_integer(link.attribute("count").as_string("1"));
    if (!megabytes || !count || *megabytes <= 0 || *count < 1 || *count > kLimitLinks || *megabytes > 1e8) {
      note("{}: bw \"{}\" x count \"{}\" is no link, left out", file_.where(link), link.attribute("bw").value(),
           link.attribute("count").value());
      return;
    }
    at(gpu).set("c2c_bw", link.attribute("bw").value());
    const int numa = graph_.ancestor(gpu, NodeKind::kNuma);
    const double rate = *megabytes * 1e6 * static_cast<double>(*count);
    graph_.edges.push_back({EdgeKind::kC2c, numa, gpu, static_cast<int>(*count), {rate, Origin::kReported}, 0});
  }

  // ---- Ports

  // The <net>s of one card. Their text is kept as it is, so that a file can be written back.
  void add_ports(const pugi::xml_node& nic, int node) {
    double megabits = 0;
    bool known = false;
    int ports = 0;
    std::vector<std::string> names;
    for (const pugi::xml_node& net : nic.children("net")) {
      const double speed = parse_real(net.attribute("speed").value()).value_or(0);
      known |= speed > 0 && speed < 1e8;
      megabits += speed > 0 && speed < 1e8 ? speed : 10000;
      names.emplace_back(net.attribute("name").value());
      describe_port(net, node, ports++);
    }
    if (ports == 0) return;
    // What sockets report of interfaces that know no speed, and of wireless ones, is a default.
    at(node).set(at(node).get("sockets") == "1" ? "netdev" : "rdma", join(names, ","));
    const bool believed = known && !is_wireless(at(node));
    at(node).rate = {megabits / 8 * 1e6, believed ? Origin::kReported : Origin::kNominal};
    if (!known) assume(nic, "no speed of a port is known, taken as 10 Gbit/s");
  }

  void describe_port(const pugi::xml_node& net, int node, int port) {
    std::string text;
    for (const pugi::xml_attribute& attribute : net.attributes())
      text += format("{}{}={}", text.empty() ? "" : "\n", attribute.name(), attribute.value());
    at(node).set(format("net{}", port), std::move(text));
    if (port != 0) return;
    if (const auto dev = parse_integer(net.attribute("dev").value()); dev && *dev >= 0 && *dev < kLimitNodes)
      at(node).os_index = static_cast<int>(*dev);
    keep(node, net, {"guid", "coll"});
    at(node).set("net_gdr", net.attribute("gdr").value());
    // NCCL's own socket transport calls every interface so; verbs ports begin at 1.
    const bool sockets = parse_integer(net.attribute("port").value()).value_or(1) == 0 &&
                         parse_integer(net.attribute("gdr").value()).value_or(1) == 0;
    if (sockets) at(node).set("sockets", "1");
  }

  // A <nic> on no PCI device: interfaces that a kernel made up, or whose device is hidden. Repeated ones come later.
  Status add_loose_nets(const pugi::xml_node& nic, int parent) {
    if (graph_.nodes[static_cast<std::size_t>(parent)].kind == NodeKind::kPciSwitch)
      note("{}: on a switch and on no device", file_.where(nic));
    for (const pugi::xml_node& net : nic.children("net")) {
      const int host = host_above(parent);
      const auto key =
          std::make_tuple(host, std::string(net.attribute("name").value()), std::string(net.attribute("dev").value()));
      if (const auto known = loose_.find(key); known != loose_.end()) {
        repeated_.insert(known->second);
        continue;
      }
      HOCKET_ASSIGN(const int node, add(NodeKind::kNic, parent, net));
      loose_[key] = node;
      at(node).name = net.attribute("name").value();
      describe_port(net, node, 0);
      at(node).set(at(node).get("sockets") == "1" ? "netdev" : "rdma", net.attribute("name").value());
      const double speed = parse_real(net.attribute("speed").value()).value_or(0);
      const bool stated = speed > 0 && speed < 1e8 && speed != 10000;  // 10000 is what made-up interfaces say
      at(node).rate = {(stated ? speed : 10000) / 8 * 1e6, stated ? Origin::kReported : Origin::kNominal};
    }
    return {};
  }

  void place_repeated_nets() {
    for (const int node : repeated_) at(node).parent = host_above(node);
  }

  const XmlFile& file_;
  std::string name_;
  Graph graph_;
  std::map<std::string, int> hosts_;
  std::vector<int> numas_;
  BusIds by_bus_;
  std::map<std::tuple<int, std::string, std::string>, int> loose_;  // host, name, dev
  std::set<int> repeated_;
  std::vector<LinkReport> reports_;
  std::map<std::string, std::string> first_place_;
  std::map<std::string, int> assumed_;
};

}  // namespace

Result<Graph> graph_from_nccl_text(std::string text, const std::string& name) {
  // A part that somebody copied out: its elements stand for a system of their own.
  const bool part = text.find("<system") == std::string::npos && text.find("<cpu ") != std::string::npos;
  if (part) text = "<system>" + text + "</system>";
  XmlFile file;
  HOCKET_TRY(file.parse(std::move(text), name, "system"));
  const std::string version = file.root().attribute("version").value();
  HOCKET_ASSIGN(Graph graph, Builder(file, name).build());
  if (part) graph.notes.push_back(name + ": a part of a file, without <system>");
  if (!version.empty() && version != "1" && version != "2")
    graph.notes.push_back(format("{}: version {}; versions 1 (NCCL) and 2 (RCCL) are known", name, version));
  return graph;
}

Result<Graph> graph_from_nccl_xml(const std::string& path) {
  HOCKET_ASSIGN(std::string text, read_small_file(path, XmlFile::kLimitBytes));
  return graph_from_nccl_text(std::move(text), path);
}

}  // namespace hocket::topo
