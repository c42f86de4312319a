// SPDX-License-Identifier: Apache-2.0
// topo/nvml_reader.cpp: see nvml_reader.hpp.
#include "topo/nvml_reader.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "base/status.hpp"
#include "topo/link_speed.hpp"

namespace hocket::topo {

namespace {

// NVML's own names and layouts, as far as they are used here.
struct NvmlPci {
  char legacy_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char bus_id[32];
};
using NvmlDevice = struct NvmlDeviceOpaque*;
constexpr int kSuccess = 0;
constexpr unsigned kMostLinks = 18;
constexpr int kRemoteGpu = 0;
constexpr int kRemoteCpu = 1;

struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, NvmlDevice*) = nullptr;
  int (*pci)(NvmlDevice, NvmlPci*) = nullptr;
  int (*capability)(NvmlDevice, int*, int*) = nullptr;
  int (*link_state)(NvmlDevice, unsigned, int*) = nullptr;
  int (*remote_pci)(NvmlDevice, unsigned, NvmlPci*) = nullptr;
  int (*remote_type)(NvmlDevice, unsigned, int*) = nullptr;  // newer drivers only
};

template <class Function>
bool find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  return *function != nullptr;
}

bool find_all(void* library, Nvml* nvml) {
  (void)find(library, "nvmlDeviceGetNvLinkRemoteDeviceType", &nvml->remote_type);
  return find(library, "nvmlInit_v2", &nvml->init) && find(library, "nvmlShutdown", &nvml->shutdown) &&
         find(library, "nvmlDeviceGetCount_v2", &nvml->count) &&
         find(library, "nvmlDeviceGetHandleByIndex_v2", &nvml->device) &&
         find(library, "nvmlDeviceGetPciInfo_v3", &nvml->pci) &&
         find(library, "nvmlDeviceGetCudaComputeCapability", &nvml->capability) &&
         find(library, "nvmlDeviceGetNvLinkState", &nvml->link_state) &&
         find(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", &nvml->remote_pci);
}

std::string bus_id(const NvmlPci& pci) {
  return format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus & 0xff, pci.device & 0xff);
}

class Reader {
 public:
  Reader(Graph* graph, const Nvml& nvml) : graph_(*graph), nvml_(nvml) {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeKind kind = graph_.nodes[i].kind;
      if (kind == NodeKind::kGpu || kind == NodeKind::kNvSwitch) by_bus_[graph_.nodes[i].name] = static_cast<int>(i);
    }
  }

  void read() {
    unsigned devices = 0;
    if (nvml_.count(&devices) != kSuccess) return;
    constexpr unsigned kMostDevices = 1024;
    for (unsigned index = 0; index < std::min(devices, kMostDevices); ++index) read_device(index);
    for (const auto& [pair, counts] : links_) {
      const auto [gpu, other] = pair;
      // Both ends of a link between GPUs tell of it; one that only one end sees does not work.
      const bool peers = at(other).kind == NodeKind::kGpu;
      const int links = peers ? std::min(counts[0], counts[1]) : counts[0];
      if (peers && counts[0] != counts[1])
        graph_.notes.push_back(format("NVML: GPUs {} and {} report {} and {} links to each other, taken as {}",
                                      at(gpu).name, at(other).name, counts[0], counts[1], links));
      if (links == 0) continue;
      const Edge edge{at(other).kind == NodeKind::kNuma ? EdgeKind::kC2c : EdgeKind::kNvlink,
                      std::min(gpu, other),
                      std::max(gpu, other),
                      links,
                      {rate_[gpu] * links, Origin::kNominal},
                      0};
      graph_.edges.push_back(edge);
    }
  }

 private:
  Node& at(int node) { return graph_.nodes[static_cast<std::size_t>(node)]; }

  void read_device(unsigned index) {
    NvmlDevice device = nullptr;
    NvmlPci pci{};
    if (nvml_.device(index, &device) != kSuccess || nvml_.pci(device, &pci) != kSuccess) return;
    const auto known = by_bus_.find(bus_id(pci));
    if (known == by_bus_.end() || at(known->second).kind != NodeKind::kGpu) return;
    const int gpu = known->second;
    at(gpu).os_index = static_cast<int>(index);
    at(gpu).set("dev", format("{}", index));
    int major = 0;
    int minor = 0;
    if (nvml_.capability(device, &major, &minor) == kSuccess) at(gpu).set("sm", format("{}", major * 10 + minor));
    rate_[gpu] = nvlink_bytes_per_second(major * 10 + minor);
    for (unsigned link = 0; link < kMostLinks; ++link) {
      int active = 0;
      if (nvml_.link_state(device, link, &active) != kSuccess || active == 0) continue;
      const int other = other_end(device, link, gpu);
      if (other < 0 || other == gpu) continue;
      const bool peers = at(other).kind == NodeKind::kGpu;
      auto& counts = links_[{peers ? std::min(gpu, other) : gpu, peers ? std::max(gpu, other) : other}];
      ++counts[peers && gpu > other ? 1 : 0];
    }
  }

  // The node at the other end. A switch that PCI does not show (a virtual machine, NVSwitches since Hopper) is hidden.
  int other_end(NvmlDevice device, unsigned link, int gpu) {
    int type = -1;
    if (!nvml_.remote_type || nvml_.remote_type(device, link, &type) != kSuccess) type = -1;
    NvmlPci pci{};
    if (nvml_.remote_pci(device, link, &pci) == kSuccess) {
      if (const auto known = by_bus_.find(bus_id(pci)); known != by_bus_.end()) return known->second;
    }
    if (type == kRemoteGpu) return -1;  // a GPU that this process may not see
    if (type == kRemoteCpu) return graph_.ancestor(gpu, NodeKind::kNuma);
    if (hidden_ < 0) {
      hidden_ = graph_.add(NodeKind::kNvSwitch, 0);
      at(hidden_).name = "fffffff:ff:ff.0";
    }
    return hidden_;
  }

  Graph& graph_;
  const Nvml& nvml_;
  std::map<std::string, int> by_bus_;
  std::map<std::pair<int, int>, std::array<int, 2>> links_;  // GPU and other end: links that each end reports
  std::map<int, double> rate_;                               // of one link of a GPU
  int hidden_ = -1;
};

}  // namespace

void add_nvlinks(Graph* graph, const std::string& library) {
  const bool any = std::any_of(graph->nodes.begin(), graph->nodes.end(), [](const Node& node) {
    return node.kind == NodeKind::kGpu && node.get("vendor") == "10de";
  });
  if (!any) return;
  const std::unique_ptr<void, int (*)(void*)> loaded(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL), ::dlclose);
  Nvml nvml;
  if (!loaded || !find_all(loaded.get(), &nvml)) {
    graph->notes.push_back(format("NVLinks unknown: {} {}", library, loaded ? "is too old" : "can't be loaded"));
    return;
  }
  if (const int code = nvml.init(); code != kSuccess) {
    graph->notes.push_back(format("NVLinks unknown: NVML does not start (error {})", code));
    return;
  }
  Reader(graph, nvml).read();
  (void)nvml.shutdown();
  for (Node& node : graph->nodes) {
    // What hwloc could not tell is told now.
    if (node.kind == NodeKind::kHost)
      std::erase_if(node.attributes, [](const auto& attribute) { return attribute.first == "nvlink"; });
  }
}

}  // namespace hocket::topo
