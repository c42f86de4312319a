// SPDX-License-Identifier: Apache-2.0
#include "core/control/process_end.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/format.hpp"
#include "base/os/unique_fd.hpp"

namespace hocket {

std::string how_it_ended(pid_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  const os::UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t n = fd ? ::read(fd.get(), text, sizeof text - 1) : -1;
  if (n <= 0) return "ended";
  text[n] = '\0';
  const char* const bracket = std::strrchr(text, ')');
  const char* const last = std::strrchr(text, ' ');
  // The exit status is the last of the fields, and 0 to those who may not know it.
  if (!bracket || bracket[1] != ' ' || bracket[2] != 'Z' || !last) return "ended";
  const int status = std::atoi(last + 1);
  if (WIFSIGNALED(status)) return format("was ended by signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) != 0 ? format("ended with exit code {}", WEXITSTATUS(status)) : "ended";
}

std::shared_ptr<const os::PidFd> open_process(pid_t pid, std::uint64_t start_ticks) {
  if (pid <= 0 || pid == ::getpid()) return nullptr;
  auto process = os::PidFd::open(pid, start_ticks);
  return process.ok() ? std::make_shared<const os::PidFd>(std::move(process).value()) : nullptr;
}

}  // namespace hocket
