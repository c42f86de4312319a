// SPDX-License-Identifier: Apache-2.0
// topo/nccl_links.cpp: see nccl_links.hpp.
#include "topo/nccl_links.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/status.hpp"
#include "topo/link_speed.hpp"
#include "topo/words.hpp"

namespace hocket::topo {

namespace {

constexpr std::string_view kHiddenSwitch = "fffffff:ff:ff.0";

class Joiner {
 public:
  Joiner(const std::string& name, const BusIds& by_bus, Graph* graph) : name_(name), by_bus_(by_bus), graph_(*graph) {}

  void join(const std::vector<LinkReport>& reports) {
    for (const LinkReport& report : reports) asked_[report.target].insert(report.gpu);
    for (const LinkReport& report : reports) sort_in(report);
    for (const auto& [gpu, count] : lost_)
      note("{}: GPU {}: {} links lead to devices that are not in the file, left out", name_, at(gpu).name, count);
    for (const auto& [pair, counts] : peers_) {
      const auto [a, b] = pair;
      int links = std::min(counts[0], counts[1]);
      if (counts[0] != counts[1]) {
        if (links == 0) links = std::max(counts[0], counts[1]);
        note("{}: GPUs {} and {} report {} and {} links to each other, taken as {}", name_, at(a).name, at(b).name,
             counts[0], counts[1], links);
      }
      add_links(a, b, links);
    }
    for (const auto& [pair, links] : to_switch_) add_links(pair.first, pair.second, links);
    for (const auto& [gpu, links] : to_cpu_) {
      const int numa = graph_.ancestor(gpu, NodeKind::kNuma);
      const double rate = rate_of(gpu, false) * links;
      graph_.edges.push_back({EdgeKind::kC2c, numa, gpu, links, {rate, Origin::kNominal}, 0});
    }
  }

 private:
  Node& at(int node) { return graph_.nodes[static_cast<std::size_t>(node)]; }
  int host_above(int node) const { return graph_.ancestor(node, NodeKind::kHost); }

  template <class... Args>
  void note(fmt::format_string<Args...> text, Args&&... args) {
    constexpr std::size_t kMost = 100;
    if (graph_.notes.size() < kMost) graph_.notes.push_back(hocket::format(text, std::forward<Args>(args)...));
  }

  void sort_in(const LinkReport& report) {
    if (report.tclass.starts_with("068001")) {
      // Whatever the target: a CPU has no bus id, so files name some bridge of its.
      to_cpu_[report.gpu] += report.count;
      return;
    }
    if (report.target == at(report.gpu).name) {
      note("{}: a link to the GPU itself, left out", report.where);
      return;
    }
    const int host = host_above(report.gpu);
    const auto target = by_bus_.find({host, report.target});
    const int node = target == by_bus_.end() ? -1 : target->second;
    // A target that is no device of the file, and that several GPUs have without a word on what it is.
    const bool shared = report.tclass.empty() && asked_[report.target].size() > 1;
    if (node >= 0 && at(node).kind == NodeKind::kGpu) {
      const bool first = report.gpu < node;
      peers_[{std::min(report.gpu, node), std::max(report.gpu, node)}][first ? 0 : 1] += report.count;
    } else if (report.tclass.starts_with("0680") || report.target == kHiddenSwitch ||
               (node >= 0 ? at(node).kind == NodeKind::kNvSwitch : shared)) {
      to_switch_[{report.gpu, nvswitch(host, report.target)}] += report.count;
    } else {
      lost_[report.gpu] += report.count;
    }
  }

  double rate_of(int gpu, bool xgmi) {
    if (xgmi) return xgmi_bytes_per_second(at(gpu).get("gcn"));
    return nvlink_bytes_per_second(number_in(at(gpu).get("sm")).value_or(0) & 0xffff);
  }

  int nvswitch(int host, const std::string& bus) {
    const bool hidden = bus == kHiddenSwitch;
    const auto key = std::make_pair(hidden ? -1 : host, bus);
    const auto known = nvswitches_.find(key);
    if (known != nvswitches_.end()) return known->second;
    if (const auto device = by_bus_.find({host, bus});
        device != by_bus_.end() && device->second >= 0 && at(device->second).kind == NodeKind::kNvSwitch)
      return nvswitches_[key] = device->second;
    const int node = graph_.add(NodeKind::kNvSwitch, hidden ? 0 : host);
    at(node).name = bus;
    return nvswitches_[key] = node;
  }

  void add_links(int gpu, int other, int links) {
    const bool xgmi = !at(gpu).get("gcn").empty();
    if (xgmi) at(gpu).set("link", "xgmi");
    if (xgmi && at(other).kind == NodeKind::kGpu) at(other).set("link", "xgmi");
    graph_.edges.push_back({EdgeKind::kNvlink, gpu, other, links, {rate_of(gpu, xgmi) * links, Origin::kNominal}, 0});
  }

  const std::string& name_;
  const BusIds& by_bus_;
  Graph& graph_;
  std::map<std::string, std::set<int>> asked_;               // target: GPUs with links to it
  std::map<std::pair<int, int>, std::array<int, 2>> peers_;  // GPU pair, lower first: links that each end reports
  std::map<std::pair<int, int>, int> to_switch_;             // GPU, switch
  std::map<int, int> to_cpu_;
  std::map<int, int> lost_;
  std::map<std::pair<int, std::string>, int> nvswitches_;
};

}  // namespace

// domain:bus:device.function, where a domain may have more than the usual four digits.
bool is_bus_id(std::string_view text) {
  const auto take = [&text](std::size_t least, std::size_t most, char end) {
    std::size_t n = 0;
    while (n < text.size() && n < most && std::string_view("0123456789abcdef").find(text[n]) != std::string_view::npos)
      ++n;
    if (n < least) return false;
    if (end == '\0') return n == text.size();
    if (n >= text.size() || text[n] != end) return false;
    text.remove_prefix(n + 1);
    return true;
  };
  return take(1, 8, ':') && take(2, 2, ':') && take(2, 2, '.') && take(1, 1, '\0');
}

std::string usual_bus_id(std::string text) {
  if (is_bus_id("0000:" + text)) return "0000:" + text;
  if (!is_bus_id(text)) return text;
  std::size_t zeros = 0;
  while (text.find(':') - zeros > 4 && text[zeros] == '0') ++zeros;
  text.erase(0, zeros);
  if (const auto digits = text.find(':'); digits < 4) text.insert(0, 4 - digits, '0');
  return text;
}

void join_links(const std::string& name, const std::vector<LinkReport>& reports, const BusIds& by_bus, Graph* graph) {
  Joiner(name, by_bus, graph).join(reports);
}

}  // namespace hocket::topo
