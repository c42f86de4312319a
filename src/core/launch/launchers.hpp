// SPDX-License-Identifier: Apache-2.0
// launchers.hpp: one function for each launcher, and what they share. Order and meaning: core/launch.hpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/abort.hpp"
#include "base/os/net_address.hpp"
#include "core/launch.hpp"
#include "hocket/unique_id.hpp"

namespace hocket {

// Each returns nothing where its variables are absent, and an error where they are there and wrong.
Result<std::optional<LaunchedRank>> launched_by_run(const Settings& settings);
Result<std::optional<LaunchedRank>> launched_by_variables(const Settings& settings);
Result<std::optional<LaunchedRank>> launched_by_file(const Settings& settings);
Result<std::optional<LaunchedRank>> launched_by_torchrun(const Settings& settings);
Result<std::optional<LaunchedRank>> launched_by_pmix(const Settings& settings);
Result<std::optional<LaunchedRank>> launched_by_pmi(const Settings& settings);
/// An error if Slurm started several tasks and nothing says how they meet; nothing otherwise.
Result<std::optional<LaunchedRank>> launched_by_slurm_alone(const Settings& settings);

/// Set, and not to nothing.
bool is_set(const char* name);
/// The text of a variable, empty if it is not set.
std::string text_of(const char* name);
/// Errors: kInvalidArgument, naming it and the range, or with `hint` if it is not set.
Result<int> number_of(const char* name, int low, int high, std::string_view hint);

/// Rank, size and local rank by Slurm's variables for a step; nothing outside of one.
Result<std::optional<LaunchedRank>> slurm_task();

/// An exchange whose ranks meet by the ids that `ids` returns, on the first use; kept for the process, by the
/// launcher's name. `ids` is called once, on the exchanging thread. `met` is called after that first exchange; may be
/// null.
Exchange exchange_by_ids(const LaunchedRank& who, const Settings& settings,
                         std::function<Result<std::vector<UniqueId>>()> ids, std::function<void()> met = nullptr);

/// "host", "host:port" or "[::1]:port" looked up: up to four addresses. Tries again until `limits`, as the name of a
/// rank that starts later may not be known yet. Errors: kInvalidArgument, kTimeout with the resolver's word.
Result<std::vector<os::NetAddress>> look_up(const std::string& host, int port, const os::WaitLimits& limits);

/// The id of a root at an address that all know beforehand, with the secret of HOCKET_SECRET, or of `otherwise` with a
/// warning. Rank 0 opens it. `host` and `port` as for look_up; `port_variable` is for errors.
Result<std::vector<UniqueId>> id_at(const std::string& host, int port, std::string_view port_variable,
                                    const std::string& otherwise, const LaunchedRank& who, const Settings& settings);

}  // namespace hocket
