// SPDX-License-Identifier: Apache-2.0
// rendezvous_file.cpp: rank 0 leaves the id in a file that all hosts see (HOCKET_RENDEZVOUS), with Slurm or without.
//
// The file appears whole (written beside, then renamed), is readable by its user alone, and is removed when all have
// met. One that another job left is told by its job, its size, or, where no job has a name, its age.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>

#include "base/log.hpp"
#include "base/os/abort.hpp"
#include "base/os/unique_fd.hpp"
#include "base/status.hpp"
#include "core/bootstrap/messages.hpp"
#include "core/launch/launchers.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kFirstLine = "hocket rendezvous 1\n";

std::string job_name() {
  if (is_set("HOCKET_JOB_ID")) return text_of("HOCKET_JOB_ID");
  if (!is_set("SLURM_JOB_ID")) return {};
  return format("slurm {}.{}.{}", text_of("SLURM_JOB_ID"), text_of("SLURM_STEP_ID"), text_of("SLURM_RESTART_COUNT"));
}

// What must be equal for a file to be of this job.
std::string head(const LaunchedRank& who, const std::string& job) {
  return format("{}job {}\nsize {}\nid ", kFirstLine, job, who.size);
}

Status write_file(const std::string& path, const std::string& text) {
  const std::string part = format("{}.{}.part", path, ::getpid());
  ::unlink(part.c_str());
  os::UniqueFd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return system_error(Code::kSystem, errno, "HOCKET_RENDEZVOUS: create {}", part);
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t n = ::write(fd.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int number = errno;
      ::unlink(part.c_str());
      return system_error(Code::kSystem, number, "HOCKET_RENDEZVOUS: write {}", part);
    }
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  // Other hosts see the file over a network: what it says must be there before its name is.
  if (::fsync(fd.get()) < 0 || ::rename(part.c_str(), path.c_str()) < 0) {
    const int number = errno;
    ::unlink(part.c_str());
    return system_error(Code::kSystem, number, "HOCKET_RENDEZVOUS: rename {} to {}", part, path);
  }
  return {};
}

// The id, nothing while the file is absent or of another job (`why` says so).
Result<std::optional<UniqueId>> read_file(const std::string& path, const LaunchedRank& who, const std::string& job,
                                          std::chrono::nanoseconds start_timeout, std::time_t begin, std::string& why) {
  os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd && errno == ENOENT) return why = "it is not there", std::optional<UniqueId>();
  // A network file system may have replaced the file just now.
  if (!fd && errno == ESTALE) return why = "it was just replaced", std::optional<UniqueId>();
  if (!fd) return system_error(Code::kSystem, errno, "HOCKET_RENDEZVOUS: open {}", path);
  struct stat about {};
  if (::fstat(fd.get(), &about) < 0) return system_error(Code::kSystem, errno, "HOCKET_RENDEZVOUS: stat {}", path);
  if (!S_ISREG(about.st_mode)) return error(Code::kInvalidArgument, "HOCKET_RENDEZVOUS={} is no file", path);
  if (about.st_uid != ::geteuid() || (about.st_mode & 077) != 0) {
    return error(Code::kInvalidArgument,
                 "HOCKET_RENDEZVOUS={} belongs to user {} with mode {:o}: it must be this user's ({}) and readable by "
                 "nobody else",
                 path, about.st_uid, about.st_mode & 0777, ::geteuid());
  }
  char buffer[1024];
  std::string text;
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(Code::kSystem, errno, "HOCKET_RENDEZVOUS: read {}", path);
    if (n == 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
    if (text.size() > 4096) return error(Code::kInvalidArgument, "HOCKET_RENDEZVOUS={} is no rendezvous file", path);
  }
  if (!text.starts_with(kFirstLine)) {
    return error(Code::kInvalidArgument, "HOCKET_RENDEZVOUS={} is no rendezvous file of this version: remove it", path);
  }
  const std::string expected = head(who, job);
  if (!text.starts_with(expected)) {
    why = format("what is there is of another job ({})",
                 text.substr(kFirstLine.size(), text.find("id ") - kFirstLine.size()));
    for (char& c : why)
      if (c == '\n') c = ' ';
    return std::optional<UniqueId>();
  }
  const auto age = static_cast<double>(begin - about.st_mtim.tv_sec);
  const double most = start_timeout.count() == 0 ? 86400 : static_cast<double>(start_timeout.count()) / 1e9;
  if (job.empty() && age > most) {
    why = format("what is there is {:.0f} s older than this process (set HOCKET_JOB_ID to tell jobs apart)", age);
    return std::optional<UniqueId>();
  }
  auto id = UniqueId::from_string(text.substr(expected.size()));
  if (!id.ok()) return error(Code::kInvalidArgument, "HOCKET_RENDEZVOUS={}: {}", path, id.status().text());
  return std::optional<UniqueId>(*id);
}

