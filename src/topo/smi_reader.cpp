// SPDX-License-Identifier: Apache-2.0
// topo/smi_reader.cpp: see smi_reader.hpp.
#include "topo/smi_reader.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/status.hpp"
#include "topo/amd_tables.hpp"
#include "topo/link_speed.hpp"
#include "topo/smi_matrix.hpp"
#include "topo/words.hpp"

namespace hocket::topo {

namespace {

// Sets of devices that are joined pair by pair.
class Groups {
 public:
  explicit Groups(std::size_t n) : up_(n) { std::iota(up_.begin(), up_.end(), std::size_t{0}); }
  std::size_t of(std::size_t i) {
    while (up_[i] != i) i = up_[i] = up_[up_[i]];
    return i;
  }
  void join(std::size_t a, std::size_t b) { up_[std::max(of(a), of(b))] = std::min(of(a), of(b)); }

 private:
  std::vector<std::size_t> up_;
};

using Members = std::vector<std::size_t>;

// -1 for what is no number of a device or a domain.
int number_of(std::string_view digits) {
  const int value = number_in(digits).value_or(-1);
  return value < 100'000 ? value : -1;
}

class Builder {
 public:
  Builder(const SmiMatrix& matrix, const std::string& name)
      : matrix_(matrix), name_(name), n_(matrix.devices.size()), domain_(n_, kNowhere) {}

  Result<Graph> build() {
    graph_.notes = matrix_.notes;
    graph_.source = "matrix " + name_;
    host_ = graph_.add(NodeKind::kHost, -1);
    node_.assign(n_, -1);
    place_gpus();
    place_others();
    compare_with_domains();
    for (std::size_t domain = 0; domain < domains_.size(); ++domain) add_domain(domain);
    add_loose();
    add_links();
    join_domains();
    if (matrix_.nvlink_hidden) {
      at(host_).set("nvlink", "unknown");
      graph_.notes.push_back(name_ +
                             ": the matrix shows no NVLinks (topo -mp), which does not mean that there are none");
    }
    at(host_).cpus = graph_.cpus.allowed;
    graph_.cpus.online = graph_.cpus.allowed;
    graph_.normalise();
    HOCKET_TRY(graph_.check());
    return std::move(graph_);
  }

 private:
  static constexpr int kNowhere = -1;

  struct Domain {
    std::string numa;  // the column's text; "" if it is a guess
    std::string cpus;
  };

  Node& at(int node) { return graph_.nodes[static_cast<std::size_t>(node)]; }
  Nearness near(std::size_t a, std::size_t b) const { return matrix_.cells[a][b].near; }
  bool within(std::size_t a, std::size_t b, Nearness most) const {
    return near(a, b) != Nearness::kUnknown && near(a, b) <= most;
  }
  static bool is_one_number(const std::string& text) {
    return !text.empty() && text.find_first_of(",-") == std::string::npos;
  }

  // ---- NUMA domains

  // A GPU's domain is what its NUMA column says, if that is one number. Else GPUs with equal columns are together
  // unless the matrix has them apart; with no column at all the CPU list stands for it.
  void place_gpus() {
    Groups groups(n_);
    for (std::size_t a = 0; a < n_; ++a) {
      for (std::size_t b = a + 1; b < n_; ++b) {
        const SmiDevice& left = matrix_.devices[a];
        const SmiDevice& right = matrix_.devices[b];
        if (!left.gpu || !right.gpu) continue;
        const bool told = !left.numa.empty() && !right.numa.empty();
        const bool same = told ? left.numa == right.numa : left.cpus == right.cpus;
        const bool sure = told && is_one_number(left.numa) && is_one_number(right.numa);
        if (same && (sure || near(a, b) != Nearness::kSys)) groups.join(a, b);
        if (!same && !told && within(a, b, Nearness::kNode)) groups.join(a, b);
      }
    }
    // Columns that are no single number may still split: what is far from all others is a domain of its own.
    std::map<std::size_t, int> number;
    for (std::size_t i = 0; i < n_; ++i) {
      if (!matrix_.devices[i].gpu) continue;
      const auto [known, added] = number.try_emplace(groups.of(i), static_cast<int>(domains_.size()));
      if (added) domains_.push_back({matrix_.devices[i].numa, matrix_.devices[i].cpus});
      domain_[i] = known->second;
    }
  }

