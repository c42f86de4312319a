// SPDX-License-Identifier: Apache-2.0
// doctor/facts.cpp: see facts.hpp.
//
// Source: proc(5), the kernel's Documentation/ABI/{testing,stable}/sysfs-{class-net,class-infiniband,bus-pci} and
// Documentation/admin-guide/cgroup-v2.rst; for ACS the PCI Express Base Specification, 7.7.11.
#include "tools/doctor/facts.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <linux/ethtool.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/os/memfd.hpp"
#include "base/os/pidfd.hpp"
#include "base/os/unique_fd.hpp"
#include "base/settings.hpp"
#include "base/status.hpp"
#include "core/launch.hpp"
#include "core/resolve_settings.hpp"
#include "hocket/engine.hpp"
#include "tools/run/open_files.hpp"
#include "topo/findings.hpp"
#include "topo/hwloc_reader.hpp"
#include "topo/paths.hpp"

namespace hocket::doctor {
namespace {

using topo::read_small_file;

Status only_live(std::string_view what) {
  return error(Code::kUnsupported, "only a running machine tells {}", what);
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// The text of a small file, "" if it can't be read: for what many devices do not have.
std::string text_or_nothing(const std::string& path) {
  const auto text = read_small_file(path);
  return text.ok() ? trimmed(*text) : std::string();
}

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (bad != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}
std::int64_t integer_or(std::string_view text, std::int64_t otherwise) {
  return integer(text).value_or(otherwise);
}

// Names in a folder, sorted. kSystem if it can't be read.
Result<std::vector<std::string>> names_in(const std::string& folder) {
  DIR* dir = ::opendir(folder.c_str());
  if (dir == nullptr) return system_error(Code::kSystem, errno, "{}", folder);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(dir)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  ::closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

std::string last_part_of_link(const std::string& path) {
  std::error_code failed;
  return std::filesystem::read_symlink(path, failed).filename().string();
}

// ---- Kernel, limits, memory ----

Result<Limit> parse_limit(std::string_view soft, std::string_view hard) {
  Limit limit;
  for (const auto& [text, value] : {std::pair(soft, &limit.soft), std::pair(hard, &limit.hard)}) {
    if (text == "unlimited") continue;
    const auto number = integer(text);
    if (!number || *number < 0) return error(Code::kInvalidArgument, "'{}' is no limit", text);
    *value = static_cast<std::uint64_t>(*number);
  }
  return limit;
}

Result<Limits> read_limits(const std::string& root) {
  HOCKET_ASSIGN(const std::string text, read_small_file(root + "/proc/self/limits"));
  return parse_limits(text);
}

Result<FileSystem> read_shm(const std::string& root) {
  if (!root.empty()) return only_live("its size");
  struct statfs info {};
  if (::statfs("/dev/shm", &info) < 0) return system_error(Code::kSystem, errno, "/dev/shm");
  const auto block = static_cast<std::uint64_t>(info.f_bsize);
  return FileSystem{info.f_blocks * block, info.f_bavail * block, info.f_type == TMPFS_MAGIC};
}

Result<std::uint64_t> read_free_memory(const std::string& root) {
  const std::string path = root + "/proc/meminfo";
  HOCKET_ASSIGN(const std::string text, read_small_file(path));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    if (words >> name >> kib && name == "MemAvailable:") return kib << 10;
  }
  return error(Code::kUnsupported, "{} has no MemAvailable", path);
}

// The folder of this process's cgroup for a controller: of cgroup v2, or of v1's own hierarchy.
Result<std::vector<std::string>> group_folders(const std::string& root, std::string_view controller) {
  HOCKET_ASSIGN(const std::string text, read_small_file(root + "/proc/self/cgroup"));
  std::vector<std::string> folders;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    std::string base = root + "/sys/fs/cgroup";
    if (names != ",,") {
      if (names.find(format(",{},", controller)) == std::string::npos) continue;
      base += format("/{}", controller);
    }
    // In a container the path may be the host's, and the top is its own.
    for (std::string part = path;; part = part.substr(0, part.rfind('/'))) {
      folders.push_back(base + (part == "/" ? "" : part));
      if (part.empty() || part == "/" || part.find('/') == std::string::npos) break;
    }
  }
  return folders;
}

Result<std::uint64_t> read_group_memory(const std::string& root) {
  HOCKET_ASSIGN(const std::vector<std::string> folders, group_folders(root, "memory"));
  std::uint64_t left = Limit::kNone;
  for (const std::string& folder : folders) {
    std::string limit = text_or_nothing(folder + "/memory.max");
    std::string used = text_or_nothing(folder + "/memory.current");
    if (limit.empty()) {
      limit = text_or_nothing(folder + "/memory.limit_in_bytes");
      used = text_or_nothing(folder + "/memory.usage_in_bytes");
    }
    const auto most = integer(limit), now = integer(used);
    // v1 says "no limit" by a number that no machine has.
    if (!most || !now || *most >= std::int64_t{1} << 60) continue;
    left = std::min(left, static_cast<std::uint64_t>(std::max<std::int64_t>(*most - *now, 0)));
  }
  return left;
}

Result<Throttling> read_throttling(const std::string& root) {
  HOCKET_ASSIGN(const std::vector<std::string> folders, group_folders(root, "cpu"));
  for (const std::string& folder : folders) {
    const auto text = read_small_file(folder + "/cpu.stat");
    if (!text.ok()) continue;
    Throttling found;
    bool known = false;
    std::istringstream words(*text);
    std::string name;
    for (std::uint64_t value = 0; words >> name >> value;) {
      if (name == "nr_periods") found.periods = value, known = true;
      if (name == "nr_throttled") found.throttled = value;
    }
    if (known) return found;
  }
  return error(Code::kUnsupported, "no cpu.stat with nr_periods in this process's cgroups");
}

Result<topo::CpuBudget> read_cpus(const std::string& root) {
  std::vector<std::string> notes;
  topo::CpuBudget budget = topo::read_cpu_budget(root, &notes);
  if (!root.empty()) {
    // The mask is this machine's: theirs is in the file.
    budget.allowed = {};
    const std::string path = root + "/proc/self/status";
    HOCKET_ASSIGN(const std::string text, read_small_file(path));
    const std::size_t at = text.find("Cpus_allowed_list:");
    if (at == std::string::npos) return error(Code::kUnsupported, "{} has no Cpus_allowed_list", path);
    std::istringstream line(text.substr(text.find(':', at) + 1));
    std::string list;
    line >> list;
    HOCKET_ASSIGN(budget.allowed, topo::CpuSet::parse_list(list));
  }
  return budget;
}

// ---- Who started this process ----

Result<std::string> read_job(const Settings& settings) {
  HOCKET_ASSIGN(const std::optional<LaunchedRank> launched, launched_from_environment(settings));
  if (!launched) return std::string();
  return format("rank {} of {}, by {}", launched->rank, launched->size, launched->launcher);
}

// ---- Network ----

// ---- Interfaces of the running kernel, by rtnetlink: /sys may be that of another network namespace ----

constexpr std::size_t kMostLinkBytes = 1 << 20;

struct Link {
  int index = 0, master = 0;
  unsigned flags = 0;
  int type = 0;
  std::string name, kind;  ///< kind: bridge, veth, bond …; "" for hardware
};

Result<std::vector<Link>> ask_for_links() {
  const os::UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket) return system_error(Code::kSystem, errno, "a netlink socket");
  struct {
    nlmsghdr header;
    ifinfomsg info;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.info.ifi_family = AF_UNSPEC;
  if (::send(socket.get(), &request, sizeof request, 0) < 0) return system_error(Code::kSystem, errno, "RTM_GETLINK");
  std::vector<Link> links;
  std::vector<std::byte> buffer(kMostLinkBytes);
  for (;;) {
    const ssize_t n = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return system_error(Code::kSystem, errno, "RTM_GETLINK");
    auto left = static_cast<unsigned>(n);
    for (auto* message = reinterpret_cast<nlmsghdr*>(buffer.data()); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type == NLMSG_DONE) return links;
      if (message->nlmsg_type == NLMSG_ERROR) return error(Code::kSystem, "RTM_GETLINK was refused");
      if (message->nlmsg_type != RTM_NEWLINK || message->nlmsg_len < NLMSG_LENGTH(sizeof(ifinfomsg))) continue;
      const auto* info = static_cast<const ifinfomsg*>(NLMSG_DATA(message));
      Link link;
      link.index = info->ifi_index;
      link.flags = info->ifi_flags;
      link.type = info->ifi_type;
      auto bytes = static_cast<unsigned>(message->nlmsg_len - NLMSG_LENGTH(sizeof(ifinfomsg)));
      for (auto* part = IFLA_RTA(info); RTA_OK(part, bytes); part = RTA_NEXT(part, bytes)) {
        const std::string_view text(static_cast<const char*>(RTA_DATA(part)), RTA_PAYLOAD(part));
        if (part->rta_type == IFLA_IFNAME) link.name = text.substr(0, text.find('\0'));
        if (part->rta_type == IFLA_MASTER && text.size() == sizeof link.master)
          std::memcpy(&link.master, text.data(), sizeof link.master);
        if (part->rta_type != IFLA_LINKINFO) continue;
        auto inner_bytes = static_cast<unsigned>(RTA_PAYLOAD(part));
        for (auto* inner = static_cast<rtattr*>(RTA_DATA(part)); RTA_OK(inner, inner_bytes);
             inner = RTA_NEXT(inner, inner_bytes)) {
          const std::string_view kind(static_cast<const char*>(RTA_DATA(inner)), RTA_PAYLOAD(inner));
          if (inner->rta_type == IFLA_INFO_KIND) link.kind = kind.substr(0, kind.find('\0'));
        }
      }
      links.push_back(std::move(link));
    }
  }
}

// Mb/s by the driver; -1 if it does not tell.
std::int64_t speed_of(const std::string& name) {
  const os::UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  request.ifr_data = reinterpret_cast<char*>(&command);
  if (!socket || ::ioctl(socket.get(), SIOCETHTOOL, &request) < 0) return -1;
  const std::uint32_t speed = ethtool_cmd_speed(&command);
  return speed == 0 || speed > 10'000'000 ? -1 : static_cast<std::int64_t>(speed);
}

Result<std::vector<Interface>> ask_for_interfaces() {
  HOCKET_ASSIGN(const std::vector<Link> links, ask_for_links());
  std::vector<Interface> found;
  for (const Link& link : links) {
    Interface one;
    one.name = link.name;
    one.up = link.flags & IFF_UP;
    one.carrier = link.flags & IFF_RUNNING;
    one.physical = link.kind.empty() && (link.type == ARPHRD_ETHER || link.type == ARPHRD_INFINIBAND);
    one.bridge = link.kind == "bridge";
    for (const Link& other : links) {
      if (other.master != link.index) continue;
      ++one.ports;
      one.live_ports += (other.flags & IFF_RUNNING) != 0;
    }
    if (one.physical) one.megabits = speed_of(link.name);
    found.push_back(std::move(one));
  }
  return found;
}

// The same of saved files.
Result<std::vector<Interface>> read_interfaces(const std::string& root) {
  const std::string base = root + "/sys/class/net";
  HOCKET_ASSIGN(const std::vector<std::string> names, names_in(base));
  const auto live = [&base](const std::string& name) {
    const std::string state = text_or_nothing(base + "/" + name + "/operstate");
    return state == "up" || state == "unknown";
  };
  std::vector<Interface> found;
  for (const std::string& name : names) {
    const std::string folder = base + "/" + name;
    if (!exists(folder + "/operstate")) continue;  // bonding_masters is a file
    Interface one;
    one.name = name;
    one.up = std::strtoul(text_or_nothing(folder + "/flags").c_str(), nullptr, 16) & IFF_UP;
    one.carrier = one.up && live(name);
    one.physical = exists(folder + "/device");
    one.megabits = integer_or(text_or_nothing(folder + "/speed"), -1);
    one.bridge = exists(folder + "/bridge");
    const auto ports = names_in(folder + "/brif");
    for (std::size_t i = 0; ports.ok() && i < ports->size(); ++i) {
      ++one.ports;
      one.live_ports += live((*ports)[i]);
    }
    found.push_back(std::move(one));
  }
  return found;
}

Result<std::vector<os::NetCandidate>> read_addresses(const std::string& root, const std::string& list) {
  if (!root.empty()) return only_live("them");
  HOCKET_ASSIGN(const os::InterfaceFilter filter, os::InterfaceFilter::parse(list));
  HOCKET_ASSIGN(const std::vector<os::NetInterface> interfaces, os::list_interfaces());
  return os::order_candidates(interfaces, filter);
}

Result<std::vector<RdmaPort>> read_rdma(const std::string& root) {
  const std::string base = root + "/sys/class/infiniband";
  std::vector<RdmaPort> found;
  // No driver of such a NIC was ever loaded; but sysfs has to be there to tell.
  if (!exists(base) && exists(root + "/sys/class")) return found;
  HOCKET_ASSIGN(const std::vector<std::string> names, names_in(base));
  for (const std::string& name : names) {
    const auto ports = names_in(base + "/" + name + "/ports");
    if (!ports.ok()) continue;
    for (const std::string& number : *ports) {
      const std::string folder = base + "/" + name + "/ports/" + number;
      RdmaPort port;
      port.device = name;
      port.port = static_cast<int>(integer_or(number, 0));
      const std::string state = text_or_nothing(folder + "/state");  // "4: ACTIVE"
      port.state = state.substr(std::min(state.size(), state.find(' ') == std::string::npos ? 0 : state.find(' ') + 1));
      port.link_layer = text_or_nothing(folder + "/link_layer");
      port.gigabits = std::strtod(text_or_nothing(folder + "/rate").c_str(), nullptr);  // "100 Gb/sec (4X EDR)"
      const auto gids = names_in(folder + "/gids");
      for (std::size_t i = 0; gids.ok() && i < gids->size(); ++i) {
        const std::string gid = text_or_nothing(folder + "/gids/" + (*gids)[i]);
        if (gid.find_first_not_of("0:") == std::string::npos) continue;
        ++port.gids;
        if (text_or_nothing(folder + "/gid_attrs/types/" + (*gids)[i]) == "RoCE v2") ++port.gids_v2;
      }
      found.push_back(std::move(port));
    }
  }
  return found;
}

// ---- Devices ----

Result<std::vector<PciDevice>> read_devices(const std::string& root) {
  const std::string base = root + "/sys/bus/pci/devices";
  std::vector<PciDevice> found;
  if (!exists(base) && exists(root + "/sys/bus")) return found;  // a machine without PCI
  HOCKET_ASSIGN(const std::vector<std::string> names, names_in(base));
  for (const std::string& name : names) {
    const std::string folder = base + "/" + name;
    const std::string kind = text_or_nothing(folder + "/class");  // "0x030200"
    const std::string vendor = text_or_nothing(folder + "/vendor");
    // Displays of management chips and of virtual machines compute nothing.
    const bool gpu = (kind.starts_with("0x03") && (vendor == "0x10de" || vendor == "0x1002")) ||
                     (kind.starts_with("0x12") && vendor == "0x1002");
    const bool nic = kind.starts_with("0x0200") || kind.starts_with("0x0207");
    if (!gpu && !nic) continue;
    PciDevice device;
    device.bus_id = name;
    device.gpu = gpu;
    device.vendor = vendor;
    device.driver = last_part_of_link(folder + "/driver");
    device.speed = text_or_nothing(folder + "/current_link_speed");
    device.most_speed = text_or_nothing(folder + "/max_link_speed");
    device.lanes = static_cast<int>(integer_or(text_or_nothing(folder + "/current_link_width"), 0));
    device.most_lanes = static_cast<int>(integer_or(text_or_nothing(folder + "/max_link_width"), 0));
    device.numa_node = static_cast<int>(integer_or(text_or_nothing(folder + "/numa_node"), -1));
    device.iommu = text_or_nothing(folder + "/iommu_group/type");
    found.push_back(std::move(device));
  }
  return found;
}

// The bridges on the way from each GPU up to the root.
std::vector<Bridge> read_bridges(const std::string& root, const std::vector<PciDevice>& devices) {
  std::vector<Bridge> found;
  for (const PciDevice& device : devices) {
    if (!device.gpu) continue;
    std::error_code failed;
    std::filesystem::path path =
        std::filesystem::canonical(root + "/sys/bus/pci/devices/" + device.bus_id, failed).parent_path();
    for (; !failed && path.filename().string().find(':') != std::string::npos &&
           !path.filename().string().starts_with("pci");
         path = path.parent_path()) {
      const std::string name = path.filename().string();
      if (std::any_of(found.begin(), found.end(), [&](const Bridge& one) { return one.bus_id == name; })) break;
      const auto bytes = read_small_file(path.string() + "/config");
      found.push_back({name, bytes.ok() ? Fact<bool>(parse_acs(*bytes)) : Fact<bool>(bytes.status())});
    }
  }
  return found;
}

Result<std::string> read_nvidia_driver(const std::string& root) {
  const std::string path = root + "/sys/module/nvidia/version";
  HOCKET_ASSIGN(const std::string text, read_small_file(path));
  return trimmed(text);
}

// NVLinks and PCIe links that are fewer or slower than their like's.
void read_topology(const std::string& root, Facts* facts) {
  topo::Graph graph;
  if (root.empty()) {
    graph = topo::load_machine();
  } else {
    auto loaded = topo::graph_from_sysfs_tree(root);
    if (!loaded.ok()) {
      facts->link_findings = loaded.status();
      return;
    }
    graph = std::move(*loaded);
  }
  facts->link_findings = topo::findings_of(topo::Paths(graph));
  for (const std::string& note : graph.notes) {
    if (note.find("NVML") != std::string::npos || note.find("nvidia") != std::string::npos)
      facts->topology_notes.push_back(note);
  }
}

}  // namespace

