// SPDX-License-Identifier: Apache-2.0
// topo/nccl_graph.cpp: see nccl_graph.hpp.
#include "topo/nccl_graph.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>

#include "base/status.hpp"
#include "topo/xml.hpp"

namespace hocket::topo {

namespace {

constexpr std::size_t kLimitChannels = 1024;
constexpr std::size_t kLimitDevices = 4096;

Result<NcclDevice> device_of(const XmlFile& file, const pugi::xml_node& element) {
  const auto value = parse_integer(element.attribute("dev").value());
  if (!value || *value < 0)
    return error(Code::kInvalidArgument, "{}: dev \"{}\" is no number of a device", file.where(element),
                 element.attribute("dev").value());
  constexpr int kHostBit = 56;
  const long long dev = *value & ((1LL << kHostBit) - 1);
  if (dev > 1 << 20)
    return error(Code::kInvalidArgument, "{}: dev {} is no number of a device", file.where(element), dev);
  return NcclDevice{static_cast<int>(*value >> kHostBit), static_cast<int>(dev)};
}

Result<NcclChannel> channel_of(const XmlFile& file, const pugi::xml_node& element) {
  NcclChannel channel;
  for (const pugi::xml_node& child : element.children()) {
    const std::string_view what = child.name();
    if (what != "gpu" && what != "net") continue;
    HOCKET_ASSIGN(const NcclDevice device, device_of(file, child));
    (what == "gpu" ? channel.gpus : channel.nets).push_back(device);
    if (channel.gpus.size() + channel.nets.size() > kLimitDevices)
      return error(Code::kInvalidArgument, "{}: more than {} devices", file.where(element), kLimitDevices);
  }
  return channel;
}

Result<NcclGraph> graph_of(const XmlFile& file, const pugi::xml_node& element) {
  NcclGraph graph;
  const auto id = parse_integer(element.attribute("id").value());
  if (!id || *id < 0 || *id > 16)
    return error(Code::kInvalidArgument, "{}: id \"{}\" is no graph", file.where(element),
                 element.attribute("id").value());
  graph.id = static_cast<int>(*id);
  graph.pattern = static_cast<int>(parse_integer(element.attribute("pattern").value()).value_or(0) & 0xff);
  // Older releases wrote one speed.
  const std::string_view one = element.attribute("speed").as_string("0");
  const auto speed = [&](const char* key) {
    const double value = parse_real(element.attribute(key).as_string(std::string(one).c_str())).value_or(0);
    return value > 0 && value < 1e6 ? value * 1e9 : 0;
  };
  graph.intra_bytes_per_second = speed("speedintra");
  graph.inter_bytes_per_second = speed("speedinter");
  graph.type_intra = element.attribute("typeintra").value();
  graph.type_inter = element.attribute("typeinter").value();
  for (const pugi::xml_node& child : element.children("channel")) {
    if (graph.channels.size() >= kLimitChannels)
      return error(Code::kInvalidArgument, "{}: more than {} channels", file.where(element), kLimitChannels);
    HOCKET_ASSIGN(NcclChannel channel, channel_of(file, child));
    graph.channels.push_back(std::move(channel));
  }
  const auto stated = parse_integer(element.attribute("nchannels").value());
  if (stated && *stated != static_cast<long long>(graph.channels.size()))
    return error(Code::kInvalidArgument, "{}: nchannels is {} and there are {} channels", file.where(element), *stated,
                 graph.channels.size());
  return graph;
}

// Numbers as NCCL writes them.
std::string dev_text(const Graph& graph, int node) {
  const Node& device = graph.nodes[static_cast<std::size_t>(node)];
  const int dev = device.os_index >= 0 ? device.os_index : device.index;
  const int host = graph.ancestor(node, NodeKind::kHost);
  const auto host_index = static_cast<unsigned long long>(graph.nodes[static_cast<std::size_t>(host)].index);
  const unsigned long long value = host_index << 56 | static_cast<unsigned>(dev);
  return value == 0 ? "0" : format("0x{:x}", value);
}

struct Chain {
  std::vector<int> gpus;
  double rate = 0;
};

std::string graph_text(const Paths& paths, int id, int pattern, const std::vector<Chain>& chains, const NicPlan& nics) {
  const Graph& graph = paths.graph();
  std::map<int, int> nic_of;
  for (const NicOfGpu& of_gpu : nics.gpus) nic_of[of_gpu.gpu] = of_gpu.chosen;
  PathType intra = PathType::kLoc;
  PathType inter = PathType::kLoc;
  for (const Chain& chain : chains) {
    for (std::size_t i = 0; i + 1 < chain.gpus.size(); ++i)
      intra = std::max(intra, paths.between(chain.gpus[i], chain.gpus[i + 1]).type);
    for (const int end : {chain.gpus.front(), chain.gpus.back()}) {
      if (nic_of.contains(end) && nic_of[end] >= 0) inter = std::max(inter, paths.between(end, nic_of[end]).type);
    }
  }
  const double rate = chains.empty() ? 0 : chains[0].rate / 1e9;
  std::string out = format(
      "  <graph id=\"{}\" pattern=\"{}\" crossnic=\"0\" nchannels=\"{}\" speedintra=\"{:.6g}\" "
      "speedinter=\"{:.6g}\" latencyinter=\"0\" typeintra=\"{}\" typeinter=\"{}\" "
      "samechannels=\"0\"{}>\n",
      id, pattern, chains.size(), rate, rate, to_string(intra), inter == PathType::kLoc ? "PIX" : to_string(inter),
      chains.empty() ? "/" : "");
  for (const Chain& chain : chains) {
    out += "    <channel>\n";
    const auto net = [&](int gpu) {
      if (nic_of.contains(gpu) && nic_of[gpu] >= 0)
        out += format("      <net dev=\"{}\"/>\n", dev_text(graph, nic_of[gpu]));
    };
    net(chain.gpus.front());
    for (const int gpu : chain.gpus) out += format("      <gpu dev=\"{}\"/>\n", dev_text(graph, gpu));
    net(chain.gpus.back());
    out += "    </channel>\n";
  }
  return chains.empty() ? out : out + "  </graph>\n";
}

std::vector<int> cut_at_farthest(const Paths& paths, std::vector<int> ring) {
  std::size_t begin = 0;
  PathType farthest = PathType::kLoc;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const PathType type = paths.between(ring[i], ring[(i + 1) % ring.size()]).type;
    if (type <= farthest) continue;
    farthest = type;
    begin = (i + 1) % ring.size();
  }
  std::rotate(ring.begin(), ring.begin() + static_cast<std::ptrdiff_t>(begin), ring.end());
  return ring;
}

}  // namespace