  // NICs have no NUMA column: they are where the nearest GPU is, or the nearest NIC that has a place.
  void place_others() {
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < n_; ++i) {
        if (matrix_.devices[i].gpu || domain_[i] != kNowhere) continue;
        Nearness best = Nearness::kSys;
        std::set<int> places;
        for (std::size_t j = 0; j < n_; ++j) {
          if (i == j || domain_[j] == kNowhere || near(i, j) == Nearness::kUnknown || near(i, j) > best) continue;
          if (near(i, j) == Nearness::kSys) continue;
          if (near(i, j) < best) places.clear();
          best = near(i, j);
          places.insert(domain_[j]);
        }
        if (places.size() == 1 || (!places.empty() && best <= Nearness::kPhb)) domain_[i] = *places.begin();
      }
    }
  }

  // Where the matrix and the domains differ, which virtual machines and allocations of few cores bring about.
  void compare_with_domains() {
    int inside = 0;
    int across = 0;
    for (std::size_t a = 0; a < n_; ++a) {
      for (std::size_t b = a + 1; b < n_; ++b) {
        if (domain_[a] == kNowhere || domain_[b] == kNowhere) continue;
        inside += domain_[a] == domain_[b] && near(a, b) == Nearness::kSys;
        across += domain_[a] != domain_[b] && within(a, b, Nearness::kNode);
      }
    }
    if (inside > 0)
      graph_.notes.push_back(
          format("{}: {} pairs of devices are SYS within one NUMA domain; the domain is believed", name_, inside));
    if (across > 0)
      graph_.notes.push_back(format(
          "{}: {} pairs of devices are nearer than SYS across NUMA domains; the domains are believed", name_, across));
  }

  // ---- The tree of one domain

  void add_domain(std::size_t domain) {
    Members members;
    for (std::size_t i = 0; i < n_; ++i) {
      if (domain_[i] == static_cast<int>(domain)) members.push_back(i);
    }
    const int numa = graph_.add(NodeKind::kNuma, host_);
    numas_.push_back(numa);
    const std::string& text = domains_[domain].numa;
    const std::string first = text.substr(0, text.find_first_of(",-"));
    const auto alike = [this](const std::string Domain::*part, const std::string& value) {
      return std::count_if(domains_.begin(), domains_.end(), [&](const Domain& other) { return other.*part == value; });
    };
    if (alike(&Domain::numa, text) == 1) at(numa).os_index = number_of(first);
    if (!text.empty() && !is_one_number(text)) at(numa).set("numa_affinity", text);
    const Result<CpuSet> cpus = CpuSet::parse_list(domains_[domain].cpus);
    if (cpus.ok() && alike(&Domain::cpus, domains_[domain].cpus) == 1 && !cpus->intersects(graph_.cpus.allowed))
      at(numa).cpus = *cpus;
    if (cpus.ok()) graph_.cpus.allowed = graph_.cpus.allowed | *cpus;
    for (const Members& bridge : split(members, Nearness::kPhb)) add_bridge(bridge, numa);
  }

  // What is near nobody: below the host, so that every way to it is SYS.
  void add_loose() {
    Members members;
    for (std::size_t i = 0; i < n_; ++i) {
      if (domain_[i] == kNowhere) members.push_back(i);
    }
    for (const Members& bridge : split(members, Nearness::kPhb)) add_bridge(bridge, host_);
  }

