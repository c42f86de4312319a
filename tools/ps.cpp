// SPDX-License-Identifier: Apache-2.0
// tools/ps.cpp: `hocket ps PID`: what the ranks in a process, or below a launcher, are doing, read from outside, also
// when it hangs or is stopped. First, for each communicator, whether it moves, and if not which rank the others wait
// for.
//
// A process's arena is open as a memfd; its blocks hold the live state and the flight recorder of each rank
// (src/exec/block.hpp). Nothing is asked of the process: its memory is only read. What is read may be torn or be
// garbage and is checked before it is used.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/os/clock.hpp"
#include "base/os/mapping.hpp"
#include "base/os/process.hpp"
#include "base/os/unique_fd.hpp"
#include "base/status.hpp"
#include "core/call.hpp"
#include "exec/block.hpp"
#include "tools/usage.hpp"

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
  const std::uint64_t kind = waits >> 56;
  return format(", waits {:.1f} s for {} rank {} (channel {})", static_cast<double>(since) / 1e9,
                kind == 1   ? "data from"
                : kind == 2 ? "room in the slots of"
                            : "a word from",
                waits & 0xffffffffu, (waits >> 40) & 0xffff);
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

// A block whose header was found to be sane. What it said then counts, whatever it says later.
struct Block {
  const std::byte* base = nullptr;
  const BlockHeader* header = nullptr;
  BlockLayout layout;
  std::uint64_t calls = 0;  ///< collectives, sends and receives ended, when it was first looked at
  std::int64_t seen_ns = 0;
};

std::uint64_t calls_ended(const LiveState& live) {
  return live.completed.load(std::memory_order_acquire) + live.point_to_point_completed.load(std::memory_order_acquire);
}

// ", 5300 calls a second now", from a second look some time after the first.
std::string rate_text(const Block& block) {
  const double seconds = static_cast<double>(os::now_ns() - block.seen_ns) / 1e9;
  const std::uint64_t ended = calls_ended(block.header->live) - block.calls;
  if (ended == 0) return format(", no call ended in the last {:.0f} ms", seconds * 1e3);
  return format(", {:.0f} calls a second now", static_cast<double>(ended) / seconds);
}

std::optional<Block> find_block(const View& arena, std::uint64_t offset) {
  if (offset % 64 != 0 || offset > arena.bytes || arena.bytes - offset < sizeof(BlockHeader)) return std::nullopt;
  const std::byte* base = arena.base + offset;
  const auto& header = *reinterpret_cast<const BlockHeader*>(base);
  const std::int32_t size = header.size;
  const std::uint64_t slots = header.slots, slot_bytes = header.slot_bytes, records = header.records;
  const bool sane = header.magic == kBlockMagic && size > 0 && size <= 1 << 20 && slots >= 2 && slots <= 64 &&
                    slot_bytes <= 4u << 20 && records >= 1 && records <= 1u << 20;
  if (!sane) return std::nullopt;
  const BlockLayout layout(static_cast<std::uint64_t>(size), slots, slot_bytes, records);
  if (layout.bytes > arena.bytes - offset) return std::nullopt;
  return Block{base, &header, layout, calls_ended(header.live), os::now_ns()};
}

std::string error_text(const ErrorRecord& record) {
  std::string text(record.text, ::strnlen(record.text, sizeof record.text));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text;
}

// ---- What one would ask first ----

// A rank as the second look finds it.
struct Seen {
  Rank rank;
  pid_t pid;
  bool stopped;
  bool moves;  ///< a call has ended since the first look
  std::uint64_t ended;
  bool in_call;
  Rank waits_for;  ///< -1: for nobody
  double waits_seconds;
};

std::string ranks_text(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  constexpr std::size_t kShown = 16;
  for (std::size_t i = 0; i < std::min(ranks.size(), kShown); ++i) text += format("{} {}", i ? "," : "", ranks[i]);
  return ranks.size() > kShown ? text + format(" and {} more", ranks.size() - kShown) : text;
}

// Why nobody gets on: the ranks that are waited for and wait for nobody themselves, and what to do about them.
std::string culprits_text(const std::map<Rank, Seen>& ranks, int size) {
  std::map<Rank, std::vector<Rank>> waited_for;
  double longest = 0;
  for (const auto& [rank, seen] : ranks) {
    if (seen.waits_for < 0 || seen.waits_for >= size || seen.stopped) continue;
    waited_for[seen.waits_for].push_back(rank);
    longest = std::max(longest, seen.waits_seconds);
  }
  std::string text;
  for (const auto& [rank, waiting] : waited_for) {
    const auto at = ranks.find(rank);
    const std::string who =
        format("\n  {} wait{} for rank {}", ranks_text(waiting), waiting.size() == 1 ? "s" : "", rank);
    if (at == ranks.end()) {
      text += format("{}, which none of these processes is: it runs elsewhere (hocket ps there), or has ended", who);
      continue;
    }
    const Seen& seen = at->second;
    if (seen.stopped) {
      text += format("{}, whose process {} is stopped, by a signal or a debugger: kill -CONT {} lets it go on", who,
                     seen.pid, seen.pid);
    } else if (!seen.in_call) {
      text += format(
          "{}, which is in no call: after {} collectives its program does something else, or has left them out; its "
          "stack tells: gdb -p {} -batch -ex 'thread apply all bt'",
          who, seen.ended, seen.pid);
    } else if (seen.waits_for < 0) {
      text += format("{} (pid {}), which is in collective #{} and waits for nobody: it computes, or gets no CPU", who,
                     seen.pid, seen.ended);
    }
  }
  if (text.empty() && !waited_for.empty()) text = "\n  they wait for each other: compare their last calls below";
  return longest > 0 ? format(", the longest wait is {:.1f} s", longest) + text : text;
}

