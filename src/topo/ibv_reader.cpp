// SPDX-License-Identifier: Apache-2.0
// topo/ibv_reader.cpp: see ibv_reader.hpp.
#include "topo/ibv_reader.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <tuple>

#include "base/status.hpp"
#include "topo/paste.hpp"
#include "topo/words.hpp"

namespace hocket::topo {

namespace {

constexpr std::size_t kLimitDevices = 4096;

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

// All 16 bytes in hexadecimal, as show_gids writes it; "" for what is no address.
std::string full_address(std::string_view text) {
  std::array<unsigned char, 16> bytes{};
  if (::inet_pton(AF_INET6, std::string(text).c_str(), bytes.data()) != 1) return {};
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) out += format("{}{:02x}", i > 0 && i % 2 == 0 ? ":" : "", bytes[i]);
  return out;
}

class Builder {
 public:
  explicit Builder(const std::string& name) : name_(name) {
    graph_.add(NodeKind::kHost, -1);
    graph_.source = "verbs listing " + name;
  }

  Result<Graph> devinfo(std::string_view text) {
    each_line(text, [this](int line, std::string_view content) {
      if (gid_of_port(content)) return;
      const std::vector<std::string_view> tokens = words_of(content);
      if (tokens.size() >= 2 && !foreign_line(line, tokens)) devinfo_line(line, tokens);
    });
    note_no_port();
    choose_gids();
    return finish();
  }

