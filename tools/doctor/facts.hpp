// SPDX-License-Identifier: Apache-2.0
// doctor/facts.hpp: what `hocket doctor` reads of a machine: values, or why there is none. Nothing is guessed.
//
// Next stop: doctor/checks.hpp says what a fact means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/os/net_address.hpp"
#include "hocket/status.hpp"
#include "topo/cpu_budget.hpp"

namespace hocket::doctor {

/// A value, or the path and the reason that there is none.
template <class T>
struct Fact {
  std::optional<T> value;
  std::string why = "was not looked for";

  Fact() = default;
  Fact(T known) : value(std::move(known)) {}
  Fact(const Status& status) : why(status.text()) {}
  template <class U>
  Fact(Result<U> read) {
    if (read.ok()) {
      value = T(std::move(*read));
    } else {
      why = std::string(read.status().text());
    }
  }
  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }
  const T* operator->() const { return &*value; }
};

/// A resource limit of this process, as its ranks inherit it.
struct Limit {
  static constexpr std::uint64_t kNone = UINT64_MAX;
  std::uint64_t soft = kNone, hard = kNone;
  bool operator==(const Limit&) const = default;
};

struct Limits {
  Limit files, locked_bytes, address_space_bytes, file_bytes, processes;
};

struct FileSystem {
  std::uint64_t total_bytes = 0, free_bytes = 0;
  bool in_memory = false;  ///< a tmpfs
};

/// A network interface.
struct Interface {
  std::string name;
  bool up = false;
  bool carrier = false;
  bool physical = false;       ///< hardware, or what a virtual machine has for it
  std::int64_t megabits = -1;  ///< -1: not told
  bool bridge = false;
  int ports = 0, live_ports = 0;  ///< of a bridge; those that have carrier
};

/// One port of a NIC that speaks verbs.
struct RdmaPort {
  std::string device;  ///< mlx5_0
  int port = 1;
  std::string state;       ///< "ACTIVE", "DOWN", …
  std::string link_layer;  ///< InfiniBand or Ethernet
  double gigabits = 0;     ///< 0: not told
  int gids = 0;            ///< that are not zero
  int gids_v2 = 0;         ///< of RoCE v2
};

/// A GPU or a NIC on PCI.
struct PciDevice {
  std::string bus_id;
  bool gpu = false;
  std::string vendor;             ///< "0x10de"
  std::string driver;             ///< "" if none has it
  std::string speed, most_speed;  ///< "16.0 GT/s PCIe"; "" where not told
  int lanes = 0, most_lanes = 0;  ///< 0 where not told
  int numa_node = -1;
  std::string iommu;  ///< type of its group: DMA, DMA-FQ, identity; "" if it is in none
};

/// A PCIe bridge above a GPU, and whether its Access Control Services send peer traffic up to the root.
struct Bridge {
  std::string bus_id;
  Fact<bool> redirects;
};

struct NvidiaDriver {
  std::string version;
};

/// How two GPUs reach each other, as the driver tells.
struct PeerAccess {
  int from = 0, to = 0;
  std::string problem;  ///< "" if they do
};

struct Throttling {
  std::uint64_t periods = 0, throttled = 0;
};

struct Facts {
  std::string root;  ///< "" for this machine
  std::string host;
  bool superuser = false;

  Fact<std::string> settings;                  ///< those of the environment that are not the defaults, as text
  std::vector<std::string> setting_problems;   ///< for which a communicator would be refused, each with its variable
  std::vector<std::string> unknown_variables;  ///< that begin with HOCKET_, each with the nearest known one
  Fact<std::string> job;     ///< "rank 3 of 8, by torchrun": what a launcher's variables say; "" if there are none
  Fact<bool> communicator;   ///< one of one rank could be made and used; read_communicator
  Fact<std::string> kernel;  ///< release
  Fact<bool> memfd;          ///< memory that peers map can be made
  Fact<bool> pidfd;          ///< the end of a process can be waited for
  Fact<Limits> limits;
  Fact<std::uint64_t> launched_ranks;  ///< for which a launcher that is started here may open enough files
  Fact<FileSystem> shm;                ///< /dev/shm
  Fact<std::uint64_t> memory_free_bytes;
  Fact<std::uint64_t> memory_group_bytes;  ///< left in the cgroup; Limit::kNone if it limits nothing
  Fact<topo::CpuBudget> cpus;
  Fact<Throttling> throttling;
  Fact<std::string> huge_pages;  ///< always, madvise or never
  Fact<std::vector<Interface>> interfaces;
  Fact<std::vector<os::NetCandidate>> addresses;  ///< in the order in which they are offered to other hosts
  std::string interface_list;                     ///< HOCKET_INTERFACE
  Fact<std::vector<RdmaPort>> rdma;
  Fact<std::vector<PciDevice>> devices;
  Fact<std::vector<Bridge>> bridges;  ///< above GPUs; empty where there are none
  Fact<bool> iommu;                   ///< whether the kernel runs one
  Fact<std::string> nvidia_driver;    ///< version
  Fact<bool> gpu_direct;              ///< nvidia_peermem is loaded
  Fact<std::vector<PeerAccess>> peer_access;
  Fact<std::vector<std::string>> link_findings;  ///< missing NVLinks, slow PCIe: topo/findings.hpp
  std::vector<std::string> topology_notes;       ///< what the topology could not read of GPUs
};

/// Reads all of it, in less than a second or two. `root` is put before /proc and /sys; not empty, nothing is asked of
/// this machine's kernel, and what only that could tell is not readable. Never fails. One thread.
Facts read_facts(const std::string& root);

/// Makes a communicator of one rank with the settings of the environment, which write nothing, and calls it.
Status try_communicator();

// ---- Parts of it, for tests as well ----

/// How the GPUs of an NVIDIA driver reach each other, by its management library. kUnsupported with the reason.
Result<std::vector<PeerAccess>> read_peer_access(const std::string& library);

/// /proc/self/limits.
Result<Limits> parse_limits(const std::string& text);
/// The word in brackets: "always [madvise] never".
Result<std::string> parse_choice(const std::string& text);
/// Whether a bridge's configuration space says that ACS redirects peers' requests; kUnsupported for too few bytes (only
/// the superuser reads more than 64).
Result<bool> parse_acs(const std::string& bytes);

}  // namespace hocket::doctor
