// SPDX-License-Identifier: Apache-2.0
// control/process_end.hpp: peer processes by name, that one ended, and how.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "base/os/pidfd.hpp"
#include "transport/shm.hpp"

namespace hocket {

/// As process_name(), with a host's name as addresses and messages have it.
inline std::string process_name(pid_t pid, const std::array<char, 32>& host) {
  return process_name(pid, std::string_view(host.data(), ::strnlen(host.data(), host.size())));
}

/// "was ended by signal 9", as long as the process is a zombie whose status we may read; else only that it ended.
std::string how_it_ended(pid_t pid);

/// None where the kernel has none, descriptors ran out, or the process cannot be seen; then its socket alone shows its
/// end.
std::shared_ptr<const os::PidFd> open_process(pid_t pid, std::uint64_t start_ticks);

}  // namespace hocket
