// SPDX-License-Identifier: Apache-2.0
// topo/nccl_writer.cpp: a Graph as NCCL's topology XML; see nccl_reader.hpp.
#include <algorithm>

#include "base/status.hpp"
#include "topo/nccl_reader.hpp"

namespace hocket::topo {

namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\n':
      case '\t':
      case '\r': out += ' '; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return out;
}

std::string attribute(std::string_view key, std::string_view value) {
  return format(" {}=\"{}\"", key, escaped(value));
}

// "0000ffff,ffffffff": 32-bit groups, highest first.
std::string mask_of(const CpuSet& cpus) {
  const int groups = std::max(cpus.last(), 0) / 32 + 1;
  std::string out;
  for (int group = groups - 1; group >= 0; --group) {
    std::uint32_t bits = 0;
    for (int i = 0; i < 32; ++i) {
      if (cpus.has(group * 32 + i)) bits |= 1u << i;
    }
    out += format("{}{:08x}", out.empty() ? "" : ",", bits);
  }
  return out;
}

class Writer {
 public:
  explicit Writer(const Graph& graph) : graph_(graph) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      rccl_ |= !node.get("gcn").empty();
      // What has no bus id (a matrix tells none) gets one that no device has.
      names_.push_back(node.name.empty() ? format("ffff:{:02x}:{:02x}.0", (i >> 5) & 0xff, i & 0x1f) : node.name);
    }
  }

  std::string text() {
    out_ = format("<system version=\"{}\">\n", rccl_ ? 2 : 1);
    for (const int host : graph_.of_kind(NodeKind::kHost)) {
      bool any = false;
      for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
        const Node& node = graph_.nodes[i];
        const int index = static_cast<int>(i);
        if (node.kind != NodeKind::kNuma || graph_.ancestor(index, NodeKind::kHost) != host) continue;
        if (node.cpus.empty() && graph_.children(index).empty() && any) continue;  // memory only
        cpu(index, host);
        any = true;
      }
      if (!any) cpu(-1, host);
    }
    return out_ + "</system>\n";
  }

 private:
  const Node& at(int node) const { return graph_.nodes[static_cast<std::size_t>(node)]; }
  const std::string& name(int node) const { return names_[static_cast<std::size_t>(node)]; }

  void line(int depth, std::string_view text) {
    out_.append(static_cast<std::size_t>(depth) * 2, ' ');
    out_ += text;
    out_ += '\n';
  }

  static std::string kept(const Node& node, std::initializer_list<const char*> keys, std::string_view prefix = "") {
    std::string text;
    for (const char* key : keys) {
      if (const std::string_view value = node.get(key); !value.empty())
        text += attribute(key, std::string(prefix) + std::string(value));
    }
    return text;
  }

  void cpu(int numa, int host) {
    std::string text = "<cpu" + kept(at(host), {"host_hash"});
    text += attribute("numaid", format("{}", numa < 0 ? -1 : at(numa).os_index));
    if (numa >= 0 && !at(numa).cpus.empty()) text += attribute("affinity", mask_of(at(numa).cpus));
    if (numa >= 0) text += kept(at(numa), {"arch", "vendor", "familyid", "modelid"});
    line(1, text + ">");
    // What hangs at the host itself is near to no domain: NCCL repeats it under each.
    for (const int child : graph_.children(host)) device(child, 2);
    if (numa >= 0) {
      for (int above = at(numa).parent; above >= 0 && at(above).kind != NodeKind::kHost; above = at(above).parent) {
        for (const int child : graph_.children(above)) device(child, 2);  // of a package with one domain
      }
      below(numa, 2);
    }
    line(1, "</cpu>");
  }

  void below(int node, int depth) {
    for (const int child : graph_.children(node)) {
      const NodeKind kind = at(child).kind;
      if (kind == NodeKind::kL3 || kind == NodeKind::kCore || kind == NodeKind::kPackage) {
        below(child, depth);
      } else {
        device(child, depth);
      }
    }
  }

  void device(int node, int depth) {
    switch (at(node).kind) {
      case NodeKind::kHostBridge: below(node, depth); return;
      case NodeKind::kPciSwitch: pci(node, depth, ""); return;
      case NodeKind::kGpu: pci(node, depth, "030200"); return;
      case NodeKind::kPciDevice: pci(node, depth, ""); return;
      case NodeKind::kNvSwitch:
        if (!at(node).get("class").empty()) pci(node, depth, "068000");
        return;
      case NodeKind::kNic:
        if (at(node).get("class").empty() && !at(node).get("net0").empty()) {
          line(depth, "<nic>");
          ports(node, depth + 1);
          line(depth, "</nic>");
        } else {
          pci(node, depth, "020000");
        }
        return;
      default: return;
    }
  }

  void pci(int node, int depth, std::string_view usual_class) {
    const Node& device = at(node);
    std::string code(device.get("class"));
    if (code.empty()) code = usual_class;
    if (code.size() == 4) code += "00";
    std::string text = "<pci" + attribute("busid", name(node));
    if (!code.empty()) text += attribute("class", "0x" + code);
    text += kept(device, {"vendor", "device", "subsystem_vendor", "subsystem_device"}, "0x");
    for (const char* key : {"link_speed", "link_width"}) {
      const auto known = std::find_if(device.attributes.begin(), device.attributes.end(),
                                      [key](const auto& attribute) { return attribute.first == key; });
      if (known != device.attributes.end()) text += attribute(key, known->second);
    }
    const std::size_t mark = out_.size();
    if (device.kind == NodeKind::kGpu && (!device.get("dev").empty() || has_links(node))) gpu(node, depth + 1);
    if (device.kind == NodeKind::kNic) {
      if (!device.get("net0").empty()) {
        line(depth + 1, "<nic>");
        ports(node, depth + 2);
        line(depth + 1, "</nic>");
      } else if (device.rate.known()) {
        const std::string_view port = device.get("rdma").empty() ? device.get("netdev") : device.get("rdma");
        line(depth + 1, format("<nic><net{} dev=\"{}\" speed=\"{:.0f}\" port=\"1\"/></nic>", attribute("name", port),
                               device.index, device.rate.bytes_per_second * 8 / 1e6));
      }
    }
    below(node, depth + 1);
    const bool empty = out_.size() == mark;
    std::string inside = out_.substr(mark);
    out_.resize(mark);
    line(depth, text + (empty ? "/>" : ">"));
    out_ += inside;
    if (!empty) line(depth, "</pci>");
  }

  bool has_links(int gpu) const {
    return std::any_of(graph_.edges.begin(), graph_.edges.end(), [gpu](const Edge& edge) {
      return (edge.kind == EdgeKind::kNvlink || edge.kind == EdgeKind::kC2c) && (edge.from == gpu || edge.to == gpu);
    });
  }

  void gpu(int node, int depth) {
    const Node& device = at(node);
    std::string text = "<gpu";
    text += device.get("dev").empty() ? attribute("dev", format("{}", device.index)) : kept(device, {"dev"});
    text += kept(device, {"sm", "gcn", "arch", "mlopart", "rank", "gdr"});
    if (!has_links(node)) {
      line(depth, text + "/>");
      return;
    }
    line(depth, text + ">");
    for (const Edge& edge : graph_.edges) {
      if (edge.from != node && edge.to != node) continue;
      const int other = edge.from == node ? edge.to : edge.from;
      if (edge.kind == EdgeKind::kC2c && !device.get("c2c_bw").empty()) {
        line(depth + 1, format("<c2c bw=\"{}\" count=\"{}\"/>", escaped(device.get("c2c_bw")), edge.links));
      } else if (edge.kind == EdgeKind::kC2c) {
        line(depth + 1, format("<nvlink target=\"ffff:fe:00.0\" count=\"{}\" tclass=\"0x068001\"/>", edge.links));
      } else if (edge.kind == EdgeKind::kNvlink) {
        std::string code(at(other).get("class"));
        if (code.empty()) code = at(other).kind == NodeKind::kNvSwitch ? "068000" : "030200";
        if (code.size() == 4) code += "00";
        line(depth + 1, format("<{}{} count=\"{}\" tclass=\"0x{}\"/>", rccl_ ? "xgmi" : "nvlink",
                               attribute("target", name(other)), edge.links, code));
      }
    }
    line(depth, "</gpu>");
  }

  void ports(int node, int depth) {
    for (int port = 0;; ++port) {
      std::string_view rest = at(node).get(format("net{}", port));
      if (rest.empty()) return;
      std::string text = "<net";
      while (!rest.empty()) {
        const std::string_view pair = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
        const std::size_t equals = pair.find('=');
        if (equals != std::string_view::npos) text += attribute(pair.substr(0, equals), pair.substr(equals + 1));
      }
      line(depth, text + "/>");
    }
  }

  const Graph& graph_;
  bool rccl_ = false;
  std::vector<std::string> names_;
  std::string out_;
};

}  // namespace

std::string to_nccl_xml(const Graph& graph) {
  return Writer(graph).text();
}

}  // namespace hocket::topo