  // The members in sets within which some chain of pairs is at most `most` apart.
  std::vector<Members> split(const Members& members, Nearness most) {
    Groups groups(n_);
    for (const std::size_t a : members) {
      for (const std::size_t b : members) {
        if (a < b && within(a, b, most)) groups.join(a, b);
      }
    }
    std::map<std::size_t, Members> sets;
    for (const std::size_t i : members) sets[groups.of(i)].push_back(i);
    std::vector<Members> out;
    out.reserve(sets.size());
    for (auto& [first, set] : sets) out.push_back(std::move(set));
    return out;
  }

  void add_bridge(const Members& members, int parent) {
    const int bridge = graph_.add(NodeKind::kHostBridge, parent);
    for (const Members& set : split(members, Nearness::kPxb)) {
      const std::vector<Members> leaves = split(set, Nearness::kPix);
      const int above = leaves.size() > 1 ? add_switch(bridge) : bridge;
      for (const Members& leaf : leaves) {
        // Alone on an upper switch a device would be PIX to what hangs there, and the matrix says PXB.
        const int under = leaf.size() > 1 || leaves.size() > 1 ? add_switch(above) : above;
        for (const std::size_t i : leaf) add_device(i, under);
      }
    }
  }

  int add_switch(int parent) {
    const int node = graph_.add(NodeKind::kPciSwitch, parent);
    graph_.edges.push_back({EdgeKind::kPcie, parent, node, 1, {}, 0});
    at(node).os_index = switches_++;  // keeps the order of the matrix
    return node;
  }

  void add_device(std::size_t i, int parent) {
    const SmiDevice& device = matrix_.devices[i];
    const int node = graph_.add(device.gpu ? NodeKind::kGpu : NodeKind::kNic, parent);
    node_[i] = node;
    if (device.gpu) {
      const int number = device.column.starts_with("GPU") ? number_of(device.column.substr(3)) : -1;
      at(node).os_index = number < 0 ? static_cast<int>(i) : number;
      at(node).set("dev", format("{}", at(node).os_index));
      if (device.column.find(':') != std::string::npos) at(node).name = device.column;  // amd-smi tells bus ids
      if (!device.gpu_numa.empty()) at(node).set("gpu_numa", device.gpu_numa);
    } else {
      at(node).os_index = static_cast<int>(i);
      at(node).set(device.name.starts_with("eth") || device.name.starts_with("en") ? "netdev" : "rdma", device.name);
    }
    graph_.edges.push_back({EdgeKind::kPcie, parent, node, 1, {}, 0});
  }

  void join_domains() {
    for (std::size_t a = 0; a < numas_.size(); ++a) {
      for (std::size_t b = a + 1; b < numas_.size(); ++b)
        graph_.edges.push_back({EdgeKind::kSocket, numas_[a], numas_[b], 1, {}, 0});
    }
  }

  // ---- NVLink, xGMI

  void add_links() {
    Groups groups(n_);
    for (std::size_t a = 0; a < n_; ++a) {
      for (std::size_t b = a + 1; b < n_; ++b) {
        if (matrix_.cells[a][b].links > 0) groups.join(a, b);
      }
    }
    std::map<std::size_t, Members> islands;
    for (std::size_t i = 0; i < n_; ++i) {
      if (matrix_.devices[i].gpu) islands[groups.of(i)].push_back(i);
    }
    for (const auto& [first, island] : islands) {
      if (island.size() < 2) continue;
      const double rate = link_rate(island);
      if (is_switched(island)) {
        const int node = graph_.add(NodeKind::kNvSwitch, host_);
        at(node).set("hidden", "1");
        for (const std::size_t i : island) add_link(node_[i], node, most_links(island, i), rate);
        continue;
      }
      for (const std::size_t a : island) {
        for (const std::size_t b : island) {
          if (a < b && matrix_.cells[a][b].links > 0) add_link(node_[a], node_[b], matrix_.cells[a][b].links, rate);
        }
      }
    }
  }