Result<Limits> parse_limits(const std::string& text) {
  Limits limits;
  const std::pair<std::string_view, Limit*> wanted[] = {{"Max open files", &limits.files},
                                                        {"Max locked memory", &limits.locked_bytes},
                                                        {"Max address space", &limits.address_space_bytes},
                                                        {"Max file size", &limits.file_bytes},
                                                        {"Max processes", &limits.processes}};
  for (const auto& [name, limit] : wanted) {
    const std::size_t at = text.find(std::string(name) + " ");
    if (at == std::string::npos) return error(Code::kInvalidArgument, "/proc/self/limits has no '{}'", name);
    std::istringstream words(text.substr(at + name.size(), text.find('\n', at) - at - name.size()));
    std::string soft, hard;
    words >> soft >> hard;
    HOCKET_ASSIGN(*limit, parse_limit(soft, hard));
  }
  return limits;
}

Result<std::string> parse_choice(const std::string& text) {
  const std::size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open)
    return error(Code::kInvalidArgument, "'{}' has no choice in brackets", trimmed(text).substr(0, 80));
  return text.substr(open + 1, close - open - 1);
}

Result<bool> parse_acs(const std::string& bytes) {
  // Extended capabilities begin at 0x100, each with its id, and where the next one is; ACS is 0x000d, its control
  // register at +6: bit 2 redirects requests of peers, bit 3 completions.
  constexpr std::size_t kFirst = 0x100;
  const auto word = [&bytes](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
    return value;
  };
  if (bytes.size() < kFirst + 4)
    return error(Code::kUnsupported, "only the superuser reads more than {} bytes of its configuration", bytes.size());
  std::size_t at = kFirst;
  for (int hops = 0; hops < 64 && at >= kFirst && at + 8 <= bytes.size(); ++hops) {
    const std::uint32_t header = word(at);
    if (header == 0 || header == 0xffffffffu) return false;
    if ((header & 0xffff) == 0x000d) return ((word(at + 4) >> 16) & 0x000c) != 0;
    at = header >> 20;
  }
  return false;
}