std::string verdict(std::uint64_t communicator, int size, const std::map<Rank, Seen>& ranks, const std::string& ended) {
  std::string text = format("communicator {:x}, {} of {} ranks seen: ", communicator, ranks.size(), size);
  if (!ended.empty()) return text + "has ended: " + ended;
  std::uint64_t least = UINT64_MAX, most = 0;
  bool moves = false, any_in_call = false;
  for (const auto& [rank, seen] : ranks) {
    least = std::min(least, seen.ended);
    most = std::max(most, seen.ended);
    moves |= seen.moves;
    any_in_call |= seen.in_call || seen.waits_for >= 0;
  }
  const std::string done = least == most ? format("{}", most) : format("{} to {}", least, most);
  if (moves) {
    text += format("moves, {} collectives ended", done);
  } else if (!any_in_call) {
    text += format("idle, no rank is in a call, {} collectives ended", done);
  } else {
    text += format("STANDS STILL after {} collectives", done) + culprits_text(ranks, size);
  }
  // Also where nobody else is seen to wait for it.
  for (const auto& [rank, seen] : ranks)
    if (seen.stopped && text.find(format("kill -CONT {} ", seen.pid)) == std::string::npos)
      text += format("\n  rank {}'s process {} is stopped, by a signal or a debugger: kill -CONT {} lets it go on",
                     rank, seen.pid, seen.pid);
  return text;
}

void print_block(const Block& block, std::uint64_t last) {
  const BlockHeader& header = *block.header;
  const std::byte* base = block.base;
  const BlockLayout& layout = block.layout;
  const int size = static_cast<int>(layout.size);
  const LiveState& live = header.live;
  const std::uint64_t entered = live.entered.load(std::memory_order_acquire);
  const std::uint64_t completed = live.completed.load(std::memory_order_acquire);
  const std::uint64_t messages = live.point_to_point.load(std::memory_order_acquire);
  print(stdout, "  rank {} of {}, communicator {:x}: {} collectives ended, {}{}{}\n", header.rank, size,
        header.communicator, completed, entered > completed ? format("in #{}", entered - 1) : "in none now",
        waiting_text(live), rate_text(block));
  for (int r = 0; r < size; ++r) {
    const auto& record = *reinterpret_cast<const ErrorRecord*>(base + layout.error(r));
    if (record.published.load(std::memory_order_acquire) == 0) continue;
    print(stdout, "    the communicator has ended: {} (told by rank {})\n", error_text(record), r);
    break;
  }
  print_ring(reinterpret_cast<const CallRecord*>(base + layout.records_at), layout.records, entered, last);
  if (messages != 0) {
    print(stdout, "    sends and receives: {} entered, {} ended\n", messages,
          live.point_to_point_completed.load(std::memory_order_acquire));
    print_ring(reinterpret_cast<const CallRecord*>(base + layout.point_to_point_at), layout.records, messages, last);
  }
  // The last step with each peer: what arrived from it, and what it took.
  for (int p = 0; p < size; ++p) {
    std::string text;
    for (int id = 0; id < kChannelIds; ++id) {
      const auto* lines = reinterpret_cast<const DataLine*>(base + layout.data(id, p));
      std::uint64_t arrived = 0;
      for (std::uint64_t s = 0; s < layout.slots; ++s)
        arrived = std::max(arrived, lines[s].count.load(std::memory_order_acquire));
      const std::uint64_t taken =
          reinterpret_cast<const CreditLine*>(base + layout.credit(id, p))->count.load(std::memory_order_acquire);
      if (arrived != 0 || taken != 0)
        text += format("{}channel {}: {} tiles came from it, {} of mine it took", text.empty() ? "" : "; ", id, arrived,
                       taken);
    }
    if (!text.empty()) print(stdout, "    with rank {}: {}\n", p, text);
  }
}

/// A process and what it started, those that these started, and so on; in order of pid below each parent.
std::vector<pid_t> with_descendants(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  if (DIR* dir = ::opendir("/proc")) {
    while (const dirent* entry = ::readdir(dir)) {
      pid_t pid = 0;
      const std::string_view name = entry->d_name;
      if (std::from_chars(name.data(), name.data() + name.size(), pid).ptr != name.data() + name.size()) continue;
      if (const auto stat = os::process_stat(pid); stat.ok()) children.emplace(stat->parent, pid);
    }
    ::closedir(dir);
  }
  std::vector<pid_t> all = {root};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [first, end] = children.equal_range(all[i]);
    for (auto child = first; child != end; ++child)
      if (std::find(all.begin(), all.end(), child->second) == all.end()) all.push_back(child->second);
  }
  return all;
}