  Result<Graph> gids(std::string_view text) {
    each_line(text, [this](int line, std::string_view content) { gid_line(line, words_of(content)); });
    choose_gids();
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
    const std::string_view key = tokens[0];
    if (key == "hca_id:") {
      note_no_port();
      device_ = tokens[1];
      device_line_ = line;
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

  // What other tools print of the same devices; nothing if the line is none of theirs.
  //   ibdev2netdev  mlx5_0 port 1 ==> ib0 (Up)
  //   rdma link     link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1f0
  //   ibstat        CA 'mlx5_0' / Port 1: / State: Active / Rate: 200 / Link layer: InfiniBand
  bool foreign_line(int line, const std::vector<std::string_view>& tokens) {
    if (tokens.size() >= 5 && tokens[1] == "port" && tokens[3] == "==>") {
      const int port = nic(tokens[0], tokens[2]);
      if (port < 0) return true;
      at(port).set("netdev", std::string(tokens[4]));
      if (tokens.size() > 5) at(port).set("state", tokens[5] == "(Up)" ? "active" : "down");
      return true;
    }
    const auto slash = tokens.size() >= 4 && tokens[0] == "link" ? tokens[1].find('/') : std::string_view::npos;
    if (slash != std::string_view::npos) {
      const int port = nic(tokens[1].substr(0, slash), tokens[1].substr(slash + 1));
      for (std::size_t i = 2; port >= 0 && i + 1 < tokens.size(); ++i) {
        if (tokens[i] == "state") at(port).set("state", tokens[i + 1] == "ACTIVE" ? "active" : "down");
        if (tokens[i] == "netdev") at(port).set("netdev", std::string(tokens[i + 1]));
      }
      return true;
    }
    if (tokens.size() == 2 && tokens[0] == "CA" && tokens[1].size() > 2 && tokens[1].front() == '\'') {
      note_no_port();
      device_ = tokens[1].substr(1, tokens[1].size() - 2);
      device_line_ = line;
      device_values_.clear();
      port_ = -1;
      return true;
    }
    if (device_.empty()) return false;
    if (tokens.size() == 2 && tokens[0] == "Port" && tokens[1].ends_with(':')) {
      port_ = nic(device_, tokens[1].substr(0, tokens[1].size() - 1));
      return true;
    }
    if (port_ < 0) return false;
    if (tokens[0] == "State:") {
      at(port_).set("state", tokens[1] == "Active" ? "active" : "down");
    } else if (tokens[0] == "Rate:") {
      const int gigabits = number_in(tokens[1]).value_or(0);
      if (gigabits > 0 && gigabits <= 10'000) at(port_).rate = {gigabits / 8.0 * 1e9, Origin::kReported};
    } else if (tokens.size() > 2 && tokens[0] == "Link" && tokens[1] == "layer:") {
      at(port_).set("link_layer", std::string(tokens[2]));
    } else {
      return false;
    }
    return true;
  }

  // "GID[  3]:   ::ffff:10.0.0.1, RoCE v2", of ibv_devinfo -v. False for other lines.
  bool gid_of_port(std::string_view text) {
    text = trimmed(text);
    const auto close = text.find(']');
    if (port_ < 0 || !text.starts_with("GID[") || close == std::string_view::npos || close + 2 > text.size())
      return false;
    Gid gid;
    gid.index = number_in(trimmed(text.substr(4, close - 4))).value_or(-1);
    text = trimmed(text.substr(close + 2));
    const auto comma = std::min(text.find(','), text.size());
    gid.address = full_address(text.substr(0, comma));
    const std::string_view type = text.substr(comma);
    if (gid.index < 0 || gid.address.empty() || type.find("RoCE") == std::string_view::npos) return true;
    gid.roce_version = type.find("v2") != std::string_view::npos ? 2 : 1;
    describe_address(&gid);
    tables_[port_].push_back(std::move(gid));
    return true;
  }

  void choose_gids() {
    for (auto& [nic, table] : tables_) {
      const int best = best_gid(table);
      if (best < 0) continue;
      const auto row = std::find_if(table.begin(), table.end(), [best](const Gid& gid) { return gid.index == best; });
      at(nic).set("gid_index", format("{}", best));
      at(nic).set("gid_version", format("{}", row->roce_version));
      at(nic).set("gid", row->address);
      at(nic).set("gid_scope", row->ipv4 ? "ipv4" : row->local ? "local" : "global");
    }
  }

  void note_no_port() {
    if (!device_.empty() && port_ < 0 && !full_)
      graph_.notes.push_back(format("{}:{}: no port of {}: the text was cut, or the device has none; left out", name_,
                                    device_line_, device_));
    device_.clear();
  }

  // "4X" lanes of "25.0" Gbit/s each, which only ibv_devinfo -v tells.
  void add_rate() {
    Node& port = at(port_);
    const int lanes = number_in(port.get("width").substr(0, port.get("width").find('X'))).value_or(0);
    const double gigabits = std::strtod(std::string(port.get("speed")).c_str(), nullptr);
    if (lanes < 1 || lanes > 16 || !(gigabits > 0) || gigabits > 1000) return;
    port.rate = {lanes * gigabits / 8 * 1e9, Origin::kReported};
  }

  // DEV PORT INDEX GID [IPv4] VER NETDEV
  void gid_line(int line, const std::vector<std::string_view>& tokens) {
    constexpr std::string_view kFound = "n_gids_found=";
    if (!tokens.empty() && tokens[0].starts_with(kFound)) {
      if (const auto found = number_in(tokens[0].substr(kFound.size())); found && *found != rows_)
        graph_.notes.push_back(format("{}:{}: {} rows of {}: the table was cut, so a better GID may be missing", name_,
                                      line, rows_, *found));
      return;
    }
    if (tokens.size() < 5 || tokens[0] == "DEV" || tokens[0].starts_with("---")) return;
    Gid gid;
    gid.index = number_in(tokens[2]).value_or(-1);
    gid.address = full_address(tokens[3]);
    const auto version = std::find_if(tokens.begin() + 4, tokens.end(),
                                      [](std::string_view word) { return word == "v1" || word == "v2"; });
    if (gid.index < 0 || version == tokens.end() || gid.address.empty()) {
      graph_.notes.push_back(format("{}:{}: no row of a GID table, skipped", name_, line));
      return;
    }
    const int node = nic(tokens[0], tokens[1]);
    if (node < 0) return;
    gid.roce_version = *version == "v2" ? 2 : 1;
    describe_address(&gid);
    tables_[node].push_back(std::move(gid));
    ++rows_;
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
  int device_line_ = 0;
  int port_ = -1;
  int rows_ = 0;
  bool full_ = false;
};

bool is_gid_table(std::string_view text) {
  return text.find("PORT\tINDEX") != std::string_view::npos || text.find("INDEX") < text.find("GID");
}

}  // namespace

namespace {

// ibv_devinfo, and what says the same in other words.
bool is_device_list(std::string_view text) {
  const auto has = [text](std::string_view part) { return text.find(part) != std::string_view::npos; };
  return has("hca_id:") || (has(" port ") && has(" ==> ")) || (has("CA '") && has("Port ")) ||
         (has("link ") && has("physical_state"));
}

}  // namespace

bool looks_like_ibv(std::string_view text) {
  return is_device_list(text) ||
         (text.find("GID") != std::string_view::npos && text.find("INDEX") != std::string_view::npos);
}

Result<Graph> graph_from_ibv_text(std::string_view text, const std::string& name) {
  const std::string clean = clean_paste(text.substr(0, 4 << 20));
  if (is_device_list(clean)) return Builder(name).devinfo(clean);
  if (is_gid_table(clean)) return Builder(name).gids(clean);
  return error(Code::kInvalidArgument, "{}: neither ibv_devinfo, ibstat, ibdev2netdev, rdma link nor show_gids", name);
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
