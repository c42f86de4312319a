// SPDX-License-Identifier: Apache-2.0
#include "tools/run/open_files.hpp"

#include <dirent.h>

#include <algorithm>
#include <cerrno>

#include "base/status.hpp"

namespace hocket::run {
namespace {

// While a child is started: its ends of socket or stdin, stdout and stderr, and the pipe that tells whether it became
// its program.
constexpr rlim_t kWhileStarting = 5;
// What a launcher has opened for itself when it looks: signals, the null device, and its writers' wake-up.
constexpr rlim_t kOfItsOwn = 3;

// Descriptors that are open now; without /proc, a few more than a launcher has.
rlim_t open_now() {
  constexpr rlim_t kUnknown = 16;
  DIR* const folder = ::opendir("/proc/self/fd");
  if (!folder) return kUnknown;
  rlim_t count = 0;
  while (const dirent* entry = ::readdir(folder)) count += entry->d_name[0] != '.';
  ::closedir(folder);
  return count - 1;  // the folder's own
}

}  // namespace

rlim_t OpenFiles::room(rlim_t limit) {
  const rlim_t others = open_now() + kOfItsOwn + kWhileStarting;
  if (limit == RLIM_INFINITY) return RLIM_INFINITY;
  return limit > others ? (limit - others) / kEach : 0;
}

Result<OpenFiles> OpenFiles::allow(int children, std::string_view what) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return system_error(Code::kSystem, errno, "getrlimit of open files");
  OpenFiles self(limit);
  const rlim_t others = open_now() + kWhileStarting;
  const rlim_t needed = others + kEach * static_cast<rlim_t>(children);
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed) return self;
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < needed) {
    const rlim_t fit = limit.rlim_max > others ? (limit.rlim_max - others) / kEach : 0;
    return error(Code::kOutOfMemory,
                 "{} {} take {} open files here ({} each, and {}), and the limit is {}: it is the hard limit, `ulimit "
                 "-Hn`, and has room for {}. Start from a shell with `ulimit -n {}` or more",
                 children, what, needed, kEach, others, limit.rlim_max, fit, needed);
  }
  const rlimit raised{.rlim_cur = needed, .rlim_max = limit.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &raised) != 0) {
    return system_error(Code::kOutOfMemory, errno,
                        "{} {} take {} open files here and the limit is {}, which can't be raised (`ulimit -n {}`)",
                        children, what, needed, limit.rlim_cur, needed);
  }
  self.raised_ = true;
  return self;
}

OpenFiles::~OpenFiles() {
  if (raised_) ::setrlimit(RLIMIT_NOFILE, &before_);
}

}  // namespace hocket::run
