// SPDX-License-Identifier: Apache-2.0
// A management library of a machine that is not there, for tests: GPUs 0 and 1 are joined by two links, of which the
// second is down at GPU 1; each has four links to a switch that PCI does not show; GPU 2 has a link to a GPU of another
// user.
#include <cstring>

namespace {
struct Pci {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
struct Device {
  unsigned index;
};
Device devices[3] = {{0}, {1}, {2}};
constexpr unsigned kBuses[] = {0x04, 0x05, 0x06};

enum Remote { kGpu = 0, kSwitch = 2, kNone = 255 };
struct Link {
  Remote type;
  unsigned bus;
  bool active;
};
Link link_of(unsigned gpu, unsigned link) {
  if (gpu < 2 && link < 2) return {kGpu, kBuses[1 - gpu], gpu == 0 || link == 0};
  if (gpu < 2 && link < 6) return {kSwitch, 0, true};
  if (gpu == 2 && link == 0) return {kGpu, 0x77, true};
  return {kNone, 0, false};
}
}  // namespace

extern "C" {
int nvmlInit_v2() {
  return 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device** device) {
  if (index > 2) return 2;
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetPciInfo_v3(Device* device, Pci* pci) {
  std::memset(pci, 0, sizeof *pci);
  pci->bus = kBuses[device->index];
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(Device*, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return 0;
}
// GPU 2 is not reached by the others, nor reaches them: by a setting of the driver.
int nvmlDeviceGetP2PStatus(Device* from, Device* to, int, int* status) {
  *status = from->index == 2 || to->index == 2 ? 4 : 0;
  return 0;
}
int nvmlDeviceGetNvLinkState(Device* device, unsigned link, int* active) {
  *active = link_of(device->index, link).active ? 1 : 0;
  return link_of(device->index, link).type == kNone ? 3 : 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device* device, unsigned link, Pci* pci) {
  std::memset(pci, 0, sizeof *pci);
  pci->bus = link_of(device->index, link).bus;
  return link_of(device->index, link).type == kGpu ? 0 : 3;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(Device* device, unsigned link, int* type) {
  *type = link_of(device->index, link).type;
  return 0;
}
}
