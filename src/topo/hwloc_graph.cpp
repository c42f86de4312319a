// SPDX-License-Identifier: Apache-2.0
// topo/hwloc_graph.cpp: see hwloc_graph.hpp. One walk.
#include "topo/hwloc_graph.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/status.hpp"
#include "topo/hwloc_links.hpp"
#include "topo/ibv_reader.hpp"
#include "topo/link_speed.hpp"

namespace hocket::topo {

namespace {

using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

CpuSet to_set(hwloc_const_bitmap_t bitmap) {
  CpuSet set;
  if (!bitmap || hwloc_bitmap_weight(bitmap) < 0) return set;  // absent or infinite
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0 && cpu < CpuSet::kLimit; cpu = hwloc_bitmap_next(bitmap, cpu))
    set.add(cpu);
  return set;
}

std::string_view info(hwloc_obj_t object, const char* name) {
  const char* value = hwloc_obj_get_info_by_name(object, name);
  return value ? std::string_view(value) : std::string_view();
}

// One line of a sysfs file; "" if it is not there.
std::string sysfs(const std::string& path) {
  Result<std::string> text = read_small_file(path, 4096);
  return text.ok() ? first_line(std::move(*text)) : std::string();
}

// hwloc takes enumerators from a file without a look at their range.
template <class Enum>
int number_of(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

// Wider domains than the usual four digits occur.
std::string bus_id(const PciAttributes& pci) {
  return format("{:04x}:{:02x}:{:02x}.{:x}", static_cast<unsigned>(pci.domain), pci.bus, pci.dev, pci.func);
}

Rate reported(double bytes_per_second) {
  return {bytes_per_second, Origin::kReported};
}

// hwloc's own figure, in GB/s. Beyond what 1 lane of PCIe 1.0 to 16 lanes of PCIe 7.0 can have it is not believed.
Rate hwloc_rate(float gigabytes) {
  const double value = static_cast<double>(gigabytes);
  return std::isfinite(value) && value >= 0.2 && value <= 260 ? reported(value * 1e9) : Rate{};
}

enum class DeviceClass { kOther, kGpu, kNic, kNvSwitch };

class Builder {
 public:
  Builder(hwloc_topology_t topology, std::string sysfs_root, bool read_sysfs)
      : topology_(topology), root_(std::move(sysfs_root)), read_sysfs_(read_sysfs) {}

  Graph build() {
    const hwloc_obj_t machine = hwloc_get_root_obj(topology_);
    const int host = graph_.add(NodeKind::kHost, -1);
    Node& node = at(host);
    node.cpus = to_set(machine->cpuset);
    if (const auto product = info(machine, "DMIProductName"); !product.empty()) node.set("model", std::string(product));
    if (const auto arch = info(machine, "Architecture"); !arch.empty()) node.set("architecture", std::string(arch));
    graph_.cpus.allowed = to_set(hwloc_topology_get_allowed_cpuset(topology_));
    graph_.cpus.online = at(host).cpus;
    visit(machine, Place{host, host, 0, 0, false});
    join_packages();
    add_device_links(topology_, by_object_, &graph_);
    // Without a driver's library (or in an old file) nothing tells of NVLinks, which does not mean that there are none.
    const bool links = std::any_of(graph_.edges.begin(), graph_.edges.end(),
                                   [](const Edge& edge) { return edge.kind == EdgeKind::kNvlink; });
    if (!links && graph_.count(NodeKind::kGpu) > 1) at(host).set("nvlink", "unknown");
    graph_.normalise();
    return std::move(graph_);
  }

 private:
  // Where the walk is in our graph.
  struct Place {
    int node;     // parent of what comes next
    int devices;  // parent of I/O that hangs here: the NUMA domain rather than the package around it
    std::uint64_t l2_bytes;
    int l2_cores;  // cores below that L2
    bool in_core;
  };

  Node& at(int node) { return graph_.nodes[static_cast<std::size_t>(node)]; }

  int add_cpu_node(NodeKind kind, int parent, hwloc_obj_t object) {
    const int added = graph_.add(kind, parent);
    at(added).cpus = to_set(object->cpuset);
    if (object->os_index != HWLOC_UNKNOWN_INDEX) at(added).os_index = static_cast<int>(object->os_index);
    return added;
  }

  void visit(hwloc_obj_t object, Place place) {
    switch (object->type) {
      case HWLOC_OBJ_PACKAGE: {
        place.node = place.devices = add_cpu_node(NodeKind::kPackage, place.node, object);
        std::string_view model = info(object, "CPUModel");
        if (model.empty()) model = info(hwloc_get_root_obj(topology_), "CPUModel");
        if (!model.empty()) at(place.node).set("model", std::string(model));
        break;
      }
      case HWLOC_OBJ_L3CACHE:
        place.node = add_cpu_node(NodeKind::kL3, place.node, object);
        at(place.node).bytes = object->attr->cache.size;
        break;
      case HWLOC_OBJ_L2CACHE:
        place.l2_bytes = object->attr->cache.size;
        place.l2_cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology_, object->cpuset, HWLOC_OBJ_CORE);
        break;
      case HWLOC_OBJ_CORE:
      case HWLOC_OBJ_PU:  // a system may tell of hardware threads and not of cores: each stands for one
        if (!place.in_core) add_core(object, place);
        place.in_core = true;
        break;
      default: break;
    }
    if (object->memory_first_child) visit_memory(object, &place);
    for (hwloc_obj_t child = object->first_child; child; child = child->next_sibling) visit(child, place);
    for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
      visit_io(child, place.devices, 0);
  }

  void add_core(hwloc_obj_t object, const Place& place) {
    const int core = add_cpu_node(NodeKind::kCore, place.node, object);
    std::uint64_t l2 = place.l2_bytes;
    int sharers = place.l2_cores;
    // An L2 below its core (hwloc puts the larger set above, and equal ones in either order).
    for (hwloc_obj_t below = object->first_child; below && l2 == 0; below = below->first_child) {
      if (below->type == HWLOC_OBJ_L2CACHE) l2 = below->attr->cache.size;
    }
    sharers = std::max(sharers, 1);
    at(core).bytes = l2 / static_cast<std::uint64_t>(sharers);
    if (sharers > 1) at(core).set("l2_cores", format("{}", sharers));
  }

  // One domain with the object's CPUs becomes the parent of all below it. Others at the same object are memory only:
  // HBM beside DRAM, or a GPU's memory that the kernel shows as a domain.
  void visit_memory(hwloc_obj_t object, Place* place) {
    std::vector<hwloc_obj_t> domains;
    collect_domains(object->memory_first_child, &domains);
    std::stable_sort(domains.begin(), domains.end(),
                     [](hwloc_obj_t a, hwloc_obj_t b) { return a->os_index < b->os_index; });
    const int parent = place->node;
    bool found = false;
    for (const hwloc_obj_t domain : domains) {
      const std::string_view subtype = domain->subtype ? domain->subtype : "";
      const bool owns = !found && !to_set(domain->cpuset).empty() && subtype.find("GPU") == std::string_view::npos;
      const int node = add_cpu_node(NodeKind::kNuma, parent, domain);
      at(node).bytes = domain->attr->numanode.local_memory;
      if (!subtype.empty()) at(node).set("subtype", std::string(subtype));
      if (owns) {
        place->node = place->devices = node;
        found = true;
        graph_.edges.push_back({EdgeKind::kMemory, parent, node, 1, {}, 0});
      } else {
        at(node).cpus = {};
      }
    }
  }

  static void collect_domains(hwloc_obj_t memory, std::vector<hwloc_obj_t>* domains) {
    for (; memory; memory = memory->next_sibling) {
      if (memory->type == HWLOC_OBJ_NUMANODE) domains->push_back(memory);
      collect_domains(memory->memory_first_child, domains);  // below a memory-side cache
    }
  }

  void join_packages() {
    const std::vector<int> packages = graph_.of_kind(NodeKind::kPackage);
    for (std::size_t a = 0; a < packages.size(); ++a) {
      for (std::size_t b = a + 1; b < packages.size(); ++b)
        graph_.edges.push_back({EdgeKind::kSocket, packages[a], packages[b], 1, {}, 0});
    }
  }

  // ---- I/O

  // `depth` counts PCI bridges since the host bridge. PCI bridges come in pairs: a port that leads out (of the root
  // complex or of a switch) and, one level deeper, the switch that it leads to. Only the latter is a node.
  void visit_io(hwloc_obj_t object, int parent, int depth) {
    if (object->type == HWLOC_OBJ_BRIDGE) {
      const hwloc_obj_attr_u::hwloc_bridge_attr_s& bridge = object->attr->bridge;
      if (number_of(bridge.upstream_type) == HWLOC_OBJ_BRIDGE_HOST) {
        parent = graph_.add(NodeKind::kHostBridge, parent);
        at(parent).name = format("{:04x}:{:02x}", static_cast<unsigned>(bridge.downstream.pci.domain),
                                 bridge.downstream.pci.secondary_bus);
        depth = 0;
      } else if (depth % 2 == 1) {
        parent = add_pci_node(NodeKind::kPciSwitch, parent, bridge.upstream.pci);
        depth += 1;
      } else {
        depth += 1;
      }
    } else if (object->type == HWLOC_OBJ_PCI_DEVICE) {
      visit_device(object, parent);
      return;
    } else if (object->type == HWLOC_OBJ_OS_DEVICE) {
      visit_os_device(object, parent);
      return;
    }
    for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling) visit_io(child, parent, depth);
  }