Result<std::vector<NcclGraph>> parse_nccl_graphs(std::string text, const std::string& name) {
  XmlFile file;
  HOCKET_TRY(file.parse(std::move(text), name, "graphs"));
  std::vector<NcclGraph> graphs;
  for (const pugi::xml_node& element : file.root().children("graph")) {
    if (graphs.size() > 16) return error(Code::kInvalidArgument, "{}: too many graphs", file.where(element));
    HOCKET_ASSIGN(NcclGraph graph, graph_of(file, element));
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

std::string to_nccl_graph_xml(const Paths& paths, const SearchResult& result, const NicPlan& nics) {
  std::vector<Chain> rings;
  std::vector<Chain> trees;
  for (const Ring& ring : result.machine.rings) rings.push_back({ring.gpus, ring.bytes_per_second});
  // NCCL's trees are chains inside a host.
  for (const Ring& ring : result.machine.rings)
    trees.push_back({cut_at_farthest(paths, ring.gpus), ring.bytes_per_second});
  constexpr int kRingPattern = 4;
  constexpr int kTreePattern = 3;
  return "<graphs version=\"1\">\n" + graph_text(paths, 0, kRingPattern, rings, nics) +
         graph_text(paths, 1, kTreePattern, trees, nics) + "</graphs>\n";
}

Status dump_nccl_graph(const Graph& machine, const std::string& path) {
  const Paths paths(machine);
  const std::string text = to_nccl_graph_xml(paths, search(paths), plan_nics(paths));
  std::FILE* file = std::fopen(path.c_str(), "we");
  const bool written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int number = errno;
  if ((file && std::fclose(file) != 0) || !written)
    return system_error(Code::kSystem, number, "the graph can't be written to {} (HOCKET_GRAPH_DUMP_FILE)", path);
  return {};
}

}  // namespace hocket::topo
