// SPDX-License-Identifier: Apache-2.0
// topo/cpu_budget.cpp: see cpu_budget.hpp.
//
// Source: cgroups(7), proc(5) and the kernel's Documentation/admin-guide/cgroup-v2.rst for cpu.max and mountinfo.
#include "topo/cpu_budget.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "base/status.hpp"

namespace hocket::topo {

namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string first_word(const std::string& text) {
  const std::vector<std::string> words = words_of(text);
  return words.empty() ? std::string() : words[0];
}

// 0 for what is no integer: no limit and no period is 0.
std::int64_t integer(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  return bad == std::errc() && end == text.data() + text.size() ? value : 0;
}

bool lists(const std::string& commas, std::string_view name) {
  std::istringstream stream(commas);
  for (std::string item; std::getline(stream, item, ',');) {
    if (item == name) return true;
  }
  return false;
}

// Where a hierarchy is mounted, and which of its directories is the mount's top.
struct Mount {
  std::string root;
  std::string point;
};

struct Mounts {
  std::optional<Mount> v1_cpu;
  std::optional<Mount> v2;
};

Mounts find_mounts(const std::string& mountinfo) {
  Mounts mounts;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    // "31 23 0:28 /root /point options - type source super-options", with optional fields before the dash.
    const std::vector<std::string> words = words_of(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 5 || words.end() - dash < 3) continue;
    const Mount mount{words[3], words[4]};
    if (dash[1] == "cgroup2" && !mounts.v2) mounts.v2 = mount;
    if (dash[1] == "cgroup" && words.end() - dash >= 4 && lists(dash[3], "cpu") && !mounts.v1_cpu)
      mounts.v1_cpu = mount;
  }
  return mounts;
}

// The directories of `group` under the mount, from the group itself up to the mount point.
//
// A container may see the group's path as the host writes it while its mount starts at that very group.
std::vector<std::string> directories(const Mount& mount, std::string group) {
  const std::string top = mount.root == "/" ? "" : mount.root;
  if (group.starts_with(top) && (group.size() == top.size() || group[top.size()] == '/')) {
    group = group.substr(top.size());
  } else {
    group.clear();
  }
  std::vector<std::string> result;
  while (!group.empty() && group != "/") {
    // ".." appears when the process was moved out of its namespace's root; such a path is not under this mount.
    if (group.find("..") == std::string::npos) result.push_back(mount.point + group);
    group = group.substr(0, group.rfind('/'));
  }
  result.push_back(mount.point);
  return result;
}

void lower(double* quota, double cpus) {
  if (cpus > 0 && (*quota == 0 || cpus < *quota)) *quota = cpus;
}

void read_v2(const std::string& root, const std::string& directory, double* quota, std::vector<std::string>* notes) {
  const std::string path = root + directory + "/cpu.max";
  const Result<std::string> text = read_small_file(path);
  if (!text.ok()) return;  // the root group and groups without the cpu controller have no such file
  const std::vector<std::string> words = words_of(*text);
  if (!words.empty() && words[0] == "max") return;
  const std::int64_t limit = words.size() == 2 ? integer(words[0]) : 0;
  const std::int64_t period = words.size() == 2 ? integer(words[1]) : 0;
  if (limit <= 0 || period <= 0) {
    notes->push_back(format("{}: not a CPU limit, left out", path));
    return;
  }
  lower(quota, static_cast<double>(limit) / static_cast<double>(period));
}

void read_v1(const std::string& root, const std::string& directory, double* quota, std::vector<std::string>* notes) {
  const std::string path = root + directory + "/cpu.cfs_quota_us";
  const Result<std::string> limit_text = read_small_file(path);
  const Result<std::string> period_text = read_small_file(root + directory + "/cpu.cfs_period_us");
  if (!limit_text.ok() || !period_text.ok()) return;
  const std::int64_t limit = integer(first_word(*limit_text));
  const std::int64_t period = integer(first_word(*period_text));
  if (limit < 0) return;
  if (limit == 0 || period <= 0) {
    notes->push_back(format("{}: not a CPU limit, left out", path));
    return;
  }
  lower(quota, static_cast<double>(limit) / static_cast<double>(period));
}

}  // namespace

double CpuBudget::usable_cpus() const {
  const double cpus = allowed.count();
  return quota_cpus > 0 ? std::min(cpus, quota_cpus) : cpus;
}

Result<std::string> read_small_file(const std::string& path, std::size_t limit) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return system_error(Code::kSystem, errno, "open {}", path);
  std::string text;
  char buffer[4096];
  int failed = 0;
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) failed = errno;
    if (got <= 0 || text.size() > limit) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(fd);
  if (failed) return system_error(Code::kSystem, failed, "read {}", path);
  if (text.size() > limit) return error(Code::kSystem, "read {}: longer than {} bytes", path, limit);
  return text;
}

double read_cpu_quota(const std::string& root, std::vector<std::string>* notes) {
  const Result<std::string> groups = read_small_file(root + "/proc/self/cgroup");
  const Result<std::string> mountinfo = read_small_file(root + "/proc/self/mountinfo", 16 << 20);
  if (!groups.ok() || !mountinfo.ok()) {
    const Status& why = groups.ok() ? mountinfo.status() : groups.status();
    notes->push_back(format("CPU quota unknown, taken as none: {}", why.text()));
    return 0;
  }
  const Mounts mounts = find_mounts(*mountinfo);
  double quota = 0;
  std::istringstream lines(*groups);
  for (std::string line; std::getline(lines, line);) {  // "id:controllers:path"; version 2 is "0::path"
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty() && mounts.v2) {
      for (const std::string& directory : directories(*mounts.v2, group)) read_v2(root, directory, &quota, notes);
    } else if (lists(controllers, "cpu") && mounts.v1_cpu) {
      for (const std::string& directory : directories(*mounts.v1_cpu, group)) read_v1(root, directory, &quota, notes);
    }
  }
  return quota;
}

CpuBudget read_cpu_budget(const std::string& root, std::vector<std::string>* notes) {
  CpuBudget budget;
  const std::string path = root + "/sys/devices/system/cpu/online";
  const Result<std::string> online = read_small_file(path);
  Result<CpuSet> parsed = online.ok() ? CpuSet::parse_list(*online) : Result<CpuSet>(online.status());
  if (parsed.ok()) {
    budget.online = std::move(*parsed);
  } else {
    notes->push_back(format("online CPUs unknown: {}", parsed.status().text()));
  }
  Result<CpuSet> allowed = CpuSet::of_this_process();
  if (allowed.ok()) {
    budget.allowed = std::move(*allowed);
  } else {
    budget.allowed = budget.online;
    notes->push_back(format("affinity mask unknown, all online CPUs taken: {}", allowed.status().text()));
  }
  budget.quota_cpus = read_cpu_quota(root, notes);
  return budget;
}

}  // namespace hocket::topo