  int add_pci_node(NodeKind kind, int parent, const PciAttributes& pci) {
    const int node = graph_.add(kind, parent);
    const std::string bus = bus_id(pci);
    at(node).name = bus;
    at(node).set("vendor", format("{:04x}", pci.vendor_id));
    at(node).set("device", format("{:04x}", pci.device_id));
    at(node).set("class", format("{:04x}", pci.class_id));
    graph_.edges.push_back({EdgeKind::kPcie, parent, node, 1, link_rate(node, bus, pci), 0});
    return node;
  }

  Rate link_rate(int node, const std::string& bus, const PciAttributes& pci) {
    const std::string directory = root_ + "/sys/bus/pci/devices/" + bus;
    const std::string speed = read_sysfs_ ? sysfs(directory + "/current_link_speed") : "";
    const std::string width = read_sysfs_ ? sysfs(directory + "/current_link_width") : "";
    if (speed.empty() && width.empty()) {
      const Rate rate = hwloc_rate(pci.linkspeed);
      if (is_idle(at(node).kind, rate)) {
        graph_.notes.push_back(format("PCIe link of {}: {:.3g} GB/s is that of an idle link, taken as unknown", bus,
                                      rate.bytes_per_second / 1e9));
        return {};
      }
      if (!rate.known() && pci.linkspeed != 0)
        graph_.notes.push_back(format("PCIe link of {}: {} GB/s is no link speed, taken as unknown", bus,
                                      static_cast<double>(pci.linkspeed)));
      return rate;
    }
    at(node).set("link_speed", speed);
    at(node).set("link_width", width);
    const std::string top = sysfs(directory + "/max_link_speed");
    if (!top.empty()) at(node).set("max_link_speed", top);
    Rate rate = pcie_rate(speed, width);
    if (!rate.known() && !speed.starts_with("Unknown"))  // virtual devices say so; that is no fault
      graph_.notes.push_back(
          format("PCIe link of {}: '{}' x '{}' is no link speed, taken as unknown", bus, speed, width));
    // An idle GPU clocks its link down to save power; its width stays. The link's own maximum holds under load.
    if (at(node).kind == NodeKind::kGpu && rate.known()) {
      const Rate highest = pcie_rate(top, width);
      if (highest.bytes_per_second > rate.bytes_per_second) rate = highest;
    }
    return rate;
  }

