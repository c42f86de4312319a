// SPDX-License-Identifier: Apache-2.0
// topo/ibv_reader.cpp: see ibv_reader.hpp.
#include "topo/ibv_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <tuple>

#include "base/status.hpp"
#include "topo/smi_matrix.hpp"

namespace hocket::topo {

namespace {

constexpr std::size_t kLimitDevices = 4096;

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> out;
  while (true) {
    const auto begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return out;
    const auto end = std::min(line.find_first_of(" \t", begin), line.size());
    out.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

int number(std::string_view text, int otherwise) {
  int value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  return bad == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

// Calls line_of(number, text) for each line.
template <class Each>
void each_line(std::string_view text, Each each) {
  int line = 1;
  while (!text.empty()) {
    const auto end = text.find('\n');
    each(line++, text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

class Builder {
 public:
  explicit Builder(const std::string& name) : name_(name) {
    graph_.add(NodeKind::kHost, -1);
    graph_.source = "verbs listing " + name;
  }

  Result<Graph> devinfo(std::string_view text) {
    each_line(text, [this](int line, std::string_view content) { devinfo_line(line, words(content)); });
    return finish();
  }

  Result<Graph> gids(std::string_view text) {
    each_line(text, [this](int line, std::string_view content) { gid_line(line, words(content)); });
    for (auto& [nic, table] : tables_) {
      const int best = best_gid(table);
      if (best < 0) continue;
      const auto row = std::find_if(table.begin(), table.end(), [best](const Gid& gid) { return gid.index == best; });
      at(nic).set("gid_index", format("{}", best));
      at(nic).set("gid_version", format("{}", row->roce_version));
      at(nic).set("gid", row->address);
      at(nic).set("gid_scope", row->ipv4 ? "ipv4" : row->local ? "local" : "global");
    }
    find_odd_network();
    return finish();
  }

 private:
  Node& at(int node) { return graph_.nodes[static_cast<std::size_t>(node)]; }

  int nic(std::string_view device, std::string_view port) {
    const std::string key = format("{}/{}", device, port);
    const auto known = nics_.find(key);
    if (known != nics_.end()) return known->second;
    if (graph_.nodes.size() > kLimitDevices) return -1;
    const int node = graph_.add(NodeKind::kNic, 0);
    at(node).name = device;
    at(node).os_index = static_cast<int>(nics_.size());
    at(node).set("rdma", std::string(device));
    at(node).set("port", std::string(port));
    return nics_[key] = node;
  }

  void devinfo_line(int line, const std::vector<std::string_view>& tokens) {
    if (tokens.size() < 2) return;
    const std::string_view key = tokens[0];
    if (key == "hca_id:") {
      device_ = tokens[1];
      device_values_.clear();
      port_ = -1;
      return;
    }
    if (device_.empty()) return;
    if (key == "port:") {
      port_ = nic(device_, tokens[1]);
      if (port_ < 0) {
        if (!full_)
          graph_.notes.push_back(format("{}:{}: more than {} ports, the rest is skipped", name_, line, kLimitDevices));
        full_ = true;
        return;
      }
      for (const auto& [name, value] : device_values_) at(port_).set(name, value);
      return;
    }
    static const std::map<std::string_view, const char*> kDevice = {{"transport:", "transport"},
                                                                    {"sys_image_guid:", "guid"},
                                                                    {"vendor_id:", "vendor"},
                                                                    {"vendor_part_id:", "device"},
                                                                    {"fw_ver:", "firmware"}};
    if (const auto known = kDevice.find(key); known != kDevice.end()) {
      device_values_[known->second] = tokens[1];
    } else if (port_ >= 0 && key == "state:") {
      at(port_).set("state", tokens[1] == "PORT_ACTIVE" ? "active" : "down");
    } else if (port_ >= 0 && key == "link_layer:") {
      at(port_).set("link_layer", std::string(tokens[1]));
    } else if (port_ >= 0 && key == "active_width:") {
      at(port_).set("width", std::string(tokens[1]));
      add_rate();
    } else if (port_ >= 0 && key == "active_speed:") {
      at(port_).set("speed", std::string(tokens[1]));
      add_rate();
    } else if (port_ >= 0 && key == "active_mtu:") {
      at(port_).set("mtu", std::string(tokens[1]));
    }
  }

  // "4X" lanes of "25.0" Gbit/s each, which only ibv_devinfo -v tells.
  void add_rate() {
    Node& port = at(port_);
    const int lanes = number(port.get("width").substr(0, port.get("width").find('X')), 0);
    const double gigabits = std::strtod(std::string(port.get("speed")).c_str(), nullptr);
    if (lanes < 1 || lanes > 16 || !(gigabits > 0) || gigabits > 1000) return;
    port.rate = {lanes * gigabits / 8 * 1e9, Origin::kReported};
  }

  // DEV PORT INDEX GID [IPv4] VER NETDEV
  void gid_line(int line, const std::vector<std::string_view>& tokens) {
    if (tokens.size() < 5 || tokens[0] == "DEV" || tokens[0].starts_with("---")) return;
    Gid gid;
    gid.index = number(tokens[2], -1);
    gid.address = tokens[3];
    const auto version = std::find_if(tokens.begin() + 4, tokens.end(),
                                      [](std::string_view word) { return word == "v1" || word == "v2"; });
    if (gid.index < 0 || version == tokens.end() || std::count(tokens[3].begin(), tokens[3].end(), ':') != 7) {
      graph_.notes.push_back(format("{}:{}: no row of a GID table, skipped", name_, line));
      return;
    }
    const int node = nic(tokens[0], tokens[1]);
    if (node < 0) return;
    gid.roce_version = *version == "v2" ? 2 : 1;
    describe_address(&gid);
    tables_[node].push_back(std::move(gid));
    if (version + 1 != tokens.end()) at(node).set("netdev", std::string(*(version + 1)));
    at(node).set("link_layer", "Ethernet");
  }

  // Rails have addresses side by side; one card in another network than nearly all others serves something else.
  void find_odd_network() {
    constexpr std::size_t kPrefix = std::string_view("0000:0000:0000:0000:0000:ffff:0a00").size();
    std::map<std::string_view, std::vector<int>> networks;  // IPv4 /16
    std::size_t all = 0;
    for (const int nic : graph_.of_kind(NodeKind::kNic)) {
      if (at(nic).get("gid_scope") != "ipv4") continue;
      networks[at(nic).get("gid").substr(0, kPrefix)].push_back(nic);
      ++all;
    }
    for (const auto& [network, nics] : networks) {
      if (nics.size() != 1 || all < 4 || networks.size() != 2) continue;
      at(nics[0]).set("state", "other network");
      graph_.notes.push_back(format("{}: {} ({}) is in another network than the {} others, so it is no rail", name_,
                                    at(nics[0]).get("rdma"), at(nics[0]).get("netdev"), all - 1));
    }
  }

  Result<Graph> finish() {
    if (nics_.empty()) return error(Code::kInvalidArgument, "{}: no port of a device in it", name_);
    graph_.normalise();
    HOCKET_TRY(graph_.check());
    return std::move(graph_);
  }

  const std::string& name_;
  Graph graph_;
  std::map<std::string, int> nics_;
  std::map<int, std::vector<Gid>> tables_;
  std::string device_;
  std::map<std::string, std::string> device_values_;
  int port_ = -1;
  bool full_ = false;
};

bool is_gid_table(std::string_view text) {
  return text.find("PORT\tINDEX") != std::string_view::npos || text.find("INDEX") < text.find("GID");
}

}  // namespace

bool looks_like_ibv(std::string_view text) {
  return text.find("hca_id:") != std::string_view::npos ||
         (text.find("GID") != std::string_view::npos && text.find("INDEX") != std::string_view::npos);
}

Result<Graph> graph_from_ibv_text(std::string_view text, const std::string& name) {
  const std::string clean = clean_paste(text.substr(0, 4 << 20));
  if (clean.find("hca_id:") != std::string::npos) return Builder(name).devinfo(clean);
  if (is_gid_table(clean)) return Builder(name).gids(clean);
  return error(Code::kInvalidArgument, "{}: neither ibv_devinfo nor show_gids", name);
}

void describe_address(Gid* gid) {
  gid->local = gid->address.starts_with("fe80:");
  gid->ipv4 = gid->address.starts_with("0000:0000:0000:0000:0000:ffff:");
}

int best_gid(const std::vector<Gid>& table) {
  const auto rank = [](const Gid& gid) {
    const int scope = gid.ipv4 ? 0 : gid.local ? 2 : 1;
    return std::make_tuple(gid.roce_version == 2 ? 0 : 1, scope, gid.index);
  };
  const auto best =
      std::min_element(table.begin(), table.end(), [&rank](const Gid& a, const Gid& b) { return rank(a) < rank(b); });
  return best == table.end() ? -1 : best->index;
}

}  // namespace hocket::topo