// "hocket run --ranks 4 ./program", as much as fits a line; "" if it can't be read.
std::string command_of(pid_t pid) {
  const os::UniqueFd fd(::open(format("/proc/{}/cmdline", pid).c_str(), O_RDONLY | O_CLOEXEC));
  char text[160];
  const ssize_t n = fd ? ::read(fd.get(), text, sizeof text) : 0;
  std::string command;
  for (ssize_t i = 0; i < n && (i + 1 < n || text[i] != 0); ++i)
    command += text[i] >= ' ' && text[i] <= '~' ? text[i] : ' ';
  return command.size() > 80 ? command.substr(0, 77) + "..." : command;
}

}  // namespace
}  // namespace hocket

int ps_main(int argc, char** argv) {
  using namespace hocket;
  CLI::App app(
      "Shows what the ranks in a process, and in the processes that it started, do, for whom they wait, and their last "
      "calls; also of one that hangs or is stopped. Nothing is asked of it: its memory is only read.",
      "hocket ps");
  int pid = 0;
  std::uint64_t last = 8;
  app.add_option("PID", pid, "the process: a rank, or a launcher above ranks")
      ->required()
      ->check(CLI::Range(1, 1 << 22));
  app.add_option("--last", last, "how many of its last calls each rank shows (default 8)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return usage_answer(app, e);
  }
  struct Process {
    pid_t pid;
    std::vector<Block> blocks;
  };
  std::vector<Process> processes;
  for (const pid_t one : with_descendants(pid)) {
    const auto arenas = arenas_of(one);
    if (!arenas.ok()) {
      if (one != pid) continue;  // it has ended since
      print(stderr, "hocket ps: {}\n", arenas.status().text());
      return 1;
    }
    Process process{one, {}};
    for (const View& arena : *arenas) {
      const auto& header = *reinterpret_cast<const ArenaHeader*>(arena.base);
      if (header.magic != kArenaMagic) continue;
      for (const auto& entry : header.blocks) {
        const std::uint64_t offset = entry.load(std::memory_order_acquire);
        if (auto block = offset != 0 ? find_block(arena, offset) : std::nullopt) process.blocks.push_back(*block);
      }
    }
    if (!process.blocks.empty() || one == pid) processes.push_back(std::move(process));
  }
  // A second look tells how fast it goes.
  if (processes.size() > 1 || !processes.front().blocks.empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  struct World {
    int size = 0;
    std::map<Rank, Seen> ranks;
    std::string ended;
  };
  std::map<std::uint64_t, World> worlds;
  for (const Process& process : processes) {
    const auto stat = os::process_stat(process.pid);
    for (const Block& block : process.blocks) {
      const LiveState& live = block.header->live;
      World& world = worlds[block.header->communicator];
      world.size = static_cast<int>(block.layout.size);
      const std::uint64_t waits = live.waiting.load(std::memory_order_acquire);
      const std::int64_t since = os::now_ns() - live.waiting_since.load(std::memory_order_relaxed);
      Seen seen{block.header->rank,
                process.pid,
                stat.ok() && stat->stopped(),
                calls_ended(live) != block.calls,
                live.completed.load(std::memory_order_acquire),
                false,
                waits != 0 ? static_cast<Rank>(waits & 0xffffffffu) : -1,
                static_cast<double>(since) / 1e9};
      seen.in_call = live.entered.load(std::memory_order_acquire) > seen.ended ||
                     live.point_to_point.load(std::memory_order_acquire) >
                         live.point_to_point_completed.load(std::memory_order_acquire);
      for (int r = 0; r < world.size && world.ended.empty(); ++r) {
        const auto& record = *reinterpret_cast<const ErrorRecord*>(block.base + block.layout.error(r));
        if (record.published.load(std::memory_order_acquire) != 0) world.ended = error_text(record);
      }
      world.ranks.insert_or_assign(seen.rank, seen);
    }
  }
  for (const auto& [communicator, world] : worlds)
    print(stdout, "{}\n", verdict(communicator, world.size, world.ranks, world.ended));
  if (!worlds.empty()) print(stdout, "\n");
  for (const Process& process : processes) {
    const auto stat = os::process_stat(process.pid);
    const std::string command = command_of(process.pid);
    print(stdout, "process {}{}{}{}\n", process.pid,
          stat.ok() && stat->stopped() ? format(", stopped (kill -CONT {} lets it go on)", process.pid) : std::string(),
          process.pid != pid ? format(", started by {}", stat.ok() ? stat->parent : 0) : std::string(),
          command.empty() ? "" : ": " + command);
    if (process.blocks.empty())
      print(stdout, "  has no communicator{}\n",
            processes.size() > 1 ? ": it started the ranks below"
                                 : ", nor has a process that it started: no rank has come that far, or none is left");
    for (const Block& block : process.blocks) print_block(block, last);
  }
  return 0;
}