  // GPUs, and the switches on their boards, clock their links down to 2.5 GT/s while they have nothing to do.
  static bool is_idle(NodeKind kind, const Rate& rate) {
    if (kind != NodeKind::kGpu && kind != NodeKind::kPciSwitch) return false;
    for (const double lanes : {1, 2, 4, 8, 16}) {
      if (std::abs(rate.bytes_per_second - lanes * 250e6) < 1e3) return true;
    }
    return false;
  }

  static DeviceClass device_class(hwloc_obj_t object, const std::vector<hwloc_obj_t>& os_devices) {
    const PciAttributes& pci = object->attr->pcidev;
    const std::string_view subtype = object->subtype ? object->subtype : "";
    if (subtype == "NVSwitch" || (pci.vendor_id == 0x10de && pci.class_id == 0x0680)) return DeviceClass::kNvSwitch;
    bool computes = false;
    bool networks = false;
    for (const hwloc_obj_t os : os_devices) {
      const int type = number_of(os->attr->osdev.type);
      computes |= type == HWLOC_OBJ_OSDEV_COPROC;
      networks |= type == HWLOC_OBJ_OSDEV_NETWORK || type == HWLOC_OBJ_OSDEV_OPENFABRICS;
    }
    const int base = pci.class_id >> 8;
    if (networks || base == 0x02 || pci.class_id == 0x0c06) return DeviceClass::kNic;
    // A display controller of a server's management chip, or inside a CPU of Intel's, is no GPU in our sense.
    const bool chipset = pci.vendor_id == 0x8086 && pci.domain == 0 && pci.bus == 0 && pci.dev == 2;
    const bool old_ati =
        pci.vendor_id == 0x1002 && (pci.device_id == 0x515e || pci.device_id == 0x4752 || pci.device_id == 0x5159);
    const bool maker = pci.vendor_id == 0x10de || pci.vendor_id == 0x1002 || pci.vendor_id == 0x8086;
    if (base == 0x12 || pci.class_id == 0x0302 || (base == 0x03 && maker && !old_ati && !chipset) ||
        (computes && base != 0x01))
      return DeviceClass::kGpu;
    return DeviceClass::kOther;
  }

