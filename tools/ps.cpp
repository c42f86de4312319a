// SPDX-License-Identifier: Apache-2.0
// tools/ps.cpp: `hocket ps PID`: what the ranks in a process are doing, read from outside, also when it hangs or is
// stopped.
//
// A process's arena is open as a memfd; its blocks hold the live state and the flight recorder of each rank
// (src/exec/block.hpp). Nothing is asked of the process: its memory is only read. What is read may be torn or be
// garbage and is checked before it is used.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <vector>

#include "base/os/clock.hpp"
#include "base/os/mapping.hpp"
#include "base/os/process.hpp"
#include "base/os/unique_fd.hpp"
#include "base/status.hpp"
#include "core/call.hpp"
#include "exec/block.hpp"

namespace hocket {
namespace {

struct View {
  const std::byte* base = nullptr;
  std::uint64_t bytes = 0;
};

/// The arenas of a process, mapped read-only for the life of this program.
Result<std::vector<View>> arenas_of(pid_t pid) {
  const std::string folder = format("/proc/{}/fd", pid);
  DIR* dir = ::opendir(folder.c_str());
  if (dir == nullptr) {
    if (errno == ENOENT) return error(Code::kInvalidArgument, "there is no process {}", pid);
    return system_error(Code::kSystem, errno, "cannot look into process {} (it must be yours, or be root)", pid);
  }
  std::vector<View> views;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string path = folder + "/" + entry->d_name;
    char link[256] = {};
    if (::readlink(path.c_str(), link, sizeof link - 1) <= 0 ||
        std::string_view(link).find("memfd:hocket") == std::string_view::npos)
      continue;
    const os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat file {};
    if (!fd || ::fstat(fd.get(), &file) != 0 || static_cast<std::size_t>(file.st_size) < sizeof(ArenaHeader)) continue;
    void* base =
        ::mmap(nullptr, static_cast<std::size_t>(file.st_size), PROT_READ, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
    if (base == MAP_FAILED) continue;
    views.push_back({static_cast<const std::byte*>(base), static_cast<std::uint64_t>(file.st_size)});
  }
  ::closedir(dir);
  return views;
}

std::string waiting_text(const LiveState& live) {
  const std::uint64_t waits = live.waiting.load(std::memory_order_acquire);
  if (waits == 0) return {};
  const std::int64_t since = os::now_ns() - live.waiting_since.load(std::memory_order_relaxed);
  return format(", waits {:.1f} s for {} from rank {} on channel {}", static_cast<double>(since) / 1e9,
                (waits >> 56) == 1 ? "data" : "credit", waits & 0xffffffffu, (waits >> 40) & 0xffff);
}

void print_ring(const CallRecord* ring, std::uint64_t records, std::uint64_t entered, std::uint64_t last) {
  const std::uint64_t shown = std::min({entered, records, last});
  for (std::uint64_t number = entered - shown; number < entered; ++number) {
    RecordedCall call;
    if (!read_record(ring, records, number, &call)) continue;
    const char* state = call.state == CallState::kRunning ? "running"
                        : call.state == CallState::kDone  ? "done"
                                                          : "failed";
    print(stdout, "    {:8} {}\n", state, to_text(call));
  }
}

bool print_block(const View& arena, std::uint64_t offset, std::uint64_t last) {
  if (offset % 64 != 0 || offset > arena.bytes || arena.bytes - offset < sizeof(BlockHeader)) return false;
  const std::byte* base = arena.base + offset;
  const auto& header = *reinterpret_cast<const BlockHeader*>(base);
  const bool sane = header.magic == kBlockMagic && header.size > 0 && header.size <= 1 << 20 && header.slots >= 2 &&
                    header.slots <= 64 && header.slot_bytes <= 4u << 20 && header.records >= 1 &&
                    header.records <= 1u << 20;
  if (!sane) return false;
  const BlockLayout layout(static_cast<std::uint64_t>(header.size), header.slots, header.slot_bytes, header.records);
  if (layout.bytes > arena.bytes - offset) return false;
  const LiveState& live = header.live;
  const std::uint64_t entered = live.entered.load(std::memory_order_acquire);
  const std::uint64_t completed = live.completed.load(std::memory_order_acquire);
  const std::uint64_t messages = live.point_to_point.load(std::memory_order_acquire);
  print(stdout, "  rank {} of {}, communicator {:x}: {} calls entered, {} ended{}{}\n", header.rank, header.size,
        header.communicator, entered, completed, entered > completed ? ", one is running" : ", none is running",
        waiting_text(live));
  for (int r = 0; r < header.size; ++r) {
    const auto& record = *reinterpret_cast<const ErrorRecord*>(base + layout.error(r));
    if (record.published.load(std::memory_order_acquire) == 0) continue;
    print(stdout, "    ended: {} (told by rank {})\n",
          std::string_view(record.text, ::strnlen(record.text, sizeof record.text)), r);
    break;
  }
  print_ring(reinterpret_cast<const CallRecord*>(base + layout.records_at), layout.records, entered, last);
  if (messages != 0) {
    print(stdout, "    sends and receives: {} entered, {} ended\n", messages,
          live.point_to_point_completed.load(std::memory_order_acquire));
    print_ring(reinterpret_cast<const CallRecord*>(base + layout.point_to_point_at), layout.records, messages, last);
  }
  // The last step with each peer: what arrived from it, and what it took.
  for (int p = 0; p < header.size; ++p) {
    std::string text;
    for (int id = 0; id < kChannelIds; ++id) {
      const auto* lines = reinterpret_cast<const DataLine*>(base + layout.data(id, p));
      std::uint64_t arrived = 0;
      for (std::uint32_t s = 0; s < header.slots; ++s)
        arrived = std::max(arrived, lines[s].count.load(std::memory_order_acquire));
      const std::uint64_t taken =
          reinterpret_cast<const CreditLine*>(base + layout.credit(id, p))->count.load(std::memory_order_acquire);
      if (arrived != 0 || taken != 0)
        text += format("{}channel {}: {} transfers arrived, {} of mine taken", text.empty() ? "" : "; ", id, arrived,
                       taken);
    }
    if (!text.empty()) print(stdout, "    rank {}: {}\n", p, text);
  }
  return true;
}

int usage() {
  print(stderr,
        "usage: hocket ps PID [--last N]\n  the ranks in process PID: what they do, wait for, and their last N calls "
        "(8)\n");
  return 2;
}

}  // namespace
}  // namespace hocket