Result<std::vector<UniqueId>> meet(const std::string& path, const LaunchedRank& who, const Settings& settings) {
  const std::string job = job_name();
  if (who.rank == 0) {
    ::unlink(path.c_str());
    HOCKET_ASSIGN(const UniqueId id, UniqueId::create(settings));
    HOCKET_TRY(write_file(path, head(who, job) + id.to_string() + "\n"));
    return std::vector<UniqueId>{id};
  }
  const os::Deadline deadline = os::Deadline::after_or_never(settings.start_timeout);
  const std::time_t begin = std::time(nullptr);
  std::string why;
  for (auto pause = 5ms;; pause = std::min<std::chrono::milliseconds>(2 * pause, 500ms)) {
    HOCKET_ASSIGN(const std::optional<UniqueId> id, read_file(path, who, job, settings.start_timeout, begin, why));
    if (id) return std::vector<UniqueId>{*id};
    if (deadline.passed()) {
      return error(Code::kTimeout, "rank 0 has not written HOCKET_RENDEZVOUS={}: {}", path, why);
    }
    HOCKET_TRY(os::sleep_until({.deadline = std::min(deadline, os::Deadline::after(pause))}));
  }
}

}  // namespace

Result<std::optional<LaunchedRank>> launched_by_file(const Settings& settings) {
  if (!is_set("HOCKET_RENDEZVOUS")) return std::optional<LaunchedRank>();
  const std::string path = text_of("HOCKET_RENDEZVOUS");
  LaunchedRank who;
  if (is_set("HOCKET_RANK") || is_set("HOCKET_SIZE")) {
    constexpr std::string_view kHint = "with HOCKET_RENDEZVOUS a rank needs both HOCKET_RANK and HOCKET_SIZE";
    HOCKET_ASSIGN(who.size, number_of("HOCKET_SIZE", 1, kMostRanks, kHint));
    HOCKET_ASSIGN(who.rank, number_of("HOCKET_RANK", 0, who.size - 1, kHint));
    who.local_rank = who.rank;
    if (is_set("HOCKET_LOCAL_RANK")) {
      HOCKET_ASSIGN(who.local_rank, number_of("HOCKET_LOCAL_RANK", 0, who.size - 1, kHint));
    }
  } else {
    HOCKET_ASSIGN(std::optional<LaunchedRank> task, slurm_task());
    if (!task) {
      return error(
          Code::kInvalidArgument,
          "HOCKET_RENDEZVOUS={} is set, but neither HOCKET_RANK and HOCKET_SIZE nor Slurm's variables say which "
          "rank this is",
          path);
    }
    who = std::move(*task);
  }
  if (path.front() != '/') {
    return error(Code::kInvalidArgument, "HOCKET_RENDEZVOUS='{}' must begin with /: all ranks have to mean one file",
                 path);
  }
  who.launcher = "HOCKET_RENDEZVOUS";
  who.exchange = exchange_by_ids(
      who, settings, [=] { return meet(path, who, settings); },
      [path, rank = who.rank] {
        if (rank == 0) ::unlink(path.c_str());
      });
  return std::optional<LaunchedRank>(std::move(who));
}

}  // namespace hocket
