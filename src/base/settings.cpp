// SPDX-License-Identifier: Apache-2.0
#include "base/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "base/log.hpp"
#include "base/settings_table.hpp"
#include "base/status.hpp"

namespace hocket {
namespace {

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

Status malformed(const SettingRow& row, std::string_view value) {
  return error(Code::kInvalidArgument, "{}='{}' is not understood: {} takes {}", row.name, value, row.field,
               row.accepted);
}

Status check_together(const Settings& settings) {
  if (settings.slot_bytes != 0 && settings.tile_bytes > settings.slot_bytes) {
    return error(Code::kInvalidArgument,
                 "HOCKET_TILE_BYTES={} is more than HOCKET_SLOT_BYTES={}: a tile has to fit a slot",
                 settings.tile_bytes, settings.slot_bytes);
  }
  return {};
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
  HOCKET_LOG(LogLevel::kWarn, "unknown variable {} is ignored{}", name, nearest_variable_hint(name));
}

}  // namespace

std::string nearest_variable_hint(std::string_view name) {
  // What all of them begin with makes none nearer.
  constexpr std::string_view kPrefix = "HOCKET_";
  const std::vector<std::string_view> known = known_variables();
  std::vector<std::string_view> ends;
  for (const std::string_view one : known) ends.push_back(one.substr(kPrefix.size()));
  const std::string_view nearest = nearest_name(name.substr(std::min(name.size(), kPrefix.size())), ends);
  return nearest.empty() ? std::string() : format(", the nearest known one is {}{}", kPrefix, nearest);
}

std::vector<std::string_view> known_variables() {
  std::vector<std::string_view> known;
  for (const SettingRow& row : setting_rows()) known.push_back(row.name);
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
      const SettingRow& row = *find_setting(ours);
      if (!value.empty() && !row.parse(value, settings)) return malformed(row, value);
    }
  }
  std::vector<std::string_view> unknown;
  const bool speaks = warns && speaks_for_its_host(environment);
  for (; environment && *environment; ++environment) {
    const std::string_view entry = *environment;
    const std::size_t equals = entry.find('=');
    if (!entry.starts_with("HOCKET_") || equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals);
    const SettingRow* row = find_setting(name);
    if (!row) {
      if (speaks && !is_known_variable(name)) unknown.push_back(name);
      continue;
    }
    const std::string_view value = trim(entry.substr(equals + 1));
    if (value.empty()) continue;
    if (!row->parse(value, settings)) return malformed(*row, value);
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
  for (const SettingRow& row : setting_rows()) {
    const std::string value = row.print(settings);
    Settings scratch;
    if (!row.parse(value, scratch)) return malformed(row, value);
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
  for (const SettingRow& row : setting_rows()) {
    if (!row.must_agree) continue;
    const std::string of_a = row.print(a), of_b = row.print(b);
    if (of_a == of_b) continue;
    text += format("{}{} ({}) is '{}' {} and '{}' {}", text.empty() ? "" : "; ", row.field, row.name, of_a, here, of_b,
                   there);
  }
  return text;
}

std::string agreed_settings_to_text(const Settings& settings) {
  std::string text;
  for (const SettingRow& row : setting_rows()) {
    if (row.must_agree) text += format("{}={}\n", row.name, row.print(settings));
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
    const SettingRow* row = find_setting(name);
    if (!row || !row->must_agree) {
      return error(Code::kInvalidArgument, "'{}' is no setting that ranks agree on", name);
    }
    if (!row->parse(value, settings)) return malformed(*row, value);
  }
  HOCKET_TRY(check_together(settings));
  return settings;
}

std::string describe_changes(const Settings& settings) {
  const Settings defaults;
  std::string text;
  for (const SettingRow& row : setting_rows()) {
    const std::string value = row.print(settings);
    if (value != row.print(defaults)) text += format("{}{}={}", text.empty() ? "" : " ", row.name, value);
  }
  return text;
}

}  // namespace hocket