  // Of one GPU to any of its peers.
  int most_links(const Members& island, std::size_t gpu) const {
    int most = 0;
    for (const std::size_t peer : island) most = std::max(most, matrix_.cells[gpu][peer].links);
    return most;
  }

  // A crossbar shows all of a GPU's links towards each peer. So numbers between all pairs mean one if they are all
  // links that such a GPU has, or if a GPU would need more links than any has to reach its peers one by one. That
  // number is the smaller one of both ends, so a GPU that lost some of its links shows fewer to all.
  bool is_switched(const Members& island) const {
    if (island.size() < 3 || matrix_.xgmi) return false;
    constexpr int kMostLinks = 18;
    const int links = most_links(island, island[0]);
    bool equal = true;
    bool too_many = true;
    for (const std::size_t a : island) {
      int known = 0;
      int peers = 0;
      for (const std::size_t b : island) {
        const SmiCell& cell = matrix_.cells[a][b];
        if (a == b || (matrix_.cut && cell == SmiCell{})) continue;
        if (cell.links == 0) return false;
        equal &= cell.links == links;
        known += cell.links;
        ++peers;
      }
      if (peers > 0) too_many &= known * static_cast<int>(island.size() - 1) / peers > kMostLinks;
    }
    if (too_many) return true;
    // All links of a V100 to each of several peers.
    if (equal && matrix_.compute_capability == 70 && links == 6) return true;
    return equal && (links == 8 || links == 12 || links >= kMostLinks);
  }

  // A matrix does not tell the generation, but the text around it may. Else a bridge of 4 links between two GPUs is of
  // the slower kind, and of AMD's only the newest have a link to each of 7 peers.
  double link_rate(const Members& island) const {
    if (matrix_.xgmi) return xgmi_bytes_per_second(is_full(island, 8) ? "942" : "");
    if (matrix_.compute_capability > 0) return nvlink_bytes_per_second(matrix_.compute_capability);
    const int links = most_links(island, island[0]);
    if (island.size() == 2 && links == 4) return nvlink_bytes_per_second(86);
    return nvlink_bytes_per_second(links >= 18 ? 90 : 0);
  }

  bool is_full(const Members& island, std::size_t gpus) const {
    for (const std::size_t a : island) {
      for (const std::size_t b : island) {
        if (a != b && matrix_.cells[a][b].links == 0) return false;
      }
    }
    return island.size() == gpus;
  }

  void add_link(int a, int b, int links, double rate) {
    if (matrix_.xgmi) {
      at(a).set("link", "xgmi");
      if (at(b).kind == NodeKind::kGpu) at(b).set("link", "xgmi");
    }
    graph_.edges.push_back({EdgeKind::kNvlink, a, b, links, {rate * links, Origin::kNominal}, 0});
  }

  const SmiMatrix& matrix_;
  const std::string& name_;
  std::size_t n_;
  std::vector<int> domain_;  // [devices]
  std::vector<int> node_;    // [devices]
  std::vector<Domain> domains_;
  std::vector<int> numas_;
  Graph graph_;
  int host_ = 0;
  int switches_ = 0;
};

}  // namespace

bool looks_like_smi(std::string_view text) {
  const std::string clean = plain_matrix(text.substr(0, 64 << 10));
  if (has_amd_tables(lines_of(clean))) return true;
  // GPUs by number: "GPU0", and in a container that has some of many "GPU4".
  for (auto at = clean.find("GPU"); at != std::string::npos; at = clean.find("GPU", at + 3)) {
    if (at + 3 < clean.size() && clean[at + 3] >= '0' && clean[at + 3] <= '9') return true;
  }
  return false;
}

Result<Graph> graph_from_smi_text(std::string_view text, const std::string& name) {
  HOCKET_ASSIGN(const SmiMatrix matrix, parse_smi(text, name));
  return Builder(matrix, name).build();
}

}  // namespace hocket::topo
