// SPDX-License-Identifier: Apache-2.0
// doctor/checks.cpp: see checks.hpp. The table is at the end.
#include "tools/doctor/checks.hpp"

#include <algorithm>
#include <map>

#include "base/status.hpp"
#include "topo/graph.hpp"
#include "topo/link_speed.hpp"

namespace hocket::doctor {
namespace {

using Findings = std::vector<Finding>;
using os::NetReach;

// Here nothing is an amount, and no size that is not known.
std::string bytes_to_text(std::uint64_t bytes) {
  return bytes == 0 ? "0 B" : topo::bytes_to_text(bytes);
}

Finding fine(std::string seen) {
  return {Severity::kFine, {}, std::move(seen), {}, {}};
}
Finding unknown(std::string_view what, std::string_view why) {
  return {Severity::kUnknown, {}, format("{}: not readable: {}", what, why), {}, {}};
}
Finding finding(Severity severity, std::string seen, std::string cost, std::string mend) {
  return {severity, {}, std::move(seen), std::move(cost), std::move(mend)};
}

std::string limit_text(std::uint64_t limit) {
  return limit == Limit::kNone ? "unlimited" : bytes_to_text(limit);
}

// As many as the machine has CPUs for, two at least: what a job of its own would start here.
int likely_ranks(const Facts& facts) {
  const double cpus = facts.cpus ? facts.cpus->usable_cpus() : 2;
  return std::clamp(static_cast<int>(cpus), 2, 1024);
}

// ---- Settings ----

Findings settings(const Facts& facts) {
  Findings found;
  if (!facts.settings && !facts.root.empty()) return {unknown("the settings of a job", facts.settings.why)};
  std::vector<std::string> problems = facts.setting_problems;
  if (!facts.settings) problems.push_back(facts.settings.why);
  for (const std::string& problem : problems) {
    // It begins with the variable.
    const std::string variable = problem.substr(0, problem.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"));
    found.push_back(finding(
        Severity::kError, problem, "no communicator can be made with it",
        variable.empty() ? "set it right, or unset it" : format("set {} right, or unset {}", variable, variable)));
  }
  for (const std::string& variable : facts.unknown_variables) {
    found.push_back(
        finding(Severity::kWarning, "unknown variable " + variable, "it is ignored, whatever was meant",
                format("unset {}, and set the one that was meant", variable.substr(0, variable.find(',')))));
  }
  if (found.empty()) {
    found.push_back(fine(facts.settings->empty() ? "no HOCKET_ variable changes a default" : *facts.settings));
  }
  return found;
}

// ---- Who started this ----

Findings job(const Facts& facts) {
  if (!facts.job && !facts.root.empty()) return {unknown("who started this", facts.job.why)};
  if (!facts.settings) return {};  // how ranks meet is among them
  if (!facts.job) {
    return {finding(Severity::kError, facts.job.why, "Communicator::from_environment() fails here",
                    "start the program by its launcher, or unset what is left of one")};
  }
  return {fine(facts.job->empty() ? "no launcher has left variables here: a program started so is a job of its own"
                                  : *facts.job)};
}

// ---- All together ----

Findings communicator(const Facts& facts) {
  if (!facts.communicator && !facts.root.empty()) return {unknown("whether ranks can start", facts.communicator.why)};
  if (facts.communicator) return {fine("one rank was started alone, and its all_reduce works")};
  return {finding(Severity::kError, format("one rank alone can't be started: {}", facts.communicator.why),
                  "no program with hocket runs here", "as the text says; HOCKET_LOG=debug tells more")};
}

// ---- Kernel ----

Findings kernel(const Facts& facts) {
  Findings found;
  const struct {
    const Fact<bool>& works;
    std::string_view name, cost;
  } calls[] = {{facts.memfd, "memfd_create", "no communicator can be made: the memory of ranks comes from it"},
               {facts.pidfd, "pidfd_open", "`hocket run` can't start ranks, and dead ones are not noticed"}};
  for (const auto& call : calls) {
    if (call.works) continue;
    if (!facts.root.empty()) {
      found.push_back(unknown(call.name, call.works.why));
      continue;
    }
    found.push_back(finding(Severity::kError, format("{} does not work: {}", call.name, call.works.why),
                            std::string(call.cost),
                            "a kernel from 5.4 on, and a container whose seccomp profile allows it (docker run "
                            "--security-opt seccomp=unconfined tells whether it is that)"));
  }
  if (!found.empty()) return found;
  found.push_back(facts.kernel ? fine(format("Linux {}: memfd_create and pidfd_open work", *facts.kernel))
                               : unknown("the kernel's release", facts.kernel.why));
  return found;
}

// ---- CPUs ----

Findings cpus(const Facts& facts) {
  if (!facts.cpus) return {unknown("which CPUs may be used", facts.cpus.why)};
  const topo::CpuBudget& cpus = *facts.cpus;
  Findings found;
  const int allowed = cpus.allowed.count(), online = cpus.online.count();
  if (cpus.online.empty()) found.push_back(unknown("which CPUs are online", "/sys/devices/system/cpu/online"));
  if (cpus.quota_cpus > 0 && cpus.quota_cpus < allowed) {
    found.push_back(finding(
        Severity::kWarning, format("the cgroup grants {:.2f} CPUs, of {} that may be used", cpus.quota_cpus, allowed),
        "ranks are stopped for tens of ms once it is used up, and all others wait for them",
        format("start at most {} rank{} here, or raise the quota (docker run --cpus, resources.limits.cpu)",
               std::max(1, static_cast<int>(cpus.quota_cpus)), cpus.quota_cpus < 2 ? "" : "s")));
  }
  if (!cpus.online.empty() && allowed < online) {
    found.push_back(
        finding(Severity::kNote,
                format("this shell may use CPUs {} ({} of {} online)", cpus.allowed.to_string(), allowed, online),
                "ranks that are started here share these",
                "if it is not meant: taskset -p -c 0-" + format("{} $$", online - 1)));
  }
  if (allowed == 1) {
    found.push_back(finding(Severity::kWarning, "only one CPU may be used",
                            "ranks take turns on it: a call costs context switches instead of nanoseconds",
                            "give this shell or container more CPUs"));
  }
  if (facts.throttling && facts.throttling->throttled > 0) {
    found.push_back(finding(Severity::kWarning,
                            format("the cgroup was out of CPU time in {} of {} periods", facts.throttling->throttled,
                                   facts.throttling->periods),
                            "ranks were stopped in the middle of calls", "raise the cgroup's CPU quota (cpu.max)"));
  }
  if (found.empty()) {
    found.push_back(fine(format("{} CPUs may be used, {}", allowed,
                                cpus.quota_cpus > 0 ? format("quota {:.2f}", cpus.quota_cpus) : "no quota")));
  }
  return found;
}

// ---- Memory ----

// What the channels of n ranks on one host take when each rank talks to each: slots as settings.hpp chooses them.
std::uint64_t channel_bytes(int ranks) {
  const std::uint64_t n = static_cast<std::uint64_t>(ranks), slots = ranks <= 2 ? 16 : ranks <= 4 ? 8 : 4;
  return n * (n - 1) * slots * (std::uint64_t{64} << 10);
}

Findings memory(const Facts& facts) {
  Findings found;
  if (!facts.memory_free_bytes) found.push_back(unknown("free memory", facts.memory_free_bytes.why));
  if (!facts.memory_group_bytes) found.push_back(unknown("the cgroup's memory limit", facts.memory_group_bytes.why));
  if (!facts.memory_free_bytes) return found;
  const std::uint64_t free_bytes = *facts.memory_free_bytes;
  const std::uint64_t group = facts.memory_group_bytes ? *facts.memory_group_bytes : Limit::kNone;
  const int ranks = likely_ranks(facts);
  const std::uint64_t need = channel_bytes(ranks);
  const std::uint64_t least = std::min(free_bytes, group);
  if (least < need) {
    found.push_back(finding(
        Severity::kWarning,
        format("{} of memory are left{}; channels of {} ranks take up to {}", bytes_to_text(least),
               group < free_bytes ? " in the cgroup" : "", ranks, bytes_to_text(need)),
        "the kernel ends ranks when it has none left",
        group < free_bytes ? "raise the cgroup's limit (docker run --memory)" : "HOCKET_SLOTS=2, or fewer ranks"));
  } else {
    found.push_back(fine(format("{} free{}", bytes_to_text(free_bytes),
                                group == Limit::kNone ? "" : format(", {} left in the cgroup", bytes_to_text(group)))));
  }
  return found;
}

Findings shm(const Facts& facts) {
  constexpr std::uint64_t kDockersDefault = std::uint64_t{64} << 20;
  constexpr std::string_view kCost =
      "nothing to hocket, whose memory is memfd's; NCCL, Open MPI and PyTorch's data loaders in the same job fail or "
      "crash with a bus error";
  if (!facts.shm) {
    if (!facts.root.empty()) return {unknown("/dev/shm", facts.shm.why)};
    return {finding(Severity::kNote, format("there is no usable /dev/shm: {}", facts.shm.why), std::string(kCost),
                    "mount -t tmpfs -o size=50% tmpfs /dev/shm")};
  }
  const std::string seen =
      format("/dev/shm has {}, {} free", bytes_to_text(facts.shm->total_bytes), bytes_to_text(facts.shm->free_bytes));
  if (!facts.shm->in_memory)
    return {finding(Severity::kNote, "/dev/shm is no tmpfs but part of another file system", std::string(kCost),
                    "mount -t tmpfs -o size=50% tmpfs /dev/shm")};
  if (facts.shm->total_bytes <= kDockersDefault)
    return {finding(Severity::kNote, seen, std::string(kCost),
                    "mount -o remount,size=50% /dev/shm (docker run --shm-size=8g)")};
  if (facts.shm->free_bytes <= kDockersDefault)
    return {finding(Severity::kNote, seen, std::string(kCost), "ls -lat /dev/shm shows what is left there")};
  return {fine(seen + "; hocket needs none of it")};
}

Findings huge_pages(const Facts& facts) {
  if (!facts.huge_pages) return {unknown("transparent huge pages", facts.huge_pages.why)};
  if (*facts.huge_pages != "never") return {fine(format("transparent huge pages: {}", *facts.huge_pages))};
  return {finding(Severity::kNote, "transparent huge pages: never",
                  "large buffers of the program take more page faults and TLB misses",
                  "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")};
}

// ---- Limits ----

Findings files(const Facts& facts) {
  if (!facts.limits) return {unknown("the limit of open files", facts.limits.why)};
  const Limit& files = facts.limits->files;
  if (files.soft == Limit::kNone) return {fine("no limit of open files")};
  // What was counted of a rank: its standard streams, arena, wake-ups and listeners; two for each other rank of its
  // host, three for each that it reaches over a network.
  constexpr std::uint64_t kRank = 16, kNear = 2, kFar = 3, kUsual = 1024;
  const std::uint64_t others = files.soft - std::min(files.soft, kRank), far = others / kFar;
  // Who starts them raises its own limit; of a saved tree by what that takes in an ordinary shell.
  const std::uint64_t started = facts.launched_ranks ? *facts.launched_ranks
                                : files.hard == Limit::kNone
                                    ? Limit::kNone
                                    : (files.hard - std::min<std::uint64_t>(files.hard, 12)) / 4;
  const std::uint64_t here = std::min(started, others / kNear + 1);
  if (files.soft >= kUsual)
    return {fine(format("{} open files: {} ranks on this host, or about {} over a network", files.soft, here, far))};
  const std::string mend =
      files.hard >= kUsual
          ? format("ulimit -n {}", files.hard == Limit::kNone ? 65536 : std::min<std::uint64_t>(files.hard, 65536))
          : "as root: ulimit -n 65536 before the shell starts (LimitNOFILE=, /etc/security/limits.conf)";
  return {finding(here < static_cast<std::uint64_t>(likely_ranks(facts)) ? Severity::kError : Severity::kWarning,
                  format("only {} open files are allowed", files.soft),
                  format("enough for {} rank{} on this host, and for about {} that a rank reaches over a network; "
                         "more do not start",
                         here, here == 1 ? "" : "s", far),
                  mend)};
}

Findings address_space(const Facts& facts) {
  if (!facts.limits) return {unknown("the limits of address space and file size", facts.limits.why)};
  // transport/arena.cpp: a rank reserves that much, if need be down to the least, and maps as much of each peer.
  constexpr std::uint64_t kArena = std::uint64_t{64} << 30, kLeast = std::uint64_t{1} << 30;
  const std::uint64_t space = facts.limits->address_space_bytes.soft, file = facts.limits->file_bytes.soft;
  const int ranks = likely_ranks(facts);
  Findings found;
  if (space < static_cast<std::uint64_t>(ranks) * kArena + kLeast) {
    found.push_back(
        finding(Severity::kError, format("address space is limited to {}", bytes_to_text(space)),
                format("communicators of {} ranks on this host can't be made: each maps 64 GiB of each other, "
                       "of which little is used",
                       ranks),
                "ulimit -v unlimited"));
  }
  if (file < kLeast) {
    found.push_back(finding(Severity::kError, format("file size is limited to {}", bytes_to_text(file)),
                            "no communicator can be made: a rank's memory is a file without a name, of 1 GiB at least",
                            "ulimit -f unlimited"));
  } else if (file < kArena) {
    found.push_back(finding(Severity::kNote, format("file size is limited to {}", bytes_to_text(file)),
                            "a rank's channels and mem_alloc memory have no more room than that",
                            "ulimit -f unlimited"));
  }
  if (found.empty()) found.push_back(fine("no limit of address space or file size that matters"));
  return found;
}

Findings locked_memory(const Facts& facts) {
  if (!facts.limits) return {unknown("the limit of locked memory", facts.limits.why)};
  const Limit& locked = facts.limits->locked_bytes;
  constexpr std::uint64_t kEnough = std::uint64_t{1} << 30, kKernelsDefault = std::uint64_t{8} << 20;
  const bool rdma = facts.rdma && !facts.rdma->empty();
  if (locked.soft >= kEnough || (!rdma && facts.rdma && locked.soft >= kKernelsDefault)) {
    return {fine(format("{} of memory may be locked{}", limit_text(locked.soft),
                        locked.soft < kEnough ? ", and only RDMA needs more" : ""))};
  }
  const std::string mend = locked.hard == Limit::kNone
                               ? "ulimit -l unlimited"
                               : "as root: ulimit -l unlimited before the shell starts (LimitMEMLOCK=infinity, docker "
                                 "run --ulimit memlock=-1)";
  return {finding(rdma ? Severity::kWarning : Severity::kNote,
                  format("{} of memory may be locked", limit_text(locked.soft)),
                  rdma || !facts.rdma
                      ? "programs that use this host's RDMA NICs can't register their buffers (hocket itself uses TCP)"
                      : "nothing here: only RDMA needs it, and this host has no NIC for that",
                  mend)};
}

// ---- Network ----

// Whoever is meant to be behind it is not there.
bool is_dead_bridge(const Interface& one) {
  return one.bridge && one.live_ports == 0;
}

Findings interfaces(const Facts& facts) {
  Findings found;
  if (!facts.interfaces) found.push_back(unknown("the network interfaces", facts.interfaces.why));
  if (!facts.addresses) found.push_back(unknown("the network addresses", facts.addresses.why));
  std::map<std::string, const Interface*> known;
  if (facts.interfaces) {
    for (const Interface& one : *facts.interfaces) known[one.name] = &one;
  }
  std::vector<std::string> addressed;
  const os::NetCandidate* best = nullptr;
  bool far = false;
  if (facts.addresses) {
    for (const os::NetCandidate& one : *facts.addresses) {
      addressed.push_back(one.interface);
      const auto at = known.find(one.interface);
      if (at != known.end() && is_dead_bridge(*at->second)) continue;
      if (!best && one.usable() && one.reach != NetReach::kLoopback) best = &one;
      far |= one.reach == NetReach::kRoutable || one.reach == NetReach::kLinkLocal;
    }
  }
  const auto has_address = [&](const std::string& name) {
    return std::find(addressed.begin(), addressed.end(), name) != addressed.end();
  };

  for (const auto& [name, one] : known) {
    if (is_dead_bridge(*one) && has_address(name)) {
      found.push_back(finding(
          Severity::kNote,
          format("bridge {} has an address, and {}", name,
                 one->ports == 0 ? "no port" : format("{} ports of which none has carrier", one->ports)),
          one->carrier
              ? "no host is behind it: ranks elsewhere try it beside the right one; libraries that take the first "
                "address they find hang on it"
              : "nothing to hocket, which leaves it out; libraries that take the first address they find hang "
                "on it",
          format("ip link delete {}, or HOCKET_INTERFACE=^={} (NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME for others)",
                 name, name)));
    } else if (one->physical && !one->up) {
      found.push_back(finding(Severity::kNote, format("interface {} is down", name), "it carries nothing",
                              format("ip link set {} up", name)));
    } else if (one->physical && !one->carrier) {
      found.push_back(finding(Severity::kNote, format("interface {} has no carrier", name), "it carries nothing",
                              format("ethtool {}; look at its cable and the switch's port", name)));
    } else if (one->physical && facts.addresses && !has_address(name)) {
      found.push_back(finding(Severity::kNote, format("interface {} is up and has no address", name),
                              "hosts can't be reached over it by TCP",
                              format("ip addr add ADDRESS/BITS dev {}", name)));
    }
  }
  if (!facts.addresses) return found;

  std::string told;  // an interface has several addresses
  for (const os::NetCandidate& one : *facts.addresses) {
    const auto at = known.find(one.interface);
    const Interface* interface = at == known.end() ? nullptr : at->second;
    if (one.usable() || one.address.is_loopback() || one.interface == told) continue;
    const bool idle = interface && (!interface->up || !interface->carrier);
    if (idle && (interface->physical || is_dead_bridge(*interface))) continue;  // said above
    told = one.interface;
    found.push_back(finding(Severity::kNote,
                            format("{} on {}: {}", os::to_string(one.address), one.interface, one.reason),
                            "other hosts do not reach this one by it",
                            !idle           ? format("HOCKET_INTERFACE, which is {}", facts.interface_list)
                            : interface->up ? format("ip link show {}, and whatever is at its other end", one.interface)
                                            : format("ip link set {} up, if it is meant to be used", one.interface)));
  }
  if (!best) {
    found.push_back(finding(Severity::kWarning, "no address that another host could reach",
                            "only ranks of this host find each other; jobs over several hosts do not start",
                            "ip addr shows what there is; ip link set IFACE up, and give it an address"));
    return found;
  }
  if (!far) {
    found.push_back(
        finding(Severity::kWarning,
                format("{} on {} is the best address, and named as those of containers and virtual machines "
                       "are",
                       os::to_string(best->address), best->interface),
                "other hosts seldom reach such a one", format("HOCKET_INTERFACE={} if it is meant", best->interface)));
  }
  // The first offered is the first that answers, on equal terms; a faster one behind it is a pity.
  const auto speed_of = [&](const std::string& name) {
    const auto at = known.find(name);
    return at == known.end() ? -1 : at->second->megabits;
  };
  const os::NetCandidate* fastest = best;
  for (const os::NetCandidate& one : *facts.addresses) {
    if (one.reach == NetReach::kRoutable && speed_of(one.interface) > speed_of(fastest->interface)) fastest = &one;
  }
  if (speed_of(best->interface) > 0 && speed_of(fastest->interface) > speed_of(best->interface)) {
    found.push_back(finding(Severity::kWarning,
                            format("{} ({} Mb/s) is offered to other hosts before {} ({} Mb/s)", best->interface,
                                   speed_of(best->interface), fastest->interface, speed_of(fastest->interface)),
                            "calls between hosts may go over the slower one",
                            format("HOCKET_INTERFACE=={}", fastest->interface)));
  } else if (far) {
    found.push_back(
        fine(format("other hosts reach this one by {} on {}", os::to_string(best->address), best->interface)));
  }
  return found;
}

Findings rdma(const Facts& facts) {
  if (!facts.rdma) return {unknown("RDMA NICs", facts.rdma.why)};
  if (facts.rdma->empty()) return {fine("no RDMA NIC; hosts are reached by TCP")};
  Findings found;
  double most = 0;
  for (const RdmaPort& port : *facts.rdma) most = std::max(most, port.gigabits);
  for (const RdmaPort& port : *facts.rdma) {
    const std::string name = format("{} port {}", port.device, port.port);
    if (port.state != "ACTIVE") {
      found.push_back(
          finding(Severity::kWarning, format("{} is {}", name, port.state.empty() ? "in no state" : port.state),
                  "its bandwidth is missing to everything that uses RDMA",
                  format("ibstat {} {}, then cable, switch port and subnet manager", port.device, port.port)));
    } else if (port.gigabits > 0 && port.gigabits < most) {
      found.push_back(finding(Severity::kNote,
                              format("{} has {:.4g} Gb/s, the fastest here has {:.4g}", name, port.gigabits, most),
                              "a job that uses all of them waits for the slowest",
                              format("mlxlink -d {} shows what the link agreed on", port.device)));
    } else if (port.gids == 0) {
      found.push_back(finding(Severity::kWarning, format("{} has no GID", name), "nobody can address it",
                              "show_gids; give its interface an address"));
    } else if (port.link_layer == "Ethernet" && port.gids_v2 == 0) {
      found.push_back(finding(Severity::kWarning, format("{} has no GID of RoCE v2", name),
                              "RoCE packets do not pass routers", "cma_roce_mode -d " + port.device + " -p 1 -m 2"));
    } else {
      found.push_back(fine(format("{} is active, {}, {:.4g} Gb/s", name, port.link_layer, port.gigabits)));
    }
  }
  return found;
}

// ---- Devices ----

Findings pci_links(const Facts& facts) {
  if (!facts.devices) return {unknown("PCI devices", facts.devices.why)};
  Findings found;
  int told = 0;
  for (const PciDevice& device : *facts.devices) {
    const std::string name = format("{} {}", device.gpu ? "GPU" : "NIC", device.bus_id);
    const topo::Rate now = topo::pcie_rate(device.speed, format("{}", device.lanes));
    const topo::Rate most = topo::pcie_rate(device.most_speed, format("{}", device.most_lanes));
    if (!now.known() || !most.known()) continue;  // virtual devices have no link
    ++told;
    if (device.lanes < device.most_lanes) {
      found.push_back(
          finding(Severity::kWarning, format("{} runs on {} of {} PCIe lanes", name, device.lanes, device.most_lanes),
                  format("{:.3g} GB/s instead of {:.3g}", now.bytes_per_second / 1e9, most.bytes_per_second / 1e9),
                  format("lspci -vv -s {}; reseat the card, or move it to a wider slot", device.bus_id)));
    } else if (now.bytes_per_second < 0.9 * most.bytes_per_second) {
      // A GPU slows its link down while it has nothing to do.
      found.push_back(finding(
          device.gpu ? Severity::kNote : Severity::kWarning,
          format("{} runs at {}, it can do {}", name, device.speed, device.most_speed),
          device.gpu ? "nothing, if the GPU is idle: it speeds up under load"
                     : format("{:.3g} GB/s instead of {:.3g}", now.bytes_per_second / 1e9, most.bytes_per_second / 1e9),
          device.gpu ? format("look again while it works: nvidia-smi -q -i {}", device.bus_id)
                     : format("lspci -vv -s {}; look at the slot's speed in the BIOS", device.bus_id)));
    }
  }
  if (found.empty()) {
    found.push_back(fine(
        told == 0 ? "no GPU or NIC with a PCIe link of its own"
                  : format("{} GPU{} and NICs have the PCIe links they are made for", told, told == 1 ? "" : "s")));
  }
  return found;
}

Findings gpus(const Facts& facts) {
  if (!facts.devices) return {unknown("whether there are GPUs", facts.devices.why)};
  Findings found;
  int count = 0, nvidia = 0, without_node = 0;
  for (const PciDevice& device : *facts.devices) {
    if (!device.gpu) continue;
    ++count;
    nvidia += device.vendor == "0x10de";
    without_node += device.numa_node < 0;
    if (device.driver.empty() || device.driver == "nouveau") {
      found.push_back(finding(
          Severity::kWarning,
          format("GPU {} has {}", device.bus_id,
                 device.driver.empty() ? "no driver" : "the nouveau driver, which computes nothing"),
          "no program can use it",
          nvidia ? "install the NVIDIA driver; dmesg | grep -i nvrm tells why it did not start" : "modprobe amdgpu"));
    } else if (device.driver == "vfio-pci") {
      found.push_back(finding(Severity::kNote, format("GPU {} is given to virtual machines (vfio-pci)", device.bus_id),
                              "programs of this host can't use it", "driverctl unset-override " + device.bus_id));
    }
  }
  if (count == 0) return {fine("no GPU: host memory only")};
  for (const std::string& note : facts.topology_notes)
    found.push_back(finding(Severity::kWarning, note, "hocket plans without the NVLinks", "nvidia-smi nvlink -s"));
  if (nvidia > 0 && !facts.nvidia_driver)
    found.push_back(unknown("the version of the NVIDIA driver", facts.nvidia_driver.why));
  if (without_node == count && count > 1 && facts.cpus && facts.cpus->online.count() > 16)
    found.push_back(finding(Severity::kNote, "the kernel does not know the NUMA node of any GPU",
                            "ranks are placed without regard to it", "a virtual machine: HOCKET_TOPO_FILE tells it"));
  if (found.empty()) {
    found.push_back(fine(format("{} GPU{}{}; hocket 0.1 works on host memory", count, count == 1 ? "" : "s",
                                facts.nvidia_driver ? ", NVIDIA driver " + *facts.nvidia_driver : std::string())));
  }
  return found;
}

bool has_gpu(const Facts& facts) {
  return facts.devices &&
         std::any_of(facts.devices->begin(), facts.devices->end(), [](const PciDevice& device) { return device.gpu; });
}

Findings gpu_links(const Facts& facts) {
  if (!has_gpu(facts)) return {};
  Findings found;
  if (!facts.link_findings) return {unknown("how GPUs are linked", facts.link_findings.why)};
  for (const std::string& text : *facts.link_findings)
    found.push_back(finding(Severity::kWarning, text, "all ranks wait for the slowest link",
                            "nvidia-smi nvlink -s, nvidia-smi topo -m"));
  if (found.empty()) found.push_back(fine("GPUs of a kind have equal NVLinks and PCIe links"));
  return found;
}

Findings peer_access(const Facts& facts) {
  if (!has_gpu(facts)) return {};
  if (!facts.peer_access) return {unknown("peer access between GPUs", facts.peer_access.why)};
  std::map<std::string, std::vector<std::string>> problems;
  for (const PeerAccess& one : *facts.peer_access)
    if (!one.problem.empty()) problems[one.problem].push_back(format("{}-{}", one.from, one.to));
  Findings found;
  for (const auto& [problem, pairs] : problems) {
    constexpr std::size_t kShown = 8;
    const std::vector<std::string> shown(pairs.begin(),
                                         pairs.begin() + static_cast<std::ptrdiff_t>(std::min(pairs.size(), kShown)));
    found.push_back(
        finding(Severity::kWarning,
                format("GPUs {}{} do not reach each other's memory: {}", join(shown, ", "),
                       pairs.size() > kShown ? format(" and {} pairs more", pairs.size() - kShown) : "", problem),
                "what goes between them is staged in host memory", "nvidia-smi topo -p2p r"));
  }
  if (found.empty())
    found.push_back(fine(facts.peer_access->empty()
                             ? "one GPU: no peers"
                             : format("all {} pairs of GPUs reach each other's memory", facts.peer_access->size())));
  return found;
}

Findings iommu(const Facts& facts) {
  if (!has_gpu(facts)) return {};
  Findings found;
  for (const PciDevice& device : *facts.devices) {
    if (!device.iommu.starts_with("DMA")) continue;
    found.push_back(finding(
        Severity::kWarning,
        format("the IOMMU translates addresses of {} {} ({})", device.gpu ? "GPU" : "NIC", device.bus_id, device.iommu),
        "transfers between devices go up to the root and down again, and may fail or hang",
        "iommu=pt on the kernel's command line"));
  }
  if (!facts.iommu) found.push_back(unknown("whether there is an IOMMU", facts.iommu.why));
  if (!facts.bridges) {
    found.push_back(unknown("the bridges above GPUs", facts.bridges.why));
    return found;
  }
  int redirect = 0, unread = 0;
  std::string first, why;
  for (const Bridge& bridge : *facts.bridges) {
    if (!bridge.redirects) {
      ++unread;
      why = bridge.redirects.why;
    } else if (*bridge.redirects && redirect++ == 0) {
      first = bridge.bus_id;
    }
  }
  if (redirect > 0)
    found.push_back(finding(Severity::kWarning,
                            format("Access Control Services of {} PCIe bridge{} above GPUs redirect peer traffic ({})",
                                   redirect, redirect == 1 ? "" : "s", first),
                            "transfers between devices below a switch go through the root, at half the speed or less",
                            format("setpci -s {} ECAP_ACS+0x6.w=0000 for each, or in the BIOS", first)));
  if (unread > 0) found.push_back(unknown(format("ACS of {} PCIe bridge{}", unread, unread == 1 ? "" : "s"), why));
  if (found.empty()) found.push_back(fine("neither IOMMU nor ACS is in the way of transfers between devices"));
  return found;
}

Findings gpu_direct(const Facts& facts) {
  if (!has_gpu(facts) || !facts.rdma || facts.rdma->empty()) return {};
  if (!facts.gpu_direct) return {unknown("GPUDirect RDMA", facts.gpu_direct.why)};
  if (*facts.gpu_direct) return {fine("nvidia_peermem is loaded")};
  return {finding(Severity::kNote, "nvidia_peermem is not loaded",
                  "programs that have no dma-buf way send GPU memory through host memory", "modprobe nvidia_peermem")};
}

constexpr Check kChecks[] = {
    {"settings", settings},
    {"job", job},
    {"kernel", kernel},
    {"cpus", cpus},
    {"memory", memory},
    {"shm", shm},
    {"huge pages", huge_pages},
    {"open files", files},
    {"address space", address_space},
    {"locked memory", locked_memory},
    {"network", interfaces},
    {"rdma", rdma},
    {"pcie", pci_links},
    {"gpus", gpus},
    {"gpu links", gpu_links},
    {"peer access", peer_access},
    {"iommu", iommu},
    {"gpudirect", gpu_direct},
};
// Looked at last, and told only where no other check has found why.
constexpr Check kLastCheck = {"communicator", communicator};

}  // namespace

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::kFine: return "fine";
    case Severity::kUnknown: return "unknown";
    case Severity::kNote: return "note";
    case Severity::kWarning: return "warning";
    case Severity::kError: return "error";
  }
  return "?";
}

std::span<const Check> checks() {
  return kChecks;
}

std::vector<Finding> run_checks(const Facts& facts) {
  std::vector<Finding> all;
  for (const Check& check : kChecks) {
    for (Finding& one : check.run(facts)) {
      one.check = check.name;
      all.push_back(std::move(one));
    }
  }
  if (facts.communicator || worst_of(all) != Severity::kError) {
    for (Finding& one : kLastCheck.run(facts)) {
      one.check = kLastCheck.name;
      all.push_back(std::move(one));
    }
  }
  return all;
}

Severity worst_of(const std::vector<Finding>& findings) {
  Severity worst = Severity::kFine;
  for (const Finding& one : findings) worst = std::max(worst, one.severity);
  return worst;
}

int exit_status(const std::vector<Finding>& findings) {
  const Severity worst = worst_of(findings);
  return worst == Severity::kError ? 2 : worst == Severity::kWarning ? 1 : 0;
}

}  // namespace hocket::doctor
