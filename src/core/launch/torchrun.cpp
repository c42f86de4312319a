// SPDX-License-Identifier: Apache-2.0
// torchrun.cpp: the variables that torchrun gives its workers, and whoever imitates it.
//
// The root listens at MASTER_ADDR, port HOCKET_PORT or MASTER_PORT + 1: MASTER_PORT itself is torch's own store. The
// secret is HOCKET_SECRET's; without one it is made of what is public, which a warning says.
// Source: PyTorch documentation, torchrun (Elastic Launch), "Environment Variables".
#include "base/status.hpp"
#include "core/bootstrap/messages.hpp"
#include "core/launch/launchers.hpp"

namespace hocket {

Result<std::optional<LaunchedRank>> launched_by_torchrun(const Settings& settings) {
  // RANK alone is a name that anybody may use.
  if (!is_set("RANK") || !is_set("WORLD_SIZE")) return std::optional<LaunchedRank>();
  constexpr std::string_view kHint = "torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT";
  HOCKET_ASSIGN(const int size, number_of("WORLD_SIZE", 1, kMostRanks, kHint));
  HOCKET_ASSIGN(const int rank, number_of("RANK", 0, size - 1, kHint));
  int local_rank = rank;
  if (is_set("LOCAL_RANK")) {
    HOCKET_ASSIGN(local_rank, number_of("LOCAL_RANK", 0, size - 1, kHint));
  }
  const std::string host = text_of("MASTER_ADDR");
  if (host.empty()) return error(Code::kInvalidArgument, "MASTER_ADDR is not set: {}", kHint);
  int port = 0;
  if (is_set("HOCKET_PORT")) {
    HOCKET_ASSIGN(port, number_of("HOCKET_PORT", 1, 65535, kHint));
  } else {
    HOCKET_ASSIGN(port, number_of("MASTER_PORT", 1, 65534, kHint));
    ++port;
  }
  LaunchedRank who{
      .rank = rank, .size = size, .local_rank = local_rank, .launcher = "torchrun's variables", .exchange = {}};
  // Ranks of an attempt that was given up must not meet those of the next.
  const std::string attempt =
      format("{} {} {} {} {}", host, port, size, text_of("TORCHELASTIC_RUN_ID"), text_of("TORCHELASTIC_RESTART_COUNT"));
  who.exchange = exchange_by_ids(
      who, settings, [=] { return id_at(host, port, "HOCKET_PORT, or MASTER_PORT + 1", attempt, who, settings); });
  return std::optional<LaunchedRank>(std::move(who));
}

}  // namespace hocket
