// SPDX-License-Identifier: Apache-2.0
// topo/graph_text.cpp: a Graph for people (an indented tree) and for programs (JSON).
#include <cmath>

#include "base/status.hpp"
#include "topo/graph.hpp"

namespace hocket::topo {

std::string bytes_to_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes == 0) return "unknown";
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024; ++unit) value /= 1024;
  return std::floor(value) == value ? format("{:.0f} {}", value, kUnits[unit])
                                    : format("{:.1f} {}", value, kUnits[unit]);
}

std::string rate_to_text(const Rate& rate) {
  if (!rate.known()) return "unknown";
  return format("{:.3g} GB/s", rate.bytes_per_second / 1e9);
}

namespace {

// The length of the valid UTF-8 sequence at `text`, 0 if there is none (overlong forms and surrogates are not valid).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&text](std::size_t i) -> unsigned { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xc2 ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (lead == 0xe0 && byte(1) < 0xa0) return 0;
  if (lead == 0xed && byte(1) > 0x9f) return 0;
  if (lead == 0xf0 && byte(1) < 0x90) return 0;
  if (lead == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const char c = text[0];
    std::size_t taken = 1;
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\r': out += "\\r"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          out += format("\\u{:04x}", static_cast<unsigned>(c));
        } else if (const std::size_t length = utf8_length(text); length > 0) {
          out += text.substr(0, length);
          taken = length;
        } else {
          out += "\\ufffd";
        }
    }
    text.remove_prefix(taken);
  }
  return out + '"';
}

namespace {

// Text that came from a file or the kernel, made safe for a terminal.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out;
}

std::string cpus_text(const CpuSet& cpus) {
  if (cpus.empty()) return "no CPU";
  return format("{} {}", cpus.count() == 1 ? "CPU" : "CPUs", cpus.to_string());
}

// Cores that look alike are one line: a machine has hundreds.
bool alike(const Node& a, const Node& b) {
  return a.kind == NodeKind::kCore && b.kind == NodeKind::kCore && a.parent == b.parent && a.bytes == b.bytes &&
         a.cpus.count() == b.cpus.count() && a.attributes == b.attributes;
}

// GPUs by the driver's number, which people know; all else, and GPUs without one, by its place.
int number_of(const Node& node) {
  return node.kind == NodeKind::kGpu && node.os_index >= 0 ? node.os_index : node.index;
}

std::string device_text(const Graph& graph, int at, std::string_view word) {
  const Node& node = graph.nodes[static_cast<std::size_t>(at)];
  std::string line = format("{} {}", word, number_of(node));
  for (const std::string_view part :
       {std::string_view(node.name), node.get("rdma"), node.get("netdev"), node.get("devices"), node.get("model")}) {
    if (!part.empty()) line += "  " + printable(part);
  }
  if (node.kind == NodeKind::kNic) line += "  port " + rate_to_text(node.rate);
  for (const Edge& edge : graph.edges) {
    if (edge.kind == EdgeKind::kPcie && edge.to == at)
      line += format("  PCIe {}{}", rate_to_text(edge.rate), edge.rate.known() ? " each way" : "");
  }
  return line;
}

std::string node_text(const Graph& graph, int at, int same) {
  const Node& node = graph.nodes[static_cast<std::size_t>(at)];
  switch (node.kind) {
    case NodeKind::kHost: {
      std::string line = format("host {}", node.index);
      if (!node.name.empty()) line += "  " + printable(node.name);
      if (!node.get("model").empty()) line += "  " + printable(node.get("model"));
      return line;
    }
    case NodeKind::kPackage: {
      std::string line = format("package {}", node.index);
      if (!node.get("model").empty()) line += "  " + printable(node.get("model"));
      return line + "  " + cpus_text(node.cpus);
    }
    case NodeKind::kNuma: {
      const int number = node.os_index >= 0 ? node.os_index : node.index;
      std::string line = format("NUMA {}  memory {}", number, bytes_to_text(node.bytes));
      if (node.cpus.empty())
        line += node.get("subtype").empty() ? "  memory only" : "  " + printable(node.get("subtype"));
      return node.cpus.empty() ? line : line + "  " + cpus_text(node.cpus);
    }
    case NodeKind::kL3: return format("L3 {}  {}  {}", node.index, bytes_to_text(node.bytes), cpus_text(node.cpus));
    case NodeKind::kCore: {
      CpuSet all;
      for (int i = at; i < at + same; ++i) all = all | graph.nodes[static_cast<std::size_t>(i)].cpus;
      std::string line =
          same == 1 ? format("core {}", node.index) : format("cores {}-{}", node.index, node.index + same - 1);
      line += "  " + cpus_text(all);
      if (node.cpus.count() > 1) line += format("  {} threads each", node.cpus.count());
      line += format("  L2 {}", bytes_to_text(node.bytes));
      if (!node.get("l2_cores").empty()) line += format(" each ({} share one)", node.get("l2_cores"));
      return line;
    }
    case NodeKind::kHostBridge: return format("host bridge {}  {}", node.index, printable(node.name));
    case NodeKind::kPciSwitch: return device_text(graph, at, "PCI switch");
    case NodeKind::kGpu: return device_text(graph, at, "GPU");
    case NodeKind::kNic: return device_text(graph, at, "NIC");
    case NodeKind::kNvSwitch: return device_text(graph, at, "NVSwitch");
    case NodeKind::kPciDevice: return device_text(graph, at, "PCI device");
  }
  return "?";
}

