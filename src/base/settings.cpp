// SPDX-License-Identifier: Apache-2.0
// settings.cpp: one table of variables drives reading, checking, printing and comparing.
#include "base/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <mutex>
#include <optional>
#include <set>

#include "base/log.hpp"
#include "base/os/net_address.hpp"
#include "base/status.hpp"

namespace hocket {
namespace {

// ---- Values as text ----

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_word(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trim(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

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

// ---- The table ----

struct Variable {
  std::string_view name;
  std::string_view field;
  bool must_agree;  // between the ranks of a communicator
  std::string_view accepted;
  bool (*parse)(std::string_view text, Settings& settings);  // false if the text is not accepted
  std::string (*print)(const Settings& settings);
};

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

// Adding a setting: a field with its comment in hocket/settings.hpp, and a row here.
constexpr Variable kVariables[] = {
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
    {"HOCKET_REPRODUCIBLE", "reproducible", true, "0 or 1",
     [](std::string_view text, Settings& s) {
       int value = 0;
       if (!parse_in_range(text, 0, 1, value)) return false;
       s.reproducible = value == 1;
       return true;
     },
     [](const Settings& s) { return std::string(s.reproducible ? "1" : "0"); }},
    {"HOCKET_DRAIN", "drain", true, "0 or 1",
     [](std::string_view text, Settings& s) {
       int value = 0;
       if (!parse_in_range(text, 0, 1, value)) return false;
       s.drain = value == 1;
       return true;
     },
     [](const Settings& s) { return std::string(s.drain ? "1" : "0"); }},
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
    {"HOCKET_FENCE", "fence_excluded", false, "0 or 1",
     [](std::string_view text, Settings& s) {
       int value = 0;
       if (!parse_in_range(text, 0, 1, value)) return false;
       s.fence_excluded = value == 1;
       return true;
     },
     [](const Settings& s) { return std::string(s.fence_excluded ? "1" : "0"); }},
    {"HOCKET_TRACE", "trace", false, kFile,
     [](std::string_view text, Settings& s) { return parse_file(text, s.trace); },
     [](const Settings& s) { return s.trace; }},
    {"HOCKET_METRICS", "metrics", false, kFile,
     [](std::string_view text, Settings& s) { return parse_file(text, s.metrics); },
     [](const Settings& s) { return s.metrics; }},
};

// Variables that other parts of hocket read or set: who starts ranks (core/launch), and the tests' real machines.
constexpr std::string_view kOtherVariables[] = {
    "HOCKET_RANK", "HOCKET_SIZE",   "HOCKET_LOCAL_RANK", "HOCKET_RUN_FD", "HOCKET_JOB_ID",    "HOCKET_RENDEZVOUS",
    "HOCKET_PORT", "HOCKET_SECRET", "HOCKET_TOPOLOGIES", "HOCKET_ROOT",   "HOCKET_UNIQUE_ID",
};
// Families that are not this library's to know: the tests' and ./dev's own.
constexpr std::string_view kOtherPrefixes[] = {"HOCKET_TEST_", "HOCKET_FAULT_", "HOCKET_DEV_"};

// Where launchers say which of a host's processes this is; the first that is set counts, hocket's own before those of
// what may have started it.
constexpr std::string_view kLocalRanks[] = {
    "HOCKET_LOCAL_RANK", "HOCKET_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK", "SLURM_LOCALID",
};

// Variables of NCCL's that mean the same here; hocket's own come first.
constexpr std::pair<std::string_view, std::string_view> kNcclVariables[] = {
    {"NCCL_TOPO_FILE", "HOCKET_TOPO_FILE"},
    {"NCCL_GRAPH_DUMP_FILE", "HOCKET_GRAPH_DUMP_FILE"},
};

Status malformed(const Variable& variable, std::string_view value) {
  return error(Code::kInvalidArgument, "{}='{}' is not understood: {} takes {}", variable.name, value, variable.field,
               variable.accepted);
}

Status check_together(const Settings& settings) {
  if (settings.slot_bytes != 0 && settings.tile_bytes > settings.slot_bytes) {
    return error(Code::kInvalidArgument,
                 "HOCKET_TILE_BYTES={} is more than HOCKET_SLOT_BYTES={}: a tile has to fit a slot",
                 settings.tile_bytes, settings.slot_bytes);
  }
  return {};
}

const Variable* find_variable(std::string_view name) noexcept {
  for (const Variable& variable : kVariables) {
    if (variable.name == name) return &variable;
  }
  return nullptr;
}

std::string_view value_of(const char* const* environment, std::string_view name) {
  for (; environment && *environment; ++environment) {
    const std::string_view entry = *environment;
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  }
  return {};
}

// One process of a host warns for all: they have the same variables.
bool speaks_for_its_host(const char* const* environment) {
  for (const std::string_view name : kLocalRanks) {
    if (const std::string_view rank = value_of(environment, name); !rank.empty()) return rank == "0";
  }
  return true;
}

void warn_about_unknown(std::string_view name) {
  // Settings are read for every communicator; once is enough. Never destroyed, as other threads may run at exit.
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string, std::less<>>& warned = *new std::set<std::string, std::less<>>;
  {
    const std::lock_guard lock(mutex);
    if (!warned.emplace(name).second) return;
  }
  const std::vector<std::string_view> known = known_variables();
  HOCKET_LOG(LogLevel::kWarn, "unknown variable {} is ignored, the nearest known one is {}", name,
             nearest_name(name, known));
}

}  // namespace

std::vector<std::string_view> known_variables() {
  std::vector<std::string_view> known;
  for (const Variable& variable : kVariables) known.push_back(variable.name);
  known.insert(known.end(), std::begin(kOtherVariables), std::end(kOtherVariables));
  return known;
}

bool is_known_variable(std::string_view name) {
  const std::vector<std::string_view> known = known_variables();
  return std::find(known.begin(), known.end(), name) != known.end() ||
         std::any_of(std::begin(kOtherPrefixes), std::end(kOtherPrefixes),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

Result<Settings> parse_environment(const char* const* environment, bool warns) {
  Settings settings;
  for (const char* const* at = environment; at && *at; ++at) {
    const std::string_view entry = *at;
    for (const auto& [theirs, ours] : kNcclVariables) {
      if (!entry.starts_with(theirs) || entry.substr(theirs.size()).substr(0, 1) != "=") continue;
      const std::string_view value = trim(entry.substr(theirs.size() + 1));
      const Variable& variable = *find_variable(ours);
      if (!value.empty() && !variable.parse(value, settings)) return malformed(variable, value);
    }
  }
  std::vector<std::string_view> unknown;
  const bool speaks = warns && speaks_for_its_host(environment);
  for (; environment && *environment; ++environment) {
    const std::string_view entry = *environment;
    const std::size_t equals = entry.find('=');
    if (!entry.starts_with("HOCKET_") || equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals);
    const Variable* variable = find_variable(name);
    if (!variable) {
      if (speaks && !is_known_variable(name)) unknown.push_back(name);
      continue;
    }
    const std::string_view value = trim(entry.substr(equals + 1));
    if (value.empty()) continue;
    if (!variable->parse(value, settings)) return malformed(*variable, value);
  }
  HOCKET_TRY(check_together(settings));
  if (settings.log) set_log_level(*settings.log);  // before the warnings, which it may rule out
  for (const std::string_view name : unknown) warn_about_unknown(name);
  return settings;
}

Result<Settings> Settings::from_environment() {
  return parse_environment(environ);
}

Status validate(const Settings& settings) {
  for (const Variable& variable : kVariables) {
    const std::string value = variable.print(settings);
    Settings scratch;
    if (!variable.parse(value, scratch)) return malformed(variable, value);
  }
  return check_together(settings);
}

std::uint64_t digest(const Settings& settings) {
  // FNV-1a, then mixed once more: differences of one bit end in all bits.
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : agreed_settings_to_text(settings)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  return hash ^ (hash >> 33);
}

std::string describe_difference(const Settings& a, const Settings& b, std::string_view here, std::string_view there) {
  std::string text;
  for (const Variable& variable : kVariables) {
    if (!variable.must_agree) continue;
    const std::string of_a = variable.print(a), of_b = variable.print(b);
    if (of_a == of_b) continue;
    text += format("{}{} ({}) is '{}' {} and '{}' {}", text.empty() ? "" : "; ", variable.field, variable.name, of_a,
                   here, of_b, there);
  }
  return text;
}

std::string agreed_settings_to_text(const Settings& settings) {
  std::string text;
  for (const Variable& variable : kVariables) {
    if (variable.must_agree) text += format("{}={}\n", variable.name, variable.print(settings));
  }
  return text;
}

Result<Settings> agreed_settings_from_text(std::string_view text) {
  Settings settings;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::string_view name = line.substr(0, line.find('='));
    const std::string_view value = line.substr(std::min(line.size(), name.size() + 1));
    const Variable* variable = find_variable(name);
    if (!variable || !variable->must_agree) {
      return error(Code::kInvalidArgument, "'{}' is no setting that ranks agree on", name);
    }
    if (!variable->parse(value, settings)) return malformed(*variable, value);
  }
  HOCKET_TRY(check_together(settings));
  return settings;
}

std::string describe_changes(const Settings& settings) {
  const Settings defaults;
  std::string text;
  for (const Variable& variable : kVariables) {
    const std::string value = variable.print(settings);
    if (value != variable.print(defaults)) text += format("{}{}={}", text.empty() ? "" : " ", variable.name, value);
  }
  return text;
}

// ---- Lists of names ----

namespace {

// "all_reduce", "AllReduce" and "allreduce" are one.
std::string squeezed(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c != '_') text += lower(c);
  }
  return text;
}

std::vector<Collective> collectives_named(std::string_view name) {
  const std::string wanted = squeezed(name);
  std::vector<Collective> found;
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    const bool send_or_receive = collective == Collective::kSend || collective == Collective::kReceive;
    if (squeezed(to_string(collective)) == wanted || (send_or_receive && wanted == "sendrecv") ||
        (collective == Collective::kReceive && wanted == "recv")) {
      found.push_back(collective);
    }
  }
  return found;
}

std::string joined(std::span<const std::string_view> words) {
  return join(words, ", ");
}

// Takes what stands before the next `separator` off the front of `text`; nothing is left after the last one.
std::optional<std::string_view> next_part(std::optional<std::string_view>& text, char separator) {
  if (!text) return std::nullopt;
  const std::size_t end = text->find(separator);
  const std::string_view part = trim(text->substr(0, end));
  if (end == std::string_view::npos) {
    text.reset();
  } else {
    text->remove_prefix(end + 1);
  }
  return part;
}

}  // namespace

Result<AllowList> AllowList::parse(std::string_view text, std::span<const std::string_view> known_names,
                                   std::string_view variable) {
  AllowList list;
  list.text_ = std::string(text);
  if (trim(text).empty()) return list;
  std::array<bool, kCollectiveCount>& has_own = list.own_;
  bool has_common = false;
  std::optional<std::string_view> rest = trim(text);
  while (const auto entry = next_part(rest, ';')) {
    const std::size_t colon = entry->find(':');
    const bool common = colon == std::string_view::npos;
    std::vector<Collective> collectives;
    if (!common) {
      const std::string_view name = trim(entry->substr(0, colon));
      collectives = collectives_named(name);
      if (collectives.empty()) {
        std::vector<std::string_view> names;
        names.reserve(kCollectiveCount);
        for (int i = 0; i < kCollectiveCount; ++i) names.push_back(to_string(static_cast<Collective>(i)));
        return error(Code::kInvalidArgument, "{}='{}': unknown collective '{}', the nearest is {}; there are {}",
                     variable, text, name, nearest_name(name, names), joined(names));
      }
    }

    Rule rule;
    std::string_view words = trim(common ? *entry : entry->substr(colon + 1));
    rule.all_but = words.starts_with('^');
    if (rule.all_but) words.remove_prefix(1);
    std::optional<std::string_view> words_left = words;
    while (const auto word = next_part(words_left, ',')) {
      if (word->empty()) {
        return error(Code::kInvalidArgument, "{}='{}': a name is missing in '{}'; there are {}", variable, text, *entry,
                     joined(known_names));
      }
      const auto known = std::find_if(known_names.begin(), known_names.end(),
                                      [&](std::string_view name) { return same_word(name, *word); });
      if (known == known_names.end()) {
        return error(Code::kInvalidArgument, "{}='{}': unknown name '{}', the nearest is {}; there are {}", variable,
                     text, *word, nearest_name(*word, known_names), joined(known_names));
      }
      rule.names.emplace_back(*known);
    }
    if (rule.all_but && std::all_of(known_names.begin(), known_names.end(), [&](std::string_view name) {
          return std::find(rule.names.begin(), rule.names.end(), name) != rule.names.end();
        })) {
      return error(Code::kInvalidArgument, "{}='{}': '{}' leaves nothing to choose from; there are {}", variable, text,
                   *entry, joined(known_names));
    }

    const Status twice = error(Code::kInvalidArgument, "{}='{}': '{}' speaks of something that was listed before",
                               variable, text, *entry);
    if (common) {
      if (std::exchange(has_common, true)) return twice;
      for (std::size_t i = 0; i < list.rules_.size(); ++i) {
        if (!has_own[i]) list.rules_[i] = rule;
      }
    }
    for (const Collective collective : collectives) {
      const auto i = static_cast<std::size_t>(collective);
      if (std::exchange(has_own[i], true)) return twice;
      list.rules_[i] = rule;
    }
  }
  return list;
}

bool AllowList::allows(Collective collective, std::string_view name) const noexcept {
  const Rule& rule = rules_[static_cast<std::size_t>(collective)];
  const bool listed =
      std::any_of(rule.names.begin(), rule.names.end(), [&](const std::string& n) { return same_word(n, name); });
  return listed != rule.all_but;
}

bool AllowList::restricts(Collective collective) const noexcept {
  const Rule& rule = rules_[static_cast<std::size_t>(collective)];
  return !rule.all_but || !rule.names.empty();
}

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names) {
  std::string_view best;
  std::size_t best_distance = SIZE_MAX;
  for (const std::string_view name : names) {
    // The optimal string alignment distance: at(i, j) changes turn i letters of `word` into j letters of `name`, where
    // a letter more, less or other and two neighbours swapped are one change each.
    const std::size_t width = name.size() + 1;
    std::vector<std::size_t> table((word.size() + 1) * width);
    const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return table[i * width + j]; };
    const auto same = [&](std::size_t i, std::size_t j) { return lower(word[i - 1]) == lower(name[j - 1]); };
    for (std::size_t i = 0; i <= word.size(); ++i) {
      for (std::size_t j = 0; j <= name.size(); ++j) {
        if (i == 0 || j == 0) {
          at(i, j) = i + j;
          continue;
        }
        at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + (same(i, j) ? 0 : 1)});
        if (i > 1 && j > 1 && same(i, j - 1) && same(i - 1, j)) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
    if (table.back() < best_distance) {
      best_distance = table.back();
      best = name;
    }
  }
  return best;
}

}  // namespace hocket
