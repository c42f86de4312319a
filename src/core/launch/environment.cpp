// SPDX-License-Identifier: Apache-2.0
// environment.cpp: asks the launchers in their order.
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <set>

#include "base/log.hpp"
#include "base/status.hpp"
#include "core/launch/launchers.hpp"

namespace hocket {

bool is_set(const char* name) {
  const char* text = std::getenv(name);
  return text && *text;
}

std::string text_of(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

Result<int> number_of(const char* name, int low, int high, std::string_view hint) {
  const std::string text = text_of(name);
  if (text.empty()) return error(Code::kInvalidArgument, "{} is not set: {}", name, hint);
  int value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (bad != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    return error(Code::kInvalidArgument, "{}='{}' is no number from {} to {}", name, text, low, high);
  }
  return value;
}

namespace {

struct Launcher {
  std::string_view name;
  Result<std::optional<LaunchedRank>> (*ask)(const Settings& settings);
};
constexpr Launcher kLaunchers[] = {
    {"hocket run", launched_by_run},    {"variables", launched_by_variables}, {"a file", launched_by_file},
    {"torchrun", launched_by_torchrun}, {"PMIx", launched_by_pmix},           {"PMI", launched_by_pmi},
    {"Slurm", launched_by_slurm_alone},
};

// Two launchers, one in the other, are usual where the inner one starts the ranks; but it may also be a left-over
// variable.
void name_conflict(const LaunchedRank& taken, const Launcher* rest, const Settings& settings) {
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& told = *new std::set<std::string>;
  for (; rest != std::end(kLaunchers); ++rest) {
    const auto other = rest->ask(settings);
    if (!other.ok() || !*other) continue;
    const LaunchedRank& o = **other;
    if (o.rank == taken.rank && o.size == taken.size) continue;
    const std::lock_guard lock(mutex);
    if (!told.insert(o.launcher).second) continue;
    HOCKET_LOG(LogLevel::kWarn, "this process is rank {} of {} by {}, which is used, and rank {} of {} by {}",
               taken.rank, taken.size, taken.launcher, o.rank, o.size, o.launcher);
  }
}

}  // namespace

Result<std::optional<LaunchedRank>> launched_from_environment(const Settings& settings) {
  for (const Launcher& launcher : kLaunchers) {
    HOCKET_ASSIGN(std::optional<LaunchedRank> launched, launcher.ask(settings));
    if (!launched) continue;
    // Under `hocket run` the descriptor itself says that it is meant.
    if (launcher.ask != launched_by_run) name_conflict(*launched, &launcher + 1, settings);
    return launched;
  }
  return std::optional<LaunchedRank>();
}

}  // namespace hocket
