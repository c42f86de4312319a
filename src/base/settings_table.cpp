// SPDX-License-Identifier: Apache-2.0
#include "base/settings_table.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/format.hpp"
#include "base/log.hpp"
#include "base/os/net_address.hpp"
#include "base/words.hpp"

namespace hocket {
namespace {

// ---- Values as text ----

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool parse_bytes(std::string_view text, std::size_t& out) {
  int shift = 0;
  if (!text.empty()) {
    switch (lower(text.back())) {
      case 'k': shift = 10; break;
      case 'm': shift = 20; break;
      case 'g': shift = 30; break;
      default: break;
    }
  }
  if (shift != 0) text.remove_suffix(1);
  const auto number = parse_number<std::uint64_t>(text);
  if (!number || *number > (UINT64_MAX >> shift)) return false;
  out = *number << shift;
  return true;
}

bool parse_seconds(std::string_view text, std::chrono::nanoseconds& out) {
  // A century is "never" for all purposes, and still fits nanoseconds.
  constexpr double kMostSeconds = 3.2e9;
  const auto seconds = parse_number<double>(text);
  if (!seconds || !std::isfinite(*seconds) || std::signbit(*seconds) || *seconds > kMostSeconds) return false;
  // Up, because 0 means never and the least fraction must not.
  out = std::chrono::nanoseconds(static_cast<std::int64_t>(std::ceil(*seconds * 1e9)));
  return true;
}

std::string print_seconds(std::chrono::nanoseconds value) {
  return format("{}", static_cast<double>(value.count()) / 1e9);
}

template <class T>
bool parse_in_range(std::string_view text, T least, T most, T& out) {
  const auto number = parse_number<T>(text);
  if (!number || *number < least || *number > most) return false;
  out = *number;
  return true;
}

bool parse_flag(std::string_view text, bool& out) {
  int value = 0;
  if (!parse_in_range(text, 0, 1, value)) return false;
  out = value == 1;
  return true;
}

std::string print_flag(bool value) {
  return value ? "1" : "0";
}

// ---- The table ----

constexpr std::string_view kFlag = "0 or 1";

constexpr std::string_view kSeconds = "seconds, 0 (never) or more, fractions allowed";
// Only the form is checked here: which names there are is known to whoever uses the list.
constexpr std::string_view kNames = "names with commas between them, such as a,b or ^a or allreduce:a;broadcast:b";

bool parse_names(std::string_view text, std::string& out) {
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (printable) out = text;
  return printable;
}

constexpr std::string_view kFile = "the name of a file, of up to 4000 bytes";

bool parse_file(std::string_view text, std::string& out) {
  const bool possible =
      text.size() <= 4000 && std::none_of(text.begin(), text.end(), [](char c) { return c == '\0' || c == '\n'; });
  if (possible) out = text;
  return possible;
}

constexpr SettingRow kRows[] = {
    {"HOCKET_ALGO", "algo", true, kNames, [](std::string_view text, Settings& s) { return parse_names(text, s.algo); },
     [](const Settings& s) { return s.algo; }},
    {"HOCKET_PROTO", "proto", true, kNames,
     [](std::string_view text, Settings& s) { return parse_names(text, s.proto); },
     [](const Settings& s) { return s.proto; }},
    {"HOCKET_TRANSPORT", "transport", false, kNames,
     [](std::string_view text, Settings& s) { return parse_names(text, s.transport); },
     [](const Settings& s) { return s.transport; }},
    {"HOCKET_WARN_AFTER", "warn_after", false, kSeconds,
     [](std::string_view text, Settings& s) { return parse_seconds(text, s.warn_after); },
     [](const Settings& s) { return print_seconds(s.warn_after); }},
    {"HOCKET_TIMEOUT", "timeout", false, kSeconds,
     [](std::string_view text, Settings& s) { return parse_seconds(text, s.timeout); },
     [](const Settings& s) { return print_seconds(s.timeout); }},
    {"HOCKET_START_TIMEOUT", "start_timeout", false, kSeconds,
     [](std::string_view text, Settings& s) { return parse_seconds(text, s.start_timeout); },
     [](const Settings& s) { return print_seconds(s.start_timeout); }},
    {"HOCKET_TILE_BYTES", "tile_bytes", true, "bytes, 0 (chosen for each call) or a multiple of 16 up to 4M",
     [](std::string_view text, Settings& s) {
       return parse_bytes(text, s.tile_bytes) && s.tile_bytes % 16 == 0 && s.tile_bytes <= std::size_t{4} << 20;
     },
     [](const Settings& s) { return format("{}", s.tile_bytes); }},
    {"HOCKET_SLOT_BYTES", "slot_bytes", true, "0, or bytes, a power of two from 4K to 4M",
     [](std::string_view text, Settings& s) {
       return parse_bytes(text, s.slot_bytes) &&
              (s.slot_bytes == 0 ||
               (std::has_single_bit(s.slot_bytes) && s.slot_bytes >= 4096 && s.slot_bytes <= std::size_t{4} << 20));
     },
     [](const Settings& s) { return format("{}", s.slot_bytes); }},
    {"HOCKET_SLOTS", "slots", true, "0 or a power of two from 2 to 64",
     [](std::string_view text, Settings& s) {
       return parse_in_range(text, 0, 64, s.slots) && s.slots != 1 && (s.slots & (s.slots - 1)) == 0;
     },
     [](const Settings& s) { return format("{}", s.slots); }},
    {"HOCKET_LANES", "lanes", true, "a number from 0 (chosen for each call) to 8",
     [](std::string_view text, Settings& s) { return parse_in_range(text, 0, 8, s.lanes); },
     [](const Settings& s) { return format("{}", s.lanes); }},
    {"HOCKET_REPRODUCIBLE", "reproducible", true, kFlag,
     [](std::string_view text, Settings& s) { return parse_flag(text, s.reproducible); },
     [](const Settings& s) { return print_flag(s.reproducible); }},
    {"HOCKET_DRAIN", "drain", true, kFlag, [](std::string_view text, Settings& s) { return parse_flag(text, s.drain); },
     [](const Settings& s) { return print_flag(s.drain); }},
    {"HOCKET_TUNING", "tuning", false, kFile,
     [](std::string_view text, Settings& s) { return parse_file(text, s.tuning); },
     [](const Settings& s) { return s.tuning; }},
    {"HOCKET_SPIN", "spin", false, "auto, or microseconds from 0 to 1000000",
     [](std::string_view text, Settings& s) {
       if (same_word(text, "auto")) return s.spin.reset(), true;
       long microseconds = 0;
       if (!parse_in_range(text, 0L, 1'000'000L, microseconds)) return false;
       s.spin = std::chrono::microseconds(microseconds);
       return true;
     },
     [](const Settings& s) { return s.spin ? format("{}", s.spin->count()) : std::string("auto"); }},
    {"HOCKET_HOST_ID", "host_id", false, "text of up to 255 bytes",
     [](std::string_view text, Settings& s) { return text.size() <= 255 && (s.host_id = text, true); },
     [](const Settings& s) { return s.host_id; }},
    {"HOCKET_TOPO_FILE", "topo_file", false, kFile,
     [](std::string_view text, Settings& s) { return parse_file(text, s.topo_file); },
     [](const Settings& s) { return s.topo_file; }},
    {"HOCKET_GPU", "gpu", false, "a GPU's number or PCI address, or local",
     [](std::string_view text, Settings& s) {
       const bool possible =
           text.size() <= 32 && std::all_of(text.begin(), text.end(), [](char c) {
             return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':' || c == '.';
           });
       return (possible || text == "local") && (s.gpu = text, true);
     },
     [](const Settings& s) { return s.gpu; }},
    {"HOCKET_GRAPH_DUMP_FILE", "graph_dump_file", false, kFile,
     [](std::string_view text, Settings& s) { return parse_file(text, s.graph_dump_file); },
     [](const Settings& s) { return s.graph_dump_file; }},
    {"HOCKET_INTERFACE", "interfaces", false, "names of interfaces, such as eth,ib or =eth0 or ^docker",
     [](std::string_view text, Settings& s) {
       return os::InterfaceFilter::parse(text).ok() && (s.interfaces = text, true);
     },
     [](const Settings& s) { return s.interfaces; }},
    {"HOCKET_PORTS", "ports", false, "first-last, or one port, from 1 to 65535",
     [](std::string_view text, Settings& s) { return os::PortRange::parse(text).ok() && (s.ports = text, true); },
     [](const Settings& s) { return s.ports; }},
    {"HOCKET_TCP_STREAMS", "tcp_streams", false, "a number from 0 (chosen for each peer) to 8",
     [](std::string_view text, Settings& s) { return parse_in_range(text, 0, 8, s.tcp_streams); },
     [](const Settings& s) { return format("{}", s.tcp_streams); }},
    {"HOCKET_LINK_TIMEOUT", "link_timeout", false, kSeconds,
     [](std::string_view text, Settings& s) { return parse_seconds(text, s.link_timeout); },
     [](const Settings& s) { return print_seconds(s.link_timeout); }},
    {"HOCKET_LOG", "log", false, "error, warn, info, debug or trace",
     [](std::string_view text, Settings& s) {
       if (text.empty()) return s.log.reset(), true;
       for (auto level : {LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo, LogLevel::kDebug, LogLevel::kTrace}) {
         if (same_word(text, to_string(level))) return s.log = level, true;
       }
       return false;
     },
     [](const Settings& s) { return s.log ? std::string(to_string(*s.log)) : std::string(); }},
    {"HOCKET_FLIGHT_RECORDER", "flight_recorder_entries", true, "a number of entries from 16 to 1048576",
     [](std::string_view text, Settings& s) {
       return parse_in_range<std::size_t>(text, 16, 1'048'576, s.flight_recorder_entries);
     },
     [](const Settings& s) { return format("{}", s.flight_recorder_entries); }},
    {"HOCKET_FENCE", "fence_excluded", false, kFlag,
     [](std::string_view text, Settings& s) { return parse_flag(text, s.fence_excluded); },
     [](const Settings& s) { return print_flag(s.fence_excluded); }},
    {"HOCKET_TRACE", "trace", false, kFile,
     [](std::string_view text, Settings& s) { return parse_file(text, s.trace); },
     [](const Settings& s) { return s.trace; }},
    {"HOCKET_METRICS", "metrics", false, kFile,
     [](std::string_view text, Settings& s) { return parse_file(text, s.metrics); },
     [](const Settings& s) { return s.metrics; }},
};

}  // namespace

std::span<const SettingRow> setting_rows() noexcept {
  return kRows;
}

const SettingRow* find_setting(std::string_view name) noexcept {
  for (const SettingRow& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace hocket