int ps_main(int argc, char** argv) {
  using namespace hocket;
  int pid = 0;
  std::uint64_t last = 8;
  const auto number = [](std::string_view text, auto* value) {
    return std::from_chars(text.data(), text.data() + text.size(), *value).ptr == text.data() + text.size() &&
           !text.empty();
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--last" && i + 1 < argc) {
      if (!number(argv[++i], &last)) return usage();
    } else if (pid != 0 || !number(arg, &pid) || pid <= 0) {
      return usage();
    }
  }
  if (pid == 0) return usage();
  const auto arenas = arenas_of(pid);
  if (!arenas.ok()) {
    print(stderr, "hocket ps: {}\n", arenas.status().text());
    return 1;
  }
  const auto stat = os::process_stat(pid);
  print(stdout, "process {}{}\n", pid, stat.ok() && stat->stopped() ? ", stopped" : "");
  int blocks = 0;
  for (const View& arena : *arenas) {
    const auto& header = *reinterpret_cast<const ArenaHeader*>(arena.base);
    if (header.magic != kArenaMagic) continue;
    for (const auto& entry : header.blocks) {
      const std::uint64_t offset = entry.load(std::memory_order_acquire);
      if (offset != 0 && print_block(arena, offset, last)) ++blocks;
    }
  }
  if (blocks == 0) print(stdout, "  has no communicator\n");
  return 0;
}
