// SPDX-License-Identifier: Apache-2.0
// slurm.cpp: what Slurm says of a task, and what to do where it says nothing more.
#include "base/status.hpp"
#include "core/bootstrap/messages.hpp"
#include "core/launch/launchers.hpp"

namespace hocket {

Result<std::optional<LaunchedRank>> slurm_task() {
  // A batch script has some of the variables of its tasks, but is none: only steps have this one.
  if (!is_set("SLURM_STEP_NUM_TASKS") || !is_set("SLURM_PROCID")) return std::optional<LaunchedRank>();
  constexpr std::string_view kHint = "srun sets SLURM_STEP_NUM_TASKS, SLURM_PROCID and SLURM_LOCALID";
  LaunchedRank who;
  who.launcher = "Slurm";
  HOCKET_ASSIGN(who.size, number_of("SLURM_STEP_NUM_TASKS", 1, kMostRanks, kHint));
  HOCKET_ASSIGN(who.rank, number_of("SLURM_PROCID", 0, who.size - 1, kHint));
  if (is_set("SLURM_LOCALID")) {
    HOCKET_ASSIGN(who.local_rank, number_of("SLURM_LOCALID", 0, who.size - 1, kHint));
  }
  return std::optional<LaunchedRank>(std::move(who));
}

Result<std::optional<LaunchedRank>> launched_by_slurm_alone(const Settings&) {
  HOCKET_ASSIGN(const std::optional<LaunchedRank> task, slurm_task());
  if (!task || task->size == 1) return std::optional<LaunchedRank>();
  return error(
      Code::kUnsupported,
      "Slurm started this as task {} of {}, but PMIX_NAMESPACE, PMI_FD and HOCKET_RENDEZVOUS are not set, so "
      "tasks cannot find each other: use srun --mpi=pmix or --mpi=pmi2 (srun --mpi=list says which there are), "
      "or set HOCKET_RENDEZVOUS to a file that all hosts see",
      task->rank, task->size);
}

}  // namespace hocket