Result<std::vector<PeerAccess>> read_peer_access(const std::string& name) {
  using Device = struct NvmlDeviceOpaque*;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, Device*) = nullptr;
  int (*peer)(Device, Device, int, int*) = nullptr;
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return error(Code::kUnsupported, "{}", ::dlerror());
  const auto find = [library](const char* symbol, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
    return function != nullptr;
  };
  if (!find("nvmlInit_v2", init) || !find("nvmlShutdown", shutdown) || !find("nvmlDeviceGetCount_v2", count) ||
      !find("nvmlDeviceGetHandleByIndex_v2", device) || !find("nvmlDeviceGetP2PStatus", peer))
    return error(Code::kUnsupported, "{} lacks a function: the driver is too old", name);
  if (const int failed = init(); failed != 0)
    return error(Code::kUnsupported, "nvmlInit failed with {}: see nvidia-smi", failed);
  std::vector<PeerAccess> found;
  unsigned devices = 0;
  if (count(&devices) != 0) devices = 0;
  constexpr unsigned kMostDevices = 64;
  devices = std::min(devices, kMostDevices);
  constexpr int kRead = 0;
  constexpr std::string_view kProblems[] = {"",
                                            "the chipset does not support it",
                                            "the GPUs do not support it",
                                            "they are below different I/O hubs",
                                            "it is disabled by a driver setting",
                                            "it is not supported"};
  for (unsigned a = 0; a < devices; ++a) {
    for (unsigned b = 0; b < devices; ++b) {
      Device from = nullptr, to = nullptr;
      int state = 0;
      if (a == b || device(a, &from) != 0 || device(b, &to) != 0 || peer(from, to, kRead, &state) != 0) continue;
      const bool known = state >= 0 && state < 6;
      found.push_back({static_cast<int>(a), static_cast<int>(b),
                       known ? std::string(kProblems[state]) : "the driver does not tell why"});
    }
  }
  shutdown();
  return found;
}

