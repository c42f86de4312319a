// SPDX-License-Identifier: Apache-2.0
#include "core/resolve_settings.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>

#include "algorithms/select.hpp"
#include "base/log.hpp"
#include "base/status.hpp"
#include "core/observe.hpp"
#include "core/tuning_file.hpp"
#include "topo/host_layout.hpp"
#include "topo/hwloc_reader.hpp"
#include "topo/machine_file.hpp"
#include "topo/merge.hpp"

namespace hocket {
namespace {

/// hocket's variable, or NCCL's if that alone is set.
std::string named(const char* ours, const char* nccls, const std::string& value) {
  const char* our_value = std::getenv(ours);
  const char* their_value = std::getenv(nccls);
  return (!our_value || !*our_value) && their_value && value == their_value ? nccls : ours;
}

/// Whether a file of this name could be opened for writing, or made. Makes none.
Status check_writable(std::string_view variable, const std::string& path) {
  struct stat there {};
  if (::stat(path.c_str(), &there) == 0) {
    if (S_ISDIR(there.st_mode)) return error(Code::kInvalidArgument, "{}: {} is a folder", variable, path);
    if (::access(path.c_str(), W_OK) != 0)
      return system_error(Code::kInvalidArgument, errno, "{}: {} cannot be written", variable, path);
    return {};
  }
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return system_error(Code::kInvalidArgument, errno, "{}: {} cannot be made in {}", variable, path, folder);
  struct statvfs room {};
  if (::statvfs(folder.c_str(), &room) == 0 && room.f_blocks != 0 && room.f_bavail == 0)
    return system_error(Code::kInvalidArgument, ENOSPC, "{}: {} cannot be written", variable, path);
  return {};
}

}  // namespace

Result<AllowedNames> allowed_names(const Settings& settings) {
  AllowedNames names;
  const auto algorithm_list = algorithm_names();
  const auto protocol_list = protocol_names();
  const std::string_view transports[] = {"local", "shm", "tcp"};
  HOCKET_ASSIGN(names.transports, AllowList::parse(settings.transport, transports, "HOCKET_TRANSPORT"));
  HOCKET_ASSIGN(names.protocols, AllowList::parse(settings.proto, protocol_list, "HOCKET_PROTO"));
  HOCKET_ASSIGN(names.algorithms, AllowList::parse(settings.algo, algorithm_list, "HOCKET_ALGO"));
  HOCKET_TRY(fit_algorithms(&names.algorithms));
  return names;
}

Result<topo::Graph> machine_by(const Settings& settings) {
  topo::ReaderOptions reader;
  reader.host_id = settings.host_id;
  topo::Graph machine = topo::load_machine(reader);
  if (settings.topo_file.empty()) return machine;
  const auto in_context = [&settings](const Status& why) {
    return error(why.code(), "{}: {}", named("HOCKET_TOPO_FILE", "NCCL_TOPO_FILE", settings.topo_file), why.text());
  };
  const auto file = topo::graph_from_file(settings.topo_file);
  if (!file.ok()) return in_context(file.status());
  auto both = topo::with_devices_of(machine, *file);
  if (!both.ok()) return in_context(both.status());
  for (const std::string& note : both->notes) HOCKET_LOG(LogLevel::kInfo, "{}", note);
  return both;
}

Result<std::int32_t> gpu_of(const std::string& gpu, const topo::Graph* machine, std::ptrdiff_t local_place) {
  if (machine == nullptr)
    return error(Code::kUnsupported, "HOCKET_GPU='{}' cannot be looked up: this host's topology is not known", gpu);
  const std::string wanted = gpu == "local" ? std::to_string(local_place) : gpu;
  if (const int node = topo::find_gpu(*machine, wanted); node >= 0) return node;
  std::vector<std::string> known;
  for (const int one : machine->of_kind(topo::NodeKind::kGpu)) {
    const topo::Node& there = machine->nodes[static_cast<std::size_t>(one)];
    known.push_back(format("{} ({})", there.os_index >= 0 ? there.os_index : there.index, there.name));
  }
  return error(Code::kInvalidArgument, "HOCKET_GPU='{}' asks for GPU {}, but this host has {}", gpu, wanted,
               known.empty() ? std::string("none") : join(known, ", "));
}

std::vector<Status> problems_of(const Settings& settings) {
  std::vector<Status> problems;
  const auto note = [&problems](Status status) {
    if (!status.ok()) problems.push_back(std::move(status));
  };
  note(validate(settings));
  note(allowed_names(settings).status());
  if (!settings.tuning.empty()) note(load_tuning(settings.tuning).status());
  if (!settings.topo_file.empty() || !settings.gpu.empty()) {
    const auto machine = machine_by(settings);
    note(machine.status());
    if (machine.ok() && !settings.gpu.empty()) note(gpu_of(settings.gpu, &*machine, 0).status());
  }
  if (!settings.trace.empty()) note(check_writable("HOCKET_TRACE", file_of_rank(settings.trace, 0)));
  if (!settings.metrics.empty()) note(check_writable("HOCKET_METRICS", file_of_rank(settings.metrics, 0)));
  if (!settings.graph_dump_file.empty()) {
    const std::string& path = settings.graph_dump_file;
    note(check_writable(named("HOCKET_GRAPH_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE", path), path));
  }
  return problems;
}

}  // namespace hocket
