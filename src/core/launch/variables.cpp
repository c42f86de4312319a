// SPDX-License-Identifier: Apache-2.0
// variables.cpp: ranks that were told everything by variables: `hocket run --hosts`, Kubernetes Indexed Jobs, scripts.
//
// HOCKET_RANK (or JOB_COMPLETION_INDEX), HOCKET_SIZE, and either HOCKET_UNIQUE_ID (the text of an id) or HOCKET_ROOT
// (host or host:port of rank 0; the port is else HOCKET_PORT) with HOCKET_SECRET. HOCKET_LOCAL_RANK is 0 if not set.
#include "base/status.hpp"
#include "core/bootstrap/messages.hpp"
#include "core/launch/launchers.hpp"

namespace hocket {

Result<std::optional<LaunchedRank>> launched_by_variables(const Settings& settings) {
  const bool has_id = is_set("HOCKET_UNIQUE_ID"), has_root = is_set("HOCKET_ROOT");
  // With a file, these are only who we are.
  if (is_set("HOCKET_RENDEZVOUS") && !has_id && !has_root) return std::optional<LaunchedRank>();
  if (!has_id && !has_root && !is_set("HOCKET_RANK") && !is_set("HOCKET_SIZE")) return std::optional<LaunchedRank>();
  constexpr std::string_view kHint =
      "a rank needs HOCKET_RANK (or a Kubernetes Job's JOB_COMPLETION_INDEX), HOCKET_SIZE, and one of HOCKET_RUN_FD "
      "(from `hocket run`), HOCKET_UNIQUE_ID, HOCKET_ROOT and HOCKET_RENDEZVOUS; or unset them all";
  HOCKET_ASSIGN(const int size, number_of("HOCKET_SIZE", 1, kMostRanks, kHint));
  const char* rank_variable =
      !is_set("HOCKET_RANK") && is_set("JOB_COMPLETION_INDEX") ? "JOB_COMPLETION_INDEX" : "HOCKET_RANK";
  HOCKET_ASSIGN(const int rank, number_of(rank_variable, 0, size - 1, kHint));
  int local_rank = 0;
  if (is_set("HOCKET_LOCAL_RANK")) {
    HOCKET_ASSIGN(local_rank, number_of("HOCKET_LOCAL_RANK", 0, size - 1, kHint));
  }
  if (!has_id && !has_root) {
    return error(Code::kInvalidArgument, "HOCKET_RUN_FD is not set, nor HOCKET_UNIQUE_ID or HOCKET_ROOT: {}", kHint);
  }
  if (has_id && (has_root || is_set("HOCKET_RENDEZVOUS"))) {
    return error(Code::kInvalidArgument, "HOCKET_UNIQUE_ID and {} are set: only one can be how the ranks meet",
                 has_root ? "HOCKET_ROOT" : "HOCKET_RENDEZVOUS");
  }
  LaunchedRank who{.rank = rank, .size = size, .local_rank = local_rank, .launcher = {}, .exchange = {}};
  if (has_id) {
    who.launcher = "HOCKET_UNIQUE_ID";
    auto id = UniqueId::from_string(text_of("HOCKET_UNIQUE_ID"));
    if (!id.ok()) return error(Code::kInvalidArgument, "HOCKET_UNIQUE_ID: {}", id.status().text());
    who.exchange = exchange_by_ids(who, settings,
                                   [id = *id]() -> Result<std::vector<UniqueId>> { return std::vector<UniqueId>{id}; });
    return std::optional<LaunchedRank>(std::move(who));
  }
  who.launcher = rank_variable[0] == 'J' ? "a Kubernetes Job" : "HOCKET_ROOT";
  int port = 29600;
  if (is_set("HOCKET_PORT")) {
    HOCKET_ASSIGN(port, number_of("HOCKET_PORT", 1, 65535, kHint));
  }
  const std::string host = text_of("HOCKET_ROOT");
  who.exchange = exchange_by_ids(who, settings, [=] {
    return id_at(host, port, "HOCKET_ROOT or HOCKET_PORT", format("{} {}", host, size), who, settings);
  });
  return std::optional<LaunchedRank>(std::move(who));
}

}  // namespace hocket