Status try_communicator() {
  HOCKET_ASSIGN(Settings settings, parse_environment(environ, false));
  settings.trace.clear();
  settings.metrics.clear();
  settings.graph_dump_file.clear();
  settings.gpu.clear();
  HOCKET_ASSIGN(std::shared_ptr<Engine> engine, Engine::create(settings));
  HOCKET_ASSIGN(Communicator alone, Communicator::create(0, 1, nullptr, settings, std::move(engine)));
  float value = 1;
  HOCKET_TRY(alone.all_reduce(std::span(&value, 1)));
  return alone.finalize();
}

Facts read_facts(const std::string& root) {
  Facts facts;
  facts.root = root;
  if (rlimit files{}; root.empty() && ::getrlimit(RLIMIT_NOFILE, &files) == 0)
    facts.launched_ranks = std::uint64_t{run::OpenFiles::room(files.rlim_max)};  // it raises its own limit
  facts.superuser = ::geteuid() == 0;
  char name[256] = {};
  const std::string saved_name = text_or_nothing(root + "/proc/sys/kernel/hostname");
  if (root.empty() && ::gethostname(name, sizeof name - 1) == 0) facts.host = name;
  if (facts.host.empty()) facts.host = saved_name.empty() ? "unnamed" : saved_name;

  if (root.empty()) {
    const auto settings = parse_environment(environ, false);
    facts.settings =
        settings.ok() ? Fact<std::string>(describe_changes(*settings)) : Fact<std::string>(settings.status());
    if (settings.ok()) {
      for (const Status& problem : problems_of(*settings)) facts.setting_problems.emplace_back(problem.text());
      facts.job = read_job(*settings);
    }
    for (char** entry = environ; *entry; ++entry) {
      const std::string_view variable = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
      if (variable.starts_with("HOCKET_") && !is_known_variable(variable))
        facts.unknown_variables.push_back(format("{}{}", variable, nearest_variable_hint(variable)));
    }
  } else {
    facts.settings = only_live("them");
    facts.job = only_live("that");
    facts.communicator = only_live("that");
  }
  const auto release = read_small_file(root + "/proc/sys/kernel/osrelease");
  facts.kernel = release.ok() ? Fact<std::string>(trimmed(*release)) : Fact<std::string>(release.status());
  if (root.empty()) {
    const auto memory = os::create_memfd("hocket-doctor", 4096);
    facts.memfd = memory.ok() ? Fact<bool>(true) : Fact<bool>(memory.status());
    const auto process = os::PidFd::open(::getpid());
    facts.pidfd = process.ok() ? Fact<bool>(true) : Fact<bool>(process.status());
  } else {
    facts.memfd = only_live("that");
    facts.pidfd = only_live("that");
  }
  facts.limits = read_limits(root);
  facts.shm = read_shm(root);
  facts.memory_free_bytes = read_free_memory(root);
  facts.memory_group_bytes = read_group_memory(root);
  facts.cpus = read_cpus(root);
  facts.throttling = read_throttling(root);
  if (const auto text = read_small_file(root + "/sys/kernel/mm/transparent_hugepage/enabled"); text.ok()) {
    facts.huge_pages = parse_choice(*text);
  } else {
    facts.huge_pages = text.status();
  }
  if (const char* list = std::getenv("HOCKET_INTERFACE"); list && root.empty()) facts.interface_list = list;
  facts.interfaces = root.empty() ? ask_for_interfaces() : read_interfaces(root);
  facts.addresses = read_addresses(root, facts.interface_list);
  facts.rdma = read_rdma(root);
  facts.devices = read_devices(root);
  if (const auto groups = names_in(root + "/sys/class/iommu"); groups.ok()) {
    facts.iommu = !groups->empty();
  } else if (exists(root + "/sys/class")) {
    facts.iommu = false;
  } else {
    facts.iommu = groups.status();
  }
  const bool gpus = facts.devices && std::any_of(facts.devices->begin(), facts.devices->end(),
                                                 [](const PciDevice& device) { return device.gpu; });
  if (!gpus) return facts;  // the rest is about GPUs
  facts.bridges = read_bridges(root, *facts.devices);
  facts.nvidia_driver = read_nvidia_driver(root);
  facts.gpu_direct = exists(root + "/sys/module/nvidia_peermem") || exists(root + "/sys/module/nv_peer_mem");
  facts.peer_access = root.empty() ? Fact<std::vector<PeerAccess>>(read_peer_access("libnvidia-ml.so.1"))
                                   : Fact<std::vector<PeerAccess>>(only_live("that"));
  read_topology(root, &facts);
  return facts;
}

}  // namespace hocket::doctor