std::string short_name(const Graph& graph, int at) {
  const Node& node = graph.nodes[static_cast<std::size_t>(at)];
  return format("{} {}", to_string(node.kind), number_of(node));
}

}  // namespace

std::string Graph::to_text() const {
  std::string out = format("source  {}\n", printable(source));
  if (!host_id.empty()) out += format("host id  {}\n", printable(host_id));
  if (cpus.allowed.empty() && cpus.online.empty()) {
    out += "CPUs  unknown: the source does not tell of them\n";
  } else {
    out += format("CPUs  {} allowed ({})", cpus.allowed.count(), cpus.allowed.to_string());
    out += cpus.online.empty() ? ", online unknown"
                               : format(" of {} online ({})", cpus.online.count(), cpus.online.to_string());
    out += cpus.quota_cpus > 0 ? format(", cgroup quota {:.2f} CPUs\n", cpus.quota_cpus) : ", no cgroup quota\n";
  }

  std::vector<int> depth(nodes.size(), 0);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].parent >= 0) depth[i] = depth[static_cast<std::size_t>(nodes[i].parent)] + 1;
    std::size_t same = 1;
    while (i + same < nodes.size() && alike(nodes[i], nodes[i + same])) ++same;
    out.append(static_cast<std::size_t>(depth[i]) * 2, ' ');
    out += node_text(*this, static_cast<int>(i), static_cast<int>(same)) + '\n';
    for (std::size_t k = 1; k < same; ++k) depth[i + k] = depth[i];
    i += same - 1;
  }
  // A switch has dozens of links: those of one node that look alike are one line.
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    if (edge.kind == EdgeKind::kPcie || edge.kind == EdgeKind::kMemory || edge.kind == EdgeKind::kSocket) continue;
    out += format("{}  {} - {}", to_string(edge.kind), short_name(*this, edge.from), short_name(*this, edge.to));
    std::size_t same = 1;
    for (; i + same < edges.size(); ++same) {
      const Edge& next = edges[i + same];
      const auto target = [this](const Edge& e) -> const Node& { return nodes[static_cast<std::size_t>(e.to)]; };
      if (next.kind != edge.kind || next.from != edge.from || next.links != edge.links || next.rate != edge.rate ||
          target(next).kind != target(edge).kind)
        break;
      out += format(", {}", number_of(target(next)));
    }
    if (edge.links > 1) out += format("  {} links", edge.links);
    out += format("  {}{}\n", rate_to_text(edge.rate), same > 1 ? " each" : "");
    i += same - 1;
  }
  for (const std::string& note : notes) out += format("note  {}\n", printable(note));
  return out;
}

namespace {

std::string rate_json(const Rate& rate) {
  if (!rate.known()) return "null";
  return format("{{\"bytes_per_second\":{},\"origin\":\"{}\"}}", rate.bytes_per_second, to_string(rate.origin));
}

std::string number_or_null(std::uint64_t value) {
  return value == 0 ? "null" : format("{}", value);
}

}  // namespace

std::string Graph::to_json() const {
  std::string out = format("{{\"host_id\":{},\"source\":{},\"digest\":\"{:016x}\",", json_string(host_id),
                           json_string(source), digest());
  out += format("\"cpus\":{{\"allowed\":\"{}\",\"allowed_count\":{},\"online\":\"{}\",\"quota\":{},\"usable\":{}}},",
                cpus.allowed.to_string(), cpus.allowed.count(), cpus.online.to_string(),
                cpus.quota_cpus > 0 ? format("{}", cpus.quota_cpus) : "null", cpus.usable_cpus());
  out += "\"nodes\":[";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    out +=
        format("{}\n{{\"id\":{},\"kind\":\"{}\",\"index\":{},\"parent\":{},\"os_index\":{},\"name\":{}", i ? "," : "",
               i, to_string(node.kind), node.index, node.parent < 0 ? "null" : format("{}", node.parent),
               node.os_index < 0 ? "null" : format("{}", node.os_index), json_string(node.name));
    out += format(",\"cpus\":\"{}\",\"bytes\":{},\"rate\":{},\"attributes\":{{", node.cpus.to_string(),
                  number_or_null(node.bytes), rate_json(node.rate));
    for (std::size_t k = 0; k < node.attributes.size(); ++k) {
      out += format("{}{}:{}", k ? "," : "", json_string(node.attributes[k].first),
                    json_string(node.attributes[k].second));
    }
    out += "}}";
  }
  out += "],\n\"edges\":[";
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    out += format("{}\n{{\"kind\":\"{}\",\"from\":{},\"to\":{},\"links\":{},\"rate\":{},\"latency_seconds\":{}}}",
                  i ? "," : "", to_string(edge.kind), edge.from, edge.to, edge.links, rate_json(edge.rate),
                  edge.latency_seconds > 0 ? format("{}", edge.latency_seconds) : "null");
  }
  out += "],\n\"notes\":[";
  for (std::size_t i = 0; i < notes.size(); ++i) out += format("{}{}", i ? "," : "", json_string(notes[i]));
  return out + "]}\n";
}

}  // namespace hocket::topo