  void visit_device(hwloc_obj_t object, int parent) {
    std::vector<hwloc_obj_t> os_devices;
    for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling) {
      if (child->type == HWLOC_OBJ_OS_DEVICE) os_devices.push_back(child);
    }
    NodeKind kind = NodeKind::kGpu;
    switch (device_class(object, os_devices)) {
      case DeviceClass::kOther: return;
      case DeviceClass::kGpu: kind = NodeKind::kGpu; break;
      case DeviceClass::kNic: kind = NodeKind::kNic; break;
      case DeviceClass::kNvSwitch: kind = NodeKind::kNvSwitch; break;
    }
    const int node = add_pci_node(kind, parent, object->attr->pcidev);
    by_object_[object] = node;
    for (const std::string_view name : {info(object, "PCIDevice"), info(object, "PCIVendor")}) {
      if (!name.empty() && at(node).get("model").empty()) at(node).set("model", std::string(name));
    }
    describe_os_devices(node, os_devices);
  }

  // A network interface on no PCI device (virtio over MMIO, a platform device).
  void visit_os_device(hwloc_obj_t object, int parent) {
    const int type = number_of(object->attr->osdev.type);
    if (type != HWLOC_OBJ_OSDEV_NETWORK && type != HWLOC_OBJ_OSDEV_OPENFABRICS) return;
    const int node = graph_.add(NodeKind::kNic, parent);
    if (object->name) at(node).name = object->name;
    describe_os_devices(node, {object});
  }

  void describe_os_devices(int node, const std::vector<hwloc_obj_t>& os_devices) {
    std::vector<std::string> nets;
    std::vector<std::string> verbs;
    std::vector<std::string> others;
    for (const hwloc_obj_t os : os_devices) {
      if (!os->name) continue;
      by_object_[os] = node;
      switch (number_of(os->attr->osdev.type)) {
        case HWLOC_OBJ_OSDEV_NETWORK: nets.emplace_back(os->name); break;
        case HWLOC_OBJ_OSDEV_OPENFABRICS: verbs.emplace_back(os->name); break;
        case HWLOC_OBJ_OSDEV_GPU:
        case HWLOC_OBJ_OSDEV_COPROC: others.emplace_back(os->name); break;
        default: break;
      }
      if (const auto model = info(os, "GPUModel"); !model.empty()) at(node).set("model", std::string(model));
      for (const char* key : {"XGMIHiveID", "XGMIPeers"}) {
        if (const auto value = info(os, key); !value.empty()) at(node).set(key, std::string(value));
      }
    }
    const auto join = [](std::vector<std::string> names) {
      std::sort(names.begin(), names.end());
      return hocket::join(names, ",");
    };
    if (!others.empty()) at(node).set("devices", join(others));
    if (!nets.empty()) at(node).set("netdev", join(nets));
    if (!verbs.empty()) at(node).set("rdma", join(verbs));
    if (at(node).kind == NodeKind::kNic && read_sysfs_) at(node).rate = port_rate(node, nets, verbs);
  }

  // Which address of an Ethernet port RoCE uses; a port has up to a few hundred rows, most of them empty.
  void read_gids(int node, const std::string& directory) {
    if (at(node).get("link_layer") != "Ethernet") return;
    std::vector<Gid> table;
    for (int index = 0; index < 256; ++index) {
      Gid gid;
      gid.index = index;
      gid.address = sysfs(format("{}/gids/{}", directory, index));
      if (gid.address.empty()) break;
      const std::string type = sysfs(format("{}/gid_attrs/types/{}", directory, index));
      if (gid.address.find_first_not_of("0:") == std::string::npos || type.empty()) continue;
      describe_address(&gid);
      gid.roce_version = type.find("v2") != std::string::npos ? 2 : 1;
      table.push_back(std::move(gid));
    }
    const int best = best_gid(table);
    if (best < 0) return;
    const auto row = std::find_if(table.begin(), table.end(), [best](const Gid& gid) { return gid.index == best; });
    at(node).set("gid_index", format("{}", best));
    at(node).set("gid_version", format("{}", row->roce_version));
  }

  // The sum over the device's ports: verbs ports ("100 Gb/sec (4X EDR)") if it has any, else interfaces (Mbit/s).
  Rate port_rate(int node, const std::vector<std::string>& nets, const std::vector<std::string>& verbs) {
    double gigabits = 0;
    for (const std::string& name : verbs) {
      for (int port = 1; port <= 8; ++port) {
        const std::string directory = format("{}/sys/class/infiniband/{}/ports/{}", root_, name, port);
        const std::string rate = sysfs(directory + "/rate");
        if (rate.empty()) break;
        // A port that is down reports a rate as well.
        if (sysfs(directory + "/state").find("ACTIVE") == std::string::npos) continue;
        at(node).set("link_layer", sysfs(directory + "/link_layer"));
        if (at(node).get("gid_index").empty()) read_gids(node, directory);
        gigabits += std::strtod(rate.c_str(), nullptr);
      }
    }
    if (verbs.empty()) {
      for (const std::string& name : nets) {
        const double megabits = std::strtod(sysfs(root_ + "/sys/class/net/" + name + "/speed").c_str(), nullptr);
        // -1 and 2^32-1 mean unknown: a driver that has no speed, or an interface that is down.
        if (megabits >= 10 && megabits <= 6.4e6) gigabits += megabits / 1e3;
      }
    }
    return std::isfinite(gigabits) && gigabits > 0 && gigabits < 1e5 ? reported(gigabits / 8 * 1e9) : Rate{};
  }

  hwloc_topology_t topology_;
  std::string root_;
  bool read_sysfs_;
  Graph graph_;
  HwlocNodes by_object_;
};

}  // namespace

std::string first_line(std::string text) {
  text.resize(std::min(text.size(), text.find('\n')));
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

Graph graph_of_hwloc(hwloc_topology_t topology, const std::string& sysfs_root, bool read_sysfs) {
  return Builder(topology, sysfs_root, read_sysfs).build();
}

}  // namespace hocket::topo
